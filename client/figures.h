/* Images that a run made, in the terminal where it can show them, or in a window of the desktop.
 * Called by run.c, for whoever asks for it: the images were made by a script that nobody trusts. */
#pragma once

#include <stdbool.h>

#include "client/result.h"

/* Writes the images among the run's files to the terminal on standard error; says where they are if
 * it shows none. */
void figures_show(const struct result *result);
/* Has the desktop's viewer open them, as far as their names are those of images: the desktop goes
 * by the name, and what begins as an image can go on as a page with scripts, called x.html. */
void figures_open(const struct result *result);
