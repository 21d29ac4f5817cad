/* The launcher's parsers on arbitrary packets. What they hand out must be strings inside the
 * packet. */
#include "launch/launch.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool good)
{
    if (!good)
        abort();
}

static void check_inside(const char *string, const char *packet, size_t size)
{
    check(string >= packet && string < packet + size);
    check(memchr(string, '\0', (size_t)(packet + size - string)) != NULL);
}

static void check_go(char *packet, size_t size)
{
    static struct launch_program program;
    const struct launch_go *go = (const struct launch_go *)packet;

    if (launch_parse_go(packet, size, &program) < 0)
        return;
    check(go->n_argv >= 1 && go->n_argv <= LAUNCH_ARGV_MAX && go->n_env <= LAUNCH_ENV_MAX);
    for (uint32_t i = 0; i < go->n_argv; i++)
        check_inside(program.argv[i], packet, size);
    for (uint32_t i = 0; i < go->n_env; i++)
        check_inside(program.env[i], packet, size);
    check(!program.argv[go->n_argv] && !program.env[go->n_env]);
    check_inside(program.directory, packet, size);
}

static void check_put(const char *packet, size_t size)
{
    const char *name;

    if (launch_parse_put(packet, size, &name) == 0)
        check_inside(name, packet, size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    /* On the heap and no larger than it must be, so that the sanitizer sees each byte too much. */
    char *packet = malloc(size > 0 ? size : 1);

    if (!packet)
        return 0;
    memcpy(packet, data, size);
    check_go(packet, size);
    check_put(packet, size);
    free(packet);
    return 0;
}
