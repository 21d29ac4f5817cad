/* What a run consists of; for run*.c only. */
#pragma once

#include "broker/approve.h"
#include "broker/audit.h"
#include "broker/egress.h"
#include "broker/interpreter.h"
#include "broker/layer-key.h"
#include "broker/manager.h"
#include "broker/network-use.h"
#include "broker/outcome.h"
#include "broker/run.h"
#include "broker/sandbox.h"
#include "broker/stream.h"

/* The engine's own hard end comes so much after ours. In a cloud it costs money until then. */
#define RUN_LIFETIME_MARGIN_USEC (60 * UINT64_C(1000000))
/* So long the engine's last word may take, after the grace period. */
#define RUN_ENDING_USEC (5 * UINT64_C(1000000))
/* For files on their way to a cloud, while the sandbox's life is renewed. */
#define RUN_UPLOAD_USEC (10 * 60 * UINT64_C(1000000))

enum run_state {
    STATE_AUTHORIZING, /* polkit is asked */
    STATE_WAITING,     /* in the queue */
    STATE_INSTALLING,  /* its packages are, or those of another run that it needs, too */
    STATE_PREPARING,   /* the engine makes the sandbox */
    STATE_FILLING,     /* script and inputs are put */
    STATE_GOING,       /* the program runs */
    STATE_ENDING,      /* the engine was told to end it */
    STATE_DRAINING,    /* the sandbox is gone, its last output is read */
    STATE_SAVING,      /* the store collects and publishes */
    STATE_REPORTING,   /* the caller still reads its output */
};

struct run {
    struct manager *manager;
    struct run *previous, *next;

    char id[RUN_ID_TEXT];
    enum run_state state;
    struct queue_item item;
    uint64_t told_position; /* in the queue, that callers know of; UINT64_MAX: none */
    uid_t uid;
    gid_t gid;
    pid_t pid;
    char *user, *session, *unit; /* of the caller; NULL: none or not known */
    struct request request;
    struct plan plan;
    struct varlink_call *call; /* NULL once the caller is gone or was answered */

    /* No record so far, because the user had enough of them (audit-quota.h): they are made up for
     * if the run starts. */
    bool held_back;
    struct {
        unsigned approvals;
        const char *action, *decision;
    } held_decision; /* if there is one */
    struct approving *approving;
    struct layer_claim *claim; /* of its packages, until its sandbox is gone */
    struct sandbox *sandbox;
    bool from_pool;                 /* it is */
    bool warm;                      /* and was ready when it was taken */
    bool is_second_try;             /* the engine went away once */
    struct interpreter interpreter; /* that waits in it for the run; or none */
    bool interpreter_warm;          /* and was used */
    struct egress *egress;          /* until its last word; NULL for a run without a network */
    bool network_ready;
    struct network_use network;
    struct store_job *job;
    struct stream *streams[2]; /* stdout, stderr */
    sd_event_source *timer;

    int staging;                /* directory fd of staging/<id>; -1: not made */
    int kept[2];                /* stdout and stderr files in it */
    int record;                 /* run.json; -1: not made */
    struct store_input *inputs; /* as put: the script, then request.inputs */
    size_t n_put;               /* of them are done */
    bool is_put_ahead;          /* the script is on its way before the run is filled */

    uint64_t asked_usec, go_usec, end_usec; /* CLOCK_BOOTTIME; 0: not yet */
    uint64_t created_realtime, started_realtime, ended_realtime;
    char sandbox_id[ENGINE_TEXT_MAX + 1], image[ENGINE_TEXT_MAX + 1],
        image_digest[ENGINE_TEXT_MAX + 1];
    struct {
        bool is_taken;               /* of the budget: the whole life of a sandbox */
        uint64_t taken_usec;         /* with what the sending of its files took */
        bool goes;                   /* the program's clock runs; until then its files are sent */
        uint64_t day;                /* that it was taken of */
        uint64_t from_usec, to_usec; /* that there was a sandbox; CLOCK_BOOTTIME; 0: not yet */
    } cloud;
    char layer[LAYER_KEY_LENGTH + 1];      /* empty: none */
    char layer_image[ENGINE_TEXT_MAX + 1]; /* digest of the image that it was made for; or empty */
    json_object *resolved;                 /* packages in it: name, version and hash each */
    struct facts facts;
    struct outcome outcome;
    json_object *collected; /* the store's word on the outputs */
    bool is_collected;      /* it came, or was an error */
    int collect_error;
    json_object *result; /* the final one */
    bool noted;          /* the final result is in the index */
    bool published;

