/* The key's one page of memory, see key.h. */
#include "key.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "common/cleanup.h"
#include "common/file.h"

#define PAGE 4096

/* NULL: no key. NUL-terminated. */
static char *key;

void wipe(char *text)
{
    if (text)
        explicit_bzero(text, strlen(text));
}

bool key_is_known(void)
{
    return key;
}

void key_forget(void)
{
    if (!key)
        return;
    explicit_bzero(key, PAGE);
    munmap(key, PAGE);
    key = NULL;
}

/* A page of its own, which is neither swapped nor dumped. */
static int make_page(char **ret)
{
    char *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (page == MAP_FAILED)
        return -errno;
    if (mlock(page, PAGE) < 0 || madvise(page, PAGE, MADV_DONTDUMP) < 0) {
        int r = -errno;
        munmap(page, PAGE);
        return r;
    }
    *ret = page;
    return 0;
}

/* Visible characters, as far as they may stand in a header; the end of line that an editor made is
 * cut. */
static bool tidy(char *text, size_t size)
{
    while (size > 0 && (text[size - 1] == '\n' || text[size - 1] == '\r'))
        text[--size] = '\0';
    for (size_t i = 0; i < size; i++)
        if (text[i] <= ' ' || text[i] > '~')
            return false;
    return size >= 8;
}

static int open_credential(void)
{
    const char *directory = getenv("CREDENTIALS_DIRECTORY");
    char path[512];

    if (!directory ||
        snprintf(path, sizeof(path), "%s/" KEY_CREDENTIAL, directory) >= (int)sizeof(path))
        return -ENOENT;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    return fd < 0 ? -errno : fd;
}

int key_load(void)
{
    _cleanup_close_ int fd = open_credential();

    if (fd < 0)
        return fd;
    int r = make_page(&key);
    if (r < 0)
        return r;
    ssize_t n = pread_full(fd, key, KEY_MAX + 1, 0);
    if (n < 0 || n > KEY_MAX || !tidy(key, (size_t)n)) {
        key_forget();
        return n < 0 ? (int)n : -EBADMSG;
    }
    return 0;
}

void key_header(char ret[KEY_HEADER_MAX])
{
    snprintf(ret, KEY_HEADER_MAX, "X-API-Key: %s", key ? key : "");
}

bool key_is_in(const char *text)
{
    return key && strstr(text, key);
}

void key_scrub(char *text, size_t size)
{
    size_t length = key ? strlen(key) : 0;

    for (char *found; length > 0 && (found = memmem(text, size, key, length));)
        memset(found, '*', length);
}
