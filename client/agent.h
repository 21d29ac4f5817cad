/* polkit's textual agent: asks for approval on the terminal where no desktop does it. Called by
 * run.c and pull.c when an approval may be needed. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>
#include <termios.h>

struct agent {
    pid_t pid;       /* 0: none is running */
    bool is_the_one; /* that shows our dialogs, and not one of the desktop */
    bool has_attributes;
    struct termios attributes; /* of the terminal, before it */
};
#define AGENT_NULL \
    {              \
        .pid = 0   \
    }

/* Starts pkttyagent(1) for this process if there is a terminal, and waits until it has registered.
 * Without it, or where an agent of the session exists, nothing changes. */
void agent_start(struct agent *agent);
/* Ends it, if one was started, and leaves the terminal as it was before it. */
void agent_stop(struct agent *agent);
