/* Requirements of Python, see package.h. */
#include "broker/package-internal.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HASH_OPTION "--hash=sha256:"
/* Extras, or clauses, of one requirement. */
#define PARTS_MAX 16

/* Parts of a requirement, to be written sorted and each once. */
struct parts {
    char text[PARTS_MAX][PACKAGE_NAME_MAX + 1];
    size_t n;
};

static int compare_parts(const void *a, const void *b)
{
    return strcmp(a, b);
}

/* Writes "a,b" between @before and @after; nothing if there are no parts. */
static bool append_parts(char **at, const char *end, struct parts *parts, const char *before,
                         const char *after)
{
    if (parts->n == 0)
        return true;
    qsort(parts->text, parts->n, sizeof(parts->text[0]), compare_parts);
    if (!package_append(at, end, before))
        return false;
    for (size_t i = 0; i < parts->n; i++) {
        if (i > 0 && strcmp(parts->text[i], parts->text[i - 1]) == 0)
            continue;
        if ((i > 0 && !package_append(at, end, ",")) || !package_append(at, end, parts->text[i]))
            return false;
    }
    return package_append(at, end, after);
}

/* The name of @size bytes, by PEP 508: letters and digits at both ends, "-", "_" and "." between
 * them. */
static bool normalise_python(const char *name, size_t size, char ret[PACKAGE_NAME_MAX + 1])
{
    size_t n = 0;

    if (size == 0 || size > PACKAGE_NAME_MAX || !strchr(ALNUM, name[0]) ||
        !strchr(ALNUM, name[size - 1]))
        return false;
    for (size_t i = 0; i < size; i++) {
        if (strchr("-_.", name[i])) {
            if (ret[n - 1] != '-')
                ret[n++] = '-';
        } else {
            ret[n++] = (char)(isupper((unsigned char)name[i]) ? name[i] - 'A' + 'a' : name[i]);
        }
    }
    ret[n] = '\0';
    return true;
}

const char *package_skip_python_name(const char *at, char ret[PACKAGE_NAME_MAX + 1])
{
    size_t n = strspn(at, ALNUM "-_.");

    return normalise_python(at, n, ret) ? at + n : NULL;
}

/* "[extra, extra]"; none is fine. */
static const char *skip_extras(const char *at, struct parts *extras)
{
    const char *next = package_skip_space(at);

    if (*next != '[')
        return at;
    do {
        if (extras->n == PARTS_MAX)
            return NULL;
        at = package_skip_python_name(package_skip_space(next + 1), extras->text[extras->n++]);
        if (!at)
            return NULL;
        next = package_skip_space(at);
    } while (*next == ',');
    return *next == ']' ? next + 1 : NULL;
}

/* A version as far as it matters here: what pip makes of it is pip's affair, but no version has
 * other characters (PEP 440). A star stands at the end of what must, or must not, be equal. */
static const char *skip_version(const char *at, bool star_allowed)
{
    size_t n = strspn(at, ALNUM ".!+_-");

    if (n == 0 || !strchr(ALNUM, at[0]))
        return NULL;
    if (at[n] == '*')
        return star_allowed && at[n - 1] == '.' ? at + n + 1 : NULL;
    return strchr(ALNUM, at[n - 1]) ? at + n : NULL;
}

/* One ">=1.2", written without spaces into @ret. */
static const char *skip_clause(const char *at, char ret[PACKAGE_NAME_MAX + 1])
{
    static const char *const signs[] = { "~=", "==", "!=", "<=", ">=", "<", ">" };
    const char *sign = NULL;

    for (size_t i = 0; i < ELEMENTS(signs) && !sign; i++)
        if (strncmp(at, signs[i], strlen(signs[i])) == 0)
            sign = signs[i];
    if (!sign)
        return NULL;
    bool star_allowed = strcmp(sign, "==") == 0 || strcmp(sign, "!=") == 0;
    const char *version = package_skip_space(at + strlen(sign));
    const char *end = skip_version(version, star_allowed);
    if (!end || end - version > PACKAGE_NAME_MAX - 2)
        return NULL;
    snprintf(ret, PACKAGE_NAME_MAX + 1, "%s%.*s", sign, (int)(end - version), version);
    return end;
}

/* ">=1, <2"; none is fine. */
static const char *skip_clauses(const char *at, struct parts *clauses)
{
    const char *next = package_skip_space(at);

    if (*next == '\0' || !strchr("~=!<>", *next))
        return at;
    do {
        if (clauses->n == PARTS_MAX)
            return NULL;
        at = skip_clause(package_skip_space(next), clauses->text[clauses->n++]);
        if (!at)
            return NULL;
        next = package_skip_space(at);
    } while (*next++ == ',');
    return at;
}

/* The hashes up to the end, with space before each. Returns 0, -EINVAL or -ENOMEM. */
static int parse_hashes(const char *at, struct package *package)
{
    size_t length = sizeof(package_hash) - 1;
    const char *option;

    while (*(option = package_skip_space(at))) {
        if (option == at || strncmp(option, HASH_OPTION, strlen(HASH_OPTION)) != 0 ||
            package->n_hashes == PACKAGE_HASHES_MAX)
            return -EINVAL;
        at = option + strlen(HASH_OPTION);
        if (strspn(at, DIGITS "abcdef") != length)
            return -EINVAL;
        if (!package->hashes)
            package->hashes = calloc(PACKAGE_HASHES_MAX, sizeof(package_hash));
        if (!package->hashes)
            return -ENOMEM;
        memcpy(package->hashes[package->n_hashes++], at, length);
        at += length;
    }
    return 0;
}

static void sort_hashes(struct package *package)
{
    size_t n = 0;

    if (package->n_hashes == 0)
        return;
    qsort(package->hashes, package->n_hashes, sizeof(package_hash), compare_parts);
    for (size_t i = 1; i < package->n_hashes; i++)
        if (strcmp(package->hashes[n], package->hashes[i]) != 0)
            memmove(package->hashes[++n], package->hashes[i], sizeof(package_hash));
    package->n_hashes = n + 1;
}

int package_parse_python(const char *text, struct package *ret)
{
    struct parts extras = { 0 }, clauses = { 0 };
    char *to = ret->text, *end = ret->text + sizeof(ret->text);

    const char *begin = package_skip_space(text), *at = package_skip_python_name(begin, ret->name);
    at = at ? skip_extras(at, &extras) : NULL;
    at = at ? skip_clauses(at, &clauses) : NULL;
    if (!at || package_is_archive(begin, (size_t)(at - begin)) ||
        !package_append(&to, end, ret->name) || !append_parts(&to, end, &extras, "[", "]") ||
        !append_parts(&to, end, &clauses, "", "") ||
        package_is_archive(ret->text, strlen(ret->text)))
        return -EINVAL;
    int r = parse_hashes(at, ret);
    sort_hashes(ret);
    return r;
}
