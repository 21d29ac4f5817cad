/* Why a request is not run, before anybody is asked. Made by whoever admits it, told by methods.c
 * and pull.c. */
#pragma once

#include <stdint.h>

enum refusal_kind { REFUSAL_REJECTED, REFUSAL_ABOVE_CEILING, REFUSAL_SECRETS };

struct refusal {
    enum refusal_kind kind;
    char field[32];
    uint64_t requested, ceiling;
    unsigned line;               /* of the script; 0: none */
    char reason[256], hint[256]; /* hint may be empty */
};

/* Rejects it for its @field, with the reason by @format. @hint says what to do; it may be empty.
 * Returns -EPERM. */
__attribute__((format(printf, 4, 5))) int refusal_reject(struct refusal *refusal, const char *field,
                                                         const char *hint, const char *format, ...);
