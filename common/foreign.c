/* Closing descriptors that strangers passed, see foreign.h. */
#include "foreign.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "cleanup.h"

/* A file of memory that is given back at once, in bytes. */
#define SMALL (1024 * 1024)

/* One that a thread closes; a free place has the fd -1. */
struct closing {
    int fd;
    uid_t owner;
};

/* One whose owner has too many threads already. */
struct waiting {
    struct waiting *next;
    int fd;
    uid_t owner;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct closing closing[FOREIGN_ALL_MAX + 1];
static size_t n_closing; /* places that were ever used are before this */
static struct waiting *first, **last = &first;
static size_t n_waiting;

static size_t count(const uid_t *owner)
{
    size_t n = 0;

    for (size_t i = 0; i < n_closing; i++)
        n += closing[i].fd >= 0 && (!owner || closing[i].owner == *owner);
    return n;
}

static bool is_overdue(uid_t owner)
{
    return count(&owner) > FOREIGN_USER_MAX || count(NULL) > FOREIGN_ALL_MAX;
}

size_t foreign_pending(void)
{
    pthread_mutex_lock(&lock);
    size_t n = count(NULL) + n_waiting;
    pthread_mutex_unlock(&lock);
    return n;
}

bool foreign_overdue(uid_t owner)
{
    pthread_mutex_lock(&lock);
    bool overdue = is_overdue(owner);
    pthread_mutex_unlock(&lock);
    return overdue;
}

/* The following need the lock. */

static struct closing *reserve(int fd, uid_t owner)
{
    struct closing *place = NULL;

    if (is_overdue(owner))
        return NULL;
    for (size_t i = 0; i < n_closing && !place; i++)
        if (closing[i].fd < 0)
            place = &closing[i];
    if (!place)
        place = &closing[n_closing++];
    *place = (struct closing){ .fd = fd, .owner = owner };
    return place;
}

static void wait_in_line(struct waiting *waiting)
{
    *last = waiting;
    last = &waiting->next;
    n_waiting++;
}

/* The place of the first in line that may have one, or NULL. */
static struct closing *take_next(void)
{
    struct waiting **at = &first, *next;
    struct closing *place;

    while (*at && is_overdue((*at)->owner))
        at = &(*at)->next;
    next = *at;
    if (!next)
        return NULL;
    *at = next->next;
    if (!*at)
        last = at;
    n_waiting--;
    place = reserve(next->fd, next->owner);
    free(next);
    return place;
}

static void *close_some(void *userdata)
{
    struct closing *place = userdata;

    while (place) {
        close(place->fd);
        pthread_mutex_lock(&lock);
        place->fd = -1;
        place = take_next();
        pthread_mutex_unlock(&lock);
    }
    return NULL;
}

static int start(struct closing *place)
{
    pthread_attr_t attributes;
    pthread_t thread;
    sigset_t all, before;

    int r = pthread_attr_init(&attributes);
    if (r != 0)
        return -r;
    (void)pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    (void)pthread_attr_setstacksize(&attributes, 64 * 1024);
    /* Signals are the main thread's. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    r = pthread_create(&thread, &attributes, close_some, place);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return -r;
}

static void close_aside(int fd, uid_t owner)
{
    struct waiting *waiting = malloc(sizeof(*waiting));
    struct closing *place;

    /* Without memory it stays open for good: better than to wait. */
    if (!waiting)
        return;
    *waiting = (struct waiting){ .fd = fd, .owner = owner };
    pthread_mutex_lock(&lock);
    place = reserve(fd, owner);
    if (place && start(place) < 0) {
        place->fd = -1;
        place = NULL;
    }
    if (!place)
        wait_in_line(waiting);
    pthread_mutex_unlock(&lock);
    if (place)
        free(waiting);
}

/* Files of memory have no owner to ask (F_GET_SEALS knows no others), but to give back a large one
 * takes its time: 15 ms for 100 MiB (measured). */
static bool takes_no_time(int fd)
{
    struct stat st;

    return fcntl(fd, F_GET_SEALS) >= 0 && fstat(fd, &st) == 0 && st.st_size <= SMALL;
}

void foreign_close(int fd, uid_t owner)
{
    if (fd < 0)
        return;
    if (takes_no_time(fd))
        close_fd(fd);
    else
        close_aside(fd, owner);
}

void foreign_close_socket(int fd, uid_t owner)
{
    int unread = 0;

    if (fd < 0)
        return;
    /* From here on nothing more can be sent to us, and no descriptor comes without a byte. */
    (void)shutdown(fd, SHUT_RDWR);
    if (ioctl(fd, FIONREAD, &unread) == 0 && unread == 0)
        close_fd(fd);
    else
        close_aside(fd, owner);
}
