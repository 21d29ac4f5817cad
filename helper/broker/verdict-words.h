/* The words for each way of not being allowed. Called by whoever asks for approvals. */
#pragma once

#include "broker/approve.h"

struct verdict_words {
    const char *decision;       /* in the journal */
    const char *error;          /* of the interface */
    const char *before, *after; /* what was asked for stands between them */
    const char *hint;
};

/* Not for VERDICT_ALLOWED. Static. */
const struct verdict_words *verdict_words(enum verdict verdict);
