/* The launcher's control socket, as it comes into a container: a socket in the engine's runtime
 * directory that is mounted there, and takes one connection, the launcher's. Called by sandbox.c
 * and sandbox-ready.c. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define CONTROL_PATH_MAX 108
#define CONTROL_CGROUP_MAX 256

struct control {
    int listener, sock;
    int launcher; /* pidfd of who connected, as is .pid */
    pid_t pid;
    char path[CONTROL_PATH_MAX]; /* empty: there is none */
};
#define CONTROL_NULL ((struct control){ .listener = -1, .sock = -1, .launcher = -1 })

/* Makes the socket in the directory that account_create() made for the connection below @runtime.
 * Returns 0 or a negative errno. */
int control_listen(struct control *control, const char *runtime, uint64_t connection);

/* Waits for somebody to connect. Returns 0 with .sock, .launcher and .pid; -ECANCELED if there is
 * something to read from @broker; -ETIMEDOUT; or another negative errno. */
int control_accept(struct control *control, int broker, uint64_t deadline_usec);
/* It was not the launcher: hangs up, so that the next one can be accepted. */
void control_turn_away(struct control *control);
/* It was: takes the socket out of the file system. */
void control_stop_listening(struct control *control);

/* The number of the network namespace in which @sock was made: of one that was accepted, that is
 * where its peer was when it made its end. Returns 0 or a negative errno, as before Linux 5.14. */
int control_network(int sock, uint64_t *ret);

/* Ends the conversation, and with it the launcher, whoever else has the socket. Returns whether
 * that one has ended within @timeout_usec, and so, since it is PID 1 in there, everything in the
 * container. */
bool control_hang_up(struct control *control, uint64_t timeout_usec);

void control_close(struct control *control);
/* Removes what is left of the socket of a connection that died. */
void control_remove(const char *runtime, uint64_t connection);

/* The path of the control group in which the process @pid is, below the hierarchy's root; empty if
 * it cannot be told. */
void control_cgroup(pid_t pid, char ret[CONTROL_CGROUP_MAX]);
