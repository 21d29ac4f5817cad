/* Images that a run made, in the terminal where it can show them, or in a window of the desktop.
 * Called by run.c, for whoever asks for it: the images were made by a script that nobody trusts. */
#pragma once

#include "client/result.h"

/* Writes the images among the run's files to the terminal on standard error; says where they are if
 * it shows none. */
void figures_show(const struct result *result);
/* Has the desktop's viewer open them. */
void figures_open(const struct result *result);
