/* The table of `sbxctl ps`, apart from the verb so that it can be tested without a helper. */
#pragma once

#include <stdint.h>
#include <stdio.h>
#include <json-c/json.h>

/* Prints the runs of the array @list in lines of at most @width columns; @now_usec is the time
 * since the epoch. Returns 0, or the exit status of what was told. */
int ps_print(FILE *to, json_object *list, uint64_t now_usec, size_t width);
