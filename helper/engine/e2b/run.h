/* One program in a cloud sandbox: its files up, its streams here and there, its files home. Called
 * by sandbox.c. */
#pragma once

#include "interpreter.h"
#include "launch/launch.h"
#include "sink.h"
#include "transfer.h"

struct run {
    struct cloud *cloud; /* borrowed, as are the next three */
    struct envd *envd;
    const struct cloud_sandbox *box;
    const char *template_id;
    struct transfer transfer;
    char folder[80]; /* of our own, in the sandbox */
    char directory[512];
    /* Of the program that runs. */
    struct http_watch *input_watch;
    struct sink sinks[2];
    struct http_watch *sink_watches[2];
    int input; /* -1: none that comes as it goes */
    bool has_input_file;
    uint32_t pid;
    struct http_transfer *running;
    struct shown shown;
    struct envd_result result;
    bool interpreted; /* by the code interpreter */
    bool fell;        /* the interpreter did, in the middle of it */
    bool went;        /* there was a program */
    bool collected;   /* its files were */
    struct transfer_report report;
};

/* Watches are added to the cloud's. */
void run_open(struct run *run, struct cloud *cloud, struct envd *envd,
              const struct cloud_sandbox *box, const char *template_id, const char *run_id);
void run_close(struct run *run);

enum run_end {
    RUN_SENT, /* and to go */
    RUN_EXITED,
    RUN_NOT_STARTED, /* this and the next with a sentence in the cloud's error */
    RUN_UNKNOWN,
    RUN_STOPPED, /* by a watch, or the deadline */
};

/* Sends the files for a program, whose descriptors it owns. RUN_SENT, _NOT_STARTED or _STOPPED. */
enum run_end run_send(struct run *run, const struct launch_program *program, const int stdio[3]);
/* It is not to go, for the reason in the cloud's error. RUN_NOT_STARTED. */
enum run_end run_give_up(struct run *run);
/* Runs it until its streams are written. Never RUN_SENT. */
enum run_end run_program(struct run *run, const struct launch_program *program);
/* After it exited: brings its files home, which the cloud's deadline may cut short, and tells how
 * it ended. Never RUN_NOT_STARTED. */
enum run_end run_come_home(struct run *run, struct launch_exited *ret);
/* Asks it to end, from within a watch of its own. Returns 0 or a negative errno; what comes of it
 * is seen by the program's end. */
int run_ask_to_end(struct run *run);
/* Whether there may be some that are not home yet. */
bool run_has_files(const struct run *run);
/* Ends it, and brings home what can be brought until the cloud's deadline. */
void run_rescue(struct run *run);
