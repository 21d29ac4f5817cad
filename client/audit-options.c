/* Options of sbxctl audit, see audit-options.h. */
#include "client/audit-options.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "client/audit-events.h"
#include "client/audit-journal.h"
#include "client/exit-status.h"
#include "client/say.h"
#include "common/clock.h"
#include "common/quantity.h"

/* A date and perhaps a time, here and now's; or how long ago. Microseconds since the epoch. */
static bool parse_time(const char *text, uint64_t *ret)
{
    static const char *const formats[] = { "%Y-%m-%d %H:%M:%S", "%Y-%m-%d %H:%M", "%Y-%m-%d" };
    uint64_t ago, now = clock_usec(CLOCK_REALTIME);

    for (size_t i = 0; i < ELEMENTS(formats); i++) {
        struct tm tm = { .tm_isdst = -1 };
        const char *end = strptime(text, formats[i], &tm);
        time_t seconds = end && *end == '\0' ? mktime(&tm) : -1;
        if (seconds >= 0) {
            *ret = (uint64_t)seconds * USEC_PER_SEC;
            return true;
        }
    }
    if (parse_usec(text, &ago) < 0)
        return false;
    *ret = ago < now ? now - ago : 0;
    return true;
}

static bool read_time(const struct verb *verb, const char *option, const char *text, uint64_t *ret)
{
    if (parse_time(text, ret))
        return true;
    verb_usage_error(verb, "--%s: '%s' is no time; write it like 2026-01-31 or 7d", option, text);
    return false;
}

static bool add_event(const struct verb *verb, const char *name, struct audit_options *options)
{
    const struct audit_event_name *event = audit_event_names;
    size_t n = 0;

    while (event->name && strcmp(event->name, name) != 0)
        event++;
    if (!event->name) {
        verb_usage_error(verb, "--event: there is no event '%s'; sbxctl-audit(7) lists them", name);
        return false;
    }
    while (n < AUDIT_EVENTS_MAX && options->events[n] && options->events[n] != event->name)
        n++;
    if (n < AUDIT_EVENTS_MAX)
        options->events[n] = event->name;
    return true;
}

static bool set_view(const struct verb *verb, struct audit_options *options, enum audit_view view)
{
    if (options->has_view || options->usage) {
        verb_usage_error(verb, "only one table can be shown at a time");
        return false;
    }
    options->view = view;
    options->has_view = true;
    return true;
}

/* One option; false if it was wrong, which has been told. */
static bool take(const struct verb *verb, int option, const char *argument,
                 struct audit_options *options)
{
    switch (option) {
    case OPTION_JSON:
        options->json = true;
        return true;
    case OPTION_FOLLOW:
        options->follow = true;
        return true;
    case OPTION_USER:
        options->filter.user = argument;
        return true;
    case OPTION_RUN:
        options->filter.run = argument;
        return true;
    case OPTION_VERDICT:
        options->filter.verdict = argument;
        return true;
    case OPTION_ENGINE:
        options->filter.engine = argument;
        return true;
    case OPTION_HOST:
        options->filter.host = argument;
        return true;
    case OPTION_SINCE:
        return read_time(verb, "since", argument, &options->since_usec);
    case OPTION_UNTIL:
        return read_time(verb, "until", argument, &options->until_usec);
    case OPTION_EVENT:
        return add_event(verb, argument, options);
    case OPTION_USAGE:
        options->usage = true;
        return !options->has_view || set_view(verb, options, AUDIT_RUNS);
    case OPTION_RIGHTS:
        return set_view(verb, options, AUDIT_RIGHTS);
    case OPTION_APPROVALS:
        return set_view(verb, options, AUDIT_APPROVALS);
    case OPTION_CONNECTIONS:
        return set_view(verb, options, AUDIT_HOSTS);
    case OPTION_FAILURES:
        return set_view(verb, options, AUDIT_FAILURES);
    case OPTION_UNFINISHED:
        return set_view(verb, options, AUDIT_UNFINISHED);
    case OPTION_PACKAGES:
        return set_view(verb, options, AUDIT_INSTALLED);
    case OPTION_FORGED:
        return set_view(verb, options, AUDIT_FORGED);
    default:
        return false;
    }
}

/* What goes together. Records are shown one by one where that is asked for, or follows. */
static bool complete(const struct verb *verb, struct audit_options *options)
{
    bool by_record = options->events[0] || options->follow;

    if (by_record && (options->has_view || options->usage)) {
        verb_usage_error(verb, "--event and --follow show records, and go with no other table");
        return false;
    }
    if (by_record ||
        (options->filter.run && !options->has_view && !options->usage && !options->json))
        options->view = AUDIT_EVENTS;
    if (options->usage && (options->filter.verdict || options->filter.host)) {
        verb_usage_error(verb, "--usage can be asked for by --user, --engine, --since, --until");
        return false;
    }
    return true;
}

bool audit_options_read(const struct verb *verb, int argc, char **argv, struct audit_options *ret,
                        int *ret_status)
{
    const char *argument;
    int option;

    *ret = (struct audit_options){};
    *ret_status = EXIT_USAGE;
    while ((option = verb_next_option(verb, argc, argv, &argument)) != VERB_OPTIONS_END) {
        if (option == OPTION_HELP) {
            verb_print_help(verb);
            *ret_status = print_end();
            return false;
        }
        if (!take(verb, option, argument, ret))
            return false;
    }
    if (optind < argc) {
        verb_usage_error(verb, "too many arguments");
        return false;
    }
    return complete(verb, ret);
}
