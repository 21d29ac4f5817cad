/* Closing descriptors that strangers passed. close(2) asks the file's owner: a FUSE server of the
 * caller's, a dead network mount or a lingering socket can hold whoever closes for as long as it
 * likes, and not even SIGKILL helps (fs/fuse/dev.c, request_wait_answer()). So they are closed in a
 * thread each, and who has too many that do not end gets no more descriptors in. Called by the
 * varlink server, and by whoever takes a descriptor out of a call and does not want it. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

/* Threads for one user, and for all; what is more waits in line, open. */
#define FOREIGN_USER_MAX 32
#define FOREIGN_ALL_MAX 512

/* Closes @fd, which @owner passed, without ever waiting. A small memfd is closed at once. */
void foreign_close(int fd, uid_t owner);

/* Closes our end of a connection to @owner without ever waiting: descriptors that were sent and not
 * received are the last of theirs perhaps, and whoever closes the socket closes them. */
void foreign_close_socket(int fd, uid_t owner);

/* How many are still being closed. */
size_t foreign_pending(void);

/* Whether so many of @owner's, or of all, are being closed that no more may be received. */
bool foreign_overdue(uid_t owner);
