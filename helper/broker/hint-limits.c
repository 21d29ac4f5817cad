/* Hints about what a run may use: network, memory, tasks, space. */
#include "broker/hint-internal.h"
#include "common/quantity.h"

#include <stdio.h>
#include <string.h>

/* The refusal of a connection is more than a guess at why there was no network. */
bool hint_refusal(const struct hint_case *c)
{
    const char *refusal = c->facts->network_refusal;

    return refusal && hint_say(c, "%.180s%s", refusal,
                               strstr(refusal, "by --network=") ? "; --network can name more hosts."
                                                                : "; ask the administrator.");
}

/* Looks for what a program without a network says. */
bool hint_network(const struct hint_case *c)
{
    const struct facts *facts = c->facts;
    bool allowed = facts->ceiling->network;

    if (facts->limits->network && facts->cloud)
        return hint_say(c,
                        "The cloud lets the run reach the hosts that were granted, and no others; "
                        "--network=NAME,... names them.");
    if (facts->limits->network)
        return hint_say(c,
                        "The one way to the network is the proxy that HTTPS_PROXY names: what does "
                        "not use it has no network.");
    return hint_say(c, "This run had no network%s%s.",
                    allowed ? "; --network asks for it" : ", and this machine allows none",
                    allowed && !facts->defaults->network ? ", which needs an approval" : "");
}

bool hint_localhost(const struct hint_case *c)
{
    /* Where it wanted to connect is not in the message of this one. */
    if (c->row->type && strcmp(c->row->type, "ConnectionRefusedError") == 0 &&
        !hint_span_has(c->complaint->trace, "localhost") &&
        !hint_span_has(c->complaint->trace, "127.0.0.1") &&
        !hint_span_has(c->complaint->text, "127.0.0.1"))
        return false;
    return hint_say(c,
                    "Inside, localhost is the sandbox itself: services of this machine cannot be "
                    "reached; the script has to start what it needs.");
}

/* "7.45 GiB", as numpy writes it; 0 for anything else. */
static uint64_t parse_amount(const char *text)
{
    static const char units[] = "KMGT";
    char unit, i, b;
    double number;

    if (sscanf(text, "%lf %c%c%c", &number, &unit, &i, &b) != 4 || i != 'i' || b != 'B' ||
        !strchr(units, unit) || !(number > 0 && number < 1e6))
        return 0;
    for (const char *u = units; u <= strchr(units, unit); u++)
        number *= 1024;
    return (uint64_t)number;
}

bool hint_more_memory(const struct hint_case *c)
{
    hint_memory(c->facts, parse_amount(c->name), c->ret);
    return true;
}

bool hint_tasks(const struct hint_case *c)
{
    if (!c->facts->have_ended || c->facts->ended.task_refusals == 0 || c->facts->tasks == 0)
        return false;
    return hint_say(c, "Start fewer workers: a run may have %llu processes and threads.",
                    (unsigned long long)c->facts->tasks);
}

bool hint_full(const struct hint_case *c)
{
    const struct facts *facts = c->facts;
    char workspace[QUANTITY_TEXT], scratch[QUANTITY_TEXT];

    if (hint_space(facts, c->ret))
        return true;
    return !facts->cloud && facts->workspace_bytes > 0 &&
           hint_say(
               c,
               "A run may have %s in %llu files in /workspace, and %s each in /tmp and /dev/shm.",
               format_bytes(facts->workspace_bytes, workspace),
               (unsigned long long)facts->workspace_files,
               format_bytes(facts->scratch_bytes, scratch));
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

void hint_memory(const struct facts *facts, uint64_t wanted, char ret[HINT_MAX])
{
    static const uint64_t step = 128 << 20;
    uint64_t limit = facts->limits->memory_bytes, most = facts->ceiling->memory_bytes;
    uint64_t needed = (limit + wanted + step - 1) / step * step;
    uint64_t more = smaller(needed > limit * 2 ? needed : limit * 2, most);
    char size[QUANTITY_TEXT], ceiling[QUANTITY_TEXT];

    if (facts->cloud)
        snprintf(ret, HINT_MAX,
                 "Use less memory at a time, or a template that has more, with --template.");
    else if (wanted > most)
        snprintf(ret, HINT_MAX,
                 "It wanted %s at once, and this machine allows a run %s: work through the data in "
                 "parts.",
                 format_bytes(wanted, size), format_bytes(most, ceiling));
    else if (more > limit)
        snprintf(ret, HINT_MAX, "Use less memory at a time, or ask for more with --memory %lluM%s.",
                 (unsigned long long)(more >> 20),
                 more > facts->defaults->memory_bytes ? ", which needs an approval" : "");
    else
        snprintf(ret, HINT_MAX,
                 "Use less memory at a time, for example by working through the data in parts: "
                 "this machine allows no more.");
}

bool hint_space(const struct facts *facts, char ret[HINT_MAX])
{
    char size[QUANTITY_TEXT], workspace[QUANTITY_TEXT];

    if (facts->workspace_full)
        snprintf(ret, HINT_MAX, "The workspace was full: a run may have %s in %llu files there.",
                 format_bytes(facts->workspace_bytes, size),
                 (unsigned long long)facts->workspace_files);
    else if (facts->have_exited && facts->exited.scratch_full)
        snprintf(ret, HINT_MAX,
                 "Scratch space was full: /tmp and /dev/shm have %s each. Write large files to "
                 "/workspace, which has %s.",
                 format_bytes(facts->scratch_bytes, size),
                 format_bytes(facts->workspace_bytes, workspace));
    else
        return false;
    return true;
}
