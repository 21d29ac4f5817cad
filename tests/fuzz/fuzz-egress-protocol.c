/* The egress protocol's parser on arbitrary bytes. What it takes must be within its bounds, and
 * mean the same when it is written and read again. */
#include "egress/protocol.h"

#include <string.h>

#include "check.h"
#include "common/cleanup.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_start(const struct egress_start *start)
{
    char again[HOST_TEXT_MAX + 1];

    check(start->run_id[0] != '\0' && !strpbrk(start->run_id, "/. "));
    check(start->connections > 0 && start->connections <= EGRESS_CONNECTIONS_MAX);
    check(start->bytes > 0 && start->idle_usec > 0 && start->ports.n <= EGRESS_PORTS_MAX);
    for (size_t i = 0; i < start->ports.n; i++)
        check(start->ports.items[i] > 0);
    for (size_t i = 0; i < start->denied_names.n; i++)
        check(host_pattern_parse(start->denied_names.items[i], again) &&
              strcmp(again, start->denied_names.items[i]) == 0);
}

static void check_bounds(const struct egress_message *m)
{
    if (m->type == EGRESS_START)
        check_start(&m->start);
    if (m->type == EGRESS_CONNECTION)
        check(m->connection.port <= UINT16_MAX && egress_verdict_name(m->connection.verdict) &&
              egress_service_name(m->connection.service));
    if (m->type == EGRESS_FINISHED)
        check(m->finished.n_hosts <= EGRESS_HOSTS_MAX &&
              m->finished.n_refused_hosts <= EGRESS_HOSTS_MAX);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    _cleanup_free_ char *text = NULL, *again = NULL;
    struct egress_message first, second;
    size_t text_size, again_size;

    int r = egress_message_parse((const char *)data, size, &first);
    check(r == 0 || r == -EBADMSG || r == -EPROTONOSUPPORT);
    if (r < 0)
        return 0;
    check_bounds(&first);
    r = egress_message_format(&first, &text, &text_size);
    check(r == 0 || r == -EMSGSIZE);
    egress_message_release(&first);
    if (r < 0)
        return 0;
    check(egress_message_parse(text, text_size, &second) == 0);
    check(egress_message_format(&second, &again, &again_size) == 0);
    check(strcmp(text, again) == 0);
    egress_message_release(&second);
    return 0;
}
