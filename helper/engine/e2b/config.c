/* Loading of the engine's configuration, see config.h. */
#include "config.h"

#include <stdio.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/config-file.h"
#include "common/quantity.h"

#define TEXT_MAX 256
#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
/* As many connections as the service takes, less some for cleaning up. */
#define SANDBOXES_MAX 200

void config_release(struct config *config)
{
    free(config->api_url);
    free(config->domain);
    free(config->sandbox_url);
    free(config->template_id);
    free(config->ca_file);
    free(config->proxy);
    free(config->user);
    free(config->interpreters);
    *config = (struct config){ 0 };
}

static bool consists_of(const char *value, const char *characters)
{
    return value[0] != '\0' && strlen(value) <= TEXT_MAX &&
           value[strspn(value, characters)] == '\0';
}

bool config_template_is_valid(const char *name)
{
    return consists_of(name, LETTERS "-_./:") && name[0] != '/' && name[0] != ':' && name[0] != '.';
}

/* Only with TLS. What goes there is the key. */
static int replace_url(char **target, const char *value)
{
    static const char scheme[] = "https://";
    bool valid = strncmp(value, scheme, strlen(scheme)) == 0 &&
                 consists_of(value + strlen(scheme), LETTERS "-._:/[]");
    int r = config_file_replace(target, value, valid);

    for (size_t n = r < 0 ? 0 : strlen(*target); n > 0 && (*target)[n - 1] == '/'; n--)
        (*target)[n - 1] = '\0';
    return r;
}

static int replace_number(uint64_t *target, const char *value)
{
    uint64_t number;
    int r = parse_number(value, &number);

    if (r >= 0 && (number < 1 || number > SANDBOXES_MAX))
        r = -ERANGE;
    if (r >= 0)
        *target = number;
    return r;
}

static int handle_key(void *userdata, const char *section, const char *key, const char *value)
{
    struct config *config = userdata;

    if (strcmp(section, "E2B") != 0)
        return -ENOENT;
    if (strcmp(key, "Domain") == 0)
        return config_file_replace(&config->domain, value, consists_of(value, LETTERS "-."));
    if (strcmp(key, "ApiUrl") == 0)
        return replace_url(&config->api_url, value);
    if (strcmp(key, "SandboxUrl") == 0)
        return replace_url(&config->sandbox_url, value);
    if (strcmp(key, "Template") == 0)
        return config_file_replace(&config->template_id, value, config_template_is_valid(value));
    if (strcmp(key, "CAFile") == 0)
        return config_file_replace(&config->ca_file, value,
                                   value[0] == '/' && strlen(value) <= TEXT_MAX);
    if (strcmp(key, "Proxy") == 0)
        return config_file_replace(&config->proxy, value, consists_of(value, LETTERS "-._:/[]@"));
    if (strcmp(key, "User") == 0)
        return config_file_replace(&config->user, value, consists_of(value, LETTERS "-_."));
    if (strcmp(key, "Interpreters") == 0)
        return config_file_replace(&config->interpreters, value,
                                   value[0] == '\0' || consists_of(value, LETTERS "-_./: "));
    if (strcmp(key, "MaxSandboxes") == 0)
        return replace_number(&config->max_sandboxes, value);
    return -ENOENT;
}

static int fill(struct config *config, const char *path, char **ret_error)
{
    int r = config_file_replace(&config->domain, "e2b.app", true);

    r = r < 0 ? r : config_file_replace(&config->template_id, "code-interpreter-v1", true);
    r = r < 0 ? r : config_file_replace(&config->interpreters, "code-interpreter-v1", true);
    r = r < 0 ? r
              : config_file_replace(&config->ca_file, "/etc/ssl/certs/ca-certificates.crt", true);
    r = r < 0 ? r : config_file_load(path, handle_key, config, ret_error);
    if (r < 0 && r != -ENOENT)
        return r;
    if (config->api_url)
        return 0;
    if (asprintf(&config->api_url, "https://api.%s", config->domain) < 0) {
        config->api_url = NULL;
        return -ENOMEM;
    }
    return 0;
}

int config_load(const char *path, struct config *ret, char **ret_error)
{
    struct config config = { .max_sandboxes = 8 };

    *ret_error = NULL;
    int r = fill(&config, path, ret_error);
    if (r < 0)
        config_release(&config);
    else
        *ret = config;
    return r;
}
