/* A double of the helper that follows a script: for each call that comes, over whatever connection,
 * what must be in it and what is answered. For the tests of verbs that call more than once. */
#pragma once

#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "client-program.h"

#define SCRIPT_ANSWERS 8
#define SCRIPT_CONNECTIONS 16

struct scripted_call {
    const char *expected; /* stands in the call as it is sent */
    const char *answers[SCRIPT_ANSWERS];
    bool hangs_up; /* after them */
};

struct scripted_helper {
    int listener;
    const struct scripted_call *calls;
    size_t n_calls, n_come;
    char calls_as_sent[16 * 1024]; /* all of them */
    pthread_t thread;
};

/* One call; false at the end of the connection. */
static inline bool script_receive(int fd, char *buffer, size_t size)
{
    for (size_t n = 0; n + 1 < size; n++)
        if (read(fd, buffer + n, 1) != 1)
            return false;
        else if (buffer[n] == '\0')
            return true;
    return false;
}

/* Returns whether the connection stays. */
static inline bool script_answer(struct scripted_helper *helper, int fd, const char *text)
{
    const struct scripted_call *call = &helper->calls[helper->n_come];

    if (helper->n_come >= helper->n_calls || !strstr(text, call->expected)) {
        print_error("not in the script: %s\n", text);
        return false;
    }
    helper->n_come++;
    for (size_t i = 0; i < SCRIPT_ANSWERS && call->answers[i]; i++)
        (void)!send(fd, call->answers[i], strlen(call->answers[i]) + 1, MSG_NOSIGNAL);
    return !call->hangs_up;
}

static inline void script_take(struct scripted_helper *helper, struct pollfd *connection)
{
    char text[4096];

    if (script_receive(connection->fd, text, sizeof(text))) {
        strncat(helper->calls_as_sent, text,
                sizeof(helper->calls_as_sent) - strlen(helper->calls_as_sent) - 1);
        if (script_answer(helper, connection->fd, text))
            return;
    }
    close(connection->fd);
    connection->fd = -1;
}

/* The first of @fds is the listener. */
static inline void *script_play(void *userdata)
{
    struct scripted_helper *helper = userdata;
    struct pollfd fds[1 + SCRIPT_CONNECTIONS] = { { helper->listener, POLLIN, 0 } };
    size_t n = 1;

    while (poll(fds, n, -1) > 0) {
        for (size_t i = 1; i < n; i++)
            if (fds[i].fd >= 0 && fds[i].revents)
                script_take(helper, &fds[i]);
        if (!fds[0].revents)
            continue;
        int fd = n < ELEMENTS(fds) ? accept4(helper->listener, NULL, NULL, SOCK_CLOEXEC) : -1;
        if (fd < 0)
            break;
        fds[n++] = (struct pollfd){ fd, POLLIN, 0 };
    }
    for (size_t i = 1; i < n; i++)
        close_fd(fds[i].fd);
    return NULL;
}

static inline void script_start(struct scripted_helper *helper, const struct scripted_call *calls,
                                size_t n_calls)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX, .sun_path = SOCKET };

    *helper = (struct scripted_helper){ .calls = calls, .n_calls = n_calls };
    helper->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    unlink(SOCKET);
    assert_int_equal(bind(helper->listener, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(helper->listener, 4), 0);
    assert_int_equal(pthread_create(&helper->thread, NULL, script_play, helper), 0);
}

/* All calls of the script have come. */
static inline void script_end(struct scripted_helper *helper)
{
    shutdown(helper->listener, SHUT_RDWR);
    pthread_join(helper->thread, NULL);
    close(helper->listener);
    assert_int_equal(helper->n_come, helper->n_calls);
}

/* The exit status of sbxctl with these arguments and a helper that follows @calls. */
#define SCRIPTED(calls, ...)                            \
    ({                                                  \
        struct scripted_helper _helper;                 \
        script_start(&_helper, calls, ELEMENTS(calls)); \
        int _status = SBXCTL(__VA_ARGS__);              \
        script_end(&_helper);                           \
        _status;                                        \
    })
