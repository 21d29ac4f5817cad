/* Sandboxes made before anybody asks for them, for runs of the default policy: each waits, ready
 * and empty, until one run takes it, and ends with that run. None ever held anybody's data before,
 * and none comes back. Which kinds there are is learnt from the runs that could have used one. For
 * those that cannot use one, a connection to the engine waits, and one to the egress service.
 * Called by run-pool.c and by whoever connects; knows no runs. */
#pragma once

#include "broker/interpreter.h"
#include "broker/manager.h"
#include "broker/sandbox.h"

struct pool;

int pool_new(struct manager *manager, struct pool **ret);
/* Ends all that wait. */
struct pool *pool_free(struct pool *pool);

/* A run is about to start like this: keeps sandboxes of its kind from now on, for KeepTime= after
 * the last such run. The kind is all of @start but its ids and its lifetime. @model is that of the
 * run's interpreter, if one like it may wait for others, else NULL. */
void pool_note(struct pool *pool, const char *engine, const struct engine_start *start,
               const struct interpreter_command *model);

struct pool_taken {
    struct sandbox *sandbox; /* NULL: there was none; the rest says nothing then */
    /* NULL if it is still being made: then it will say that it is ready, or not. Else valid until
     * the event loop is back. */
    const struct engine_ready *ready;
    struct interpreter interpreter;
    const struct interpreter_command *command; /* of that; as valid as ready */
};
/* Gives a waiting sandbox of that kind away, which must live at least as long as @start asks for;
 * its events go to @fn from here on. */
struct pool_taken pool_take(struct pool *pool, const char *engine, const struct engine_start *start,
                            sandbox_fn fn, void *userdata);
/* A connection to an engine of this machine, or to the egress service, the one that waits if it is
 * to that: the caller's from here on. Another one will wait for as long as sandboxes would. Returns
 * it or a negative errno, see sandbox_connect(). */
int pool_connect_engine(struct pool *pool, const char *engine);
int pool_connect_egress(struct pool *pool);
/* Makes what is missing, when the event loop has nothing else to do. */
void pool_fill_later(struct pool *pool);
/* Ends the sandboxes of an engine, or all (NULL); the kinds stay. */
void pool_empty(struct pool *pool, const char *engine);
/* Ends all that wait if the memory that they were promised is more than runs leave over. */
void pool_make_room(struct pool *pool);
/* Whether something waits, or is to: the broker stays then. */
bool pool_is_held(const struct pool *pool);
