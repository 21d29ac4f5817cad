/* The grammar of JSON, see json-scan.h. Recursion is bounded by JSON_DEPTH_MAX, time is linear in
 * the document. */
#include "json-scan.h"

#include <string.h>

#include "escape.h"
#include "json.h"

/* Longer number tokens have no honest use and would only keep strtod() busy. */
#define NUMBER_LENGTH_MAX 64

struct scan {
    const char *p, *end;
    size_t items;   /* members and elements so far */
    size_t members; /* of all objects */
    unsigned depth; /* open containers */
};

static int scan_value(struct scan *s);

static bool at(const struct scan *s, char c)
{
    return s->p < s->end && *s->p == c;
}

static bool at_digit(const struct scan *s)
{
    return s->p < s->end && *s->p >= '0' && *s->p <= '9';
}

static void skip_space(struct scan *s)
{
    while (at(s, ' ') || at(s, '\t') || at(s, '\n') || at(s, '\r'))
        s->p++;
}

static int scan_literal(struct scan *s, const char *literal)
{
    size_t length = strlen(literal);

    if ((size_t)(s->end - s->p) < length || memcmp(s->p, literal, length) != 0)
        return -EBADMSG;
    s->p += length;
    return 0;
}

/* The "uXXXX" behind a backslash; returns the code unit or -EBADMSG. */
static int scan_code_unit(struct scan *s)
{
    int code = 0;

    if (s->end - s->p < 5 || *s->p != 'u')
        return -EBADMSG;
    for (int i = 1; i <= 4; i++) {
        char c = s->p[i];

        if (c >= '0' && c <= '9')
            code = code * 16 + (c - '0');
        else if (c >= 'a' && c <= 'f')
            code = code * 16 + (c - 'a' + 10);
        else if (c >= 'A' && c <= 'F')
            code = code * 16 + (c - 'A' + 10);
        else
            return -EBADMSG;
    }
    s->p += 5;
    return code;
}

/* What follows a backslash. An escaped NUL would end the string early for every C reader (json-c
 * cuts keys there), and a lone surrogate would silently become another character. */
static int scan_escape(struct scan *s)
{
    int code, low;

    if (s->p == s->end)
        return -EBADMSG;
    if (*s->p != 'u')
        return memchr("\"\\/bfnrt", *s->p++, 8) ? 0 : -EBADMSG;

    code = scan_code_unit(s);
    if (code <= 0 || (code >= 0xdc00 && code <= 0xdfff))
        return -EBADMSG;
    if (code < 0xd800 || code > 0xdbff)
        return is_noncharacter((uint32_t)code) ? -EBADMSG : 0;
    if (!at(s, '\\'))
        return -EBADMSG;
    s->p++;
    low = scan_code_unit(s);
    if (low < 0xdc00 || low > 0xdfff)
        return -EBADMSG;
    code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    return is_noncharacter((uint32_t)code) ? -EBADMSG : 0;
}

static int scan_string(struct scan *s)
{
    if (!at(s, '"'))
        return -EBADMSG;
    s->p++;
    while (s->p < s->end) {
        unsigned char c = (unsigned char)*s->p;
        size_t length;

        if (c == '"') {
            s->p++;
            return 0;
        }
        if (c < 0x20)
            return -EBADMSG;
        if (c == '\\') {
            s->p++;
            if (scan_escape(s) < 0)
                return -EBADMSG;
            continue;
        }
        length = utf8_sequence(s->p, (size_t)(s->end - s->p), NULL);
        if (length == 0)
            return -EBADMSG;
        s->p += length;
    }
    return -EBADMSG;
}

/* At least one digit. */
static int scan_digits(struct scan *s)
{
    if (!at_digit(s))
        return -EBADMSG;
    while (at_digit(s))
        s->p++;
    return 0;
}

static int scan_number(struct scan *s)
{
    const char *start = s->p;
    char text[NUMBER_LENGTH_MAX + 1];
    bool integer = true;
    size_t length;

    if (at(s, '-'))
        s->p++;
    if (at(s, '0'))
        s->p++;
    else if (scan_digits(s) < 0)
        return -EBADMSG;
    if (at(s, '.')) {
        integer = false;
        s->p++;
        if (scan_digits(s) < 0)
            return -EBADMSG;
    }
    if (at(s, 'e') || at(s, 'E')) {
        integer = false;
        s->p++;
        if (at(s, '+') || at(s, '-'))
            s->p++;
        if (scan_digits(s) < 0)
            return -EBADMSG;
    }

    length = (size_t)(s->p - start);
    if (length > NUMBER_LENGTH_MAX)
        return -EBADMSG;
    if (!integer)
        return 0;
    /* json-c clamps silently what does not fit. */
    memcpy(text, start, length);
    text[length] = '\0';
    errno = 0;
    (void)strtoll(text, NULL, 10);
    return errno == 0 ? 0 : -EBADMSG;
}

/* The members of an object or the elements of an array, from behind the opening bracket to the
 * closing one. */
static int scan_container(struct scan *s, char close)
{
    int r;

    if (++s->depth > JSON_DEPTH_MAX)
        return -EBADMSG;
    skip_space(s);
    if (at(s, close))
        goto closed;
    for (;;) {
        if (++s->items > JSON_ITEMS_MAX)
            return -E2BIG;
        if (close == '}') {
            s->members++;
            r = scan_string(s);
            if (r < 0)
                return r;
            skip_space(s);
            if (!at(s, ':'))
                return -EBADMSG;
            s->p++;
            skip_space(s);
        }
        r = scan_value(s);
        if (r < 0)
            return r;
        skip_space(s);
        if (at(s, close))
            goto closed;
        if (!at(s, ','))
            return -EBADMSG;
        s->p++;
        skip_space(s);
    }
closed:
    s->p++;
    s->depth--;
    return 0;
}

static int scan_value(struct scan *s)
{
    if (s->p == s->end)
        return -EBADMSG;
    switch (*s->p) {
    case '{':
        s->p++;
        return scan_container(s, '}');
    case '[':
        s->p++;
        return scan_container(s, ']');
    case '"':
        return scan_string(s);
    case 't':
        return scan_literal(s, "true");
    case 'f':
        return scan_literal(s, "false");
    case 'n':
        return scan_literal(s, "null");
    default:
        return scan_number(s);
    }
}

int json_scan(const char *data, size_t size, struct json_extent *ret)
{
    struct scan s = { .p = data, .end = size > 0 ? data + size : data };
    const char *start;
    size_t length;
    int r;

    skip_space(&s);
    start = s.p;
    if (!at(&s, '{'))
        return -EBADMSG;
    r = scan_value(&s);
    if (r < 0)
        return r;
    length = (size_t)(s.p - start);
    skip_space(&s);
    if (s.p != s.end)
        return -EBADMSG;
    *ret = (struct json_extent){ .start = start, .size = length, .members = s.members };
    return 0;
}
