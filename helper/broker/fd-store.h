/* Descriptors that outlive this process: the service manager keeps them for the next one
 * (FileDescriptorStoreMax=, sd_notify(3)). While it has one, its other end sees no end of file: so
 * only what is to go on without us is given to it, and taken away as soon as that is over. Never
 * waits: what the manager does not take at once is not kept, and what it is not told at once to
 * forget is told again. Its socket takes datagrams of everybody, so anybody can keep it full. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct fd_store;

/* Keeps @fds, which stay the caller's, under @name (printable, no colon). Returns 0 or a negative
 * errno: -ENOTCONN without a service manager. */
int fd_store_push(const char *name, const int *fds, size_t n);
/* Returns 0, or -EAGAIN if that is left to fd_store_retry(). */
int fd_store_remove(const char *name);
/* Returns whether nothing is left. */
bool fd_store_retry(void);

/* Takes what this process was started with, listening sockets among it. Returns 0 or a negative
 * errno. */
int fd_store_open(struct fd_store **ret);
/* Closes what nobody took. */
struct fd_store *fd_store_free(struct fd_store *store);
size_t fd_store_size(const struct fd_store *store);
/* Borrowed; of one that was taken, too. */
const char *fd_store_name(const struct fd_store *store, size_t i);
/* The @i-th; or the first of that name, which nobody took. Returns the fd, the caller's from here
 * on, or -1. */
int fd_store_take(struct fd_store *store, size_t i);
int fd_store_take_named(struct fd_store *store, const char *name);
