/* Closing descriptors that strangers passed, see foreign.h. */
#include "foreign.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>

#include "cleanup.h"

/* One that is being closed; a free place has the fd -1. */
struct closing {
    int fd;
    uid_t owner;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* Somewhat more than may be: one message brings up to 253 at once. */
static struct closing closing[FOREIGN_ALL_MAX + 256];
static size_t n_closing; /* places that were ever used are before this */

static size_t count(const uid_t *owner)
{
    size_t n = 0;

    for (size_t i = 0; i < n_closing; i++)
        n += closing[i].fd >= 0 && (!owner || closing[i].owner == *owner);
    return n;
}

size_t foreign_pending(void)
{
    pthread_mutex_lock(&lock);
    size_t n = count(NULL);
    pthread_mutex_unlock(&lock);
    return n;
}

bool foreign_overdue(uid_t owner)
{
    pthread_mutex_lock(&lock);
    bool overdue = count(&owner) > FOREIGN_USER_MAX || count(NULL) > FOREIGN_ALL_MAX;
    pthread_mutex_unlock(&lock);
    return overdue;
}

static struct closing *reserve(int fd, uid_t owner)
{
    struct closing *place = NULL;

    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < n_closing && !place; i++)
        if (closing[i].fd < 0)
            place = &closing[i];
    if (!place && n_closing < ELEMENTS(closing))
        place = &closing[n_closing++];
    if (place)
        *place = (struct closing){ .fd = fd, .owner = owner };
    pthread_mutex_unlock(&lock);
    return place;
}

static void *close_one(void *userdata)
{
    struct closing *place = userdata;

    close(place->fd);
    pthread_mutex_lock(&lock);
    place->fd = -1;
    pthread_mutex_unlock(&lock);
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
    r = pthread_create(&thread, &attributes, close_one, place);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return -r;
}

void foreign_close(int fd, uid_t owner)
{
    if (fd < 0)
        return;
    /* Files of memory have no owner to ask (F_GET_SEALS knows no others). */
    if (fcntl(fd, F_GET_SEALS) >= 0) {
        close_fd(fd);
        return;
    }
    struct closing *place = reserve(fd, owner);
    /* Without a thread it stays open, and in the count, for good: better than to wait. */
    if (place)
        (void)start(place);
}
