/* Starting and ending pkttyagent(1), see agent.h. */
#include "client/agent.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/cleanup.h"

#define AGENT_PROGRAM "/usr/bin/pkttyagent"
#define AGENT_PATIENCE_MSEC 5000

/* With --fallback a desktop's agent comes first. But then polkit (126 and before) asks no agent at
 * all for a process outside of any session, such as one started by su or cron. */
static bool is_in_desktop(void)
{
    return getenv("DISPLAY") || getenv("WAYLAND_DISPLAY");
}

/* In the child. The agent opens the terminal itself. It turns the echo off for a password, and on
 * again when we end it; so the keys that would end or stop it before are for us alone (by itself,
 * Ctrl-C would make a refused dialog of a run that was given up, and a stop leave the echo on). */
static void exec_agent(int notify)
{
    char option[32];
    int null = open("/dev/null", O_RDWR);
    sigset_t keys;

    sigemptyset(&keys);
    sigaddset(&keys, SIGINT);
    sigaddset(&keys, SIGQUIT);
    sigaddset(&keys, SIGTSTP);
    if (null < 0 || sigprocmask(SIG_SETMASK, &keys, NULL) < 0 ||
        prctl(PR_SET_PDEATHSIG, SIGTERM) < 0 || fcntl(notify, F_SETFD, 0) < 0)
        _exit(1);
    dup2(null, STDIN_FILENO);
    dup2(null, STDOUT_FILENO);
    /* What PAM's helper says of a wrong password, the dialog says, too. */
    dup2(null, STDERR_FILENO);
    signal(SIGPIPE, SIG_DFL);
    snprintf(option, sizeof(option), "%d", notify);
    execl(AGENT_PROGRAM, "pkttyagent", "--notify-fd", option, is_in_desktop() ? "--fallback" : NULL,
          (char *)NULL);
    _exit(1);
}

/* The script may have our stdin; the agent uses the controlling terminal. A job in the background
 * would be stopped for it, and a program that reads our messages would not see it. */
static bool may_use_terminal(void)
{
    _cleanup_close_ int terminal = open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC);

    return terminal >= 0 && isatty(STDERR_FILENO) && tcgetpgrp(terminal) == getpgrp();
}

static bool get_attributes(struct termios *ret)
{
    _cleanup_close_ int terminal = open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC);
    return terminal >= 0 && tcgetattr(terminal, ret) >= 0;
}

/* As it was, should the agent have been killed between. */
static void set_attributes(const struct termios *attributes)
{
    _cleanup_close_ int terminal = open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC);

    if (terminal >= 0 && tcgetpgrp(terminal) == getpgrp())
        (void)tcsetattr(terminal, TCSADRAIN, attributes);
}

void agent_start(struct agent *agent)
{
    int notify[2];

    if (geteuid() == 0 || !may_use_terminal() || access(AGENT_PROGRAM, X_OK) < 0 ||
        pipe2(notify, O_CLOEXEC) < 0)
        return;
    agent->has_attributes = get_attributes(&agent->attributes);
    agent->pid = fork();
    if (agent->pid == 0)
        exec_agent(notify[1]);
    agent->is_the_one = agent->pid > 0 && !is_in_desktop();
    close_fd(notify[1]);
    /* It closes its end when it is ready, or ends. */
    if (agent->pid > 0)
        (void)poll(&(struct pollfd){ notify[0], POLLIN, 0 }, 1, AGENT_PATIENCE_MSEC);
    close_fd(notify[0]);
}

void agent_stop(struct agent *agent)
{
    int status = 0;

    if (agent->pid <= 0)
        return;
    kill(agent->pid, SIGTERM);
    kill(agent->pid, SIGCONT);
    while (waitpid(agent->pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (WIFSIGNALED(status) && WTERMSIG(status) != SIGTERM && agent->has_attributes)
        set_attributes(&agent->attributes);
    agent->pid = 0;
}
