/* See network-use.h. */
#include "client/network-use.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "client/result.h"
#include "client/say.h"
#include "common/cleanup.h"
#include "common/quantity.h"

static void print_host(json_object *object)
{
    char sent[QUANTITY_TEXT], received[QUANTITY_TEXT];
    struct network_host host;

    if (network_host_parse(object, &host) < 0)
        return;
    _cleanup_free_ char *name = displayed(host.name);
    bool is_ipv6 = strchr(name, ':') != NULL;
    printf("  %s%s%s:%" PRIu64, is_ipv6 ? "[" : "", name, is_ipv6 ? "]" : "", host.port);
    if (host.connections > 1)
        printf(", %" PRIu64 " times", host.connections);
    if (host.rule) {
        _cleanup_free_ char *rule = displayed(host.rule);
        printf(": %s\n", rule);
    } else {
        printf(", %s sent, %s received\n", format_bytes(host.bytes_sent, sent),
               format_bytes(host.bytes_received, received));
    }
}

static void print_hosts(const char *heading, json_object *hosts)
{
    size_t n = hosts ? json_object_array_length(hosts) : 0;

    if (n > 0)
        printf("\n%s\n", heading);
    for (size_t i = 0; i < n; i++)
        print_host(json_object_array_get_idx(hosts, i));
}

void network_use_print(json_object *object)
{
    struct network_use use;

    if (!object || network_use_parse(object, &use) < 0)
        return;
    print_hosts("hosts contacted", use.hosts);
    print_hosts("hosts refused, and by what", use.refused_hosts);
    if (use.connections == 0)
        puts("\nno host was contacted");
    if (!use.complete)
        puts("\nthere were more connections than are known here; the journal may tell");
}
