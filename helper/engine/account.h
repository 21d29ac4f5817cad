/* The few small files on the host that one sandbox sees bound into itself: passwd and group with
 * its user, hosts, and the list of CPUs that goes with its quota. They live in the engine service's
 * runtime directory from the start of a sandbox to its end. Called by the engines of this machine.
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#define ACCOUNT_PATH_MAX 128

struct account {
    char directory[ACCOUNT_PATH_MAX];
    char cpu_list[ACCOUNT_PATH_MAX]; /* the file may be missing: no list is needed then */
};

/* Makes the directory below @runtime, hosts with @hostname as the sandbox's own, and the CPU list
 * for a quota of @cpu_percent. Returns 0 or a negative errno. */
int account_create(const char *runtime, uint64_t connection, const char *hostname,
                   uint32_t cpu_percent, struct account *ret);

/* Adds passwd and group, which appear in a running sandbox at once: with a dynamic user, only that
 * one knows it. */
int account_fill(const struct account *account, uid_t uid, gid_t gid);

/* Removes what account_create() made for that connection of the service, if anything. */
void account_remove(const char *runtime, uint64_t connection);
