/* From JSON to structs, see result.h. The members of each type stand in one table. */
#include "client/result.h"

#include <errno.h>
#include <string.h>

#include "common/json.h"

static const struct {
    const char *name, *text;
    bool final;
} statuses[] = {
    [STATUS_QUEUED] = { "queued", "queued", false },
    [STATUS_STARTING] = { "starting", "starting", false },
    [STATUS_RUNNING] = { "running", "running", false },
    [STATUS_SUCCEEDED] = { "succeeded", "succeeded", true },
    [STATUS_FAILED] = { "failed", "failed", true },
    [STATUS_TIMED_OUT] = { "timed_out", "timed out", true },
    [STATUS_OUT_OF_MEMORY] = { "out_of_memory", "out of memory", true },
    [STATUS_KILLED] = { "killed", "killed", true },
    [STATUS_CANCELLED] = { "cancelled", "cancelled", true },
    [STATUS_LOST] = { "lost", "lost", true },
    [STATUS_DENIED] = { "denied", "denied", true },
    [STATUS_REJECTED] = { "rejected", "rejected", true },
};

const char *run_status_text(enum run_status status)
{
    return statuses[status].text;
}

bool run_status_is_final(enum run_status status)
{
    return statuses[status].final;
}

static int status_parse(const char *name, enum run_status *ret)
{
    for (size_t i = 0; i < ELEMENTS(statuses); i++)
        if (strcmp(statuses[i].name, name) == 0) {
            *ret = (enum run_status)i;
            return 0;
        }
    return -EINVAL;
}

#define STRING(name, type, member)                      \
    {                                                   \
        name, JSON_FIELD_STRING, offsetof(type, member) \
    }
#define NEEDED(name, type, member)                            \
    {                                                         \
        name, JSON_FIELD_STRING, offsetof(type, member), true \
    }
#define NUMBER(name, type, member)                                        \
    {                                                                     \
        name, JSON_FIELD_UINT64, offsetof(type, member), .max = INT64_MAX \
    }
#define OBJECT(name, type, member)                      \
    {                                                   \
        name, JSON_FIELD_OBJECT, offsetof(type, member) \
    }
#define ARRAY(name, type, member)                      \
    {                                                  \
        name, JSON_FIELD_ARRAY, offsetof(type, member) \
    }
#define BOOL(name, type, member)                      \
    {                                                 \
        name, JSON_FIELD_BOOL, offsetof(type, member) \
    }
#define DISPATCH(object, fields, target) \
    json_dispatch(object, fields, ELEMENTS(fields), true, target, &(const char *){ NULL })

int policy_parse(json_object *object, struct policy *ret)
{
    static const struct json_field fields[] = {
        NEEDED("network", struct policy, network),
        ARRAY("networkNames", struct policy, network_names),
        NUMBER("memoryBytes", struct policy, memory_bytes),
        NUMBER("cpuPercent", struct policy, cpu_percent),
        NUMBER("timeoutUSec", struct policy, timeout_usec),
        NUMBER("tasks", struct policy, tasks),
        NUMBER("workspaceBytes", struct policy, workspace_bytes),
        NUMBER("scratchBytes", struct policy, scratch_bytes),
        NUMBER("outputFiles", struct policy, output_files),
        NUMBER("keptStreamBytes", struct policy, kept_stream_bytes),
    };

    *ret = (struct policy){};
    return DISPATCH(object, fields, ret);
}

int stream_parse(json_object *object, struct stream *ret)
{
    static const struct json_field fields[] = {
        STRING("text", struct stream, text),
        NUMBER("bytes", struct stream, bytes),
        NUMBER("keptBytes", struct stream, kept_bytes),
        BOOL("truncated", struct stream, truncated),
        BOOL("textShortened", struct stream, text_shortened),
    };

    *ret = (struct stream){};
    return DISPATCH(object, fields, ret);
}

int output_file_parse(json_object *object, struct output_file *ret)
{
    static const struct json_field fields[] = {
        NEEDED("name", struct output_file, name),
        NUMBER("bytes", struct output_file, bytes),
    };

    *ret = (struct output_file){};
    return DISPATCH(object, fields, ret);
}

int skipped_file_parse(json_object *object, struct skipped_file *ret)
{
    static const struct json_field fields[] = {
        NEEDED("name", struct skipped_file, name),
        NEEDED("reason", struct skipped_file, reason),
    };

    *ret = (struct skipped_file){};
    return DISPATCH(object, fields, ret);
}

int package_parse(json_object *object, struct package *ret)
{
    static const struct json_field fields[] = {
        NEEDED("name", struct package, name),
        NEEDED("version", struct package, version),
    };

    *ret = (struct package){};
    return DISPATCH(object, fields, ret);
}

