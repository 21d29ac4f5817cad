/* Reading the script into a memfd, see script.h. */
#include "client/script.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "client/exit-status.h"
#include "client/inputs.h"
#include "client/say.h"
#include "common/cleanup.h"
#include "common/escape.h"
#include "common/file.h"
#include "common/host-pattern.h"
#include "common/memfd.h"

#define HINT_MAX 320

/* Returns 0, -EFBIG above SCRIPT_BYTES_MAX, or another negative errno. */
static int copy_all(int from, int to)
{
    int64_t n = copy_bytes(from, to, SCRIPT_BYTES_MAX + 1);
    if (n < 0)
        return (int)n;
    return n > SCRIPT_BYTES_MAX ? -EFBIG : 0;
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

/* Makes a hint for a script that is not there, in @ret: an empty one if there is nothing to say.
 * Who comes from other tools may have named a program, or a host. */
static void missing_hint(const struct run_options *options, char ret[HINT_MAX])
{
    const char *name = options->script;
    char host[HOST_TEXT_MAX + 1];

    ret[0] = '\0';
    if (!strpbrk(name, "./"))
        strcpy(ret, "to run a command: sbxctl run --language shell -c COMMAND");
    else if (options->network && options->n_arguments > 0 && host_pattern_parse(name, host) &&
             access(options->arguments[0], F_OK) == 0)
        snprintf(ret, HINT_MAX, "if it is a host to be reached: --network=%s", host);
}

static int fail_read(const struct run_options *options, int r)
{
    const char *name = options->code                       ? "the code"
                       : strcmp(options->script, "-") == 0 ? "standard input"
                                                           : options->script;
    _cleanup_free_ char *shown = displayed(name);
    char hint[HINT_MAX] = "";

    if (r == -EFBIG)
        return say_failure(EXIT_OURS, "Failed", "give data with --file instead",
                           "the script %s is larger than %d MiB", shown, SCRIPT_BYTES_MAX >> 20);
    if (r == -EISDIR)
        return say_failure(EXIT_OURS, "Failed",
                           "name the script in it, and give the rest with --file",
                           "%s is a directory", shown);
    if (r == -ENOENT)
        missing_hint(options, hint);
    return say_failure(EXIT_OURS, "Failed", *hint ? hint : NULL, "cannot read the script %s: %s",
                       shown, strerror(-r));
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
    if (!utf8_is_valid(script.name)) {
        _cleanup_free_ char *shown = displayed(options->script);
        return say_failure(EXIT_OURS, "Failed", "rename it, or pass it on standard input as '-'",
                           "the name of the script %s is not valid UTF-8", shown);
    }

    script.fd = memfd_new("script");
    if (script.fd < 0)
        return say_failure_errno(script.fd, "cannot hold the script in memory");
    int r = fill(options, script.fd);
    if (r < 0)
        return fail_read(options, r);
    /* The offset travels with the descriptor. */
    r = lseek(script.fd, 0, SEEK_SET) < 0 ? -errno : memfd_seal(script.fd);
    if (r < 0)
        return say_failure_errno(r, "cannot seal the script");

    *ret = script;
    script = (struct script)SCRIPT_NULL;
    return 0;
}

void script_release(struct script *script)
{
    script->fd = close_fd(script->fd);
}
