/* Pictures on terminals, see terminal-image.h.
 *
 * kitty: https://sw.kovidgoyal.net/kitty/graphics-protocol/
 * iTerm2: https://iterm2.com/documentation-images.html
 * sixel: the primary device attributes of a terminal that has it name 4 (DEC STD 070). */
#include "client/terminal-image.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "common/base64.h"
#include "common/cleanup.h"
#include "common/clock.h"

#define ANSWER_USEC (300 * 1000)
#define KITTY_CHUNK 4096

static bool variable_is(const char *name, const char *value)
{
    const char *own = getenv(name);
    return own && strcmp(own, value) == 0;
}

static bool variable_begins(const char *name, const char *with)
{
    const char *own = getenv(name);
    return own && strncmp(own, with, strlen(with)) == 0;
}

/* "\033[?62;4;22c" */
static bool attributes_have_sixel(const char *answer)
{
    const char *p = strstr(answer, "\033[?");

    for (p = p ? p + 3 : NULL; p && *p && *p != 'c'; p = strpbrk(p, ";c"), p += p && *p == ';')
        if (p[0] == '4' && (p[1] == ';' || p[1] == 'c'))
            return true;
    return false;
}

static void read_answer(int tty, char *answer, size_t size)
{
    uint64_t end = clock_now() + ANSWER_USEC;
    size_t n = 0;

    while (n + 1 < size && !memchr(answer, 'c', n)) {
        uint64_t now = clock_now();
        struct pollfd fd = { tty, POLLIN, 0 };
        if (now >= end || poll(&fd, 1, (int)((end - now) / 1000 + 1)) <= 0)
            break;
        ssize_t got = read(tty, answer + n, size - 1 - n);
        if (got <= 0)
            break;
        n += (size_t)got;
    }
    answer[n] = '\0';
}

static bool asked_for_sixel(void)
{
    static const char question[] = "\033[c";
    _cleanup_close_ int tty = open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC);
    struct termios before, raw;
    char answer[128] = "";

    if (tty < 0 || tcgetpgrp(tty) != getpgrp() || tcgetattr(tty, &before) < 0)
        return false;
    raw = before;
    raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    if (tcsetattr(tty, TCSANOW, &raw) < 0)
        return false;
    if (write(tty, question, sizeof(question) - 1) == sizeof(question) - 1)
        read_answer(tty, answer, sizeof(answer));
    (void)tcsetattr(tty, TCSANOW, &before);
    return attributes_have_sixel(answer);
}

/* A multiplexer does not pass images on, whatever is around it. */
static enum terminal_images by_variables(bool *ret_known)
{
    *ret_known = true;
    if (variable_is("SBXCTL_IMAGES", "kitty"))
        return TERMINAL_IMAGES_KITTY;
    if (variable_is("SBXCTL_IMAGES", "iterm2"))
        return TERMINAL_IMAGES_ITERM;
    if (variable_is("SBXCTL_IMAGES", "sixel"))
        return TERMINAL_IMAGES_SIXEL;
    if (variable_is("SBXCTL_IMAGES", "none") || variable_is("TERM", "dumb") || getenv("TMUX") ||
        variable_begins("TERM", "screen") || variable_begins("TERM", "tmux"))
        return TERMINAL_IMAGES_NONE;
    if (getenv("KITTY_WINDOW_ID") || variable_is("TERM", "xterm-kitty") ||
        variable_is("TERM", "xterm-ghostty"))
        return TERMINAL_IMAGES_KITTY;
    if (variable_is("TERM_PROGRAM", "iTerm.app") || variable_is("TERM_PROGRAM", "WezTerm") ||
        variable_is("TERM_PROGRAM", "mintty") || variable_is("LC_TERMINAL", "iTerm2"))
        return TERMINAL_IMAGES_ITERM;
    *ret_known = false;
    return TERMINAL_IMAGES_NONE;
}

enum terminal_images terminal_images(void)
{
    bool is_known;
    enum terminal_images found;

    if (!isatty(STDERR_FILENO))
        return TERMINAL_IMAGES_NONE;
    found = by_variables(&is_known);
    if (is_known)
        return found;
    return asked_for_sixel() ? TERMINAL_IMAGES_SIXEL : TERMINAL_IMAGES_NONE;
}

/* It takes PNG; other formats would have to be unpacked here. */
static int write_kitty(const char *data, size_t size)
{
    static const char png[] = "\x89PNG\r\n\x1a\n";
    _cleanup_free_ char *text = NULL;

    if (size < sizeof(png) - 1 || memcmp(data, png, sizeof(png) - 1) != 0)
        return -EOPNOTSUPP;
    text = base64_encode(data, size, NULL);
    if (!text)
        return -ENOMEM;
    for (size_t at = 0, length = strlen(text); at < length; at += KITTY_CHUNK) {
        size_t n = length - at < KITTY_CHUNK ? length - at : KITTY_CHUNK;
        /* q=2: no answer, which would be read by whoever comes after us. */
        fprintf(stderr, "\033_G%sm=%d;%.*s\033\\", at == 0 ? "a=T,f=100,q=2," : "", at + n < length,
                (int)n, text + at);
    }
    fputc('\n', stderr);
    return 0;
}

static int write_iterm(const char *data, size_t size)
{
    _cleanup_free_ char *text = base64_encode(data, size, NULL);

    if (!text)
        return -ENOMEM;
    fprintf(stderr, "\033]1337;File=inline=1;size=%zu;preserveAspectRatio=1:%s\a\n", size, text);
    return 0;
}

static int write_sixel(int fd)
{
    int status = 0;

    if (lseek(fd, 0, SEEK_SET) < 0)
        return -errno;
    pid_t pid = fork();
    if (pid < 0)
        return -errno;
    if (pid == 0) {
        int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
        if (dup2(fd, STDIN_FILENO) < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0 ||
            dup2(null, STDERR_FILENO) < 0)
            _exit(127);
        execlp("img2sixel", "img2sixel", "-", NULL);
        _exit(127);
    }
    if (waitpid(pid, &status, 0) < 0)
        return -errno;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -EOPNOTSUPP;
}

int terminal_image_write(enum terminal_images how, int fd, const char *data, size_t size)
{
    fflush(stderr);
    switch (how) {
    case TERMINAL_IMAGES_KITTY:
        return write_kitty(data, size);
    case TERMINAL_IMAGES_ITERM:
        return write_iterm(data, size);
    case TERMINAL_IMAGES_SIXEL:
        return write_sixel(fd);
    case TERMINAL_IMAGES_NONE:
        break;
    }
    return -EOPNOTSUPP;
}
