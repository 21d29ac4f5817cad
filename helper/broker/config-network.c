/* Lists of names, addresses and ports, see config-network.h. */
#include "broker/config-network.h"
#include "broker/config-words.h"
#include "broker/request.h"
#include "common/cleanup.h"
#include "common/quantity.h"

#include <stdio.h>
#include <string.h>

static int add_name(void *list, const char *word)
{
    return host_list_add(list, word);
}

static int add_address(void *list, const char *word)
{
    return ip_prefix_list_add(list, word);
}

static int add_port(void *list, const char *word)
{
    struct egress_ports *ports = list;
    uint64_t port;

    if (parse_number(word, &port) < 0 || port < 1 || port > UINT16_MAX)
        return -EINVAL;
    if (ports->n == ELEMENTS(ports->items))
        return -E2BIG;
    ports->items[ports->n++] = (uint16_t)port;
    return 0;
}

int config_network_add_names(struct host_list *list, const char *value)
{
    if (words_are_none(value))
        host_list_release(list);
    return words_for_each(value, add_name, list);
}

int config_network_add_addresses(struct ip_prefix_list *list, const char *value)
{
    if (words_are_none(value))
        ip_prefix_list_release(list);
    return words_for_each(value, add_address, list);
}

int config_network_add_ports(struct egress_ports *ports, const char *value)
{
    if (words_are_none(value))
        ports->n = 0;
    return words_for_each(value, add_port, ports);
}

void config_network_release(struct config_network *network)
{
    host_list_release(&network->allowed_names);
    host_list_release(&network->denied_names);
    ip_prefix_list_release(&network->allowed_addresses);
    ip_prefix_list_release(&network->denied_addresses);
    *network = (struct config_network){ 0 };
}

void config_network_start(const struct config_network *network, const char *run_id,
                          const struct host_list *granted, struct egress_start *ret)
{
    *ret = (struct egress_start){
        .granted = *granted,
        .allowed_names = network->allowed_names,
        .denied_names = network->denied_names,
        .allowed_addresses = network->allowed_addresses,
        .denied_addresses = network->denied_addresses,
        .ports = network->ports,
        .connections = (uint32_t)network->connections,
        .bytes = network->bytes,
        .idle_usec = network->idle_usec,
    };
    snprintf(ret->run_id, sizeof(ret->run_id), "%s", run_id);
}

/* What a request may add, in JSON: its names, with quotes and a comma each. */
#define GRANTED_MAX (REQUEST_HOSTS_TEXT_MAX + 3 * REQUEST_HOSTS_MAX)

static int check_size(const struct config_network *network)
{
    struct egress_message message = { .type = EGRESS_START };
    _cleanup_free_ char *text = NULL;
    size_t size;

    config_network_start(network, "", &(struct host_list){ 0 }, &message.start);
    int r = egress_message_format(&message, &text, &size);
    if (r == -EMSGSIZE || (r >= 0 && size > EGRESS_PACKET_MAX - GRANTED_MAX - EGRESS_RUN_ID_MAX))
        return -E2BIG;
    return r;
}

int config_network_complete(struct config_network *network)
{
    int r = network->has_names ? 0 : config_network_add_names(&network->allowed_names, "*");

    if (r >= 0 && !network->has_ports)
        r = config_network_add_ports(&network->ports, "80 443");
    return r < 0 ? r : check_size(network);
}
