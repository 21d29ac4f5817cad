/* The store process itself: takes jobs from the broker and gives each a child. Called by
 * store_fork(). */
#pragma once

#include <stdnoreturn.h>
#include <sys/types.h>

/* Jobs that run at once, in all and of one caller. A job that waits for store_publish() counts. */
#define STORE_RUNNING_MAX 16
#define STORE_RUNNING_USER_MAX 4
/* Jobs that wait for their turn, in all, and of one caller such as only ask; a further one is
 * answered with -EBUSY. */
#define STORE_WAITING_MAX 256
#define STORE_ASKING_USER_MAX 64

/* Serves @sock with @state, the state directory, until its end of file. @parent is the broker. */
noreturn void store_process(int sock, int state, pid_t parent);
