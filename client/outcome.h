/* What is said after a run: the reason and a hint when it went badly, the files that it made, what
 * was left out. Called by run.c, wait.c and get.c; the script's own output is not its business. */
#pragma once

#include <stdbool.h>

#include "client/result.h"

/* @lists_files: name the files and where they are; else they are told elsewhere. */
void outcome_say(const struct result *result, bool lists_files);
/* What of the workspace was not kept, and why. */
void outcome_say_skipped(const struct result *result);
