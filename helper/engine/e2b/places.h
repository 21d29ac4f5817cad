/* The places for sandboxes, MaxSandboxes= of them: memory that the processes of a service share, so
 * that only who has a sandbox counts, and not who asks what there is, or cleans up. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct places;

/* Before the first fork. NULL out of memory. Never freed. */
struct places *places_new(size_t n);
/* Takes a place for a connection, whose number is not 0. False if there is none. */
bool places_take(struct places *places, uint64_t connection);
/* Gives it back, if it has one. */
void places_leave(struct places *places, uint64_t connection);
