/* With which status sbxctl ends: the one table of it. */
#pragma once

struct result;

enum exit_status {
    EXIT_UNHEALTHY = 1,    /* sbxctl doctor found something that does not work */
    EXIT_USAGE = 64,       /* the command line was not understood */
    EXIT_UNREACHABLE = 69, /* the helper is not there */
    EXIT_TIMED_OUT = 124,
    EXIT_OURS = 125,      /* sbxctl, the helper or the engine failed, not the script */
    EXIT_DENIED = 126,    /* policy or polkit said no */
    EXIT_SIGNALLED = 128, /* and the number of the signal that ended the script */
    EXIT_INTERRUPTED = 130,
    EXIT_KILLED = 137,
};

/* The status for how a run ended: the script's own where it has one. */
int exit_status_of_result(const struct result *result);

/* The status for an error that the helper answered, by its full varlink name. */
int exit_status_of_error(const char *error);
