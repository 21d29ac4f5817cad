/* The table of exit statuses, see exit-status.h. */
#include "client/exit-status.h"

#include <signal.h>
#include <string.h>

#include "client/result.h"
#include "common/cleanup.h"
#include "common/varlink.h"

/* The number of the signal called @name, with or without "SIG"; 0 if there is none. */
static int signal_number(const char *name)
{
    if (!name)
        return 0;
    if (strncmp(name, "SIG", 3) == 0)
        name += 3;
    for (int n = 1; n < NSIG; n++) {
        const char *known = sigabbrev_np(n);
        if (known && strcmp(known, name) == 0)
            return n;
    }
    return 0;
}

static int of_signal(const char *name)
{
    int n = signal_number(name);
    return n > 0 ? EXIT_SIGNALLED + n : EXIT_KILLED;
}

static int of_exit_code(const struct result *result)
{
    if (result->exit_code > 0 && result->exit_code <= 255)
        return (int)result->exit_code;
    return result->signal ? of_signal(result->signal) : EXIT_OURS;
}

int exit_status_of_result(const struct result *result)
{
    switch (result->status) {
    case STATUS_SUCCEEDED:
        return 0;
    case STATUS_FAILED:
        return of_exit_code(result);
    case STATUS_TIMED_OUT:
        return EXIT_TIMED_OUT;
    case STATUS_OUT_OF_MEMORY:
        return EXIT_KILLED;
    case STATUS_KILLED:
        return of_signal(result->signal);
    case STATUS_CANCELLED:
        return EXIT_INTERRUPTED;
    case STATUS_DENIED:
        return EXIT_DENIED;
    case STATUS_QUEUED:
    case STATUS_STARTING:
    case STATUS_RUNNING:
    case STATUS_LOST:
    case STATUS_REJECTED:
        break;
    }
    return EXIT_OURS;
}

int exit_status_of_error(const char *error)
{
    static const char *const denials[] = {
        "io.sbxctl.Sandbox.ApprovalRequired",
        "io.sbxctl.Sandbox.ApprovalBusy",
        "io.sbxctl.Sandbox.Denied",
        VARLINK_ERROR_PERMISSION_DENIED,
    };

    for (size_t i = 0; i < ELEMENTS(denials); i++)
        if (strcmp(error, denials[i]) == 0)
            return EXIT_DENIED;
    return EXIT_OURS;
}
