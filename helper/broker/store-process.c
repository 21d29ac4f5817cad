/* The store process, see store-process.h. It reads no payload and touches no file: that is for its
 * children. */
#include "broker/store-process.h"
#include "broker/store-confine.h"
#include "broker/store-job.h"
#include "broker/store-protocol.h"
#include "common/cleanup.h"
#include "common/packet.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

struct waiting {
    struct store_request request;
    int job, payload, workspace;
};

struct running {
    pid_t pid; /* 0: free */
    uint32_t uid;
};

struct process {
    int sock, state, signals;
    int hand[2]; /* to the spare one, and its end */
    pid_t pid;
    pid_t spare;     /* a child that waits for its job; 0: none */
    bool spare_died; /* without one: the next comes after the next job, not again and again */
    struct running running[STORE_RUNNING_MAX];
    struct waiting waiting[STORE_WAITING_MAX]; /* first come, first served */
    size_t n_waiting;
};

static void waiting_close(struct waiting *w)
{
    w->job = close_fd(w->job);
    w->payload = close_fd(w->payload);
    w->workspace = close_fd(w->workspace);
}

static void become_child(const struct process *p, const int *keep, size_t n_keep)
{
    sigset_t none;

    sigemptyset(&none);
    if (confine_to_parent(p->pid) < 0 || confine_fds(keep, n_keep) < 0 ||
        sigprocmask(SIG_SETMASK, &none, NULL) < 0)
        _exit(EXIT_FAILURE);
}

static noreturn void run_job(const struct process *p, const struct waiting *w)
{
    prctl(PR_SET_NAME, "sbxctl-job");
    store_job_run(p->state, &w->request, w->job, w->payload, w->workspace);
    _exit(EXIT_SUCCESS);
}

/* The child's whole life. */
static noreturn void be_job(const struct process *p, const struct waiting *w)
{
    int keep[4] = { w->job, w->payload, p->state };
    size_t n_keep = 3;

    if (w->workspace >= 0)
        keep[n_keep++] = w->workspace;
    become_child(p, keep, n_keep);
    run_job(p, w);
}

/* Takes what is needed for it from @fds. */
static void take_descriptors(struct waiting *w, const int fds[PACKET_FDS_MAX])
{
    w->job = fds[0];
    w->payload = fds[1];
    w->workspace = fds[2];
}

/* The same for a child that is there before its job is. */
static noreturn void be_spare(const struct process *p)
{
    const int keep[] = { p->hand[1], p->state };
    int hand = p->hand[1], fds[PACKET_FDS_MAX];
    struct waiting w;
    size_t n_fds;

    become_child(p, keep, ELEMENTS(keep));
    store_job_rehearse();
    if (packet_recv(hand, &w.request, sizeof(w.request), fds, &n_fds) <= 0)
        _exit(EXIT_SUCCESS);
    close_fd(hand);
    take_descriptors(&w, fds);
    run_job(p, &w);
}

/* A free place for a job of @uid, or NULL if it has to wait. */
static struct running *find_place(struct process *p, uint32_t uid)
{
    struct running *place = NULL;
    unsigned n = 0;

    for (size_t i = 0; i < STORE_RUNNING_MAX; i++) {
        if (p->running[i].pid == 0)
            place = &p->running[i];
        else if (p->running[i].uid == uid)
            n++;
    }
    return n < STORE_RUNNING_USER_MAX ? place : NULL;
}

/* To fork takes as long as most jobs do: when there is nothing else to do, one is made for the next
 * job. */
static void make_spare(struct process *p)
{
    for (size_t i = 0; i < STORE_RUNNING_MAX; i++)
        if (p->running[i].pid != 0)
            return;
    if (p->spare != 0 || p->spare_died || p->n_waiting > 0)
        return;
    pid_t pid = fork();
    if (pid == 0)
        be_spare(p);
    p->spare = pid < 0 ? 0 : pid;
}

/* Has a child do it. Should the spare one have been killed, its successor finds the job. Returns
 * the child's id or a negative errno. */
static pid_t start_job(struct process *p, const struct waiting *w)
{
    const int fds[] = { w->job, w->payload, w->workspace };
    pid_t pid = p->spare;

    p->spare = 0;
    p->spare_died = false;
    if (pid > 0 && packet_send(p->hand[0], &w->request, sizeof(w->request), fds,
                               w->workspace >= 0 ? 3 : 2) >= 0)
        return pid;
    pid = fork();
    if (pid == 0)
        be_job(p, w);
    return pid < 0 ? -errno : pid;
}

static void start_jobs(struct process *p)
{
    size_t left = 0;

    for (size_t i = 0; i < p->n_waiting; i++) {
        struct waiting *w = &p->waiting[i];
        struct running *place = find_place(p, w->request.uid);
        if (!place) {
            p->waiting[left++] = *w;
            continue;
        }
        pid_t pid = start_job(p, w);
        if (pid < 0)
            store_answer_send(w->job, pid, NULL, -1);
        else
            *place = (struct running){ .pid = pid, .uid = w->request.uid };
        waiting_close(w);
    }
    p->n_waiting = left;
}

