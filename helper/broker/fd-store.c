/* The service manager's store of descriptors, see fd-store.h. sd_pid_notify_with_fds(3) would wait
 * for a manager that does not read. */
#include "broker/fd-store.h"
#include "common/cleanup.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <systemd/sd-daemon.h>

/* SCM_MAX_FD of the kernel (include/net/scm.h). */
#define FDS_MAX 253
#define TEXT_MAX 320

struct fd_store {
    int *fds; /* -1: taken */
    char **names;
    size_t n;
};

/* What the manager is to forget, and has not heard yet. */
struct unheard {
    struct unheard *next;
    char name[];
};
static struct unheard *unheard;

static int notify_socket = -1; /* until the process ends */

/* ---- Giving ---- */

static int manager_address(struct sockaddr_un *ret, socklen_t *ret_size)
{
    const char *path = getenv("NOTIFY_SOCKET");
    size_t n = path ? strlen(path) : 0;

    if (n < 2 || n >= sizeof(ret->sun_path) || (path[0] != '/' && path[0] != '@'))
        return -ENOTCONN;
    *ret = (struct sockaddr_un){ .sun_family = AF_UNIX };
    memcpy(ret->sun_path, path, n);
    if (path[0] == '@')
        ret->sun_path[0] = '\0';
    *ret_size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n + (path[0] == '/'));
    return 0;
}

static int tell_manager(const char *text, const int *fds, size_t n)
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int) * FDS_MAX)];
    } control = { 0 };
    struct sockaddr_un address;
    struct iovec part = { (char *)text, strlen(text) };
    struct msghdr message = { .msg_name = &address, .msg_iov = &part, .msg_iovlen = 1 };

    if (n > FDS_MAX)
        return -E2BIG;
    int r = manager_address(&address, &message.msg_namelen);
    if (r < 0)
        return r;
    if (n > 0) {
        message.msg_control = &control;
        message.msg_controllen = CMSG_SPACE(sizeof(int) * n);
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof(int) * n);
        memcpy(CMSG_DATA(header), fds, sizeof(int) * n);
    }
    if (notify_socket < 0)
        notify_socket = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    return notify_socket < 0 || sendmsg(notify_socket, &message, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

int fd_store_push(const char *name, const int *fds, size_t n)
{
    char text[TEXT_MAX];

    if (n == 0)
        return 0;
    /* The manager must not drop a pipe whose other end is gone: what is in it is still to be read.
     */
    snprintf(text, sizeof(text), "FDSTORE=1\nFDPOLL=0\nFDNAME=%s", name);
    return tell_manager(text, fds, n);
}

/* Whether it is to be told again. */
static bool is_unheard(const char *name)
{
    char text[TEXT_MAX];

    snprintf(text, sizeof(text), "FDSTOREREMOVE=1\nFDNAME=%s", name);
    int r = tell_manager(text, NULL, 0);
    return r == -EAGAIN || r == -ENOBUFS || r == -ENOMEM;
}

int fd_store_remove(const char *name)
{
    struct unheard *one;

    if (!is_unheard(name))
        return 0;
    one = malloc(sizeof(*one) + strlen(name) + 1);
    if (!one)
        return -ENOMEM;
    strcpy(one->name, name);
    one->next = unheard;
    unheard = one;
    return -EAGAIN;
}

bool fd_store_retry(void)
{
    while (unheard && !is_unheard(unheard->name)) {
        struct unheard *next = unheard->next;
        free(unheard);
        unheard = next;
    }
    return !unheard;
}

/* ---- Taking ---- */

int fd_store_open(struct fd_store **ret)
{
    struct fd_store *store = calloc(1, sizeof(*store));
    int n;

    if (!store)
        return -ENOMEM;
    n = sd_listen_fds_with_names(1, &store->names);
    if (n < 0) {
        free(store);
        return n;
    }
    store->fds = calloc((size_t)n + 1, sizeof(int));
    if (!store->fds) {
        fd_store_free(store);
        return -ENOMEM;
    }
    for (int i = 0; i < n; i++)
        store->fds[i] = SD_LISTEN_FDS_START + i;
    store->n = (size_t)n;
    *ret = store;
    return 0;
}

struct fd_store *fd_store_free(struct fd_store *store)
{
    if (!store)
        return NULL;
    for (size_t i = 0; i < store->n; i++)
        close_fd(store->fds[i]);
    for (char **name = store->names; name && *name; name++)
        free(*name);
    free(store->names);
    free(store->fds);
    free(store);
    return NULL;
}

size_t fd_store_size(const struct fd_store *store)
{
    return store->n;
}

const char *fd_store_name(const struct fd_store *store, size_t i)
{
    return store->names[i];
}

int fd_store_take(struct fd_store *store, size_t i)
{
    return TAKE_FD(store->fds[i]);
}

int fd_store_take_named(struct fd_store *store, const char *name)
{
    for (size_t i = 0; i < store->n; i++)
        if (store->fds[i] >= 0 && strcmp(store->names[i], name) == 0)
            return fd_store_take(store, i);
    return -1;
}
