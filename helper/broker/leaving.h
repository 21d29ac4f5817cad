/* What of a run leaves this machine, in words for the dialog of its approval. */
#pragma once

#include "broker/policy.h"

#define LEAVING_TEXT 1024

/* "report.py (12 B), sales.csv (3 MiB)"; or, if that would be too long to be read, how many files
 * they are, their sum, and the first of them. "nothing" for a run on this machine; @request may be
 * NULL. The names are made harmless for a dialog. Returns @buffer. */
const char *leaving_text(const struct request *request, const struct plan *plan,
                         char buffer[LEAVING_TEXT]);
