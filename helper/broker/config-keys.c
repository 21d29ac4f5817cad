/* The keys of sbxctl.conf, see config-keys.h. What a key means and which values it takes is told
 * here, in one table. */
#include "broker/config-keys.h"
#include "broker/config-words.h"
#include "common/cleanup.h"
#include "common/config-file.h"
#include "common/image-reference.h"
#include "common/quantity.h"

#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>

/* Of the machine's memory, what all runs have together if nothing else is said. */
#define MEMORY_PERCENT 75

enum key_type {
    KEY_BYTES,
    KEY_MEMORY, /* bytes, or a part of the machine's, as "75%" */
    KEY_USEC,
    KEY_CPUS,
    KEY_NUMBER,
    KEY_BOOL,
    KEY_NETWORK,
    KEY_WHEN_FULL,
    KEY_SECRETS,
    KEY_WORD,
    KEY_WORDS,
    KEY_IMAGE,
    KEY_IMAGES,
    KEY_NAMES,
    KEY_ADDRESSES,
    KEY_PORTS,
    KEY_INDEX,
    KEY_NODE_INDEX,
    KEY_PACKAGES,
};

static const struct key {
    const char *section, *name;
    enum key_type type;
    size_t offset;
    uint64_t min, max;
} keys[] = {
#define AT(member) offsetof(struct config, member)
    { "Defaults", "Network", KEY_NETWORK, AT(defaults.network), 0, 0 },
    { "Defaults", "Memory", KEY_BYTES, AT(defaults.memory_bytes), 16 << 20, UINT64_C(1) << 42 },
    { "Defaults", "CPUs", KEY_CPUS, AT(defaults.cpu_percent), 1, 100000 },
    { "Defaults", "Timeout", KEY_USEC, AT(defaults.timeout_usec), 100000, 86400000000 },
    { "Ceiling", "Network", KEY_NETWORK, AT(ceiling.network), 0, 0 },
    { "Ceiling", "Memory", KEY_BYTES, AT(ceiling.memory_bytes), 16 << 20, UINT64_C(1) << 42 },
    { "Ceiling", "CPUs", KEY_CPUS, AT(ceiling.cpu_percent), 1, 100000 },
    { "Ceiling", "Timeout", KEY_USEC, AT(ceiling.timeout_usec), 100000, 86400000000 },
    { "Limits", "Tasks", KEY_NUMBER, AT(tasks), 8, 100000 },
    { "Limits", "Workspace", KEY_BYTES, AT(workspace_bytes), 1 << 20, UINT64_C(1) << 42 },
    { "Limits", "WorkspaceFiles", KEY_NUMBER, AT(workspace_files), 16, 10000000 },
    { "Limits", "Scratch", KEY_BYTES, AT(scratch_bytes), 1 << 20, UINT64_C(1) << 42 },
    { "Limits", "OutputFiles", KEY_NUMBER, AT(output_files), 1, 100000 },
    { "Limits", "KeptOutput", KEY_BYTES, AT(kept_stream_bytes), 4096, UINT64_C(1) << 32 },
    { "Limits", "ScriptSize", KEY_BYTES, AT(script_bytes), 1, 64 << 20 },
    { "Limits", "InputSize", KEY_BYTES, AT(input_bytes), 0, UINT64_C(1) << 42 },
    { "Limits", "Inputs", KEY_NUMBER, AT(inputs), 0, 250 },
    { "Limits", "CloudSeconds", KEY_NUMBER, AT(cloud_seconds), 0, 1000000000 },
    { "Queue", "Runs", KEY_NUMBER, AT(queue.runs), 1, 1000 },
    { "Queue", "RunsPerUser", KEY_NUMBER, AT(queue.runs_per_user), 1, 1000 },
    { "Queue", "Queued", KEY_NUMBER, AT(queue.queued), 0, 10000 },
    { "Queue", "QueuedPerUser", KEY_NUMBER, AT(queue.queued_per_user), 0, 10000 },
    { "Queue", "Memory", KEY_MEMORY, AT(queue.memory_bytes), 16 << 20, UINT64_C(1) << 50 },
    { "Queue", "MemoryPerUser", KEY_MEMORY, AT(queue.memory_per_user_bytes), 16 << 20,
      UINT64_C(1) << 50 },
    { "Queue", "CPUs", KEY_CPUS, AT(queue.cpu_percent), 1, 10000000 },
    { "Queue", "InputSizePerUser", KEY_BYTES, AT(queue.held_per_user_bytes), 4096,
      UINT64_C(1) << 42 },
    { "Pool", "Size", KEY_NUMBER, AT(pool_size), 0, 64 },
    { "Pool", "Interpreter", KEY_BOOL, AT(pool_interpreter), 0, 0 },
    { "Pool", "KeepTime", KEY_USEC, AT(pool_keep_usec), 1000000, 86400000000 },
    { "Results", "MaxAge", KEY_USEC, AT(results.max_age_usec), 0, INT64_MAX },
    { "Results", "MaxRuns", KEY_NUMBER, AT(results.max_runs), 1, 1000000 },
    { "Results", "MaxBytes", KEY_BYTES, AT(results.max_bytes), 1 << 20, UINT64_C(1) << 50 },
    { "Results", "MaxFiles", KEY_NUMBER, AT(results.max_files), 10, 100000000 },
    { "Results", "WhenFull", KEY_WHEN_FULL, AT(results.remove_oldest), 0, 0 },
    { "Helper", "Engine", KEY_WORD, AT(engine), 0, 64 },
    { "Helper", "CloudEngines", KEY_WORDS, AT(cloud_engines), 0, 0 },
    { "Helper", "ImageEngines", KEY_WORDS, AT(image_engines), 0, 0 },
    { "Images", "Default", KEY_IMAGE, AT(image), 0, 0 },
    { "Images", "Allowed", KEY_IMAGES, AT(images), 0, 0 },
    { "Images", "Templates", KEY_WORDS, AT(templates), 0, 0 },
    { "Network", "AllowedNames", KEY_NAMES, AT(network.allowed_names), 0, 0 },
    { "Network", "DeniedNames", KEY_NAMES, AT(network.denied_names), 0, 0 },
    { "Network", "AllowedPorts", KEY_PORTS, AT(network.ports), 0, 0 },
    { "Network", "AllowedAddresses", KEY_ADDRESSES, AT(network.allowed_addresses), 0, 0 },
    { "Network", "DeniedAddresses", KEY_ADDRESSES, AT(network.denied_addresses), 0, 0 },
    { "Network", "Connections", KEY_NUMBER, AT(network.connections), 1, EGRESS_CONNECTIONS_MAX },
    { "Network", "Bytes", KEY_BYTES, AT(network.bytes), 4096, INT64_MAX },
    { "Network", "IdleTimeout", KEY_USEC, AT(network.idle_usec), 1000000, 86400000000 },
    { "Packages", "Index", KEY_INDEX, AT(packages.index), 0, 0 },
    { "Packages", "NodeIndex", KEY_NODE_INDEX, AT(packages.node_index), 0, 0 },
    { "Packages", "Hosts", KEY_NAMES, AT(packages.hosts), 0, 0 },
    { "Packages", "Allowed", KEY_PACKAGES, AT(packages.allowed), 0, 0 },
    { "Packages", "Denied", KEY_PACKAGES, AT(packages.denied), 0, 0 },
    { "Packages", "OnlyBinary", KEY_BOOL, AT(packages.only_binary), 0, 0 },
    { "Packages", "Timeout", KEY_USEC, AT(packages.timeout_usec), 5000000, 3600000000 },
    { "Packages", "LayerSize", KEY_BYTES, AT(packages.layer_bytes), 1 << 20, UINT64_C(1) << 40 },
    { "Packages", "LayerFiles", KEY_NUMBER, AT(packages.layer_files), 10, 10000000 },
    { "Packages", "UserSize", KEY_BYTES, AT(packages.user_bytes), 1 << 20, UINT64_C(1) << 42 },
    { "Packages", "MaxAge", KEY_USEC, AT(packages.max_age_usec), 0, INT64_MAX },
    { "Helper", "AuditRequired", KEY_BOOL, AT(audit_required), 0, 0 },
    { "Helper", "AuditArguments", KEY_BOOL, AT(audit_arguments), 0, 0 },
    { "Helper", "Secrets", KEY_SECRETS, AT(secrets), 0, 0 },
    { "Helper", "AuditRefusals", KEY_NUMBER, AT(audit_refusals), 1, 1000000 },
    { "Helper", "ConnectionsPerUser", KEY_NUMBER, AT(connections_per_user), 2, 1000 },
    { "Helper", "ApprovalTimeout", KEY_USEC, AT(approval_timeout_usec), 1000000, 3600000000 },
    { "Helper", "StartTimeout", KEY_USEC, AT(start_timeout_usec), 1000000, 3600000000 },
    { "Helper", "Grace", KEY_USEC, AT(grace_usec), 0, 60000000 },
    { "Helper", "IdleExit", KEY_USEC, AT(idle_exit_usec), 1000000, 86400000000 },
#undef AT
};

