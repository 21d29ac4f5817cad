/* Whether this machine is short of memory. Called by the pool. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Where the unit puts the machine's own meminfo and pressure/memory of proc(5). */
#define MEMORY_DIRECTORY "/memory"

/* Reads the files below @directory. True if less than a tenth of the memory, or less than
 * @need_bytes, is available, or if programs waited for memory in more than a tenth of the last ten
 * seconds. What cannot be read says nothing. */
bool memory_is_short(const char *directory, uint64_t need_bytes);
