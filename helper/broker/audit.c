/* The audit trail, see audit.h. The native protocol of journald: one datagram per entry,
 * "FIELD=value" lines (https://systemd.io/JOURNAL_NATIVE_PROTOCOL/). Its other form, for values
 * with line ends, is never needed: there are none in an escaped value. */
#include "broker/audit.h"
#include "common/audit-ids.h"
#include "common/cleanup.h"
#include "common/escape.h"

#include <assert.h>
#include <inttypes.h>
#include <poll.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>

/* Notice, so that MaxLevelStore= of a usual journald.conf keeps it; authpriv, for those who forward
 * to syslog. */
#define COMMON_FIELDS "PRIORITY=5\nSYSLOG_FACILITY=10\nSYSLOG_IDENTIFIER=sbxctl-helper\n"

/* What waits for the journal together, at most; and how often it is asked, and for how long at the
 * end. */
#define LATE_MAX ((size_t)1024 * 1024)
#define RETRY_USEC (20 * 1000ULL)
#define LAST_MSEC 1000

/* A record that the journal has not taken yet. */
struct late {
    struct late *next;
    size_t size;
    char data[];
};

struct audit {
    int fd; /* connected, or -1 */
    struct sockaddr_un address;
    sd_event *event; /* NULL: nothing waits */
    sd_event_source *retry;
    struct late *first, **end; /* oldest first */
    size_t late_bytes;
};

struct audit_text {
    const char *id, *message;
};

static const struct audit_text texts[] = {
    [AUDIT_REQUEST] = { AUDIT_ID_REQUEST, "A run of code in a sandbox was asked for." },
    [AUDIT_DECISION] = { AUDIT_ID_DECISION, "It was decided about a run of code in a sandbox." },
    [AUDIT_REJECTED] = { AUDIT_ID_REJECTED, "A request to run code in a sandbox was rejected." },
    [AUDIT_START] = { AUDIT_ID_START, "A run of code in a sandbox starts." },
    [AUDIT_END] = { AUDIT_ID_END, "A run of code in a sandbox ended." },
    [AUDIT_SAVED] = { AUDIT_ID_SAVED, "The outputs of a run were given to its user." },
    [AUDIT_CLEANUP] = { AUDIT_ID_CLEANUP, "A sandbox or a kept run was removed." },
    [AUDIT_PULL] = { AUDIT_ID_PULL, "An image was asked for, to run code in later." },
    [AUDIT_CONNECTION] = { AUDIT_ID_CONNECTION,
                           "A sandbox connected to the network, or tried to." },
    [AUDIT_PACKAGES] = { AUDIT_ID_PACKAGES, "Packages were asked for, for a run of code in a "
                                            "sandbox." },
    [AUDIT_MARKED] = { AUDIT_ID_MARKED, "A person accepted or rejected the outcome of a run." },
    [AUDIT_SWEEP] = { AUDIT_ID_SWEEP, "What an earlier process left behind was looked for." },
    [AUDIT_HELD_BACK] = { AUDIT_ID_HELD_BACK, "Records of requests that came to nothing were left "
                                              "out." },
};

const char *audit_message_id(enum audit_event event)
{
    assert(event < ELEMENTS(texts));
    return texts[event].id;
}

/* ---- A record ---- */

static void append(struct audit_record *record, const char *prefix, const char *field,
                   const char *value)
{
    size_t room = sizeof(record->data) - record->size;

    if (record->error < 0)
        return;
    int n = snprintf(record->data + record->size, room, "%s%s=%s\n", prefix, field, value);
    if (n < 0 || (size_t)n >= room)
        record->error = -E2BIG;
    else
        record->size += (size_t)n;
}

void audit_record_init(struct audit_record *record, enum audit_event event)
{
    assert(event < ELEMENTS(texts));
    record->error = 0;
    record->size = sizeof(COMMON_FIELDS) - 1;
    memcpy(record->data, COMMON_FIELDS, sizeof(COMMON_FIELDS));
    append(record, "", "MESSAGE_ID", texts[event].id);
    append(record, "", "MESSAGE", texts[event].message);
}

