/* The files that an earlier run made, as what --input-run gives to the next. Called by inputs.c. */
#pragma once

#include "client/input-files.h"

/* Adds the files that @text, ID[:PATH], names: all of that run, as they lie there; or one file or
 * directory of them, by its last name. The run's directory is the user's, and they may have put
 * links there; none is followed. Returns 0, or the exit status of a failure that has been told. */
int input_run_find(struct input_files *files, const char *text);
