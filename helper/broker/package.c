/* What the packages of all languages have in common, see package.h. */
#include "broker/package-internal.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *package_skip_space(const char *at)
{
    return at + strspn(at, SPACE);
}

bool package_append(char **at, const char *end, const char *more)
{
    size_t n = strlen(more);

    if (n >= (size_t)(end - *at))
        return false;
    memcpy(*at, more, n + 1);
    *at += n;
    return true;
}

static bool ends_with(const char *text, size_t n, const char *end)
{
    size_t m = strlen(end);

    return n >= m && strncasecmp(text + n - m, end, m) == 0;
}

bool package_is_archive(const char *text, size_t n)
{
    static const char *const ends[] = { ".zip",    ".whl",     ".tar",    ".tgz",
                                        ".tar.gz", ".tbz",     ".txz",    ".tlz",
                                        ".tar.xz", ".tar.bz2", ".tar.lz", ".tar.lzma" };

    for (size_t i = 0; i < ELEMENTS(ends); i++)
        if (ends_with(text, n, ends[i]))
            return true;
    return false;
}

bool package_normalise_name(enum ecosystem ecosystem, const char *name,
                            char ret[PACKAGE_NAME_MAX + 1])
{
    const char *end = ecosystem == ECOSYSTEM_NODE ? package_skip_node_name(name, ret)
                                                  : package_skip_python_name(name, ret);

    return end && *end == '\0';
}

/* Why a text is no requirement, by what its writer may have meant. */
static const char *explain(enum ecosystem ecosystem, const char *text)
{
    text = package_skip_space(text);
    if (*text == '\0')
        return "It is empty.";
    if (*text == '-')
        return "It is an option; only names of packages can be asked for.";
    if (strstr(text, "://") || strchr("./~", *text) || strstr(text, " @ ") ||
        strstr(text, "file:") || strstr(text, "git+") || package_is_archive(text, strlen(text)))
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

    int r = ecosystem == ECOSYSTEM_NODE ? package_parse_node(text, &package)
                                        : package_parse_python(text, &package);
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
