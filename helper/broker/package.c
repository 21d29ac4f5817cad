/* Requirements, see package.h. Each skip_*() takes the text behind what it knows, or gives NULL. */
#include "broker/package.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "common/cleanup.h"

#define LOWER "abcdefghijklmnopqrstuvwxyz"
#define UPPER "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGITS "0123456789"
#define ALNUM LOWER UPPER DIGITS
#define SPACE " \t"
#define HASH_OPTION "--hash=sha256:"
/* Extras, or clauses, of one requirement. */
#define PARTS_MAX 16

/* Parts of a requirement, to be written sorted and each once. */
struct parts {
    char text[PARTS_MAX][PACKAGE_NAME_MAX + 1];
    size_t n;
};

static const char *skip_space(const char *at)
{
    return at + strspn(at, SPACE);
}

static int compare_parts(const void *a, const void *b)
{
    return strcmp(a, b);
}

/* Appends @more at @*at, which stays before @end. Returns false if there is no room. */
static bool append(char **at, const char *end, const char *more)
{
    size_t n = strlen(more);

    if (n >= (size_t)(end - *at))
        return false;
    memcpy(*at, more, n + 1);
    *at += n;
    return true;
}

/* Writes "a,b" between @before and @after; nothing if there are no parts. */
static bool append_parts(char **at, const char *end, struct parts *parts, const char *before,
                         const char *after)
{
    if (parts->n == 0)
        return true;
    qsort(parts->text, parts->n, sizeof(parts->text[0]), compare_parts);
    if (!append(at, end, before))
        return false;
    for (size_t i = 0; i < parts->n; i++) {
        if (i > 0 && strcmp(parts->text[i], parts->text[i - 1]) == 0)
            continue;
        if ((i > 0 && !append(at, end, ",")) || !append(at, end, parts->text[i]))
            return false;
    }
    return append(at, end, after);
}

/* ---- names */

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

static const char *skip_python_name(const char *at, char ret[PACKAGE_NAME_MAX + 1])
{
    size_t n = strspn(at, ALNUM "-_.");

    return normalise_python(at, n, ret) ? at + n : NULL;
}

/* By validate-npm-package-name, for names that may still be published. */
static const char *skip_node_part(const char *at)
{
    size_t n = strspn(at, LOWER DIGITS "-_.~");

    return n > 0 && !strchr("._-~", at[0]) ? at + n : NULL;
}

static const char *skip_node_name(const char *at, char ret[PACKAGE_NAME_MAX + 1])
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

bool package_normalise_name(enum ecosystem ecosystem, const char *name,
                            char ret[PACKAGE_NAME_MAX + 1])
{
    const char *end =
        ecosystem == ECOSYSTEM_NODE ? skip_node_name(name, ret) : skip_python_name(name, ret);

    return end && *end == '\0';
}

static bool ends_with(const char *text, size_t n, const char *end)
{
    size_t m = strlen(end);

    return n >= m && strncasecmp(text + n - m, end, m) == 0;
}

/* pip and npm take what ends like an archive for a file, also behind a version
 * (pip._internal.utils.filetypes, npm-package-arg). */
static bool is_archive(const char *text, size_t n)
{
    static const char *const ends[] = { ".zip",    ".whl",     ".tar",    ".tgz",
                                        ".tar.gz", ".tbz",     ".txz",    ".tlz",
                                        ".tar.xz", ".tar.bz2", ".tar.lz", ".tar.lzma" };

    for (size_t i = 0; i < ELEMENTS(ends); i++)
        if (ends_with(text, n, ends[i]))
            return true;
    return false;
}

/* ---- Python */

