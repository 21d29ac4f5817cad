/* The egress protocol: what the broker and the egress process of one run say to each other, over a
 * SOCK_SEQPACKET connection to EGRESS_SOCKET. One JSON object per packet, at most 64 KiB, with a
 * "type" member. Unknown members are ignored, an unknown type ends the connection.
 *
 *   broker → start, with the listening socket of the sandbox
 *   egress → ready or error
 *   egress → connection, for each that is over, up to EGRESS_RECORDS_MAX of them
 *   broker → finish                      egress → finished (last word)
 *
 * End of file from the broker at any time: the process ends, and every connection with it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/host-pattern.h"
#include "common/ip-prefix.h"
#include "common/packet.h"

#define EGRESS_PROTOCOL_VERSION 1
#define EGRESS_PACKET_MAX (64 * 1024)
#define EGRESS_SOCKET "/run/sbxctl/egress"

#define EGRESS_RUN_ID_MAX 32 /* hex digits */
#define EGRESS_TEXT_MAX 512  /* bytes of a sentence */
#define EGRESS_NAME_MAX \
    255 /* bytes of a host's name; a malformed one is escaped, and cut to that */
#define EGRESS_RULE_MAX 300 /* bytes of a rule's words */
#define EGRESS_PORTS_MAX 64
#define EGRESS_CONNECTIONS_MAX 1024 /* most that may be allowed at once */
#define EGRESS_HOSTS_MAX 64         /* hosts in each list of finished */
#define EGRESS_RECORDS_ANY 200      /* connections of one run that are told one by one, */
/* and the first to each host in the list of those connected to: no noise hides a host. */
#define EGRESS_RECORDS_MAX (EGRESS_RECORDS_ANY + EGRESS_HOSTS_MAX)

enum egress_type {
    EGRESS_START,
    EGRESS_READY,
    EGRESS_ERROR,
    EGRESS_CONNECTION,
    EGRESS_FINISH,
    EGRESS_FINISHED,
};

struct egress_ports {
    uint16_t items[EGRESS_PORTS_MAX];
    size_t n;
};

struct egress_start {
    char run_id[EGRESS_RUN_ID_MAX + 1];
    struct host_list granted; /* none: whatever is allowed */
    struct host_list allowed_names, denied_names;
    struct ip_prefix_list allowed_addresses, denied_addresses;
    struct egress_ports ports;
    uint32_t connections; /* at once */
    uint64_t bytes;       /* both ways together, of the run */
    uint64_t idle_usec;   /* of a connection */
    /* fds on the packet: [0] the listening socket */
};

struct egress_error {
    char message[EGRESS_TEXT_MAX + 1];
};

enum egress_service { EGRESS_SERVICE_CONNECT, EGRESS_SERVICE_HTTP, EGRESS_SERVICE_SOCKS5 };

enum egress_verdict {
    EGRESS_ALLOWED, /* it was connected to */
    EGRESS_REFUSED, /* by .rule */
    EGRESS_FAILED,  /* to be resolved or connected to, or not a request at all; .rule says what */
};

/* A connection that is over. */
struct egress_connection {
    char name[EGRESS_NAME_MAX + 1];
    char address[INET6_ADDRSTRLEN]; /* empty: none was connected to, or refused */
    uint32_t port;
    enum egress_service service;
    enum egress_verdict verdict;
    char rule[EGRESS_RULE_MAX + 1];      /* also why an allowed one was ended: "Bytes=…" */
    uint64_t bytes_sent, bytes_received; /* as the sandbox sees it */
    uint64_t duration_usec;
};

/* A name and port, with all connections to them. */
struct egress_host {
    char name[EGRESS_NAME_MAX + 1];
    uint32_t port;
    uint64_t connections, bytes_sent, bytes_received;
    char rule[EGRESS_RULE_MAX + 1]; /* of the last one that was refused */
};

struct egress_finished {
    uint64_t connections; /* of any verdict */
    uint64_t refused, failed;
    uint64_t unrecorded; /* connections without a message of their own */
    uint64_t bytes_sent, bytes_received;
    struct egress_host *hosts; /* connected to */
    size_t n_hosts;
    struct egress_host *refused_hosts;
    size_t n_refused_hosts;
    bool more_hosts; /* than are listed */
};

struct egress_message {
    enum egress_type type;
    union {
        struct egress_start start;
        struct egress_error error;
        struct egress_connection connection;
        struct egress_finished finished;
    };
};

/* Frees what the message holds, not the message. */
void egress_message_release(struct egress_message *message);

/* Makes the packet's bytes of @message. Of a finished that does not fit, hosts are left out (and
 * more_hosts is set). Returns 0 with an allocated, NUL-terminated string in @ret and its length in
 * @ret_size, or -ENOMEM, or -EMSGSIZE. */
int egress_message_format(const struct egress_message *message, char **ret, size_t *ret_size);

/* Reads the bytes of a packet, which need not be terminated, into @ret, which is to be released
 * then. Returns 0; -EBADMSG for what is not a valid message; -EPROTONOSUPPORT for a type or a
 * version this build does not know; -ENOMEM. @ret is written on success only. */
int egress_message_parse(const char *data, size_t size, struct egress_message *ret);

/* Formats and sends; descriptors stay the caller's. Returns 0 or a negative errno, see
 * packet_send(). */
int egress_send(int sock, const struct egress_message *message, const int *fds, size_t n_fds);

/* Receives and parses. Returns 1 with a message (to be released) and the descriptors, 0 at end of
 * file, or a negative errno as of packet_recv() and egress_message_parse(); descriptors of a
 * refused packet are closed. */
int egress_recv(int sock, struct egress_message *ret, int fds[PACKET_FDS_MAX], size_t *ret_n_fds);

/* "connect", "http", "socks5"; "allowed", "refused", "failed": for audit records. */
const char *egress_service_name(enum egress_service service);
const char *egress_verdict_name(enum egress_verdict verdict);
