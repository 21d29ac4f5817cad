/* Pieces of the interface's objects, see result.h. */
#include "broker/result.h"

#include <string.h>
#include <strings.h>

json_object *result_strings(char *const *strings, size_t n)
{
    _cleanup_json_ json_object *array = json_object_new_array();

    for (size_t i = 0; array && i < n; i++)
        if (json_append(array, json_object_new_string(strings[i])) < 0)
            return NULL;
    return TAKE_PTR(array);
}

json_object *result_policy(const struct config *config, const struct limits *limits,
                           const struct host_list *hosts)
{
    _cleanup_json_ json_object *policy = json_object_new_object();

    if (!policy || json_add_string(policy, "network", limits->network ? "internet" : "none") < 0 ||
        (hosts && hosts->n > 0 &&
         json_add(policy, "networkNames", result_strings(hosts->items, hosts->n)) < 0) ||
        json_add_uint64(policy, "memoryBytes", limits->memory_bytes) < 0 ||
        json_add_uint64(policy, "cpuPercent", limits->cpu_percent) < 0 ||
        json_add_uint64(policy, "timeoutUSec", limits->timeout_usec) < 0 ||
        json_add_uint64(policy, "tasks", config->tasks) < 0 ||
        json_add_uint64(policy, "workspaceBytes", config->workspace_bytes) < 0 ||
        json_add_uint64(policy, "scratchBytes", config->scratch_bytes) < 0 ||
        json_add_uint64(policy, "outputFiles", config->output_files) < 0 ||
        json_add_uint64(policy, "keptStreamBytes", config->kept_stream_bytes) < 0)
        return NULL;
    return TAKE_PTR(policy);
}

json_object *result_without_output(json_object *result)
{
    static const char *const long_ones[] = { "stdout",       "stderr",     "files",
                                             "skippedFiles", "networkUse", "packages" };
    json_object *copy = json_object_new_object();

    json_object_object_foreach(result, key, value)
    {
        bool is_long = false;
        for (size_t i = 0; i < ELEMENTS(long_ones); i++)
            is_long = is_long || strcmp(key, long_ones[i]) == 0;
        if (!is_long && json_add(copy, key, json_object_get(value)) < 0) {
            json_object_put(copy);
            return NULL;
        }
    }
    return copy;
}

void result_answer_failed(struct varlink_call *call, const char *reason)
{
    json_object *fields = json_object_new_object();

    (void)json_add_string(fields, "reason", reason);
    (void)varlink_error(call, "io.sbxctl.Sandbox.Failed", fields);
}

const char *result_mime_type(const char *name)
{
    static const struct {
        const char *extension, *type;
    } types[] = {
        { ".csv", "text/csv" },
        { ".db", "application/vnd.sqlite3" },
        { ".gif", "image/gif" },
        { ".gz", "application/gzip" },
        { ".html", "text/html" },
        { ".jpeg", "image/jpeg" },
        { ".jpg", "image/jpeg" },
        { ".js", "text/javascript" },
        { ".json", "application/json" },
        { ".log", "text/plain" },
        { ".md", "text/markdown" },
        { ".parquet", "application/vnd.apache.parquet" },
        { ".pdf", "application/pdf" },
        { ".png", "image/png" },
        { ".py", "text/x-python" },
        { ".sqlite", "application/vnd.sqlite3" },
        { ".svg", "image/svg+xml" },
        { ".tar", "application/x-tar" },
        { ".tsv", "text/tab-separated-values" },
        { ".txt", "text/plain" },
        { ".webp", "image/webp" },
        { ".xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet" },
        { ".xml", "application/xml" },
        { ".yaml", "application/yaml" },
        { ".zip", "application/zip" },
    };
    const char *dot = strrchr(name, '.');

    for (size_t i = 0; dot && i < ELEMENTS(types); i++)
        if (strcasecmp(dot, types[i].extension) == 0)
            return types[i].type;
    return "application/octet-stream";
}
