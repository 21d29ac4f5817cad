/* Images of a run, see figures.h. */
#include "client/figures.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/image.h"
#include "client/save.h"
#include "client/say.h"
#include "client/terminal-image.h"
#include "common/cleanup.h"
#include "common/escape.h"

#define SHOWN_MAX 10
#define OPENED_MAX 5
#define IMAGE_BYTES_MAX (16 << 20)

struct image {
    int fd;
    char *data;
    size_t size;
    char *path; /* absolute */
};

static void image_release(struct image *image)
{
    close_fd(image->fd);
    free(image->data);
    free(image->path);
}

/* Only if it is the user's own. */
static int open_file(const char *output_directory, const char *name)
{
    _cleanup_close_ int dir = outputs_open(output_directory);
    _cleanup_close_ int fd = dir < 0 ? dir : outputs_open_file(dir, name);
    struct stat st;

    if (fd < 0)
        return fd;
    if (fstat(fd, &st) < 0)
        return -errno;
    return st.st_uid == geteuid() ? TAKE_FD(fd) : -EPERM;
}

static bool image_open(const struct result *result, json_object *file, struct image *ret)
{
    _cleanup_(image_release) struct image image = { .fd = -1 };
    _cleanup_free_ char *name = NULL;
    struct output_file parsed;
    const char *type;
    size_t size;

    if (output_file_parse(file, &parsed) < 0)
        return false;
    name = unescape_text(parsed.name, &size);
    image.fd = name ? open_file(result->output_directory, name) : -1;
    if (image.fd < 0 || asprintf(&image.path, "%s/files/%s", result->output_directory, name) < 0) {
        image.path = NULL;
        return false;
    }
    if (image_read(image.fd, IMAGE_BYTES_MAX, &image.data, &image.size, &type) < 0)
        return false;
    *ret = image;
    image = (struct image){ .fd = -1 };
    return true;
}

/* Takes the images one after the other; false after the last one. */
static bool next_image(const struct result *result, size_t *at, struct image *ret)
{
    size_t n =
        result->files && result->output_directory ? json_object_array_length(result->files) : 0;

    while (*at < n)
        if (image_open(result, json_object_array_get_idx(result->files, (*at)++), ret))
            return true;
    return false;
}

void figures_show(const struct result *result)
{
    enum terminal_images how = terminal_images();
    size_t shown = 0;

    for (size_t at = 0; shown < SHOWN_MAX; shown++) {
        _cleanup_(image_release) struct image image = { .fd = -1 };
        if (!next_image(result, &at, &image))
            break;
        _cleanup_free_ char *path = displayed(image.path);
        /* The path after it, so that it is seen also if the terminal took it and shows nothing. */
        if (terminal_image_write(how, image.fd, image.data, image.size) < 0)
            say("this terminal does not show images: %s", path);
        else
            say("shown: %s", path);
    }
    if (shown == 0)
        say("the run made no image to be shown");
}

static bool opens_as_image(const char *path)
{
    static const char *const ends[] = { ".png", ".jpg", ".jpeg", ".gif", ".webp" };
    size_t length = strlen(path);

    for (size_t i = 0; i < ELEMENTS(ends); i++)
        if (length > strlen(ends[i]) && strcasecmp(path + length - strlen(ends[i]), ends[i]) == 0)
            return true;
    return false;
}

static int start_viewer(const char *path)
{
    pid_t pid = fork();

    if (pid < 0)
        return -errno;
    if (pid > 0)
        return 0;
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    sigset_t none;
    sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGPIPE, SIG_DFL);
    if (setsid() < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(null, STDOUT_FILENO) < 0 ||
        dup2(null, STDERR_FILENO) < 0)
        _exit(127);
    execlp("xdg-open", "xdg-open", path, NULL);
    _exit(127);
}

void figures_open(const struct result *result)
{
    size_t opened = 0;

    if (!getenv("DISPLAY") && !getenv("WAYLAND_DISPLAY")) {
        say_warning("there is no desktop here on which images could be opened");
        return;
    }
    for (size_t at = 0; opened < OPENED_MAX;) {
        _cleanup_(image_release) struct image image = { .fd = -1 };
        if (!next_image(result, &at, &image))
            break;
        if (!opens_as_image(image.path)) {
            _cleanup_free_ char *path = displayed(image.path);
            say_warning("not opened, since its name is not that of an image: %s", path);
            continue;
        }
        opened++;
        int r = start_viewer(image.path);
        if (r < 0)
            say_warning("cannot start xdg-open: %s", strerror(-r));
    }
    if (opened == 0)
        say("the run made no image to be opened");
}
