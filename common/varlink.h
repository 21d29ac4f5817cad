/* varlink over a unix stream socket: framing, the server and the client. The server is driven by an
 * sd-event loop and made for hostile callers; the client blocks. https://varlink.org, with
 * systemd's conventions for descriptors (reference: sd_varlink(3)). Never interprets what an
 * interface means.
 *
 * Limits of the server: message 1 MiB, depth 32, a message complete within 10 s of its first byte,
 * output buffered per connection 4 MiB, connections per user and in total. While a call is
 * unanswered the connection is not read, so pipelined calls are answered in order and nothing that
 * arrives later can touch a call. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <systemd/sd-event.h>

#include "common/json.h"
#include "common/peer.h"

#define VARLINK_MESSAGE_MAX (1024 * 1024)
#define VARLINK_OUTPUT_MAX (4 * 1024 * 1024)
#define VARLINK_MESSAGE_TIMEOUT_USEC (10 * 1000 * 1000ULL)
/* SCM_MAX_FD of the kernel (include/net/scm.h). */
#define VARLINK_FDS_MAX 253

#define VARLINK_ERROR_INTERFACE_NOT_FOUND "org.varlink.service.InterfaceNotFound"
#define VARLINK_ERROR_METHOD_NOT_FOUND "org.varlink.service.MethodNotFound"
#define VARLINK_ERROR_INVALID_PARAMETER "org.varlink.service.InvalidParameter"
#define VARLINK_ERROR_PERMISSION_DENIED "org.varlink.service.PermissionDenied"
#define VARLINK_ERROR_EXPECTED_MORE "org.varlink.service.ExpectedMore"

/* ---- Server ---- */

struct varlink_server;
struct varlink_call;

/* Handles a call. Either answers it (varlink_reply(), varlink_error()) before it returns, or keeps
 * a reference and answers later. A negative return answers with a generic error, if nothing was
 * answered, and closes; so does the last unref of a call that nobody answered. The generic error is
 * Failed(reason: string) of the method's own interface, which therefore should declare it. */
typedef int (*varlink_method_fn)(struct varlink_call *call, void *userdata);

enum varlink_method_flags {
    VARLINK_METHOD_TAKES_FDS = 1 << 0,     /* else a call that carries fds ends the connection */
    VARLINK_METHOD_REQUIRES_MORE = 1 << 1, /* else ExpectedMore is answered */
};

struct varlink_method {
    const char *name; /* without the interface */
    varlink_method_fn fn;
    enum varlink_method_flags flags;
};

struct varlink_interface {
    const char *name;
    const char *description; /* the interface text, embedded at build time */
    const struct varlink_method *methods;
    size_t n_methods;
};

struct varlink_server_options {
    const char *vendor, *product, *version, *url;
    unsigned connections_max;          /* in total */
    unsigned connections_per_user_max; /* per uid; further ones are closed without a word */
    void *userdata;                    /* for the methods */
    /* Called when the number of connections became 0 or left 0; for exit on idle. May be NULL. */
    void (*busy_changed)(bool busy, void *userdata);
    /* Called for every complete call that could not be dispatched and every connection ended for a
     * violation, so that it can be counted or logged; @why is a fixed sentence. May be NULL. */
    void (*refused)(const struct peer *peer, const char *why, void *userdata);
    uint64_t message_timeout_usec; /* from a message's first byte to its last; 0: the default */
};

/* org.varlink.service is implemented by the server itself. The interfaces and the strings in
 * @options are borrowed and must outlive it. Return 0 or a negative errno. varlink_server_unref()
 * closes all connections; calls still referenced stay valid, answers to them go nowhere. */
int varlink_server_new(sd_event *event, const struct varlink_server_options *options,
                       const struct varlink_interface *const *interfaces, size_t n_interfaces,
                       struct varlink_server **ret);
struct varlink_server *varlink_server_unref(struct varlink_server *server);
/* Listens on @fd, a listening stream socket, and owns it from here on (it is closed, never shut
 * down). */
int varlink_server_listen(struct varlink_server *server, int fd);
/* Serves one connected socket, and owns it (also on error, when it is closed). Returns 0, -EUSERS
 * above a limit of connections, or what peer_acquire() said. */
int varlink_server_add_connection(struct varlink_server *server, int fd);
unsigned varlink_server_connections(const struct varlink_server *server);

