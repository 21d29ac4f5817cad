/* Section [Packages] of the configuration: which packages runs may have, where they come from, and
 * how much of this machine they may take. Called by config.c; pure but for memory. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "broker/package.h"
#include "egress/protocol.h"

/* Where an index is. */
struct package_index {
    char *text;                   /* as configured: a URL, or an absolute path */
    bool is_directory;            /* of wheels: no network is needed */
    char host[HOST_TEXT_MAX + 1]; /* normal text */
    uint16_t port;
    bool is_built_in; /* the ecosystem's public one, not the administrator's word */
};

struct config_packages {
    struct package_index index, node_index;
    struct host_list hosts;   /* besides an index's own, that its files come from */
    char **allowed, **denied; /* patterns of names, NULL-terminated; never NULL once complete */
    bool has_allowed;
    bool only_binary;
    uint64_t timeout_usec;             /* of one installation */
    uint64_t layer_bytes, layer_files; /* of one layer; folders are files, too */
    uint64_t user_bytes;               /* of all layers of a user */
    uint64_t max_age_usec;             /* then what is asked for is resolved anew */
};

/* Both return 0, -EINVAL or -ENOMEM. An index with a password in its URL is refused: whoever runs
 * something would see it. */
int config_packages_set_index(struct package_index *index, const char *value);
int config_packages_set_node_index(struct package_index *index, const char *value);

/* Adds the words of @value to a list of patterns; of an empty value it begins anew. Returns 0,
 * -EINVAL for what is no name of a package in any ecosystem, -E2BIG or -ENOMEM. */
int config_packages_add_names(char ***list, const char *value);

/* Fills in what was not configured: the public indexes, any package. Returns 0, -ERANGE if a layer
 * may be larger than all layers of a user, or -ENOMEM. */
int config_packages_complete(struct config_packages *packages);
void config_packages_release(struct config_packages *packages);

const struct package_index *config_packages_index(const struct config_packages *packages,
                                                  enum ecosystem ecosystem);

/* Where the egress process of an installation lets it connect to: what the index needs, and nothing
 * else. [Network] has no part in it. @ret is to be released. Returns 0 or -ENOMEM. */
int config_packages_start(const struct config_packages *packages, enum ecosystem ecosystem,
                          const char *run_id, struct egress_start *ret);
void config_packages_start_release(struct egress_start *start);
