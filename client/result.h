/* What the helper tells about runs, from JSON to structs: type Result of io.sbxctl.Sandbox and the
 * types in it, as far as the client uses their members. Strings are borrowed from the JSON. Called
 * by everything that shows or uses a result; never decides what is shown. The parsers return 0, or
 * -EINVAL for what is not such an object; members that are not known are passed over, so that the
 * helper may be newer. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <json-c/json.h>

enum run_status {
    STATUS_QUEUED,
    STATUS_STARTING,
    STATUS_RUNNING,
    STATUS_SUCCEEDED,
    STATUS_FAILED,
    STATUS_TIMED_OUT,
    STATUS_OUT_OF_MEMORY,
    STATUS_KILLED,
    STATUS_CANCELLED,
    STATUS_LOST,
    STATUS_DENIED,
    STATUS_REJECTED,
};

/* "timed out" and the like, for people. */
const char *run_status_text(enum run_status status);
bool run_status_is_final(enum run_status status);

struct policy {
    const char *network;
    json_object *network_names; /* array of strings, or NULL: any */
    uint64_t memory_bytes, cpu_percent, timeout_usec, tasks;
    uint64_t workspace_bytes, scratch_bytes, output_files, kept_stream_bytes;
};
int policy_parse(json_object *object, struct policy *ret);

struct stream {
    const char *text;
    uint64_t bytes, kept_bytes;
    bool truncated, text_shortened;
};
int stream_parse(json_object *object, struct stream *ret);

struct output_file {
    const char *name;
    uint64_t bytes;
};
int output_file_parse(json_object *object, struct output_file *ret);

struct skipped_file {
    const char *name, *reason;
};
int skipped_file_parse(json_object *object, struct skipped_file *ret);

struct network_host {
    const char *name, *rule;
    uint64_t port, connections, bytes_sent, bytes_received;
};
int network_host_parse(json_object *object, struct network_host *ret);

struct package {
    const char *name, *version;
};
int package_parse(json_object *object, struct package *ret);

struct network_use {
    uint64_t connections;
    json_object *hosts, *refused_hosts; /* arrays */
    bool complete;
};
int network_use_parse(json_object *object, struct network_use *ret);

/* Numbers that the helper did not tell are UNKNOWN, absent strings and objects NULL. */
#define UNKNOWN UINT64_MAX
struct usage {
    uint64_t wall_usec, cpu_usec, memory_peak_bytes, wait_usec, cloud_usec;
    bool warm; /* the sandbox was ready before the run asked for it */
};

struct result {
    const char *id;
    enum run_status status;
    const char *reason, *hint;
    int64_t exit_code; /* -1: none */
    const char *signal;
    const char *engine, *image, *language, *script_name, *script_sha256, *request_sha256;
    const char *output_directory, *verdict;
    uint64_t oom_kills, leftovers, started_usec, ended_usec, expires_usec;
    struct usage usage;
    json_object *policy, *standard_output, *standard_error; /* for the functions above */
    json_object *packages;                                  /* array of package */
    json_object *network_use;                               /* the same */
    json_object *files, *skipped_files;                     /* arrays */
};

int result_parse(json_object *object, struct result *ret);

struct plan {
    const char *engine, *image, *language, *interpreter, *script_name, *script_sha256,
        *request_sha256;
    uint64_t script_bytes;
    json_object *arguments, *policy, *approvals, *inputs, *packages, *environment;
    bool standard_input;
};
int plan_parse(json_object *object, struct plan *ret);
