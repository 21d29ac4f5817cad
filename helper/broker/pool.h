/* Sandboxes made before anybody asks for them, for runs of the default policy: each waits, ready
 * and empty, until one run takes it, and ends with that run. None ever held anybody's data before,
 * and none comes back. Which kinds there are is learnt from the runs that could have used one.
 * Called by run-pool.c; knows no runs. */
#pragma once

#include "broker/manager.h"
#include "broker/sandbox.h"

struct pool;

int pool_new(struct manager *manager, struct pool **ret);
/* Ends all that wait. */
struct pool *pool_free(struct pool *pool);

/* A run is about to start like this: keeps sandboxes of its kind from now on, for KeepTime= after
 * the last such run. The kind is all of @start but its ids and its lifetime. */
void pool_note(struct pool *pool, const char *engine, const struct engine_start *start);
/* Gives a waiting sandbox of that kind away, which must live at least as long as @start asks for;
 * its events go to @fn from here on. Returns it, or NULL if there is none. @ret_ready tells of it,
 * and is NULL if it is still being made: then it will say that it is ready, or not. It stays valid
 * until the event loop is back. */
struct sandbox *pool_take(struct pool *pool, const char *engine, const struct engine_start *start,
                          sandbox_fn fn, void *userdata, const struct engine_ready **ret_ready);
/* Makes what is missing, when the event loop has nothing else to do. */
void pool_fill_later(struct pool *pool);
/* Ends those of an engine, or all (NULL); the kinds stay. */
void pool_empty(struct pool *pool, const char *engine);
/* Whether something waits, or is to: the broker stays then. */
bool pool_is_held(const struct pool *pool);
/* What all that wait may use at most. */
uint64_t pool_memory_bytes(const struct pool *pool);
