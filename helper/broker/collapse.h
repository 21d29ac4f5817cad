/* Terminal output as somebody reads it who has no terminal: a model, a log. */
#pragma once

#include <stddef.h>

/* Rewrites the @size bytes at @text in place and returns how many are left. Escape sequences
 * (colours, cursor movements, titles) are dropped. Of a line that was written over after a carriage
 * return, as progress bars do, the last state stays. All other bytes stay as they are, valid UTF-8
 * or not. */
size_t collapse_text(char *text, size_t size);