static const struct config built_in = {
    .defaults = { .memory_bytes = 512 << 20, .cpu_percent = 100, .timeout_usec = 60000000 },
    .ceiling = { .network = true,
                 .memory_bytes = UINT64_C(2) << 30,
                 .cpu_percent = 200,
                 .timeout_usec = 300000000 },
    .tasks = 256,
    .workspace_bytes = 256 << 20,
    .workspace_files = 100000,
    .scratch_bytes = 64 << 20,
    .output_files = 1000,
    .kept_stream_bytes = 8 << 20,
    .script_bytes = 1 << 20,
    .input_bytes = 256 << 20,
    .inputs = 100,
    .queue = { .runs = 8,
               .runs_per_user = 2,
               .queued = 1000,
               .queued_per_user = 16,
               .held_per_user_bytes = 1 << 30 },
    .pool_size = 2,
    .pool_keep_usec = 600000000,
    .pool_interpreter = true,
    .results = { .max_age_usec = UINT64_C(30) * 86400000000,
                 .max_runs = 1000,
                 .max_bytes = UINT64_C(10) << 30,
                 .max_files = 100000 },
    .connections_per_user = 64,
    .cloud_seconds = 3600,
    .approval_timeout_usec = 300000000,
    .start_timeout_usec = 30000000,
    .grace_usec = 2000000,
    .idle_exit_usec = 30000000,
    .audit_required = true,
    .audit_arguments = true,
    .audit_refusals = 100,
    .network = { .connections = 256, .bytes = UINT64_C(10) << 30, .idle_usec = 60000000 },
    .packages = { .only_binary = true,
                  .timeout_usec = 120000000,
                  .layer_bytes = 1 << 30,
                  .layer_files = 50000,
                  .user_bytes = UINT64_C(5) << 30,
                  .max_age_usec = UINT64_C(7) * 86400000000 },
};