    /* run-stored.c */
    bool stored;     /* all that it needs to outlive this process is kept */
    unsigned pushed; /* what of it, a bit for each enum run_stored_role */
    bool is_over;    /* it was, when it was restored */
    int live;        /* memfd of struct run_live; -1: none */
};

/* run-result.c: the result object as far as it is known. A new reference, or NULL out of memory. */
json_object *run_result(const struct run *run, enum run_status status);

/* run-audit.c: the records of a run. 0, or a negative errno if nobody took the record. A run that
 * ends before its start may leave none, one that starts leaves all; @action and @decision must be
 * static. */
int run_audit_request(struct run *run);
/* @action: the one that decided, or NULL. */
int run_audit_decision(struct run *run, unsigned approvals, const char *action,
                       const char *decision);
int run_audit_start(struct run *run);
int run_audit_end(struct run *run);
int run_audit_saved(struct run *run, int error);
/* A connection that is over. */
int run_audit_connection(struct run *run, const struct egress_connection *connection);
/* What concerns all connections: @verdict is "lost" or "unrecorded"; @rule may be NULL. */
int run_audit_network(struct run *run, const char *verdict, const char *rule);
/* What became of its packages. */
struct run_packages_record {
    const char *key;       /* of the layer; may be NULL */
    json_object *resolved; /* may be NULL */
    const char *outcome;   /* "installed", "found", or what went wrong */
    uint64_t bytes, usec;
};
int run_audit_packages(struct run *run, const struct run_packages_record *packages);
int run_audit_cleanup(struct run *run, bool cleaned);
/* The same in two steps: the run need not be there any more for the second one. */
void run_audit_begin_cleanup(struct run *run, struct audit_record *ret);
int run_audit_end_cleanup(struct audit *audit, struct audit_record *record, bool cleaned);

/* run.c */
/* A run that nobody knows yet; takes over @request and @plan, also on failure. @id NULL: a new one.
 * NULL out of memory. */
struct run *run_new(struct manager *manager, const char *id, struct request *request,
                    struct plan *plan);
void run_forget(struct run *run); /* frees it without a word */
void run_arm(struct run *run, uint64_t usec, sd_event_time_handler_t fn); /* 0: no timer */
/* Answers with an error, before anything ran, and frees the run. @fields is consumed; a "reason" in
 * it is the error's. */
void run_refuse(struct run *run, enum run_status status, const char *error, json_object *fields,
                const char *reason);
/* Notes the final result in the index. 0 or a negative errno. */
int run_note_final(struct run *run);
/* Everything is saved, or could not be: record, report, free. */
void run_conclude(struct run *run);
void run_notify(struct run *run, const char *event, json_object *more, const int *fds,
                size_t n_fds);

/* In the index: when a run is taken, so that a later broker knows of it, when a sandbox elsewhere
 * is asked for, and when it is over. Returns 0 or a negative errno. */
int run_note(struct run *run, enum run_status status);
void run_enqueue(struct run *run); /* from AUTHORIZING to WAITING */
void run_stream_changed(void *userdata);

/* run-queue.c */
bool run_enter_queue(struct run *run); /* false if the run was refused, and freed */
void run_line_up(struct run *run);
void run_needs_less(struct run *run);    /* no packages are to be installed any more */
void run_holds_nothing(struct run *run); /* its files are where they belong */
void run_leave_queue(struct run *run);   /* its sandbox and its files in memory are gone */

/* run-quota.c: what finds no room for results refuses the run. */
void run_find_room(struct run *run); /* to run_approve() */
bool run_has_room(struct run *run);  /* false if the run was refused, and freed */

int run_queue_again(struct run *run);   /* of an earlier process; 0 or a negative errno */
int run_queue_running(struct run *run); /* the same */

/* run-stored.c */
void run_store_waiting(struct run *run);
void run_store_going(struct run *run); /* from here on it waits no more */
void run_note_live(struct run *run);   /* something of struct run_live changed */
void run_unstore(struct run *run);     /* it is over */
bool run_outlives_us(const struct run *run);

/* run-approval.c */
void run_approve(struct run *run);

/* run-engine.c: the refusals of run_refuse() because of the engine. @hint may be NULL. */
void run_refuse_engine(struct run *run, const char *reason, const char *hint);
/* The engine said itself what is wrong. In its phase "engine" it can be used for no run at all. */
void run_refuse_failed(struct run *run, const struct engine_error *error);
/* No sandbox_new(): @error is what it returned. */
void run_refuse_no_engine(struct run *run, int error);
/* @what tells what the engine did: "went away". */
__attribute__((format(printf, 2, 3))) void run_blame_engine(struct run *run, const char *what, ...);
/* What was wrong with an engine's message. */
const char *run_engine_error_text(int error);

