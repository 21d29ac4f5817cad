/* Hints about a file that a program did not find or could not write. Pure; called by hints.c. */
#pragma once

#include "broker/outcome.h"

/* @path is what the program called it, @is_output whether it meant to write there. All return false
 * and leave @ret alone if there is nothing certain to say. */
bool hint_missing_file(const struct facts *facts, const char *path, bool is_output,
                       char ret[HINT_MAX]);
/* It may not be written, since it lies outside of what can be. */
bool hint_place(const char *path, char ret[HINT_MAX]);