static bool word_is_plain(const char *word)
{
    return *word != '\0' && word[strspn(word, "abcdefghijklmnopqrstuvwxyz0123456789-_")] == '\0';
}

static int parse_either(const char *value, const char *no, const char *yes, bool *ret)
{
    bool is_yes = strcmp(value, yes) == 0;

    if (!is_yes && strcmp(value, no) != 0)
        return -EINVAL;
    *ret = is_yes;
    return 0;
}

static int parse_bool(const char *value, bool *ret)
{
    int r = parse_either(value, "no", "yes", ret);

    return r < 0 ? parse_either(value, "false", "true", ret) : r;
}

static int parse_secrets(const char *value, enum secrets *ret)
{
    static const char *const names[] = {
        [SECRETS_WARN] = "warn",
        [SECRETS_REFUSE] = "refuse",
        [SECRETS_ALLOW] = "allow",
    };

    for (size_t i = 0; i < ELEMENTS(names); i++)
        if (strcmp(names[i], value) == 0) {
            *ret = (enum secrets)i;
            return 0;
        }
    return -EINVAL;
}

static int add_word(void *list, const char *word)
{
    return words_add(list, CONFIG_WORDS_MAX, word);
}

static int parse_words(const char *value, char **ret)
{
    words_free(ret);
    return words_for_each(value, add_word, ret);
}

static int apply_image(char **target, const char *value)
{
    return config_file_replace(target, value, image_reference_is_valid(value));
}

static int add_image(void *list, const char *word)
{
    return image_reference_is_valid(word) ? words_add(list, CONFIG_IMAGES_MAX, word) : -EINVAL;
}

/* Each line adds to the list; an empty one begins it anew. */
static int apply_images(char **list, const char *value)
{
    if (words_are_none(value))
        words_free(list);
    return words_for_each(value, add_image, list);
}

/* Not /proc/meminfo, which the unit hides. */
static int part_of_memory(uint64_t percent, uint64_t *ret)
{
    struct sysinfo info;

    if (sysinfo(&info) < 0)
        return -errno;
    *ret = (uint64_t)info.totalram * info.mem_unit / 100 * percent;
    return 0;
}

