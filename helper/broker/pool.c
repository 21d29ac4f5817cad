/* The sandboxes that wait, see pool.h. */
#include "broker/pool.h"
#include "broker/egress.h"
#include "broker/memory.h"
#include "broker/run-pool.h"
#include "broker/socket.h"
#include "broker/spare.h"
#include "common/cleanup.h"
#include "common/clock.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

/* Kinds of sandboxes at once; the one that was not used for longest goes. */
#define KINDS_MAX 4
#define WORKSPACE "/workspace"
/* How often it is looked whether something is too old, or memory short. */
#define TICK_USEC (5 * USEC_PER_SEC)

struct member {
    struct kind *kind;
    struct member *next;
    struct sandbox *sandbox;
    bool is_ready;
    struct engine_ready ready;
    struct interpreter interpreter;
    struct interpreter_command command; /* of that */
    uint64_t born_usec, lifetime_usec;  /* CLOCK_MONOTONIC; from then on */
};

struct kind {
    struct pool *pool; /* NULL: not in use */
    char engine[64 + 1];
    struct engine_start start;
    struct interpreter_command command; /* of those that get ready from now on */
    uint64_t used_usec;
    uint64_t wanted;        /* 1 at first, and one more with each run that found none */
    bool failed;            /* not again before the next run of this kind */
    struct member *members; /* oldest first */
};

struct pool {
    struct manager *manager;
    struct kind kinds[KINDS_MAX];
    struct spare engine, egress;
    sd_event_source *tick, *later;
    /* Of the last one that was taken. */
    struct engine_ready ready;
    struct interpreter_command command;
};

static bool is_kind(const struct kind *kind, const char *engine, const struct engine_start *start)
{
    const struct engine_start *own = &kind->start;

    return kind->pool && strcmp(kind->engine, engine) == 0 &&
           strcmp(own->image, start->image) == 0 && strcmp(own->layer, start->layer) == 0 &&
           own->layer_target == start->layer_target && strcmp(own->wheels, start->wheels) == 0 &&
           own->cpu_percent == start->cpu_percent && own->tasks == start->tasks &&
           own->workspace_inodes == start->workspace_inodes &&
           own->memory_bytes == start->memory_bytes &&
           own->workspace_bytes == start->workspace_bytes &&
           own->scratch_bytes == start->scratch_bytes && own->network == start->network &&
           strcmp(own->hosts, start->hosts) == 0;
}

static struct kind *find_kind(struct pool *pool, const char *engine,
                              const struct engine_start *start)
{
    for (size_t i = 0; i < KINDS_MAX; i++)
        if (is_kind(&pool->kinds[i], engine, start))
            return &pool->kinds[i];
    return NULL;
}

static void unlink_member(struct member *member)
{
    struct member **at = &member->kind->members;

    while (*at != member)
        at = &(*at)->next;
    *at = member->next;
}

static void member_free(struct member *member)
{
    unlink_member(member);
    sandbox_free(member->sandbox);
    interpreter_close(&member->interpreter);
    interpreter_release_command(&member->command);
    free(member);
}

static void empty_kind(struct kind *kind)
{
    while (kind->members)
        member_free(kind->members);
}

static void forget_kind(struct kind *kind)
{
    empty_kind(kind);
    interpreter_release_command(&kind->command);
    *kind = (struct kind){ 0 };
}

static uint64_t count(const struct kind *kind)
{
    uint64_t n = 0;

    for (const struct member *member = kind->members; member; member = member->next)
        n++;
    return n;
}

/* ---- making */

static void fail(struct member *member, const char *why)
{
    struct kind *kind = member->kind;

    fprintf(stderr, SD_WARNING "engine %s made no sandbox in advance: %s\n", kind->engine, why);
    kind->failed = true;
    member_free(member);
}

/* Without one it is a good sandbox, too. */
static void add_interpreter(struct member *member)
{
    struct kind *kind = member->kind;

    if (!kind->command.argv || interpreter_copy_command(&kind->command, &member->command) < 0)
        return;
    (void)interpreter_start(member->sandbox, &member->command, WORKSPACE, &member->interpreter);
}

/* A sandbox that waits says nothing but that it is ready. */
static void on_sandbox(const struct sandbox_event *event, void *userdata)
{
    struct member *member = userdata;

    switch (event->type) {
    case SANDBOX_PROGRESS:
        break;
    case SANDBOX_READY:
        member->ready = *event->ready;
        member->is_ready = true;
        add_interpreter(member);
        pool_fill_later(member->kind->pool);
        break;
    case SANDBOX_FAILED:
        fail(member, event->failed->message);
        break;
    case SANDBOX_LISTENING:
    case SANDBOX_PUT_DONE:
    case SANDBOX_EXITED:
    case SANDBOX_LAUNCHER_GONE:
    case SANDBOX_ENDED:
    case SANDBOX_ENGINE_GONE:
    default:
        fail(member, "it ended");
        break;
    }
}

