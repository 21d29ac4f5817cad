/* See settings-json.h. A scanner that knows where things stand, and an insertion. */
#include "client/settings-json.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/json.h"

#define DEPTH_MAX 64

struct scanner {
    const char *p, *end;
    unsigned depth;
};

static bool at(const struct scanner *s, char c)
{
    return s->p < s->end && *s->p == c;
}

static bool begins(const struct scanner *s, const char *text)
{
    size_t size = strlen(text);
    return (size_t)(s->end - s->p) >= size && memcmp(s->p, text, size) == 0;
}

/* White space and comments. Returns 0, or -EBADMSG for a comment without an end. */
static int skip(struct scanner *s)
{
    for (;;) {
        if (s->p < s->end && strchr(" \t\r\n", *s->p) && *s->p) {
            s->p++;
        } else if (begins(s, "//")) {
            const char *end = memchr(s->p, '\n', (size_t)(s->end - s->p));
            s->p = end ? end : s->end;
        } else if (begins(s, "/*")) {
            const char *end = memmem(s->p + 2, (size_t)(s->end - s->p - 2), "*/", 2);
            if (!end)
                return -EBADMSG;
            s->p = end + 2;
        } else {
            return 0;
        }
    }
}

static int scan_string(struct scanner *s)
{
    if (!at(s, '"'))
        return -EBADMSG;
    for (s->p++; s->p < s->end && *s->p != '\n'; s->p++) {
        if (*s->p == '\\' && s->p + 1 < s->end)
            s->p++;
        else if (*s->p == '"')
            return s->p++, 0;
    }
    return -EBADMSG;
}

/* Numbers, true, false, null: what it is matters to nobody here. */
static int scan_word(struct scanner *s)
{
    const char *start = s->p;

    while (s->p < s->end && *s->p &&
           strchr("+-.0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ", *s->p))
        s->p++;
    return s->p > start ? 0 : -EBADMSG;
}

struct member {
    const char *key, *key_end;     /* with its quotes */
    const char *value, *value_end; /* without what is around it */
};

static int scan_value(struct scanner *s);

/* From behind the key's first character on; leaves the scanner behind the value. */
static int scan_member(struct scanner *s, struct member *ret)
{
    ret->key = s->p;
    int r = scan_string(s);
    ret->key_end = s->p;
    if (r >= 0)
        r = skip(s);
    if (r >= 0 && !at(s, ':'))
        return -EBADMSG;
    s->p++;
    if (r >= 0)
        r = skip(s);
    ret->value = s->p;
    if (r >= 0)
        r = scan_value(s);
    ret->value_end = s->p;
    return r;
}

/* Behind a member or an element. Returns 1 if there may be another, 0 at the end of the container,
 * which is passed, or -EBADMSG. */
static int scan_separator(struct scanner *s, char close)
{
    int r = skip(s);
    bool comma = r >= 0 && at(s, ',');

    if (comma) {
        s->p++;
        r = skip(s);
    }
    if (r < 0)
        return r;
    if (at(s, close))
        return s->p++, 0;
    return comma ? 1 : -EBADMSG;
}

/* An object or array from its bracket on. */
static int scan_container(struct scanner *s, char close)
{
    struct member member;

    if (++s->depth > DEPTH_MAX)
        return -EBADMSG;
    s->p++;
    int r = skip(s);
    if (r >= 0 && at(s, close)) {
        s->p++;
        r = 0;
    } else if (r >= 0) {
        do {
            r = close == '}' ? scan_member(s, &member) : scan_value(s);
            if (r >= 0)
                r = scan_separator(s, close);
        } while (r > 0);
    }
    s->depth--;
    return r;
}

static int scan_value(struct scanner *s)
{
    if (at(s, '{'))
        return scan_container(s, '}');
    if (at(s, '['))
        return scan_container(s, ']');
    return at(s, '"') ? scan_string(s) : scan_word(s);
}

/* A key as it is meant: "\u0061" is "a", too. */
static bool key_is(const struct member *member, const char *name)
{
    _cleanup_json_ json_object *object = NULL;
    _cleanup_free_ char *text = NULL;

    if (asprintf(&text, "{%.*s:0}", (int)(member->key_end - member->key), member->key) < 0) {
        text = NULL;
        return false;
    }
    return json_parse_guarded(text, strlen(text), &object) == 0 &&
           json_object_object_get_ex(object, name, NULL);
}

/* The member @name of the object at @object. Returns 1, 0 if there is none, or -ENOTUNIQ. */
static int find(const char *object, const char *end, const char *name, struct member *ret)
{
    struct scanner s = { .p = object + 1, .end = end };
    int found = 0, r = skip(&s);

    if (at(&s, '}'))
        return 0;
    while (r >= 0) {
        struct member member;
        r = scan_member(&s, &member);
        if (r >= 0 && key_is(&member, name)) {
            if (found++)
                return -ENOTUNIQ;
            *ret = member;
        }
        if (r >= 0)
            r = scan_separator(&s, '}');
        if (r == 0)
            return found;
    }
    return r;
}

/* ---- What is added ---- */

