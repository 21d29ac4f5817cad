/* Loading of the engine's configuration, see config.h. */
#include "config.h"

#include <stdbool.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/config-file.h"
#include "common/quantity.h"

#define USEC_MIN UINT64_C(1000000)
#define USEC_MAX UINT64_C(86400000000)
#define RUNTIME_CHARACTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"

void config_release(struct config *config)
{
    free(config->socket);
    free(config->runtime);
    *config = (struct config){ 0 };
}

static bool is_runtime(const char *value)
{
    return value[0] != '\0' && strlen(value) <= 128 &&
           value[strspn(value, RUNTIME_CHARACTERS)] == '\0';
}

static int handle_key(void *userdata, const char *section, const char *key, const char *value)
{
    struct config *config = userdata;
    uint64_t usec;

    if (strcmp(section, "Docker") != 0)
        return -ENOENT;
    if (strcmp(key, "Socket") == 0)
        return config_file_replace(&config->socket, value, value[0] == '/' && strlen(value) < 108);
    if (strcmp(key, "Runtime") == 0)
        return config_file_replace(&config->runtime, value, is_runtime(value));
    if (strcmp(key, "PullTimeout") != 0)
        return -ENOENT;
    int r = parse_usec(value, &usec);
    if (r >= 0 && (usec < USEC_MIN || usec > USEC_MAX))
        r = -ERANGE;
    if (r >= 0)
        config->pull_timeout_usec = usec;
    return r;
}

int config_load(const char *path, struct config *ret, char **ret_error)
{
    struct config config = { .pull_timeout_usec = 15 * 60 * UINT64_C(1000000) };

    *ret_error = NULL;
    int r = config_file_replace(&config.socket, "/run/docker.sock", true);
    r = r < 0 ? r : config_file_load(path, handle_key, &config, ret_error);
    if (r < 0 && r != -ENOENT) {
        config_release(&config);
        return r;
    }
    *ret = config;
    return 0;
}
