/* What of a run leaves this machine, in words for the dialog of its approval. */
#pragma once

#include "broker/policy.h"

#define LEAVING_TEXT 1024

/* "sales.csv (3 MiB), report.py (12 B), standard input, 2 arguments, variables TOKEN, MODE": the
 * largest first; or, if the files would be too many to be read, how many they are, their sum, and
 * the largest of them. "nothing" for a run on this machine; @request may be
 * NULL. The names are made harmless for a dialog. Returns @buffer. */
const char *leaving_text(const struct request *request, const struct plan *plan,
                         char buffer[LEAVING_TEXT]);
/* Whether something may leave it while the program runs. */
bool leaving_has_input(const struct request *request);
