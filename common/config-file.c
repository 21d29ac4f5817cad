/* Files of the administrator's, see config-file.h. */
#include "common/config-file.h"
#include "common/cleanup.h"
#include "common/file.h"

#include <fcntl.h>
#include <ini.h>
#include <stdio.h>
#include <string.h>

#define CONFIG_FILE_MAX (64 * 1024)
/* inih cuts longer lines in silence (INI_MAX_LINE, 200 unless built otherwise). */
#define CONFIG_LINE_MAX 190

struct loader {
    config_file_fn fn;
    void *userdata;
    char message[256]; /* of the first error */
};

/* inih's handler: 0 is an error, whose line number ini_parse_string() then returns. */
static int handle_key(void *userdata, const char *section, const char *name, const char *value)
{
    struct loader *loader = userdata;

    int r = loader->fn(loader->userdata, section, name, value);
    if (r >= 0)
        return 1;
    if (loader->message[0] == '\0')
        snprintf(loader->message, sizeof(loader->message),
                 r == -ENOENT   ? "unknown key %s= in section [%s]"
                 : r == -ERANGE ? "the value of %s= in section [%s] is out of range"
                                : "the value of %s= in section [%s] cannot be read",
                 name, section);
    return 0;
}

bool config_file_is_trusted(const struct stat *st)
{
    return (st->st_uid == 0 || st->st_uid == geteuid()) && (st->st_mode & 022) == 0;
}

int config_file_fail(char **ret_error, int error, const char *path, const char *why)
{
    if (asprintf(ret_error, "%s: %s", path, why) < 0)
        *ret_error = NULL;
    return error;
}

/* Opened once, judged by its fd, read from that fd. */
static int read_file(const char *path, char **ret, char **ret_error)
{
    _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    _cleanup_free_ char *text = NULL;
    struct stat st;
    ssize_t size;

    if (fd < 0)
        return errno == ENOENT ? -ENOENT
                               : config_file_fail(ret_error, -errno, path, strerror(errno));
    if (fstat(fd, &st) < 0)
        return config_file_fail(ret_error, -errno, path, strerror(errno));
    if (!S_ISREG(st.st_mode))
        return config_file_fail(ret_error, -EINVAL, path, "not a regular file");
    if (!config_file_is_trusted(&st))
        return config_file_fail(
            ret_error, -EPERM, path,
            "must belong to root and be writable by nobody else (chown root, chmod 0644)");
    if (st.st_size > CONFIG_FILE_MAX)
        return config_file_fail(ret_error, -EFBIG, path, "larger than 64 KiB");

    text = malloc(CONFIG_FILE_MAX + 1);
    if (!text)
        return -ENOMEM;
    size = pread_full(fd, text, CONFIG_FILE_MAX, 0);
    if (size < 0)
        return config_file_fail(ret_error, (int)size, path, strerror((int)-size));
    text[size] = '\0';
    if (strlen(text) != (size_t)size)
        return config_file_fail(ret_error, -EINVAL, path, "contains a NUL byte");
    *ret = TAKE_PTR(text);
    return 0;
}

int config_file_load(const char *path, config_file_fn fn, void *userdata, char **ret_error)
{
    struct loader loader = { fn, userdata };
    _cleanup_free_ char *text = NULL;
    int line = 0, r;

    r = read_file(path, &text, ret_error);
    if (r < 0 || !text)
        return r;
    for (const char *p = text; *p && line == 0; p += strcspn(p, "\n"), p += *p == '\n') {
        if (strcspn(p, "\n") > CONFIG_LINE_MAX) {
            line = 1;
            for (const char *q = text; q < p; q++)
                line += *q == '\n';
            snprintf(loader.message, sizeof(loader.message), "line longer than %d bytes",
                     CONFIG_LINE_MAX);
        }
    }
    if (line == 0)
        line = ini_parse_string(text, handle_key, &loader);
    if (line == 0)
        return 0;
    if (asprintf(ret_error, "%s:%d: %s", path, line,
                 loader.message[0] ? loader.message : "not a section, key or comment") < 0)
        *ret_error = NULL;
    return -EINVAL;
}

int config_file_replace(char **target, const char *value, bool valid)
{
    char *copy = valid ? strdup(value) : NULL;

    if (!copy)
        return valid ? -ENOMEM : -EINVAL;
    free(*target);
    *target = copy;
    return 0;
}