int network_host_parse(json_object *object, struct network_host *ret)
{
    static const struct json_field fields[] = {
        NEEDED("name", struct network_host, name),
        STRING("rule", struct network_host, rule),
        NUMBER("port", struct network_host, port),
        NUMBER("connections", struct network_host, connections),
        NUMBER("bytesSent", struct network_host, bytes_sent),
        NUMBER("bytesReceived", struct network_host, bytes_received),
    };

    *ret = (struct network_host){};
    return DISPATCH(object, fields, ret);
}

int network_use_parse(json_object *object, struct network_use *ret)
{
    static const struct json_field fields[] = {
        NUMBER("connections", struct network_use, connections),
        ARRAY("hosts", struct network_use, hosts),
        ARRAY("refusedHosts", struct network_use, refused_hosts),
        BOOL("complete", struct network_use, complete),
    };

    *ret = (struct network_use){};
    return DISPATCH(object, fields, ret);
}

static int usage_parse(json_object *object, struct usage *ret)
{
    static const struct json_field fields[] = {
        NUMBER("wallUSec", struct usage, wall_usec),
        NUMBER("cpuUSec", struct usage, cpu_usec),
        NUMBER("memoryPeakBytes", struct usage, memory_peak_bytes),
        NUMBER("waitUSec", struct usage, wait_usec),
        NUMBER("cloudUSec", struct usage, cloud_usec),
        BOOL("warm", struct usage, warm),
    };
    return DISPATCH(object, fields, ret);
}

/* What needs a second look before it fits into struct result. */
struct raw_result {
    struct result result;
    const char *status;
    json_object *usage;
};

int result_parse(json_object *object, struct result *ret)
{
    static const struct json_field fields[] = {
        NEEDED("id", struct raw_result, result.id),
        NEEDED("status", struct raw_result, status),
        NEEDED("reason", struct raw_result, result.reason),
        STRING("hint", struct raw_result, result.hint),
        { "exitCode", JSON_FIELD_INT64, offsetof(struct raw_result, result.exit_code), .min = 0,
          .max = INT64_MAX },
        STRING("signal", struct raw_result, result.signal),
        STRING("engine", struct raw_result, result.engine),
        STRING("image", struct raw_result, result.image),
        STRING("language", struct raw_result, result.language),
        STRING("scriptName", struct raw_result, result.script_name),
        STRING("scriptSha256", struct raw_result, result.script_sha256),
        STRING("requestSha256", struct raw_result, result.request_sha256),
        STRING("outputDirectory", struct raw_result, result.output_directory),
        STRING("verdict", struct raw_result, result.verdict),
        NUMBER("oomKills", struct raw_result, result.oom_kills),
        NUMBER("leftovers", struct raw_result, result.leftovers),
        NUMBER("startedUSec", struct raw_result, result.started_usec),
        NUMBER("endedUSec", struct raw_result, result.ended_usec),
        NUMBER("expiresUSec", struct raw_result, result.expires_usec),
        OBJECT("usage", struct raw_result, usage),
        OBJECT("networkUse", struct raw_result, result.network_use),
        ARRAY("packages", struct raw_result, result.packages),
        OBJECT("policy", struct raw_result, result.policy),
        OBJECT("stdout", struct raw_result, result.standard_output),
        OBJECT("stderr", struct raw_result, result.standard_error),
        ARRAY("files", struct raw_result, result.files),
        ARRAY("skippedFiles", struct raw_result, result.skipped_files),
    };
    struct raw_result raw = { .result = {
                                  .exit_code = -1,
                                  .oom_kills = UNKNOWN,
                                  .leftovers = UNKNOWN,
                                  .started_usec = UNKNOWN,
                                  .ended_usec = UNKNOWN,
                                  .expires_usec = UNKNOWN,
                                  .usage = { UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN } } };

    int r = DISPATCH(object, fields, &raw);
    if (r == 0)
        r = status_parse(raw.status, &raw.result.status);
    if (r == 0 && raw.usage)
        r = usage_parse(raw.usage, &raw.result.usage);
    if (r < 0)
        return r;
    *ret = raw.result;
    return 0;
}

int plan_parse(json_object *object, struct plan *ret)
{
    static const struct json_field fields[] = {
        NEEDED("engine", struct plan, engine),
        STRING("image", struct plan, image),
        NEEDED("language", struct plan, language),
        NEEDED("interpreter", struct plan, interpreter),
        NEEDED("scriptName", struct plan, script_name),
        NEEDED("scriptSha256", struct plan, script_sha256),
        STRING("requestSha256", struct plan, request_sha256),
        NUMBER("scriptBytes", struct plan, script_bytes),
        ARRAY("arguments", struct plan, arguments),
        ARRAY("environment", struct plan, environment),
        BOOL("standardInput", struct plan, standard_input),
        ARRAY("packages", struct plan, packages),
        OBJECT("policy", struct plan, policy),
        OBJECT("approvals", struct plan, approvals),
        OBJECT("inputs", struct plan, inputs),
    };

    *ret = (struct plan){};
    return DISPATCH(object, fields, ret);
}