/* "[extra, extra]"; none is fine. */
static const char *skip_extras(const char *at, struct parts *extras)
{
    const char *next = skip_space(at);

    if (*next != '[')
        return at;
    do {
        if (extras->n == PARTS_MAX)
            return NULL;
        at = skip_python_name(skip_space(next + 1), extras->text[extras->n++]);
        if (!at)
            return NULL;
        next = skip_space(at);
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
    const char *version = skip_space(at + strlen(sign));
    const char *end = skip_version(version, star_allowed);
    if (!end || end - version > PACKAGE_NAME_MAX - 2)
        return NULL;
    snprintf(ret, PACKAGE_NAME_MAX + 1, "%s%.*s", sign, (int)(end - version), version);
    return end;
}

/* ">=1, <2"; none is fine. */
static const char *skip_clauses(const char *at, struct parts *clauses)
{
    const char *next = skip_space(at);

    if (*next == '\0' || !strchr("~=!<>", *next))
        return at;
    do {
        if (clauses->n == PARTS_MAX)
            return NULL;
        at = skip_clause(skip_space(next), clauses->text[clauses->n++]);
        if (!at)
            return NULL;
        next = skip_space(at);
    } while (*next++ == ',');
    return at;
}

/* The hashes up to the end, with space before each. Returns 0, -EINVAL or -ENOMEM. */
static int parse_hashes(const char *at, struct package *package)
{
    size_t length = sizeof(package_hash) - 1;
    const char *option;

    while (*(option = skip_space(at))) {
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

static int parse_python(const char *text, struct package *ret)
{
    struct parts extras = { 0 }, clauses = { 0 };
    char *to = ret->text, *end = ret->text + sizeof(ret->text);

    const char *begin = skip_space(text), *at = skip_python_name(begin, ret->name);
    at = at ? skip_extras(at, &extras) : NULL;
    at = at ? skip_clauses(at, &clauses) : NULL;
    if (!at || is_archive(begin, (size_t)(at - begin)) || !append(&to, end, ret->name) ||
        !append_parts(&to, end, &extras, "[", "]") || !append_parts(&to, end, &clauses, "", "") ||
        is_archive(ret->text, strlen(ret->text)))
        return -EINVAL;
    int r = parse_hashes(at, ret);
    sort_hashes(ret);
    return r;
}

/* ---- Node */

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

static int parse_node(const char *text, struct package *ret)
{
    char *to = ret->text, *end = ret->text + sizeof(ret->text);

    const char *at = skip_node_name(skip_space(text), ret->name);
    if (!at || is_archive(ret->name, strlen(ret->name)) || !append(&to, end, ret->name))
        return -EINVAL;
    if (*skip_space(at) == '\0')
        return 0;
    if (*at != '@')
        return -EINVAL;
    at = skip_space(at + 1);
    if (!append(&to, end, "@") || !copy_range(to, end, at))
        return -EINVAL;
    return !is_archive(to, strlen(to)) && (is_range(to) || is_tag(to)) ? 0 : -EINVAL;
}

/* ---- all of it */

/* Why a text is no requirement, by what its writer may have meant. */
static const char *explain(enum ecosystem ecosystem, const char *text)
{
    text = skip_space(text);
    if (*text == '\0')
        return "It is empty.";
    if (*text == '-')
        return "It is an option; only names of packages can be asked for.";
    if (strstr(text, "://") || strchr("./~", *text) || strstr(text, " @ ") ||
        strstr(text, "file:") || strstr(text, "git+") || is_archive(text, strlen(text)))
        return "Packages come by name from the administrator's index, not from a path or an "
               "address.";
    if (ecosystem == ECOSYSTEM_NODE)
        return "It is not written as NAME or NAME@RANGE, like 'lodash@^4'.";
    if (strchr(text, ';'))
        return "Environment markers (what follows ';') cannot be used here; leave them out.";
    if (strstr(text, "--hash"))
        return "Its hashes are not written as --hash=sha256: and 64 hex digits.";
    return "It is not written as NAME or NAME with versions, like 'pandas<3'.";
}

int package_parse(enum ecosystem ecosystem, const char *text, struct package *ret,
                  char ret_reason[PACKAGE_REASON_MAX])
{
    struct package package = { 0 };

    int r = ecosystem == ECOSYSTEM_NODE ? parse_node(text, &package) : parse_python(text, &package);
    if (r == 0) {
        *ret = package;
        return 0;
    }
    package_release(&package);
    if (r == -EINVAL)
        snprintf(ret_reason, PACKAGE_REASON_MAX, "%s", explain(ecosystem, text));
    return r;
}

void package_release(struct package *package)
{
    free(package->hashes);
    package->hashes = NULL;
    package->n_hashes = 0;
}

bool package_matches(enum ecosystem ecosystem, const char *pattern, const char *name)
{
    char small[PACKAGE_NAME_MAX + 1], normal[PACKAGE_NAME_MAX + 1];
    size_t n = strlen(pattern);

    if (n > PACKAGE_NAME_MAX)
        return false;
    /* Names have small letters, however an administrator writes them. */
    for (size_t i = 0; i <= n; i++)
        small[i] = (char)tolower((unsigned char)pattern[i]);
    if (strcmp(small, "*") == 0)
        return true;
    if (ecosystem == ECOSYSTEM_NODE && small[0] == '@' && ends_with(small, n, "/*"))
        return strncmp(small, name, n - 1) == 0;
    return package_normalise_name(ecosystem, small, normal) && strcmp(normal, name) == 0;
}

bool package_is_allowed(enum ecosystem ecosystem, char *const *allowed, char *const *denied,
                        const char *name, const char **ret_rule)
{
    *ret_rule = NULL;
    for (; *denied; denied++) {
        if (package_matches(ecosystem, *denied, name)) {
            *ret_rule = *denied;
            return false;
        }
    }
    for (; *allowed; allowed++)
        if (package_matches(ecosystem, *allowed, name))
            return true;
    return false;
}

int package_compare(const void *a, const void *b)
{
    return strcmp(((const struct package *)a)->text, ((const struct package *)b)->text);
}