/* The sandbox's own id: it is nobody's so far. Longer than a run's, so that it is never one. */
static int make_id(char ret[ENGINE_RUN_ID_MAX + 1])
{
    uint64_t random[2];

    if (getrandom(random, sizeof(random), 0) != sizeof(random))
        return -errno;
    snprintf(ret, ENGINE_RUN_ID_MAX + 1, "%016" PRIx64 "%016" PRIx64, random[0], random[1]);
    return 0;
}

/* It waits for as long as it may, and then has the time of a run. */
static void add_member(struct kind *kind)
{
    struct member *member = calloc(1, sizeof(*member)), **end = &kind->members;
    struct engine_start start = kind->start;
    int r = member ? make_id(start.run_id) : -ENOMEM;

    start.lifetime_usec += kind->pool->manager->config.pool_keep_usec;
    if (r >= 0) {
        member->kind = kind;
        member->interpreter = (struct interpreter)INTERPRETER_NONE;
        member->born_usec = clock_now();
        member->lifetime_usec = start.lifetime_usec;
        r = sandbox_new(kind->pool->manager->event, sandbox_connect(kind->engine), &start,
                        on_sandbox, member, &member->sandbox);
    }
    if (r < 0) {
        kind->failed = true;
        free(member);
        return;
    }
    while (*end)
        end = &(*end)->next;
    *end = member;
}

/* ---- keeping */

static bool is_short_of_memory(const struct kind *kind)
{
    return memory_is_short(MEMORY_DIRECTORY, kind->start.memory_bytes);
}

/* What all that wait may use at most. */
static uint64_t promised_bytes(const struct pool *pool)
{
    uint64_t bytes = 0;

    for (size_t i = 0; i < KINDS_MAX; i++)
        bytes += count(&pool->kinds[i]) * pool->kinds[i].start.memory_bytes;
    return bytes;
}

/* What waits is promised its memory as runs are, but gives way to them. */
static bool has_room(const struct pool *pool, uint64_t more_bytes)
{
    const struct queue *queue = &pool->manager->queue;

    return queue->memory_bytes + promised_bytes(pool) + more_bytes <= queue->limits.memory_bytes;
}

/* Removes what waits in vain. Returns whether the kind is still of use. */
static bool review(struct kind *kind)
{
    uint64_t keep = kind->pool->manager->config.pool_keep_usec, time = clock_now();

    if (time - kind->used_usec >= keep) {
        forget_kind(kind);
        return false;
    }
    if (kind->members && is_short_of_memory(kind))
        empty_kind(kind);
    for (struct member *member = kind->members, *next; member; member = next) {
        next = member->next;
        if (time - member->born_usec < keep)
            continue;
        member_free(member);
        kind->wanted = kind->wanted > 1 ? kind->wanted - 1 : 1;
    }
    return true;
}

static void fill(struct pool *pool);

/* Fills it, or gives up what nobody came for: then nothing may be left that the helper stays for.
 */
static void look(struct pool *pool)
{
    fill(pool);
    manager_pool_changed(pool->manager);
}

static int on_tick(sd_event_source *source, uint64_t usec, void *userdata)
{
    look(userdata);
    return 0;
}

static void arm(struct pool *pool)
{
    uint64_t keep = pool->manager->config.pool_keep_usec;

    pool->tick = sd_event_source_disable_unref(pool->tick);
    if (pool_is_held(pool))
        (void)sd_event_add_time_relative(pool->manager->event, &pool->tick, CLOCK_MONOTONIC,
                                         keep < TICK_USEC ? keep : TICK_USEC, 0, on_tick, pool);
}

static void fill_spare(struct pool *pool, struct spare *spare, bool may)
{
    if (clock_now() - spare->used_usec >= pool->manager->config.pool_keep_usec)
        spare_forget(spare);
    else if (may)
        spare_fill(spare);
}

static void fill(struct pool *pool)
{
    bool may = !pool->manager->stopping && run_pool_may_fill(pool->manager);

    for (size_t i = 0; i < KINDS_MAX; i++) {
        struct kind *kind = &pool->kinds[i];

        if (!kind->pool || !review(kind) || !may)
            continue;
        if (count(kind) >= kind->wanted || kind->failed ||
            !has_room(pool, kind->start.memory_bytes) || is_short_of_memory(kind))
            continue;
        add_member(kind);
    }
    fill_spare(pool, &pool->engine, may);
    fill_spare(pool, &pool->egress, may);
    if (may && pool_is_held(pool))
        staging_prepare(&pool->manager->staging);
    arm(pool);
}

static int on_later(sd_event_source *source, void *userdata)
{
    look(userdata);
    return 0;
}

void pool_fill_later(struct pool *pool)
{
    if (pool_is_held(pool) && pool->later)
        (void)sd_event_source_set_enabled(pool->later, SD_EVENT_ONESHOT);
}

void pool_empty(struct pool *pool, const char *engine)
{
    for (size_t i = 0; i < KINDS_MAX; i++)
        if (pool->kinds[i].pool && (!engine || strcmp(pool->kinds[i].engine, engine) == 0))
            empty_kind(&pool->kinds[i]);
}

