#include "client/script.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/exit-status.h"
#include "client/request.h"
#include "client/say.h"
#include "common/cleanup.h"

static int write_all(int fd, const char *data, size_t size)
{
    while (size > 0) {
        ssize_t n = write(fd, data, size);
        if (n < 0 && errno != EINTR)
            return -errno;
        if (n > 0) {
            data += n;
            size -= (size_t)n;
        }
    }
    return 0;
}

/* Copies up to the end of file. Returns 0, -EFBIG above SCRIPT_BYTES_MAX, or another errno. */
static int copy_all(int from, int to)
{
    char buffer[16 * 1024];
    size_t total = 0;

    for (;;) {
        ssize_t n = read(from, buffer, sizeof(buffer));
        if (n == 0)
            return 0;
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        total += (size_t)n;
        if (total > SCRIPT_BYTES_MAX)
            return -EFBIG;
        int r = write_all(to, buffer, (size_t)n);
        if (r < 0)
            return r;
    }
}

static int fill_from_file(const char *path, int to)
{
    _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    return fd < 0 ? -errno : copy_all(fd, to);
}

static int fill(const struct run_options *options, int to)
{
    if (options->code)
        return write_all(to, options->code, strlen(options->code));
    if (strcmp(options->script, "-") == 0)
        return copy_all(STDIN_FILENO, to);
    return fill_from_file(options->script, to);
}

static int fail_read(const struct run_options *options, int r)
{
    const char *name = options->code                       ? "the code"
                       : strcmp(options->script, "-") == 0 ? "standard input"
                                                           : options->script;
    _cleanup_free_ char *shown = displayed(name);

    if (r == -EFBIG)
        return say_failure(EXIT_OURS, "Failed", "give data with --file instead",
                           "the script %s is larger than %d MiB", shown, SCRIPT_BYTES_MAX >> 20);
    if (r == -EISDIR)
        return say_failure(EXIT_OURS, "Failed",
                           "name the script in it, and give the rest with --file",
                           "%s is a directory", shown);
    return say_failure(EXIT_OURS, "Failed", NULL, "cannot read the script %s: %s", shown,
                       strerror(-r));
}

int script_open(const struct run_options *options, struct script *ret)
{
    _cleanup_(script_release) struct script script = SCRIPT_NULL;
    bool is_file = !options->code && strcmp(options->script, "-") != 0;

    script.name = is_file ? basename(options->script) : "script";
    script.language = options->language;
    script.was_stdin = !is_file && !options->code;
    if (options->code && !script.language)
        script.language = "python";
    if (!is_utf8(script.name)) {
        _cleanup_free_ char *shown = displayed(options->script);
        return say_failure(EXIT_OURS, "Failed", "rename it, or pass it on standard input as '-'",
                           "the name of the script %s is not valid UTF-8", shown);
    }

    script.fd = memfd_create("script", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (script.fd < 0)
        return say_failure_errno(-errno, "cannot hold the script in memory");
    int r = fill(options, script.fd);
    if (r < 0)
        return fail_read(options, r);
    /* The offset travels with the descriptor. */
    if (lseek(script.fd, 0, SEEK_SET) < 0 ||
        fcntl(script.fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) < 0)
        return say_failure_errno(-errno, "cannot seal the script");

    *ret = script;
    script = (struct script)SCRIPT_NULL;
    return 0;
}

void script_release(struct script *script)
{
    script->fd = close_fd(script->fd);
}
