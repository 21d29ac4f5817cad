/* The audit records in the journal, as JSON. Called by audit.c and doctor-polkit.c. Believes only
 * what journald itself says of a record's sender, since anybody can write the rest of one. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/json.h"

struct audit_journal;

enum audit_sender {
    AUDIT_FROM_HELPER, /* what sbxctl-helper wrote */
    AUDIT_FROM_OTHERS, /* what others wrote that looks as if it had */
    AUDIT_FROM_POLKIT, /* what polkitd says of dialogs about actions of ours */
};

/* What to read. NULL and 0 stand for everything. */
struct audit_selection {
    enum audit_sender sender;
    uint64_t since_usec, until_usec; /* since the epoch */
    const char *const *events;       /* names, NULL at the end */
    const char *run_id, *uid;        /* whole */
};

/* Returns 0 or a negative errno: -EACCES if the journal is there and the caller may not read it,
 * -ESRCH if this machine has no user of the helper's. */
int audit_journal_open(const struct audit_selection *selection, struct audit_journal **ret);
void audit_journal_close(struct audit_journal *journal);

/* The next record, oldest first: 1 with a new object in @ret, 0 at the end, or a negative errno.
 * Members are timeUSec, event, and the fields of the record: SBXCTL_SCRIPT_NAME is scriptName, and
 * so on. Of others' also sender: uid, user, pid, command, unit; what they claim has to be made safe
 * to show. */
int audit_journal_next(struct audit_journal *journal, json_object **ret);

/* Waits until there may be another one. Returns 0 or a negative errno. */
int audit_journal_wait(struct audit_journal *journal);
/* Starts behind what is there. */
int audit_journal_seek_end(struct audit_journal *journal);

/* Adds what the journal has of a record, "FIELD=value" of @size bytes, to the object that is made
 * of it; passes over fields that are none of ours. Returns 0 or -ENOMEM. For tests, too. */
int audit_journal_add_datum(json_object *record, const char *data, size_t size);