static int parse_memory(const char *value, uint64_t *ret)
{
    size_t length = strlen(value);
    char digits[8];
    uint64_t percent;
    int r;

    if (length == 0 || value[length - 1] != '%')
        return parse_bytes(value, ret);
    if (length > sizeof(digits))
        return -EINVAL;
    memcpy(digits, value, length - 1);
    digits[length - 1] = '\0';
    r = parse_number(digits, &percent);
    if (r < 0)
        return r;
    return percent < 1 || percent > 100 ? -ERANGE : part_of_memory(percent, ret);
}

static int apply_key(struct config *config, const struct key *key, const char *value)
{
    void *target = (char *)config + key->offset;
    uint64_t number;
    int r;

    switch (key->type) {
    case KEY_BOOL:
        return parse_bool(value, target);
    case KEY_NETWORK:
        return parse_either(value, "none", "internet", target);
    case KEY_SECRETS:
        return parse_secrets(value, target);
    case KEY_WHEN_FULL:
        return parse_either(value, "refuse", "remove-oldest", target);
    case KEY_WORD:
        return config_file_replace(target, value,
                                   word_is_plain(value) && strlen(value) <= key->max);
    case KEY_WORDS:
        return parse_words(value, target);
    case KEY_IMAGE:
        return apply_image(target, value);
    case KEY_IMAGES:
        return apply_images(target, value);
    case KEY_NAMES:
        config->network.has_names |= target == &config->network.allowed_names;
        return config_network_add_names(target, value);
    case KEY_ADDRESSES:
        return config_network_add_addresses(target, value);
    case KEY_PORTS:
        config->network.has_ports = true;
        return config_network_add_ports(target, value);
    case KEY_INDEX:
        return config_packages_set_index(target, value);
    case KEY_NODE_INDEX:
        return config_packages_set_node_index(target, value);
    case KEY_PACKAGES:
        config->packages.has_allowed |= target == &config->packages.allowed;
        return config_packages_add_names(target, value);
    case KEY_BYTES:
        r = parse_bytes(value, &number);
        break;
    case KEY_MEMORY:
        r = parse_memory(value, &number);
        break;
    case KEY_USEC:
        r = parse_usec(value, &number);
        break;
    case KEY_CPUS:
        r = parse_cpus(value, &number);
        break;
    case KEY_NUMBER:
        r = parse_number(value, &number);
        break;
    default:
        return -EINVAL;
    }
    if (r < 0)
        return r;
    if (number < key->min || number > key->max)
        return -ERANGE;
    *(uint64_t *)target = number;
    return 0;
}

static int apply_language_key(struct config *config, const char *name, const char *key,
                              const char *value)
{
    struct language *language = (struct language *)config_find_language(config, name);

    if (!language) {
        if (!word_is_plain(name) || config->n_languages == CONFIG_LANGUAGES_MAX)
            return -EINVAL;
        language = &config->languages[config->n_languages];
        language->name = strdup(name);
        if (!language->name)
            return -ENOMEM;
        config->n_languages++;
    }
    if (strcmp(key, "Interpreter") == 0)
        return config_file_replace(&language->interpreter, value, *value != '\0');
    if (strcmp(key, "Image") == 0)
        return apply_image(&language->image, value);
    if (strcmp(key, "Options") == 0)
        return parse_words(value, language->options);
    if (strcmp(key, "Extensions") == 0)
        return parse_words(value, language->extensions);
    if (strcmp(key, "Shebangs") == 0)
        return parse_words(value, language->shebangs);
    return -ENOENT;
}

int config_set_key(void *userdata, const char *section, const char *name, const char *value)
{
    struct config *config = userdata;

    if (strncmp(section, "Language ", 9) == 0)
        return apply_language_key(config, section + 9, name, value);
    for (size_t i = 0; i < ELEMENTS(keys); i++)
        if (strcmp(keys[i].section, section) == 0 && strcmp(keys[i].name, name) == 0)
            return apply_key(config, &keys[i], value);
    return -ENOENT;
}

int config_set_built_in(struct config *ret)
{
    struct config config = built_in;

    int r = part_of_memory(MEMORY_PERCENT, &config.queue.memory_bytes);
    if (r < 0)
        return r;
    config.engine = strdup("systemd");
    config.cloud_engines[0] = strdup("e2b");
    config.image_engines[0] = strdup("docker");
    config.image = strdup("python:3.12-slim");
    if (!config.engine || !config.cloud_engines[0] || !config.image_engines[0] || !config.image) {
        config_release(&config);
        return -ENOMEM;
    }
    *ret = config;
    return 0;
}
