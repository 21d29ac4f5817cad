/* The audit trail: records in the journal by its native protocol, without blocking, so that
 * "recorded" is known and not hoped for (sd_journal_sendv() returns 0 when journald is not there,
 * and blocks when it is stuck). Called by the broker for every request, decision, start, end, save
 * and sweep. MESSAGE is fixed text; what comes from strangers stands in fields only, escaped and
 * capped. */
#pragma once

#include <stdint.h>
#include <stddef.h>
#include <sys/types.h>
#include <systemd/sd-event.h>

#define AUDIT_SOCKET "/run/systemd/journal/socket"
#define AUDIT_RECORD_MAX (64 * 1024)
#define AUDIT_VALUE_MAX 1024 /* bytes of one escaped value; longer ones end in "…" */

enum audit_event {
    AUDIT_REQUEST,
    AUDIT_DECISION,
    AUDIT_REJECTED, /* before there was a run: a rule of the interface or the configuration */
    AUDIT_START,
    AUDIT_END,
    AUDIT_SAVED,
    AUDIT_CLEANUP,
    AUDIT_SWEEP,
    AUDIT_HELD_BACK, /* audit-quota.h */
    AUDIT_PULL,
    AUDIT_CONNECTION,
    AUDIT_PACKAGES,
    AUDIT_MARKED, /* somebody said what the outcome of a run was worth */
};

struct audit; /* the connection to journald */

/* Prepares for journald at @socket_path. That nobody is there yet is no error here; audit_send()
 * tells. Returns 0, -ENAMETOOLONG or -ENOMEM. */
int audit_open(const char *socket_path, struct audit **ret);
/* What waits is sent first, if the journal takes it within a second. NULL is fine. */
struct audit *audit_close(struct audit *audit);
/* From here on records of audit_tell() may wait, in the loop. */
void audit_attach(struct audit *audit, sd_event *event);

/* A record being built. After an error of any add, sending fails with it; so adds need no check. */
struct audit_record {
    int error;
    size_t size;
    char data[AUDIT_RECORD_MAX];
};
void audit_record_init(struct audit_record *record, enum audit_event event);
/* @field without the SBXCTL_ prefix. The value is escaped to one printable line and capped; NULL
 * adds nothing. */
void audit_add(struct audit_record *record, const char *field, const char *value);
/* UID, and USER if it has a name. */
void audit_add_user(struct audit_record *record, uid_t uid);
/* The user's name, to be freed; NULL if there is none. */
char *audit_user_name(uid_t uid);
void audit_add_u64(struct audit_record *record, const char *field, uint64_t value);
void audit_add_i64(struct audit_record *record, const char *field, int64_t value);

/* Hands the record to journald now. Returns 0, or a negative errno: nobody took it. Reconnects once
 * if journald was restarted. */
int audit_send(struct audit *audit, struct audit_record *record);
/* The same for what has happened already: should the journal have no room, it waits for some behind
 * those that wait, in 1 MiB together. So nobody who makes many records at once has others of them
 * lost. */
int audit_tell(struct audit *audit, struct audit_record *record);

/* The MESSAGE_ID of an event, 32 hex digits; also listed in systemd/sbxctl.catalog. */
const char *audit_message_id(enum audit_event event);
