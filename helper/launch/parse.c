/* The broker's packets as the launcher understands them, see launch.h. Only looks, never acts. */
#include "launch.h"

#include <string.h>

int launch_parse_put(const char *packet, size_t size, const char **ret_name)
{
    const struct launch_put *put = (const struct launch_put *)packet;
    const char *name = packet + sizeof(*put);

    if (size <= sizeof(*put) || packet[size - 1] != '\0' || (put->mode & ~0777U) != 0)
        return -EBADMSG;
    if (strlen(name) != size - sizeof(*put) - 1)
        return -EBADMSG;
    *ret_name = name;
    return 0;
}

/* Returns the string at *@p and moves on to the next one, or NULL at the packet's end. The caller
 * has seen to it that the packet's last byte is a NUL, so every string that begins inside the
 * packet ends inside it. */
static char *next_string(char **p, const char *end)
{
    char *string = *p;

    if (string >= end)
        return NULL;
    *p = string + strlen(string) + 1;
    return string;
}

int launch_parse_go(char *packet, size_t size, struct launch_program *ret)
{
    const struct launch_go *go = (const struct launch_go *)packet;
    char *p = packet + sizeof(*go);
    const char *end = packet + size;

    if (size <= sizeof(*go) || end[-1] != '\0' || go->n_argv < 1 || go->n_argv > LAUNCH_ARGV_MAX ||
        go->n_env > LAUNCH_ENV_MAX)
        return -EBADMSG;

    for (uint32_t i = 0; i < go->n_argv; i++)
        if (!(ret->argv[i] = next_string(&p, end)))
            return -EBADMSG;
    ret->argv[go->n_argv] = NULL;

    for (uint32_t i = 0; i < go->n_env; i++) {
        char *variable = ret->env[i] = next_string(&p, end);
        if (!variable || *variable == '=' || !strchr(variable, '='))
            return -EBADMSG;
    }
    ret->env[go->n_env] = NULL;

    ret->directory = next_string(&p, end);
    return ret->directory && p == end ? 0 : -EBADMSG;
}
