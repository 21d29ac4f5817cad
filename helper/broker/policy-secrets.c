/* Credentials in scripts and arguments, see policy-secrets.h. */
#include "broker/policy-secrets.h"
#include "broker/secret.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#define ENVIRONMENT "Have it in a variable that the script reads, and pass that on with --env NAME"

static int refuse(const struct config *config, const char *field, const char *place,
                  const struct secret *secret, unsigned line, struct refusal *refusal)
{
    if (config->secrets == SECRETS_REFUSE)
        return refusal_reject(refusal, field, ENVIRONMENT ".",
                              "%s seems to hold %s, which this machine refuses (Secrets=refuse).",
                              place, secret->what);
    (void)refusal_reject(refusal, field, ENVIRONMENT "; or run it as it is, with --allow-secrets.",
                         "%s seems to hold %s, so nothing was run.", place, secret->what);
    refusal->kind = REFUSAL_SECRETS;
    refusal->line = line;
    return -EPERM;
}

/* The script is a sealed memfd, so nobody shortens it meanwhile. */
static int look_into_script(const struct config *config, const struct request *request,
                            struct refusal *refusal)
{
    size_t size = (size_t)request->script_bytes;
    struct secret secret;
    char place[64];

    char *text = mmap(NULL, size, PROT_READ, MAP_PRIVATE, request->script, 0);
    if (text == MAP_FAILED)
        return -errno;
    bool found = secret_find(text, size, &secret);
    (void)munmap(text, size);
    if (!found)
        return 0;
    snprintf(place, sizeof(place), "Line %u of the script", secret.line);
    return refuse(config, "script", place, &secret, secret.line, refusal);
}

int policy_secrets(const struct config *config, const struct request *request,
                   struct refusal *refusal)
{
    struct secret secret;
    char place[64];
    int r;

    if (config->secrets == SECRETS_ALLOW ||
        (config->secrets == SECRETS_WARN && request->allow_secrets))
        return 0;
    r = look_into_script(config, request, refusal);
    for (size_t i = 0; r == 0 && i < request->n_arguments; i++) {
        const char *argument = request->arguments[i];
        if (!secret_find(argument, strlen(argument), &secret))
            continue;
        snprintf(place, sizeof(place), "Argument %zu", i + 1);
        r = refuse(config, "arguments", place, &secret, 0, refusal);
    }
    return r;
}
