/* A connection made before there is a need of it, see spare.h. */
#include "broker/spare.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "broker/socket.h"
#include "common/cleanup.h"
#include "common/clock.h"

void spare_note(struct spare *spare, const char *path)
{
    if (strcmp(spare->path, path) != 0) {
        spare_forget(spare);
        snprintf(spare->path, sizeof(spare->path), "%s", path);
    }
    spare->used_usec = clock_now();
}

int spare_take(struct spare *spare, const char *path)
{
    struct pollfd fd = { .fd = spare->sock, .events = POLLIN };

    if (spare->sock < 0 || strcmp(spare->path, path) != 0)
        return -1;
    /* Who waits says nothing: a word is its last one. */
    if (poll(&fd, 1, 0) != 0)
        spare->sock = close_fd(spare->sock);
    return TAKE_FD(spare->sock);
}

void spare_fill(struct spare *spare)
{
    if (spare->path[0] == '\0' || spare->sock >= 0)
        return;
    spare->sock = socket_connect_root(spare->path);
    if (spare->sock < 0)
        spare_forget(spare);
}

void spare_forget(struct spare *spare)
{
    if (spare->sock >= 0)
        close_fd(spare->sock);
    *spare = SPARE_NONE;
}
