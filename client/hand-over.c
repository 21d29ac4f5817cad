/* The verbs that need libsystemd, in the program that is linked without it: they are in another
 * one, which takes this one's place. */
#include <errno.h>
#include <unistd.h>

#include "client/exit-status.h"
#include "client/say.h"
#include "client/verb.h"
#include "config-paths.h"

#define FULL_PROGRAM SBXCTL_LIBEXECDIR "/sbxctl-full"

/* @argv has the command's own name before it, see main(). */
static int hand_over(const struct verb *verb, char **argv)
{
    argv[0] = (char *)verb->name;
    execv(FULL_PROGRAM, argv - 1);
    return say_failure_errno(-errno, "cannot start " FULL_PROGRAM);
}

int verb_audit(const struct verb *verb, int argc, char **argv)
{
    return hand_over(verb, argv);
}

int verb_doctor(const struct verb *verb, int argc, char **argv)
{
    return hand_over(verb, argv);
}

int verb_mcp(const struct verb *verb, int argc, char **argv)
{
    return hand_over(verb, argv);
}
