/* What a request may have: admission by the configuration's rules, the limits as applied, the
 * approvals that are needed, and the command line. Pure: reads the frozen request and the
 * configuration, changes and asks nothing. */
#pragma once

#include "broker/config.h"
#include "broker/package.h"
#include "broker/refusal.h"
#include "broker/request.h"

/* Bits of what needs an approval, each with its polkit action (authorize.h). */
enum approval {
    APPROVAL_RUN = 1 << 0,
    APPROVAL_NETWORK = 1 << 1,
    APPROVAL_RESOURCES = 1 << 2,
    APPROVAL_CLOUD = 1 << 3,
    APPROVAL_IMAGE = 1 << 4,
    APPROVAL_PACKAGES = 1 << 5,
    APPROVAL_ALL = (1 << 6) - 1,
};

struct plan {
    struct limits limits;
    const struct language *language; /* borrowed from the configuration */
    const char *engine;              /* borrowed from request or configuration */
    const char *image;               /* the same; NULL for an engine that runs none */
    bool cloud;                      /* code and files leave the machine */
    struct host_list hosts;          /* borrowed from the request; none: any that are allowed */
    bool egress;                     /* the way to the network is an egress process */
    struct package *packages;        /* sorted; ours */
    size_t n_packages;
    enum ecosystem ecosystem; /* of the packages, if there are any */
    bool require_hashes;
    unsigned approvals; /* enum approval, or-ed */
    char **argv;        /* NULL-terminated; entries borrowed but for [script_index] */
    size_t n_argv, script_index;
    char **environment; /* NULL-terminated NAME=VALUE, all ours */
    size_t n_environment;
};

/* Returns 0 with a plan to be released before request and configuration, -EPERM with a refusal, or
 * another negative errno for a failure of ours. */
int policy_apply(const struct config *config, const struct request *request, struct plan *ret,
                 struct refusal *refusal);
void plan_release(struct plan *plan);
