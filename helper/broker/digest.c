/* SHA-256 by OpenSSL, see digest.h. */
#include "broker/digest.h"

#include <inttypes.h>
#include <openssl/evp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static int finish(EVP_MD_CTX *context, char ret[REQUEST_SHA256_TEXT])
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned length = 0;

    if (EVP_DigestFinal_ex(context, digest, &length) != 1 || 2 * length >= REQUEST_SHA256_TEXT)
        return -EIO;
    for (unsigned i = 0; i < length; i++)
        snprintf(ret + 2 * i, 3, "%02x", digest[i]);
    return 0;
}

static int digest_script(EVP_MD_CTX *context, struct request *request)
{
    unsigned char buffer[16384];

    if (EVP_DigestInit_ex(context, EVP_sha256(), NULL) != 1)
        return -ENOMEM;
    for (uint64_t offset = 0; offset < request->script_bytes;) {
        ssize_t n = pread(request->script, buffer, sizeof(buffer), (off_t)offset);
        if (n <= 0)
            return n < 0 ? -errno : -EIO;
        if (EVP_DigestUpdate(context, buffer, (size_t)n) != 1)
            return -EIO;
        offset += (uint64_t)n;
    }
    return finish(context, request->script_sha256);
}

/* Each text with its NUL, so that no two requests make the same bytes. */
static bool add(EVP_MD_CTX *context, const char *text)
{
    return EVP_DigestUpdate(context, text, strlen(text) + 1) == 1;
}

static bool add_number(EVP_MD_CTX *context, const char *name, uint64_t number)
{
    char text[64];

    snprintf(text, sizeof(text), "%s=%" PRIu64, name, number);
    return add(context, text);
}

/* A list begins with its length. */
static bool add_list(EVP_MD_CTX *context, const char *name, char **list)
{
    size_t n = 0;
    bool ok;

    while (list[n])
        n++;
    ok = add_number(context, name, n);
    for (size_t i = 0; ok && i < n; i++)
        ok = add(context, list[i]);
    return ok;
}

static bool add_hosts(EVP_MD_CTX *context, const struct host_list *hosts)
{
    bool ok = add_number(context, "hosts", hosts->n);

    for (size_t i = 0; ok && i < hosts->n; i++)
        ok = add(context, hosts->items[i]);
    return ok;
}

static bool add_packages(EVP_MD_CTX *context, const struct plan *plan)
{
    bool ok = add_number(context, "packages", plan->n_packages) &&
              add_number(context, "requireHashes", plan->require_hashes);

    for (size_t i = 0; ok && i < plan->n_packages; i++) {
        const struct package *package = &plan->packages[i];
        ok = add(context, package->text) && add_number(context, "hashes", package->n_hashes);
        for (size_t j = 0; ok && j < package->n_hashes; j++)
            ok = add(context, package->hashes[j]);
    }
    return ok;
}

static int digest_whole(EVP_MD_CTX *context, struct request *request, const struct plan *plan)
{
    const struct limits *limits = &plan->limits;
    bool ok = EVP_DigestInit_ex(context, EVP_sha256(), NULL) == 1 &&
              add(context, request->script_sha256) && add_list(context, "argv", plan->argv) &&
              add_list(context, "environment", plan->environment) && add(context, plan->engine) &&
              add(context, plan->image ? plan->image : "") &&
              add_number(context, "network", limits->network) && add_hosts(context, &plan->hosts) &&
              add_packages(context, plan) && add_number(context, "memory", limits->memory_bytes) &&
              add_number(context, "cpu", limits->cpu_percent) &&
              add_number(context, "timeout", limits->timeout_usec) &&
              add_number(context, "stdin", request->stdin_memfd >= 0) &&
              add_number(context, "inputs", request->n_inputs);

    for (size_t i = 0; ok && i < request->n_inputs; i++)
        ok = add(context, request->inputs[i].name) &&
             add_number(context, "size", request->inputs[i].size);
    return ok ? finish(context, request->sha256) : -EIO;
}

int request_digest(struct request *request, const struct plan *plan)
{
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    int r;

    if (!context)
        return -ENOMEM;
    r = digest_script(context, request);
    if (r >= 0)
        r = digest_whole(context, request, plan);
    EVP_MD_CTX_free(context);
    return r;
}
