/* Requirements of Node, see package.h. */
#include "broker/package-internal.h"

#include <errno.h>
#include <string.h>

/* By validate-npm-package-name, for names that may still be published. */
static const char *skip_node_part(const char *at)
{
    size_t n = strspn(at, LOWER DIGITS "-_.~");

    return n > 0 && !strchr("._-~", at[0]) ? at + n : NULL;
}

const char *package_skip_node_name(const char *at, char ret[PACKAGE_NAME_MAX + 1])
{
    const char *begin = at;

    if (*at == '@') {
        at = skip_node_part(at + 1);
        if (!at || *at != '/')
            return NULL;
        at++;
    }
    at = skip_node_part(at);
    if (!at || at - begin > PACKAGE_NAME_MAX)
        return NULL;
    memcpy(ret, begin, (size_t)(at - begin));
    ret[at - begin] = '\0';
    /* What the layer itself is called, and what npm forbids. */
    return strcmp(ret, "node_modules") == 0 || strcmp(ret, "favicon.ico") == 0 ? NULL : at;
}

/* "1", "1.x", "1.2.3-rc.1+build"; a star or x may stand for a number. */
static const char *skip_semver(const char *at)
{
    for (unsigned part = 0; part < 3; part++) {
        size_t n = strspn(at, DIGITS);
        if (n == 0 && *at && strchr("xX*", *at))
            n = 1;
        if (n == 0)
            return NULL;
        at += n;
        if (*at != '.')
            break;
        if (part == 2)
            return NULL;
        at++;
    }
    for (const char *sign = "-+"; *sign; sign++) {
        if (*at != *sign)
            continue;
        size_t n = strspn(at + 1, ALNUM ".-");
        if (n == 0)
            return NULL;
        at += 1 + n;
    }
    return at;
}

static const char *skip_comparator(const char *at)
{
    static const char *const operators[] = { ">=", "<=", ">", "<", "=", "^", "~" };

    for (size_t i = 0; i < ELEMENTS(operators); i++)
        if (strncmp(at, operators[i], strlen(operators[i])) == 0)
            return skip_semver(at + strlen(operators[i]));
    return skip_semver(at);
}

static bool is_range(const char *range)
{
    for (const char *at = range; (at = skip_comparator(at));) {
        if (*at == '\0')
            return true;
        if (*at != ' ')
            return false;
        if (strncmp(at, " || ", 4) == 0)
            at += 4;
        else if (strncmp(at, " - ", 3) == 0)
            at += 3;
        else
            at += 1;
    }
    return false;
}

static bool is_tag(const char *range)
{
    return strspn(range, LOWER) > 0 && strspn(range, LOWER DIGITS "-") == strlen(range);
}

/* Copies @range with one space between its comparators, and around "||". */
static bool copy_range(char *to, const char *end, const char *range)
{
    char last = ' ';

    for (const char *at = range; *at; at++) {
        bool bar = *at == '|' && at[1] == '|';
        if (strchr(SPACE, *at) && !bar) {
            last = ' ';
            continue;
        }
        if (end - to < 6)
            return false;
        if (at > range && (last == ' ' || bar) && to[-1] != ' ')
            *to++ = ' ';
        if (bar) {
            memcpy(to, "|| ", 3);
            to += 3;
            at++;
        } else {
            *to++ = *at;
        }
        last = *at;
    }
    if (to[-1] == ' ')
        to--;
    *to = '\0';
    return true;
}

int package_parse_node(const char *text, struct package *ret)
{
    char *to = ret->text, *end = ret->text + sizeof(ret->text);

    const char *at = package_skip_node_name(package_skip_space(text), ret->name);
    if (!at || package_is_archive(ret->name, strlen(ret->name)) ||
        !package_append(&to, end, ret->name))
        return -EINVAL;
    if (*package_skip_space(at) == '\0')
        return 0;
    if (*at != '@')
        return -EINVAL;
    at = package_skip_space(at + 1);
    if (!package_append(&to, end, "@") || !copy_range(to, end, at))
        return -EINVAL;
    return !package_is_archive(to, strlen(to)) && (is_range(to) || is_tag(to)) ? 0 : -EINVAL;
}
