/* What a user asks for by --with: a package by name, with the versions that would do. Pure. Called
 * by the broker when it takes a request, and for what an installation says it resolved.
 *
 * Python: a subset of PEP 508, "name[extra,extra]>=1,<2", and after it pip's "--hash=sha256:..." as
 * often as one likes. Node: "name@range" or "@scope/name@range", range a semver range or a tag.
 * Nothing else gets through: no URL, no path, no marker, no option, so that what pip and npm are
 * given can mean nothing but packages of the index. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define PACKAGES_MAX 50        /* asked for at once */
#define PACKAGE_NAME_MAX 214   /* bytes; npm's limit, and no name of PyPI is longer */
#define PACKAGE_TEXT_MAX 512   /* bytes of a requirement without its hashes, as normalised */
#define PACKAGE_HASHES_MAX 200 /* of one requirement: a project has a wheel per platform */
#define PACKAGE_REASON_MAX 160

enum ecosystem { ECOSYSTEM_PYTHON, ECOSYSTEM_NODE };

typedef char package_hash[64 + 1]; /* SHA-256 in lower-case hex */

struct package {
    char name[PACKAGE_NAME_MAX + 1]; /* normalised */
    /* The whole requirement, as pip or npm are given it: same meaning, same text. Without spaces
     * for Python. */
    char text[PACKAGE_TEXT_MAX + 1];
    package_hash *hashes; /* sorted, each once */
    size_t n_hashes;
};

/* Reads one requirement. Returns 0 with a package in @ret, to be released; -EINVAL with a sentence
 * in @ret_reason that does not repeat @text; or -ENOMEM. */
int package_parse(enum ecosystem ecosystem, const char *text, struct package *ret,
                  char ret_reason[PACKAGE_REASON_MAX]);
void package_release(struct package *package);

/* Writes the name as it is compared: PEP 503 for Python (lower case, runs of "-", "_" and "." are
 * one "-"), as it is for Node. Returns false if it is no name. */
bool package_normalise_name(enum ecosystem ecosystem, const char *name,
                            char ret[PACKAGE_NAME_MAX + 1]);

/* Whether @pattern of an allow or deny list means the package @name (normalised): "*" is any,
 * "@scope/" and a star any of that scope, else it is a name, in whatever spelling. */
bool package_matches(enum ecosystem ecosystem, const char *pattern, const char *name);

/* Whether lists (ended by NULL) let a package in: it must match an entry of @allowed and none of
 * @denied. If not, @ret_rule is the entry that denies it, borrowed, or NULL if nothing allows it.
 */
bool package_is_allowed(enum ecosystem ecosystem, char *const *allowed, char *const *denied,
                        const char *name, const char **ret_rule);

/* For qsort(3): by text. */
int package_compare(const void *a, const void *b);
