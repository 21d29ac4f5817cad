/* The parts of sbxctl-launch: main.c starts launch.c, which is the process, parse.c understands
 * packets, put.c makes input files, warm.c keeps a program waiting, listen.c a listening socket,
 * nodes.c looks for devices, seccomp.c installs the filter, space.c measures what was left.
 * Included by these and their tests only. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "common/cleanup.h"
#include "protocol.h"

/* What a GO asks for. All strings lie in its packet. */
struct launch_program {
    char *argv[LAUNCH_ARGV_MAX + 1];
    char *env[LAUNCH_ENV_MAX + 1];
    const char *directory;
};

/* Read a whole packet of @size bytes, header and all, aligned as its struct. Return 0 or -EBADMSG;
 * @ret holds nothing of use then. A put's name is a string, and no more is known of it (put_file()
 * looks at it). */
int launch_parse_go(char *packet, size_t size, struct launch_program *ret);
int launch_parse_put(const char *packet, size_t size, const char **ret_name);

/* Makes the file @name below the directory @workspace with the first @size bytes of @source and the
 * permission bits @mode (at most 0777), and the folders on the way to it; the read position of
 * @source neither matters nor, where it can seek, moves. Returns 0 with the file's stat in @done,
 * or a negative errno: -EINVAL for a name that protocol.h forbids, -EEXIST, -EIO for a source that
 * is shorter, -ENOSPC, ...; no file is left then. */
int put_file(int workspace, const char *name, mode_t mode, int source, uint64_t size,
             struct launch_put_done *done);

/* Returns a socket that listens on LAUNCH_LISTEN_PORT of 127.0.0.1, or a negative errno. */
int listen_on_loopback(void);

/* Walks to the folder of @name, a plain path, making what is missing and following no link. Returns
 * its fd, with the last component in @ret_leaf, borrowed from @name; or a negative errno. */
int put_open_folder(int workspace, const char *name, const char **ret_leaf);

/* Installs the filters of seccomp-gen.c for this process and all it will start. Needs no_new_privs.
 * Returns 0 or a negative errno. */
int seccomp_install(void);

/* Looks through the file system at @root, without what is mounted on it. Returns 0 if there is no
 * device node in it, -ENXIO if there is one, or another negative errno if that cannot be told. */
int nodes_search(const char *root);

/* Fills in file_bytes, scratch_files and scratch_full; what cannot be measured is 0. */
void space_measure(int workspace, struct launch_exited *exited);

/* Forks and waits until the program runs. Returns its pid; what kept it from running is left in
 * @ret_error as a positive errno, and the pid is 0 then. Returns a negative errno if this process
 * is the one in trouble. */
pid_t launch_start(const struct launch_program *program, const int stdio[3], int *ret_error);

/* Starts the program of a WARM, which waits for its script; takes the @fds. Returns 0 or a negative
 * errno. */
int warm_begin(int workspace, const char *packet, size_t size, int fds[3]);
/* Ends it, if there is one, and leaves no trace of it in the workspace. */
void warm_end(int workspace);
/* Waits until it is gone, in a child that is about to become another program. */
void warm_await_end(void);
/* To be told of each process that ended. */
void warm_reaped(pid_t pid);
/* To be told of each file before it is made. */
void warm_make_room(int workspace, const char *name);
/* Gives it its script, or starts it anew if that cannot be done without a difference. Returns as
 * launch_start(), or -EBADMSG if there is none. */
pid_t warm_release(int workspace, int *ret_error);

/* The launcher with the workspace @workspace; see launch.c. Returns or ends with the process's exit
 * status. */
int launch_main(const char *workspace, int argc, char *argv[]);
