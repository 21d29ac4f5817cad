/* The journald of the tests: a plain datagram socket in a directory of its own. */
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "broker/audit.h"
#include "common/cleanup.h"

struct journald {
    char directory[40];
    struct sockaddr_un address;
    int sock; /* -1: it does not run */
    char received[AUDIT_RECORD_MAX + 1];
};

static void journald_start(struct journald *j)
{
    j->sock = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    assert_true(j->sock >= 0);
    assert_int_equal(bind(j->sock, (struct sockaddr *)&j->address, sizeof(j->address)), 0);
}

static void journald_stop(struct journald *j)
{
    j->sock = close_fd(j->sock);
    unlink(j->address.sun_path);
}

static void journald_new(struct journald *j)
{
    strcpy(j->directory, "/tmp/test-audit.XXXXXX");
    assert_non_null(mkdtemp(j->directory));
    j->address.sun_family = AF_UNIX;
    snprintf(j->address.sun_path, sizeof(j->address.sun_path), "%s/socket", j->directory);
    journald_start(j);
}

static void journald_free(struct journald *j)
{
    journald_stop(j);
    rmdir(j->directory);
}

/* The next datagram's text, or NULL. */
static const char *journald_receive(struct journald *j)
{
    ssize_t n = recv(j->sock, j->received, sizeof(j->received) - 1, MSG_DONTWAIT);

    j->received[n < 0 ? 0 : n] = '\0';
    return n < 0 ? NULL : j->received;
}