/* run-sandbox.c */
void run_start(struct run *run);   /* from WAITING to run_install() or run_prepare() */
void run_prepare(struct run *run); /* to GOING */
void run_note_ready(struct run *run, const struct engine_ready *message);
/* What an engine is asked for; without a layer. */
void run_describe_sandbox(const struct run *run, struct engine_start *ret);
/* Of a run that goes, for run-restore-going.c; takes the descriptors over. 0 or a negative errno.
 */
int run_restore_sandbox(struct run *run, const int descriptors[3]);

/* run-fill.c */
/* Into a sandbox that is ready already: so that it lies there when the rest is done. */
void run_put_ahead(struct run *run);
/* Puts the next file: the script first, then the inputs; after the last one the program goes. */
void run_put_next(struct run *run);
void run_put_done(struct run *run, const struct launch_put_done *done);
/* Nothing keeps it from going but a network that is not ready. */
bool run_is_filled(const struct run *run);

/* run-go.c */
void run_go_if_filled(struct run *run); /* to GOING */
uint64_t run_now(struct run *run);      /* of the loop; CLOCK_BOOTTIME */
/* A cloud's words on its program, whose clock they begin and end; nothing for others. */
void run_program_begins(struct run *run);
void run_program_over(struct run *run);
void run_go_on(struct run *run); /* for run-restore.c: where it was */

/* run-streams.c */
/* Make what connects the program with the caller: its own ends, and the caller's if it wants
 * descriptors. @which: 0 is stdout, 1 stderr. Return 0 or a negative errno; then the descriptors
 * made so far are the caller's to close. */
int run_make_stdin(struct run *run, int *ret_program, int *ret_caller);
int run_make_stream(struct run *run, size_t which, int *ret_program, int *ret_caller);
/* Of a run that goes, for run-restore-going.c; takes the descriptors over. 0 or a negative errno.
 */
int run_restore_streams(struct run *run, int out, int err, const uint64_t bytes[2]);

/* run-end.c */
/* From INSTALLING, PREPARING, FILLING or GOING to ENDING. */
void run_end(struct run *run, uint64_t grace_usec);
/* The engine's last word is to come after @usec at the latest, and a while. */
void run_await_end(struct run *run, uint64_t usec);
/* The sandbox is gone: to DRAINING, or the end of a run whose program did not go. */
void run_sandbox_over(struct run *run);

/* run-pool.c */
/* Takes a sandbox that waits, if one fits; from_pool and warm tell. */
void run_pool_take(struct run *run, sandbox_fn fn);
/* A sandbox from the pool is no good: starts over with one of the run's own. False if it is none,
 * or the program went. */
bool run_pool_replace(struct run *run);

/* run-cloud.c; of a run elsewhere these do nothing. */
bool run_cloud_take(struct run *run); /* false if the run was refused, and freed */
bool run_cloud_take_more(struct run *run, uint64_t usec); /* false: the day has no more */
void run_cloud_over(struct run *run);                     /* its sandbox is gone */
uint64_t run_cloud_usec(const struct run *run);           /* UINT64_MAX: there was none */
void run_cloud_settle(struct run *run);
/* run-packages.c */
void run_install(struct run *run); /* to run_prepare(), with a layer */
void run_add_layer(const struct run *run, struct engine_start *start);
/* Whether the sandbox that was made is of the image that the layer was made for. */
bool run_layer_fits(const struct run *run);

/* run-network.c; what it refuses is freed. */
bool run_network_connect(struct run *run); /* false if the run was refused */
/* The launcher's answer: hands the socket on. False if the run was refused. */
bool run_network_start(struct run *run, int error, int listener);
bool run_network_is_ready(const struct run *run); /* to go; also if there is none */
void run_network_refuse_silent(struct run *run);
void run_network_finish(struct run *run); /* the sandbox is over; ends in run_stream_changed() */
void run_network_give_up(struct run *run);
/* Of a run that goes, for run-restore-going.c; takes the descriptor over. 0 or a negative errno. */
int run_restore_network(struct run *run, int egress);

/* run-save.c */
int run_make_staging(struct run *run);
void run_remove_staging(struct run *run);
/* Makes run.json while nobody waits for it; without that it is made when it is written. */
void run_make_record(struct run *run);
/* Begins to save the outputs, while the sandbox is being ended: nothing in it changes them any
 * more. */
void run_collect(struct run *run);
void run_save(struct run *run); /* from DRAINING to run_conclude() */
