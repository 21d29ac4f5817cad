/* Requirements of packages, arbitrary: what is taken has a form that pip and npm cannot take for
 * anything but a package of the index, and is its own normal form. */
#include "broker/package.h"

#include <stdint.h>
#include <string.h>

#include "check.h"
#include "common/cleanup.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_text(const char *text)
{
    check(text[0] != '-' && text[0] != '.' && text[0] != '/' && text[0] != '~');
    check(!strpbrk(text, ":\\;'\"$`#%&?\n\r\t"));
    check(!strstr(text, " @ "));
    /* Nor a file. */
    static const char *const ends[] = { ".zip", ".whl", ".tgz", ".tar", ".tar.gz" };
    for (size_t i = 0; i < ELEMENTS(ends); i++) {
        size_t n = strlen(text), m = strlen(ends[i]);
        check(n < m || strcasecmp(text + n - m, ends[i]) != 0);
    }
    /* No option; but "1 - 2" is a range of npm's. */
    for (const char *at = text; (at = strstr(at, " -")); at++)
        check(at[2] == ' ');
}

static void check_package(enum ecosystem ecosystem, const char *text)
{
    char reason[PACKAGE_REASON_MAX] = "", name[PACKAGE_NAME_MAX + 1];
    struct package p, again;

    if (package_parse(ecosystem, text, &p, reason) < 0) {
        check(reason[0] != '\0');
        return;
    }
    check_text(p.text);
    check(strncmp(p.text, p.name, strlen(p.name)) == 0);
    check(package_normalise_name(ecosystem, p.name, name) && strcmp(name, p.name) == 0);
    check(package_matches(ecosystem, p.name, p.name));
    check(package_parse(ecosystem, p.text, &again, reason) == 0);
    check(strcmp(p.text, again.text) == 0 && strcmp(p.name, again.name) == 0);
    check(again.n_hashes == 0 && p.n_hashes <= PACKAGE_HASHES_MAX);
    for (size_t i = 1; i < p.n_hashes; i++)
        check(strcmp(p.hashes[i - 1], p.hashes[i]) < 0);
    package_release(&p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    _cleanup_free_ char *text = strndup((const char *)data, size);

    check_package(ECOSYSTEM_PYTHON, text);
    check_package(ECOSYSTEM_NODE, text);
    return 0;
}
