/* Indexes and lists of packages, see config-packages.h. */
#include "broker/config-packages.h"
#include "common/cleanup.h"
#include "common/file.h"
#include "common/quantity.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAMES_MAX 1000
#define INDEX_MAX 400 /* bytes: it is part of sentences */
#define CONNECTIONS 64
#define IDLE_USEC (30 * 1000 * 1000ULL)

#define PYTHON_HOST "pypi.org"
#define PYTHON_INDEX "https://" PYTHON_HOST "/simple/"
#define PYTHON_FILES "files.pythonhosted.org"
#define NODE_INDEX "https://registry.npmjs.org/"

/* ---- indexes */

static bool is_visible(const char *text)
{
    for (; *text; text++)
        if (*text <= ' ' || *text > '~' || strchr("\"'\\`", *text))
            return false;
    return true;
}

/* Splits "host", "host:port" and "[address]:port" of @size bytes. */
static bool parse_place(const char *text, size_t size, struct package_index *ret)
{
    const char *end = text + size, *host_end, *port = NULL;
    uint64_t number = ret->port;
    char digits[8];

    if (size > 0 && *text == '[') {
        host_end = memchr(text, ']', size);
        if (!host_end)
            return false;
        text++;
        if (host_end + 1 < end)
            port = host_end + 1;
    } else {
        port = memchr(text, ':', size);
        host_end = port ? port : end;
    }
    if (port) {
        size_t n = (size_t)(end - port - 1);
        if (*port != ':' || n == 0 || n >= sizeof(digits))
            return false;
        snprintf(digits, sizeof(digits), "%.*s", (int)n, port + 1);
        if (parse_number(digits, &number) < 0 || number < 1 || number > UINT16_MAX)
            return false;
    }
    ret->port = (uint16_t)number;
    return host_parse(text, (size_t)(host_end - text), ret->host) != HOST_MALFORMED;
}

static bool parse_url(const char *value, struct package_index *ret)
{
    static const struct {
        const char *prefix;
        uint16_t port;
    } schemes[] = { { "https://", 443 }, { "http://", 80 } };

    for (size_t i = 0; i < ELEMENTS(schemes); i++) {
        size_t n = strlen(schemes[i].prefix);
        if (strncmp(value, schemes[i].prefix, n) != 0)
            continue;
        ret->port = schemes[i].port;
        return parse_place(value + n, strcspn(value + n, "/?#"), ret);
    }
    return false;
}

static int set(struct package_index *index, const char *value, bool may_be_directory)
{
    struct package_index new = { .is_directory = value[0] == '/' };

    if (strlen(value) > INDEX_MAX || !is_visible(value))
        return -EINVAL;
    if (new.is_directory ? !may_be_directory || !path_is_plain(value + 1) : !parse_url(value, &new))
        return -EINVAL;
    new.text = strdup(value);
    if (!new.text)
        return -ENOMEM;
    free(index->text);
    *index = new;
    return 0;
}

int config_packages_set_index(struct package_index *index, const char *value)
{
    return set(index, value, true);
}

int config_packages_set_node_index(struct package_index *index, const char *value)
{
    return set(index, value, false);
}

const struct package_index *config_packages_index(const struct config_packages *packages,
                                                  enum ecosystem ecosystem)
{
    return ecosystem == ECOSYSTEM_NODE ? &packages->node_index : &packages->index;
}

/* ---- lists */

static void free_names(char ***list)
{
    for (char **name = *list; name && *name; name++)
        free(*name);
    free(*list);
    *list = NULL;
}

/* Both ecosystems share the lists. */
static bool is_pattern(const char *word)
{
    char name[PACKAGE_NAME_MAX + 1];
    size_t n = strlen(word);

    if (strcmp(word, "*") == 0 || package_normalise_name(ECOSYSTEM_PYTHON, word, name) ||
        package_normalise_name(ECOSYSTEM_NODE, word, name))
        return true;
    return word[0] == '@' && n > 3 && n < sizeof(name) && strcmp(word + n - 2, "/*") == 0 &&
           memchr(word, '/', n) == word + n - 2;
}

static int add_name(char ***list, const char *word)
{
    size_t n = 0;

    while (*list && (*list)[n])
        n++;
    if (n == NAMES_MAX)
        return -E2BIG;
    char **longer = realloc(*list, (n + 2) * sizeof(char *));
    if (!longer)
        return -ENOMEM;
    *list = longer;
    longer[n] = strdup(word);
    longer[n + 1] = NULL;
    return longer[n] ? 0 : -ENOMEM;
}

