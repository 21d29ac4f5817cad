/* From JSON to what happened, see process-event.h. protojson leaves out what is zero, writes
 * numbers as strings at times, and may have members that nobody knows yet. */
#include "process-event.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "common/base64.h"
#include "common/json.h"

void process_event_release(struct process_event *event)
{
    free(event->data);
    event->data = NULL;
}

static json_object *member(json_object *object, const char *key)
{
    json_object *value = NULL;

    if (object)
        json_object_object_get_ex(object, key, &value);
    return json_object_is_type(value, json_type_object) ? value : NULL;
}

/* A number, or one in a string. Absent: 0. */
static bool get_number(json_object *object, const char *key, int64_t min, int64_t max, int64_t *ret)
{
    json_object *value = NULL;
    char *end;

    *ret = 0;
    if (!json_object_object_get_ex(object, key, &value) || !value)
        return true;
    if (json_object_is_type(value, json_type_string)) {
        const char *text = json_object_get_string(value);
        *ret = strtoll(text, &end, 10);
        if (end == text || *end != '\0')
            return false;
    } else if (json_object_is_type(value, json_type_int)) {
        *ret = json_object_get_int64(value);
    } else {
        return false;
    }
    return *ret >= min && *ret <= max;
}

static int parse_started(json_object *start, struct process_event *ret)
{
    int64_t pid;

    if (!get_number(start, "pid", 1, INT32_MAX, &pid))
        return -EBADMSG;
    ret->type = PROCESS_STARTED;
    ret->pid = (uint32_t)pid;
    return pid > 0 ? 0 : -EBADMSG;
}

static int parse_data(json_object *data, struct process_event *ret)
{
    const char *text = json_get_string(data, "stdout");

    ret->type = PROCESS_STDOUT;
    if (!text) {
        text = json_get_string(data, "stderr");
        ret->type = text ? PROCESS_STDERR : PROCESS_NOTHING;
    }
    if (!text)
        return 0;
    size_t size = strlen(text);
    ret->data = strdup(text);
    if (!ret->data)
        return -ENOMEM;
    return base64_decode(ret->data, size, &ret->data_size);
}

/* Go's words for it, of os.ProcessState: "signal: killed", with "(core dumped)" behind it. */
static int signal_of(const char *status)
{
    static const char prefix[] = "signal: ";
    size_t length;

    if (!status || strncmp(status, prefix, strlen(prefix)) != 0)
        return 0;
    status += strlen(prefix);
    length = strcspn(status, "(");
    while (length > 0 && status[length - 1] == ' ')
        length--;
    for (int i = 1; i < NSIG; i++) {
        const char *words = sigdescr_np(i);
        if (words && strlen(words) == length && strncasecmp(words, status, length) == 0)
            return i;
    }
    return 0;
}

static int parse_ended(json_object *end, struct process_event *ret)
{
    int64_t code;

    if (!get_number(end, "exitCode", -1, UINT8_MAX, &code))
        return -EBADMSG;
    ret->type = PROCESS_ENDED;
    ret->exit_code = (int)code;
    if (code < 0)
        ret->signal = signal_of(json_get_string(end, "status"));
    return 0;
}

static int parse_over(json_object *trailer, struct process_event *ret)
{
    json_object *error = member(trailer, "error");
    const char *code = json_get_string(error, "code");
    const char *words = json_get_string(error, "message");

    ret->type = PROCESS_OVER;
    ret->failed = json_object_object_get_ex(trailer, "error", NULL);
    snprintf(ret->code, sizeof(ret->code), "%s", code ? code : "unknown");
    snprintf(ret->words, sizeof(ret->words), "%s", words ? words : "");
    return 0;
}

int process_event_parse(const char *message, size_t size, bool end, struct process_event *ret)
{
    _cleanup_json_ json_object *object = NULL;
    json_object *event, *part;
    int r = json_parse_guarded(message, size, &object);

    *ret = (struct process_event){ .type = PROCESS_NOTHING };
    if (r < 0)
        return r == -ENOMEM ? r : -EBADMSG;
    if (end)
        return parse_over(object, ret);
    event = member(object, "event");
    if (!event)
        return -EBADMSG;
    if ((part = member(event, "start")))
        r = parse_started(part, ret);
    else if ((part = member(event, "data")))
        r = parse_data(part, ret);
    else if ((part = member(event, "end")))
        r = parse_ended(part, ret);
    if (r < 0)
        process_event_release(ret);
    return r;
}
