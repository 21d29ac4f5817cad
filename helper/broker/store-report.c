/* The report of a collection, see store-report.h. */
#include "broker/store-report.h"
#include "broker/store-collect.h"
#include "common/escape.h"

#include <stdio.h>
#include <string.h>

int report_init(struct report *report)
{
    *report =
        (struct report){ .files = json_object_new_array(), .skipped = json_object_new_array() };
    return report->files && report->skipped ? 0 : -ENOMEM;
}

void report_release(struct report *report)
{
    json_object_put(report->files);
    json_object_put(report->skipped);
    *report = (struct report){ 0 };
}

int report_file(struct report *report, const char *path, uint64_t bytes)
{
    _cleanup_free_ char *name = escape_text(path, strlen(path), 0);
    _cleanup_json_ json_object *entry = json_object_new_object();

    if (!name || !entry)
        return -ENOMEM;
    size_t size = strlen(name);
    if (report->names_size + size > COLLECT_NAMES_MAX)
        return -E2BIG;
    if (json_add_string(entry, "name", name) < 0 || json_add_uint64(entry, "bytes", bytes) < 0 ||
        json_append(report->files, TAKE_PTR(entry)) < 0)
        return -ENOMEM;
    report->names_size += size;
    report->bytes += bytes;
    return 0;
}

static int add_skipped(struct report *report, const char *name, const char *reason)
{
    _cleanup_json_ json_object *entry = json_object_new_object();

    if (!entry || json_add_string(entry, "name", name) < 0 ||
        json_add_string(entry, "reason", reason) < 0)
        return -ENOMEM;
    return json_append(report->skipped, TAKE_PTR(entry));
}

int report_skipped(struct report *report, const char *path, const char *reason)
{
    if (report->n_skipped++ >= COLLECT_SKIPPED_MAX)
        return 0;
    _cleanup_free_ char *name = escape_text(path, strlen(path), COLLECT_PATH_MAX);
    return name ? add_skipped(report, name, reason) : -ENOMEM;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(json_get_string(*(json_object *const *)a, "name"),
                  json_get_string(*(json_object *const *)b, "name"));
}

int report_finish(struct report *report, json_object **ret)
{
    _cleanup_json_ json_object *result = json_object_new_object();
    char more[64];

    if (!result)
        return -ENOMEM;
    json_object_array_sort(report->files, by_name);
    json_object_array_sort(report->skipped, by_name);
    if (report->n_skipped > COLLECT_SKIPPED_MAX) {
        snprintf(more, sizeof(more), "… and %zu more", report->n_skipped - COLLECT_SKIPPED_MAX);
        if (add_skipped(report, more, "Only so many entries are listed one by one.") < 0)
            return -ENOMEM;
    }
    if (json_add(result, "files", TAKE_PTR(report->files)) < 0 ||
        json_add(result, "skipped", TAKE_PTR(report->skipped)) < 0 ||
        json_add_uint64(result, "bytes", report->bytes) < 0)
        return -ENOMEM;
    *ret = TAKE_PTR(result);
    return 0;
}