/* The white space that the file indents its outermost members by. */
static size_t indentation(const char *object, const char *end, const char **ret)
{
    const char *line = memchr(object, '\n', (size_t)(end - object));
    size_t n = 0;

    *ret = "  ";
    if (!line)
        return 2;
    while (line + 1 + n < end && (line[1 + n] == ' ' || line[1 + n] == '\t'))
        n++;
    if (n == 0)
        return 2;
    *ret = line + 1;
    return n;
}

struct layout {
    const char *indent, *newline;
    int indent_size;
};

/* @text with @added behind its first @at bytes. */
static int insert(const char *text, size_t size, size_t offset, const char *added, char **ret)
{
    size_t length = strlen(added);
    char *result = malloc(size + length + 1);

    if (!result)
        return -ENOMEM;
    memcpy(result, text, offset);
    memcpy(result + offset, added, length);
    memcpy(result + offset + length, text + offset, size - offset);
    result[size + length] = '\0';
    *ret = result;
    return 1;
}

static bool is_empty(const char *object, const char *end)
{
    struct scanner s = { .p = object + 1, .end = end };
    return skip(&s) >= 0 && at(&s, '}');
}

/* As first member of @object, whose members stand @level steps in. */
static int add_member(const char *text, size_t size, const char *object, int level,
                      const struct layout *layout, const char *member, char **ret)
{
    _cleanup_free_ char *added = NULL, *before = NULL;
    bool empty = is_empty(object, text + size);
    int width = layout->indent_size;

    if (asprintf(&before, "%s%.*s%.*s", layout->newline, width, layout->indent,
                 level > 1 ? width : 0, layout->indent) < 0) {
        before = NULL;
        return -ENOMEM;
    }
    if (asprintf(&added, "%s%s%s%s%.*s", before, member, empty ? "" : ",",
                 empty ? layout->newline : "", empty && level > 1 ? width : 0,
                 layout->indent) < 0) {
        added = NULL;
        return -ENOMEM;
    }
    return insert(text, size, (size_t)(object + 1 - text), added, ret);
}

/* Whether the member has all that @value has, and maybe more, such as an environment. */
static bool has_value(const struct member *member, const char *value)
{
    _cleanup_json_ json_object *there = NULL, *wanted = NULL;

    if (json_parse_guarded(member->value, (size_t)(member->value_end - member->value), &there) <
            0 ||
        json_parse_guarded(value, strlen(value), &wanted) < 0)
        return false;
    json_object_object_foreach(wanted, key, one)
    {
        if (!json_object_equal(json_object_object_get(there, key), one))
            return false;
    }
    return true;
}

static int add_to_group(const char *text, size_t size, const struct member *group,
                        const struct layout *layout, const char *name, const char *value,
                        char **ret)
{
    _cleanup_free_ char *member = NULL;
    struct member old;

    if (*group->value != '{')
        return -EBADMSG;
    int r = find(group->value, group->value_end, name, &old);
    if (r < 0)
        return r;
    if (r > 0)
        return has_value(&old, value) ? 0 : -EEXIST;
    if (asprintf(&member, "\"%s\": %s", name, value) < 0) {
        member = NULL;
        return -ENOMEM;
    }
    return add_member(text, size, group->value, 2, layout, member, ret);
}

static int add_with_group(const char *text, size_t size, const char *root,
                          const struct layout *layout, const char *group, const char *name,
                          const char *value, char **ret)
{
    _cleanup_free_ char *member = NULL;
    int width = layout->indent_size;

    if (asprintf(&member, "\"%s\": {%s%.*s%.*s\"%s\": %s%s%.*s}", group, layout->newline, width,
                 layout->indent, width, layout->indent, name, value, layout->newline, width,
                 layout->indent) < 0) {
        member = NULL;
        return -ENOMEM;
    }
    return add_member(text, size, root, 1, layout, member, ret);
}

int settings_json_add(const char *text, size_t size, const char *group, const char *name,
                      const char *value, char **ret)
{
    struct scanner s = { .p = text, .end = text + size };
    struct layout layout = { .newline = memmem(text, size, "\r\n", 2) ? "\r\n" : "\n" };
    struct member member;
    const char *root;

    if (memchr(text, '\0', size))
        return -EBADMSG;
    if (begins(&s, "\xef\xbb\xbf"))
        s.p += 3;
    int r = skip(&s);
    if (r < 0)
        return r;
    if (s.p == s.end)
        return size > 0 && memchr(text, '/', size)
                   ? -EBADMSG
                   : settings_json_add("{}\n", 3, group, name, value, ret);
    root = s.p;
    r = at(&s, '{') ? scan_value(&s) : -EBADMSG;
    if (r >= 0)
        r = skip(&s);
    if (r < 0 || s.p != s.end)
        return -EBADMSG;

    layout.indent_size = (int)indentation(root, s.end, &layout.indent);
    r = find(root, s.end, group, &member);
    if (r < 0)
        return r;
    return r > 0 ? add_to_group(text, size, &member, &layout, name, value, ret)
                 : add_with_group(text, size, root, &layout, group, name, value, ret);
}
