/* What to try after a run that failed: what its program said last, looked up in a table, with what
 * is known of the run. Pure. Called by outcome.c, which shows the hint below the program's own
 * words, never in their place. */
#pragma once

#include "broker/outcome.h"

/* Finds a hint for @facts, whose program failed, into @ret. Returns false and leaves @ret alone if
 * nothing is known that could not be wrong. */
bool hint_find(const struct facts *facts, char ret[HINT_MAX]);

/* To need less memory, or to ask for more: for @wanted bytes beside what there was, 0 if that is
 * not known. */
void hint_memory(const struct facts *facts, uint64_t wanted, char ret[HINT_MAX]);
/* A full workspace or scratch space, from what was measured; false if neither was. */
bool hint_space(const struct facts *facts, char ret[HINT_MAX]);