int config_packages_add_names(char ***list, const char *value)
{
    _cleanup_free_ char *copy = strdup(value);
    char *rest = copy, *word;
    int r = copy ? 0 : -ENOMEM;

    if (value[strspn(value, " \t")] == '\0')
        free_names(list);
    while (r >= 0 && (word = strsep(&rest, " \t")))
        if (*word)
            r = is_pattern(word) ? add_name(list, word) : -EINVAL;
    return r;
}

/* ---- all of it */

static int complete_index(struct package_index *index, const char *value)
{
    if (index->text)
        return 0;
    int r = set(index, value, false);
    index->is_built_in = true;
    return r;
}

static int complete_list(char ***list)
{
    if (!*list)
        *list = calloc(1, sizeof(char *));
    return *list ? 0 : -ENOMEM;
}

int config_packages_complete(struct config_packages *packages)
{
    int r = complete_index(&packages->index, PYTHON_INDEX);

    if (r >= 0)
        r = complete_index(&packages->node_index, NODE_INDEX);
    if (r >= 0 && !packages->has_allowed)
        r = config_packages_add_names(&packages->allowed, "*");
    if (r >= 0)
        r = complete_list(&packages->allowed);
    if (r >= 0)
        r = complete_list(&packages->denied);
    if (r >= 0 && packages->layer_bytes > packages->user_bytes)
        r = -ERANGE;
    return r;
}

void config_packages_release(struct config_packages *packages)
{
    free(packages->index.text);
    free(packages->node_index.text);
    host_list_release(&packages->hosts);
    free_names(&packages->allowed);
    free_names(&packages->denied);
    *packages = (struct config_packages){ 0 };
}

/* ---- the way to the index */

/* An address stands for itself; @ret_named is set if @host is a name. */
static int allow_host(const char *host, struct egress_start *start, bool *ret_named)
{
    struct ip_address address;

    if (ip_address_parse(host, &address))
        return ip_prefix_list_add(&start->allowed_addresses, host);
    *ret_named = true;
    return 0;
}

/* The administrator named the index and its hosts, so they may be in a private network, or this
 * machine. Behind a name there may be any address but the link-local ones and two more, where
 * clouds answer with their secrets. Names are not told apart there, so those beside a built-in
 * index are to be public as it is. */
static int allow_addresses(const struct config_packages *packages,
                           const struct package_index *index, struct egress_start *start)
{
    static const char *const secret[] = { "169.254.0.0/16", "fe80::/10", "168.63.129.16",
                                          "fd00:ec2::254" };
    bool is_named = false;
    int r = index->is_built_in ? 0 : allow_host(index->host, start, &is_named);

    for (size_t i = 0; r >= 0 && i < packages->hosts.n; i++)
        r = allow_host(packages->hosts.items[i], start, &is_named);
    if (r < 0 || !is_named || index->is_built_in)
        return r;
    r = ip_prefix_list_add(&start->allowed_addresses, "0.0.0.0/0");
    if (r >= 0)
        r = ip_prefix_list_add(&start->allowed_addresses, "::/0");
    for (size_t i = 0; r >= 0 && i < ELEMENTS(secret); i++)
        r = ip_prefix_list_add(&start->denied_addresses, secret[i]);
    return r;
}

static int allow_names(const struct config_packages *packages, const struct package_index *index,
                       struct egress_start *start)
{
    int r = host_list_add(&start->allowed_names, index->host);

    if (r >= 0 && strcmp(index->host, PYTHON_HOST) == 0)
        r = host_list_add(&start->allowed_names, PYTHON_FILES);
    for (size_t i = 0; r >= 0 && i < packages->hosts.n; i++)
        r = host_list_add(&start->allowed_names, packages->hosts.items[i]);
    return r;
}

int config_packages_start(const struct config_packages *packages, enum ecosystem ecosystem,
                          const char *run_id, struct egress_start *ret)
{
    const struct package_index *index = config_packages_index(packages, ecosystem);
    struct egress_start start = {
        .ports = { .items = { index->port }, .n = 1 },
        .connections = CONNECTIONS,
        /* What comes is compressed, and there are pages of the index besides. */
        .bytes = packages->layer_bytes + (UINT64_C(256) << 20),
        .idle_usec = IDLE_USEC,
    };

    snprintf(start.run_id, sizeof(start.run_id), "%s", run_id);
    if (packages->hosts.n > 0 && index->port != 443)
        start.ports.items[start.ports.n++] = 443;
    int r = allow_names(packages, index, &start);
    if (r >= 0)
        r = allow_addresses(packages, index, &start);
    if (r < 0) {
        config_packages_start_release(&start);
        return r;
    }
    *ret = start;
    return 0;
}

void config_packages_start_release(struct egress_start *start)
{
    host_list_release(&start->allowed_names);
    ip_prefix_list_release(&start->allowed_addresses);
    ip_prefix_list_release(&start->denied_addresses);
}
