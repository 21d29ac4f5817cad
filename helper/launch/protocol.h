/* What the broker and sbxctl-launch say to each other over the control socket (SOCK_SEQPACKET): a
 * fixed struct, followed by NUL-separated strings where there are any. No JSON, so that the
 * launcher stays static and small. Both ends run on one machine and come from one build, hence
 * native byte order.
 *
 *   launcher → READY   once, with the workspace's directory fd
 *   broker   → PUT     name as string, fd to copy from;        launcher → PUT_DONE
 *   broker   → LISTEN  before the first GO;                    launcher → LISTENING
 *                      with a socket that listens on the sandbox's loopback
 *   broker   → WARM    as GO, once, before the first PUT; no answer:
 *                      the program waits for the file of its last argument
 *   broker   → RELEASE instead of GO, after that file was PUT, for the program
 *                      of WARM;                                launcher → EXITED
 *   broker   → GO      argv and environment as strings, fds stdin, stdout, stderr;
 *                                                              launcher → EXITED
 *   broker   → BYE     the launcher ends everything and exits
 *
 * What arrives from the launcher after GO is as untrusted as the program that runs. */
#pragma once

#include <stdint.h>

#define LAUNCH_PROTOCOL_VERSION 1

/* How the launcher ends, besides 0 and 1, when there is something in an image that lets no program
 * be safe in it: device nodes, or folders so deep that nobody can tell. */
#define LAUNCH_STATUS_NODES 77

/* Bytes of one packet at most: the strings of a GO (argv, environment, directory), its header. */
#define LAUNCH_STRINGS_MAX (32 * 1024)
#define LAUNCH_PACKET_MAX (LAUNCH_STRINGS_MAX + 256)
/* Strings of one GO at most. */
#define LAUNCH_ARGV_MAX 512
#define LAUNCH_ENV_MAX 256
/* Where the socket of LISTENING listens: on 127.0.0.1 of the sandbox's own network namespace. */
#define LAUNCH_LISTEN_PORT 3128
/* Bytes of a put's name at most: a plain path, as common/file.h has it. */
#define LAUNCH_NAME_MAX 1024

enum launch_type {
    LAUNCH_READY = 1,
    LAUNCH_PUT,
    LAUNCH_PUT_DONE,
    LAUNCH_GO,
    LAUNCH_EXITED,
    LAUNCH_BYE,
    LAUNCH_LISTEN,
    LAUNCH_LISTENING,
    LAUNCH_WARM,
    LAUNCH_RELEASE,
};

struct launch_header {
    uint32_t version; /* LAUNCH_PROTOCOL_VERSION */
    uint32_t type;    /* enum launch_type */
};

struct launch_ready {
    struct launch_header header;
    uint32_t uid; /* of the launcher and of everything it starts */
    uint32_t gid;
    uint32_t pid_namespace; /* 1 if the launcher is PID 1, and so reaps and ends leftovers itself */
    uint32_t reserved;
};

/* Followed by the name, NUL-terminated. Carries one fd, of which exactly @size bytes are copied.
 * Folders on the way to the name are made (0755); the name itself must not exist. */
struct launch_put {
    struct launch_header header;
    uint32_t mode; /* permission bits, at most 0777 */
    uint32_t reserved;
    uint64_t size;
};

/* The file's stat right after it was made: an entry that still looks exactly like this at the end
 * is an input that nobody changed. The mtime is set by the launcher to a time in the past, so that
 * a write within the same clock tick as the copy is seen too. */
struct launch_put_done {
    struct launch_header header;
    int32_t error; /* 0, or the positive errno of what failed */
    uint32_t reserved;
    uint64_t inode;
    uint64_t size;
    int64_t ctime_sec, ctime_nsec;
    int64_t mtime_sec, mtime_nsec;
};

/* The answer to a LISTEN, which is a header alone. Carries the listening socket unless there is an
 * error; the launcher keeps no copy of it. */
struct launch_listening {
    struct launch_header header;
    int32_t error; /* 0, or the positive errno of what failed */
    uint32_t reserved;
};

/* Also of a WARM; then the last argument is a file right in the working directory, which must be
 * the workspace, and the program reads that file from its beginning to its end, once. A GO ends
 * what waits. A RELEASE is a header alone.
 *
 * Followed by @n_argv + @n_env NUL-terminated strings and the working directory as the last one.
 * Carries exactly three fds. argv[0] is an absolute path, or a name that is looked up in the PATH
 * of the new environment. */
struct launch_go {
    struct launch_header header;
    uint32_t n_argv; /* 1 to LAUNCH_ARGV_MAX */
    uint32_t n_env;  /* 0 to LAUNCH_ENV_MAX */
};

enum launch_exit_kind {
    LAUNCH_EXIT_CODE = 1, /* value: exit status */
    LAUNCH_EXIT_SIGNAL,   /* value: signal number */
    LAUNCH_EXIT_EXEC,     /* value: errno; the program could not be started */
};

struct launch_exited {
    struct launch_header header;
    uint32_t kind; /* enum launch_exit_kind */
    int32_t value;
    uint64_t cpu_usec;      /* user and system time of the program and what it waited for */
    uint32_t leftovers;     /* killed, since they outlived the program (PID namespace only) */
    uint32_t scratch_files; /* that lie in /tmp, where nothing is kept */
    uint64_t file_bytes;    /* of memory that workspace and scratch hold as files */
    uint32_t scratch_full;  /* 1 if /tmp or /dev/shm would have taken no byte or no file more */
    uint32_t alone;         /* 1 if nothing else lives in the sandbox (PID namespace only) */
};
