/* What a layer depends on, hashed; see layer-key.h. */
#include "broker/layer-key.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

/* 2: programs of Node's packages are no links. */
#define FORMAT "2"

/* Each text with its NUL, so that no two layers make the same bytes. */
static bool add(EVP_MD_CTX *context, const char *text)
{
    return EVP_DigestUpdate(context, text, strlen(text) + 1) == 1;
}

static bool add_packages(EVP_MD_CTX *context, const struct package *packages, size_t n)
{
    char text[32];
    bool ok = true;

    for (size_t i = 0; ok && i < n; i++) {
        snprintf(text, sizeof(text), "%zu", packages[i].n_hashes);
        ok = add(context, packages[i].text) && add(context, text);
        for (size_t j = 0; ok && j < packages[i].n_hashes; j++)
            ok = add(context, packages[i].hashes[j]);
    }
    return ok;
}

static bool add_parts(EVP_MD_CTX *context, const struct layer_parts *parts)
{
    return add(context, FORMAT) &&
           add(context, parts->ecosystem == ECOSYSTEM_NODE ? "node" : "python") &&
           add(context, parts->engine) && add(context, parts->system) &&
           add(context, parts->index) && add(context, parts->only_binary ? "binary" : "any") &&
           add(context, parts->require_hashes ? "hashes" : "") &&
           add_packages(context, parts->packages, parts->n_packages);
}

int layer_key_make(const struct layer_parts *parts, char ret[LAYER_KEY_LENGTH + 1])
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    unsigned length = 0;

    bool ok = context && EVP_DigestInit_ex(context, EVP_sha256(), NULL) == 1 &&
              add_parts(context, parts) && EVP_DigestFinal_ex(context, digest, &length) == 1 &&
              2 * length == LAYER_KEY_LENGTH;
    EVP_MD_CTX_free(context);
    for (unsigned i = 0; ok && i < length; i++)
        sprintf(ret + 2 * i, "%02x", digest[i]);
    return ok ? 0 : -EIO;
}

/* Takes over @path. */
static int identify(char *path, char **ret)
{
    struct stat st;

    if (strchr("0123456789", path[strlen(path) - 1])) {
        *ret = path;
        return 0;
    }
    int r = stat(path, &st) < 0 ? -errno : 0;
    if (r == 0 && asprintf(ret, "%s %" PRIu64 " %" PRIu64, path, (uint64_t)st.st_size,
                           (uint64_t)st.st_mtime) < 0)
        r = -ENOMEM;
    free(path);
    return r;
}

int layer_interpreter(const char *root, const char *name, char **ret)
{
    static const char *const folders[] = { "/usr/local/bin", "/usr/bin" };
    char path[PATH_MAX];

    for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
        if (snprintf(path, sizeof(path), "%s%s/%s", root, folders[i], name) >= (int)sizeof(path))
            return -ENAMETOOLONG;
        char *real = realpath(path, NULL);
        if (real)
            return identify(real, ret);
    }
    return -ENOENT;
}