/* journald drops a field of another form, or over 64 bytes, in silence and keeps the rest. */
static bool field_valid(const char *field)
{
    size_t n = strspn(field, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");

    return n > 0 && n <= 64 - strlen("SBXCTL_") && field[n] == '\0';
}

void audit_add(struct audit_record *record, const char *field, const char *value)
{
    assert(field_valid(field));
    if (!value || record->error < 0)
        return;
    _cleanup_free_ char *escaped = escape_text(value, strlen(value), AUDIT_VALUE_MAX);
    if (!escaped)
        record->error = -ENOMEM;
    else
        append(record, "SBXCTL_", field, escaped);
}

char *audit_user_name(uid_t uid)
{
    char buffer[2048];
    struct passwd entry, *found = NULL;

    return getpwuid_r(uid, &entry, buffer, sizeof(buffer), &found) == 0 && found
               ? strdup(found->pw_name)
               : NULL;
}

void audit_add_user(struct audit_record *record, uid_t uid)
{
    _cleanup_free_ char *name = audit_user_name(uid);

    audit_add_u64(record, "UID", uid);
    audit_add(record, "USER", name);
}

void audit_add_u64(struct audit_record *record, const char *field, uint64_t value)
{
    char text[32];

    assert(field_valid(field));
    snprintf(text, sizeof(text), "%" PRIu64, value);
    append(record, "SBXCTL_", field, text);
}

void audit_add_i64(struct audit_record *record, const char *field, int64_t value)
{
    char text[32];

    assert(field_valid(field));
    snprintf(text, sizeof(text), "%" PRId64, value);
    append(record, "SBXCTL_", field, text);
}

/* ---- The connection ---- */

/* Connects, or connects anew: a restarted journald has another socket under the same name. */
static int audit_connect(struct audit *audit)
{
    const struct sockaddr *address = (const struct sockaddr *)&audit->address;

    if (audit->fd < 0) {
        audit->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (audit->fd < 0)
            return -errno;
    }
    if (connect(audit->fd, address, sizeof(audit->address)) < 0) {
        int error = -errno;
        audit->fd = close_fd(audit->fd);
        return error;
    }
    return 0;
}

int audit_open(const char *socket_path, struct audit **ret)
{
    if (strlen(socket_path) >= sizeof(((struct sockaddr_un *)NULL)->sun_path))
        return -ENAMETOOLONG;
    struct audit *audit = calloc(1, sizeof(*audit));
    if (!audit)
        return -ENOMEM;
    audit->fd = -1;
    audit->end = &audit->first;
    audit->address.sun_family = AF_UNIX;
    strcpy(audit->address.sun_path, socket_path);
    *ret = audit;
    return 0;
}

static int send_once(struct audit *audit, const char *data, size_t size)
{
    ssize_t n;

    if (audit->fd < 0)
        return -ENOTCONN;
    do
        n = send(audit->fd, data, size, MSG_DONTWAIT | MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    /* A datagram goes as a whole or not at all. */
    return n < 0 ? -errno : 0;
}

static int send_data(struct audit *audit, const char *data, size_t size)
{
    int r = send_once(audit, data, size);

    if (r == -ENOTCONN || r == -ECONNREFUSED || r == -ECONNRESET || r == -ENOENT || r == -EPIPE) {
        r = audit_connect(audit);
        if (r == 0)
            r = send_once(audit, data, size);
    }
    return r;
}

int audit_send(struct audit *audit, struct audit_record *record)
{
    return record->error < 0 ? record->error : send_data(audit, record->data, record->size);
}

/* ---- What waits ---- */

/* Sends it, as far as it is taken. */
static void send_late(struct audit *audit)
{
    for (struct late *late; (late = audit->first);) {
        if (send_data(audit, late->data, late->size) == -EAGAIN)
            return;
        audit->first = late->next;
        audit->late_bytes -= late->size;
        free(late);
    }
    audit->end = &audit->first;
}

static int retry_soon(struct audit *audit);

static int on_retry(sd_event_source *source, uint64_t usec, void *userdata)
{
    struct audit *audit = userdata;

    audit->retry = sd_event_source_disable_unref(audit->retry);
    send_late(audit);
    if (audit->first)
        (void)retry_soon(audit);
    return 0;
}

static int retry_soon(struct audit *audit)
{
    return audit->retry ? 0
                        : sd_event_add_time_relative(audit->event, &audit->retry, CLOCK_MONOTONIC,
                                                     RETRY_USEC, 0, on_retry, audit);
}

static int keep(struct audit *audit, const struct audit_record *record)
{
    if (!audit->event || record->size > LATE_MAX - audit->late_bytes || retry_soon(audit) < 0)
        return -EAGAIN;
    struct late *late = malloc(sizeof(*late) + record->size);
    if (!late)
        return -ENOMEM;
    late->next = NULL;
    late->size = record->size;
    memcpy(late->data, record->data, record->size);
    *audit->end = late;
    audit->end = &late->next;
    audit->late_bytes += late->size;
    return 0;
}

int audit_tell(struct audit *audit, struct audit_record *record)
{
    int r = audit->first && record->error == 0 ? -EAGAIN : audit_send(audit, record);

    return r == -EAGAIN ? keep(audit, record) : r;
}

void audit_attach(struct audit *audit, sd_event *event)
{
    audit->event = sd_event_ref(event);
}

struct audit *audit_close(struct audit *audit)
{
    if (!audit)
        return NULL;
    send_late(audit);
    for (struct pollfd room = { .fd = audit->fd, .events = POLLOUT };
         audit->first && poll(&room, 1, LAST_MSEC) > 0;)
        send_late(audit);
    for (struct late *late; (late = audit->first); free(late))
        audit->first = late->next;
    sd_event_source_disable_unref(audit->retry);
    sd_event_unref(audit->event);
    close_fd(audit->fd);
    free(audit);
    return NULL;
}
