/* Loading of the administrator's configuration, see config.h. The keys are in config-keys.c. */
#include "broker/config.h"
#include "broker/config-keys.h"
#include "broker/config-words.h"
#include "common/cleanup.h"
#include "common/config-file.h"
#include "common/directory.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define CONFIG_DROPINS_MAX 64

void config_release(struct config *config)
{
    free(config->engine);
    words_free(config->cloud_engines);
    words_free(config->image_engines);
    free(config->image);
    words_free(config->images);
    words_free(config->templates);
    config_network_release(&config->network);
    config_packages_release(&config->packages);
    for (size_t i = 0; i < config->n_languages; i++) {
        struct language *language = &config->languages[i];
        free(language->name);
        free(language->image);
        free(language->interpreter);
        words_free(language->options);
        words_free(language->extensions);
        words_free(language->shebangs);
    }
    *config = (struct config){ 0 };
}

const struct language *config_find_language(const struct config *config, const char *name)
{
    for (size_t i = 0; i < config->n_languages; i++)
        if (strcmp(config->languages[i].name, name) == 0)
            return &config->languages[i];
    return NULL;
}

struct dropin {
    char name[256];
    const char *directory;
};

static int compare_dropins(const void *a, const void *b)
{
    return strcmp(((const struct dropin *)a)->name, ((const struct dropin *)b)->name);
}

/* Adds the *.conf of <@base>/sbxctl.conf.d to the set; a name that is there already is replaced. */
static int list_dropins(const char *base, struct dropin *set, size_t *n, char **ret_error)
{
    _cleanup_free_ char *path = NULL;
    struct stat st;

    if (asprintf(&path, "%s/sbxctl.conf.d", base) < 0)
        return -ENOMEM;
    _cleanup_closedir_ DIR *dir = opendir(path);
    if (!dir)
        return errno == ENOENT ? 0 : config_file_fail(ret_error, -errno, path, strerror(errno));
    if (fstat(dirfd(dir), &st) < 0 || !config_file_is_trusted(&st))
        return config_file_fail(ret_error, -EPERM, path,
                                "must belong to root and be writable by nobody else");
    for (struct dirent *entry; (entry = directory_next(dir));) {
        const char *dot = strrchr(entry->d_name, '.');
        size_t i = 0;

        if (entry->d_name[0] == '.' || !dot || strcmp(dot, ".conf") != 0)
            continue;
        while (i < *n && strcmp(set[i].name, entry->d_name) != 0)
            i++;
        if (i == CONFIG_DROPINS_MAX)
            return config_file_fail(ret_error, -E2BIG, path, "more than 64 drop-ins");
        snprintf(set[i].name, sizeof(set[i].name), "%s", entry->d_name);
        set[i].directory = base;
        *n = i == *n ? *n + 1 : *n;
    }
    return 0;
}

static int check_whole(struct config *config, const char *directory, char **ret_error)
{
    const struct limits *d = &config->defaults, *c = &config->ceiling;

    if (d->memory_bytes > c->memory_bytes || d->cpu_percent > c->cpu_percent ||
        d->timeout_usec > c->timeout_usec || (d->network && !c->network))
        return config_file_fail(ret_error, -EINVAL, directory,
                                "a value of [Defaults] is above its [Ceiling]");
    for (size_t i = 0; i < config->n_languages; i++)
        if (!config->languages[i].interpreter)
            return config_file_fail(ret_error, -EINVAL, directory,
                                    "a [Language …] section lacks Interpreter=");
    int r = config_network_complete(&config->network);
    if (r == -E2BIG)
        return config_file_fail(ret_error, r, directory,
                                "the lists of [Network] are too long together");
    r = r < 0 ? r : config_packages_complete(&config->packages);
    return r == -ERANGE ? config_file_fail(ret_error, -EINVAL, directory,
                                           "LayerSize= of [Packages] is above UserSize=")
                        : r;
}

static int load_all(struct config *config, const char *directory, const char *vendor_directory,
                    char **ret_error)
{
    _cleanup_free_ struct dropin *set = calloc(CONFIG_DROPINS_MAX, sizeof(*set));
    _cleanup_free_ char *path = NULL;
    size_t n = 0;
    int r;

    if (!set || asprintf(&path, "%s/sbxctl.conf", directory) < 0)
        return -ENOMEM;
    r = list_dropins(vendor_directory, set, &n, ret_error);
    if (r >= 0)
        r = list_dropins(directory, set, &n, ret_error);
    if (r < 0)
        return r;
    qsort(set, n, sizeof(*set), compare_dropins);

    r = config_file_load(path, config_set_key, config, ret_error);
    if (r < 0 && r != -ENOENT)
        return r;
    for (size_t i = 0; i < n; i++) {
        _cleanup_free_ char *dropin = NULL;
        if (asprintf(&dropin, "%s/sbxctl.conf.d/%s", set[i].directory, set[i].name) < 0)
            return -ENOMEM;
        r = config_file_load(dropin, config_set_key, config, ret_error);
        if (r < 0)
            return r;
    }
    return check_whole(config, directory, ret_error);
}

int config_load(const char *directory, const char *vendor_directory, struct config *ret,
                char **ret_error)
{
    struct config config;

    *ret_error = NULL;
    int r = config_set_built_in(&config);
    if (r < 0)
        return r;
    r = load_all(&config, directory, vendor_directory, ret_error);
    if (r < 0) {
        config_release(&config);
        return r;
    }
    *ret = config;
    return 0;
}