void pool_make_room(struct pool *pool)
{
    if (!has_room(pool, 0))
        pool_empty(pool, NULL);
}

bool pool_is_held(const struct pool *pool)
{
    for (size_t i = 0; i < KINDS_MAX; i++)
        if (pool->kinds[i].pool)
            return true;
    return pool->engine.path[0] != '\0' || pool->egress.path[0] != '\0';
}

/* ---- using */

static int connect_service(struct pool *pool, struct spare *spare, const char *path)
{
    int sock = spare_take(spare, path);

    if (pool->manager->config.pool_size > 0)
        spare_note(spare, path); /* for the next run */
    return sock >= 0 ? sock : socket_connect_root(path);
}

int pool_connect_engine(struct pool *pool, const char *engine)
{
    char path[SANDBOX_SOCKET_MAX + 1];
    int r = sandbox_socket(engine, path);

    return r < 0 ? r : connect_service(pool, &pool->engine, path);
}

int pool_connect_egress(struct pool *pool)
{
    return connect_service(pool, &pool->egress, EGRESS_SOCKET);
}

static struct kind *add_kind(struct pool *pool, const char *engine,
                             const struct engine_start *start)
{
    struct kind *kind = &pool->kinds[0];

    for (size_t i = 1; i < KINDS_MAX; i++)
        if (pool->kinds[i].used_usec < kind->used_usec)
            kind = &pool->kinds[i]; /* one that is not in use was used at 0 */
    forget_kind(kind);
    kind->pool = pool;
    snprintf(kind->engine, sizeof(kind->engine), "%s", engine);
    kind->start = *start;
    kind->start.owner_uid = (uint32_t)getuid();
    kind->wanted = 1;
    return kind;
}

void pool_note(struct pool *pool, const char *engine, const struct engine_start *start,
               const struct interpreter_command *model)
{
    struct kind *kind = find_kind(pool, engine, start);

    if (pool->manager->config.pool_size == 0)
        return;
    if (!kind)
        kind = add_kind(pool, engine, start);
    else if (!kind->members && kind->wanted < pool->manager->config.pool_size)
        kind->wanted++;
    kind->used_usec = clock_now();
    kind->failed = false;
    if (model && pool->manager->config.pool_interpreter)
        (void)interpreter_copy_command(model, &kind->command);
}

/* The first that is ready, else the first. One that has said anything more has ended; the event
 * loop did not come to it yet. */
static struct member *choose(struct kind *kind, uint64_t lifetime_usec)
{
    struct member *found = NULL;

    for (struct member *member = kind->members, *next; member; member = next) {
        next = member->next;
        if (member->is_ready && sandbox_has_word(member->sandbox)) {
            member_free(member);
            continue;
        }
        if (clock_now() - member->born_usec + lifetime_usec > member->lifetime_usec)
            continue;
        if (!found || (member->is_ready && !found->is_ready))
            found = member;
    }
    return found;
}

struct pool_taken pool_take(struct pool *pool, const char *engine, const struct engine_start *start,
                            sandbox_fn fn, void *userdata)
{
    struct kind *kind = find_kind(pool, engine, start);
    struct member *member = kind ? choose(kind, start->lifetime_usec) : NULL;
    struct pool_taken taken = { .interpreter = INTERPRETER_NONE };

    if (!member)
        return taken;
    interpreter_release_command(&pool->command);
    pool->ready = member->ready;
    pool->command = member->command;
    taken = (struct pool_taken){
        .sandbox = member->sandbox,
        .ready = member->is_ready ? &pool->ready : NULL,
        .interpreter = member->interpreter,
        .command = &pool->command,
    };
    /* They are the taker's now. */
    member->sandbox = NULL;
    member->interpreter = (struct interpreter)INTERPRETER_NONE;
    member->command = (struct interpreter_command){ 0 };
    member_free(member);
    sandbox_adopt(taken.sandbox, fn, userdata);
    return taken;
}

int pool_new(struct manager *manager, struct pool **ret)
{
    *ret = calloc(1, sizeof(**ret));
    if (!*ret)
        return -ENOMEM;
    (*ret)->manager = manager;
    (*ret)->engine = (*ret)->egress = SPARE_NONE;
    int r = sd_event_add_defer(manager->event, &(*ret)->later, on_later, *ret);
    r = r < 0 ? r : sd_event_source_set_enabled((*ret)->later, SD_EVENT_OFF);
    return r < 0 ? r : sd_event_source_set_priority((*ret)->later, SD_EVENT_PRIORITY_IDLE);
}

struct pool *pool_free(struct pool *pool)
{
    if (!pool)
        return NULL;
    sd_event_source_disable_unref(pool->tick);
    sd_event_source_disable_unref(pool->later);
    for (size_t i = 0; i < KINDS_MAX; i++)
        if (pool->kinds[i].pool)
            forget_kind(&pool->kinds[i]);
    spare_forget(&pool->engine);
    spare_forget(&pool->egress);
    interpreter_release_command(&pool->command);
    free(pool);
    return NULL;
}