static void reap_jobs(struct process *p)
{
    struct signalfd_siginfo info;
    pid_t pid;

    while (read(p->signals, &info, sizeof(info)) > 0)
        ;
    while ((pid = waitpid(-1, NULL, WNOHANG)) > 0) {
        if (p->spare == pid) {
            p->spare = 0;
            p->spare_died = true;
        }
        for (size_t i = 0; i < STORE_RUNNING_MAX; i++)
            if (p->running[i].pid == pid)
                p->running[i].pid = 0;
    }
}

/* Changes nothing: it is of no use when nobody is there any more for the answer. */
static bool is_question(const struct waiting *w)
{
    return w->request.operation == STORE_OPEN || w->request.operation == STORE_LAYER_LIST;
}

/* Who asks and hangs up, again and again, takes no place in the queue of all. */
static void drop_unheard(struct process *p)
{
    size_t left = 0;

    for (size_t i = 0; i < p->n_waiting; i++) {
        if (is_question(&p->waiting[i]) && store_peer_gone(p->waiting[i].job))
            waiting_close(&p->waiting[i]);
        else
            p->waiting[left++] = p->waiting[i];
    }
    p->n_waiting = left;
}

static bool may_wait(const struct process *p, const struct waiting *w)
{
    size_t n = 0;

    for (size_t i = 0; i < p->n_waiting; i++)
        n += is_question(&p->waiting[i]) && p->waiting[i].request.uid == w->request.uid;
    return p->n_waiting < STORE_WAITING_MAX && (!is_question(w) || n < STORE_ASKING_USER_MAX);
}

/* Takes one request. Returns false at the end of file. */
static bool take_request(struct process *p)
{
    struct waiting w = { .job = -1, .payload = -1, .workspace = -1 };
    int fds[PACKET_FDS_MAX];
    size_t n_fds;

    ssize_t n = packet_recv(p->sock, &w.request, sizeof(w.request), fds, &n_fds);
    if (n == 0)
        return false;
    if (n < 0)
        return true;
    if (n != sizeof(w.request) || n_fds != (w.request.has_workspace ? 3 : 2)) {
        packet_close_fds(fds);
        return true;
    }
    take_descriptors(&w, fds);
    if (!may_wait(p, &w)) {
        store_answer_send(w.job, -EBUSY, NULL, -1);
        waiting_close(&w);
        return true;
    }
    p->waiting[p->n_waiting++] = w;
    return true;
}

static noreturn void serve(struct process *p)
{
    struct pollfd fds[] = { { .fd = p->sock, .events = POLLIN },
                            { .fd = p->signals, .events = POLLIN } };

    for (;;) {
        make_spare(p);
        if (poll(fds, ELEMENTS(fds), -1) < 0 && errno != EINTR)
            _exit(EXIT_FAILURE);
        if (fds[1].revents)
            reap_jobs(p);
        drop_unheard(p);
        if (fds[0].revents && !take_request(p))
            _exit(EXIT_SUCCESS);
        start_jobs(p);
    }
}

/* The service manager's SIGTERM goes to all processes of a unit. The broker decides when it needs
 * us no more. */
static int prepare_signals(void)
{
    const int ignored[] = { SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGPIPE };
    sigset_t mask;

    for (size_t i = 0; i < ELEMENTS(ignored); i++)
        signal(ignored[i], SIG_IGN);
    signal(SIGCHLD, SIG_DFL);
    signal(SIGALRM, SIG_DFL);
    sigemptyset(&mask);
    sigaddset(&mask, SIGCHLD);
    if (sigprocmask(SIG_SETMASK, &mask, NULL) < 0)
        return -errno;
    int fd = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
    return fd < 0 ? -errno : fd;
}

noreturn void store_process(int sock, int state, pid_t parent)
{
    static struct process p;
    const int keep[] = { sock, state };

    p.sock = sock;
    p.state = state;
    p.pid = getpid();
    prctl(PR_SET_NAME, "sbxctl-store");
    umask(077);
    int r = confine_fds(keep, ELEMENTS(keep));
    if (r == 0 && socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, p.hand) < 0)
        r = -errno;
    if (r == 0)
        r = p.signals = prepare_signals();
    if (r >= 0)
        r = confine_self();
    /* After the capabilities: a change of credentials may clear it (prctl(2)). */
    if (r == 0)
        r = confine_to_parent(parent);
    if (r < 0) {
        fprintf(stderr, "The store cannot confine itself: %s\n", strerror(-r));
        _exit(EXIT_FAILURE);
    }
    serve(&p);
}
