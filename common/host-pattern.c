/* Names of hosts and their patterns, see host-pattern.h. */
#include "common/host-pattern.h"

#include <string.h>

#include "common/cleanup.h"
#include "common/ip-prefix.h"

#define NAME_MAX_BYTES 253 /* RFC 1035, as text */
#define LABEL_MAX_BYTES 63
#define DIGITS "0123456789"
#define LABEL_CHARACTERS "abcdefghijklmnopqrstuvwxyz" DIGITS "-_"

static bool label_is_valid(const char *label, size_t length)
{
    return length > 0 && length <= LABEL_MAX_BYTES && label[0] != '-' && label[length - 1] != '-';
}

static bool label_is_number(const char *label)
{
    return label[strspn(label, DIGITS)] == '\0' || strncmp(label, "0x", 2) == 0;
}

/* @name is lower case, without a dot at its end. */
static bool name_is_valid(const char *name)
{
    if (strlen(name) > NAME_MAX_BYTES)
        return false;
    for (;;) {
        size_t length = strspn(name, LABEL_CHARACTERS);

        if (!label_is_valid(name, length))
            return false;
        if (name[length] == '\0')
            return !label_is_number(name);
        if (name[length] != '.')
            return false;
        name += length + 1;
    }
}

/* As tolower(3) in the C locale. */
static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

enum host_kind host_parse(const char *text, size_t size, char ret[HOST_TEXT_MAX + 1])
{
    char host[HOST_TEXT_MAX + 1];
    struct ip_address address;

    if (size == 0 || size > HOST_TEXT_MAX || memchr(text, '\0', size))
        return HOST_MALFORMED;
    for (size_t i = 0; i < size; i++)
        host[i] = lower(text[i]);
    host[size] = '\0';
    if (ip_address_parse(host, &address)) {
        ip_address_format(&address, ret);
        return HOST_ADDRESS;
    }
    if (host[size - 1] == '.')
        host[size - 1] = '\0';
    if (!name_is_valid(host))
        return HOST_MALFORMED;
    strcpy(ret, host);
    return HOST_NAME;
}

bool host_pattern_parse(const char *text, char ret[HOST_TEXT_MAX + 1])
{
    if (strcmp(text, "*") == 0) {
        strcpy(ret, text);
        return true;
    }
    if (strncmp(text, "*.", 2) != 0)
        return host_parse(text, strlen(text), ret) != HOST_MALFORMED;
    char suffix[HOST_TEXT_MAX + 1];
    if (host_parse(text + 2, strlen(text + 2), suffix) != HOST_NAME)
        return false;
    ret[0] = '*';
    ret[1] = '.';
    strcpy(ret + 2, suffix); /* at most 253 bytes */
    return true;
}

bool host_pattern_covers(const char *pattern, const char *other)
{
    struct ip_address address;

    if (strcmp(pattern, other) == 0)
        return true;
    if (pattern[0] != '*' || ip_address_parse(other, &address))
        return false;
    if (pattern[1] == '\0')
        return true;
    /* ".suffix" at the end, with something before it: of "*.suffix", that is the star. */
    size_t tail = strlen(pattern + 1), length = strlen(other);
    return length > tail && strcmp(other + length - tail, pattern + 1) == 0;
}

bool host_is_localhost(const char *name)
{
    return strcmp(name, "localhost") == 0 || host_pattern_covers("*.localhost", name);
}

int host_list_add(struct host_list *list, const char *pattern)
{
    char text[HOST_TEXT_MAX + 1];

    if (!host_pattern_parse(pattern, text))
        return -EINVAL;
    char **items = reallocarray(list->items, list->n + 1, sizeof(*items));
    if (!items)
        return -ENOMEM;
    list->items = items;
    items[list->n] = strdup(text);
    if (!items[list->n])
        return -ENOMEM;
    list->n++;
    return 0;
}

void host_list_release(struct host_list *list)
{
    for (size_t i = 0; i < list->n; i++)
        free(list->items[i]);
    free(list->items);
    *list = (struct host_list){ 0 };
}

const char *host_list_find(const struct host_list *list, const char *other)
{
    for (size_t i = 0; i < list->n; i++)
        if (host_pattern_covers(list->items[i], other))
            return list->items[i];
    return NULL;
}