struct varlink_call *varlink_call_ref(struct varlink_call *call);
struct varlink_call *varlink_call_unref(struct varlink_call *call);

/* Borrowed; never NULL: an empty object if the call had none. */
json_object *varlink_call_parameters(const struct varlink_call *call);
const struct peer *varlink_call_peer(const struct varlink_call *call);
bool varlink_call_wants_more(const struct varlink_call *call);
bool varlink_call_is_oneway(const struct varlink_call *call);
/* False once it was answered finally or its connection is gone. */
bool varlink_call_is_open(const struct varlink_call *call);

/* Takes ownership of the @index-th descriptor of the call: >= 0, or -EINVAL if there is none or it
 * was taken. What nobody took is closed with the call. */
int varlink_call_take_fd(struct varlink_call *call, uint64_t index);
/* The same for a sealed memfd (memfd.h): -EPERM for any other descriptor, which stays with the
 * call. What a stranger passed and is no memfd must be closed by foreign_close(). */
int varlink_call_take_memfd(struct varlink_call *call, uint64_t index);
size_t varlink_call_n_fds(const struct varlink_call *call);

/* Answers. @parameters is consumed always and may be NULL for none. Return 0; -ENOTCONN if the
 * caller is gone or was answered already; -ENOBUFS if the caller does not read and the connection
 * was ended for it; -EBADE for a notify without "more". On a oneway call they succeed and send
 * nothing. @fds are duplicated into the message. */
int varlink_reply(struct varlink_call *call, json_object *parameters);
int varlink_notify(struct varlink_call *call, json_object *parameters, const int *fds,
                   size_t n_fds);
int varlink_error(struct varlink_call *call, const char *error, json_object *parameters);
int varlink_error_invalid_parameter(struct varlink_call *call, const char *field);

/* Bytes that wait to be sent to the caller. */
size_t varlink_call_pending_output(const struct varlink_call *call);
/* @fn is called once, from the event loop, when the caller hung up before the final answer. To have
 * hung up is to have closed the socket in both directions: a caller who only ended its own
 * direction, as one-shot clients do, still waits for the answer and gets it. */
void varlink_call_on_gone(struct varlink_call *call, void (*fn)(struct varlink_call *, void *),
                          void *userdata);
/* @fn is called whenever all waiting output was sent. */
void varlink_call_on_drained(struct varlink_call *call, void (*fn)(struct varlink_call *, void *),
                             void *userdata);

/* ---- Client ---- */

struct varlink_client;

struct varlink_answer {
    json_object *parameters; /* never NULL */
    char *error;             /* NULL for a good answer */
    bool continues;
    int fds[VARLINK_FDS_MAX];
    size_t n_fds;
};
/* Releases everything including descriptors that were not taken (taken ones are set to -1 by the
 * taker). */
void varlink_answer_release(struct varlink_answer *answer);

/* Connects to the socket at @path. Returns 0, or a negative errno (-ENOENT, -ECONNREFUSED, -EACCES,
 * …). */
int varlink_client_connect(const char *path, struct varlink_client **ret);
/* Speaks over the connected socket @fd and owns it. */
int varlink_client_new(int fd, struct varlink_client **ret);
struct varlink_client *varlink_client_free(struct varlink_client *client);
int varlink_client_fd(const struct varlink_client *client); /* borrowed, for poll() */

enum varlink_call_flags { VARLINK_CALL_MORE = 1 << 0, VARLINK_CALL_ONEWAY = 1 << 1 };

/* Sends a call; @parameters is consumed; @fds stay the caller's. Returns 0, or a negative errno:
 * -EBUSY while an earlier call waits for its final answer (the server would not read this one
 * before), -EPIPE or -ECONNRESET if the server is gone. Blocks while the socket is full. */
int varlink_client_send(struct varlink_client *client, const char *method, json_object *parameters,
                        enum varlink_call_flags flags, const int *fds, size_t n_fds);
/* Waits up to @timeout_usec (UINT64_MAX: for ever) for the next answer. Returns 1 with an answer to
 * be released; 0 on time-out; -ECONNRESET at end of file; -EBADMSG for what is not varlink; or a
 * negative errno. A call with timeout 0 returns what is there without waiting; with poll(), do that
 * until it returns 0, since one read can bring several answers. -ENODATA if no call waits for an
 * answer. */
int varlink_client_receive(struct varlink_client *client, uint64_t timeout_usec,
                           struct varlink_answer *ret);
