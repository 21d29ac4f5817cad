/* What an audit record or a run says, in a few words: the cells of audit-show.c. Each takes the
 * object and returns a new string, or NULL out of memory; what strangers wrote in it is not safe to
 * show yet. */
#pragma once

#include "common/json.h"

/* A member as text: numbers in digits, lists with ", " between, nothing for NULL. */
char *audit_words_text(json_object *value);

/* Of a run, or of a record. */
char *audit_words_user(json_object *object);
char *audit_words_memory(json_object *object);
char *audit_words_cpus(json_object *object);
char *audit_words_timeout(json_object *object);
char *audit_words_network(json_object *object);
char *audit_words_actions(json_object *object);
/* Who approved it, or that nobody had to. */
char *audit_words_approved(json_object *object);
/* Why a run failed or did not start. */
char *audit_words_why(json_object *run);
/* What was installed for it. */
char *audit_words_packages(json_object *run);

/* Of a connection. */
char *audit_words_host(json_object *connection);
char *audit_words_sent(json_object *connection);
char *audit_words_received(json_object *connection);

/* Of a record. */
char *audit_words_record(json_object *record);
/* Of one that the helper did not write. */
char *audit_words_sender(json_object *record);
char *audit_words_claim(json_object *record);
