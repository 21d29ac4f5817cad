/* The entries of the index as they are in memory: in their order, by their ids, and counted by
 * user. Called by index.c; knows no file. */
#pragma once

#include "broker/index.h"
#include "broker/run-id.h"

/* An entry with room for its id, in the list and in a bucket of the table. */
struct index_node {
    struct index_entry entry;
    struct index_node *next;
    json_object *unwritten; /* without output: the disk has not taken it yet; else NULL */
    bool unsynced;
    struct index_node *next_unsynced;
    char id[RUN_ID_LENGTH_MAX + 1];
};

/* What a user's runs take that ended. */
struct index_user {
    uid_t uid;
    struct retention_use use;
};

struct index_table {
    struct index_node **nodes; /* oldest first */
    size_t n, allocated;
    struct index_node **buckets; /* by id; as many as there is room for nodes, a power of two */
    struct index_user *users;
    size_t n_users;
};

/* Copies what @entry points to. NULL out of memory. */
struct index_node *index_node_new(const struct index_entry *entry);

/* Room for one more, of that user. Returns 0 or -ENOMEM. */
int index_table_reserve(struct index_table *table, uid_t uid);
/* Takes over @node, for which room was reserved, and of whose id there is no other. */
void index_table_insert(struct index_table *table, struct index_node *node);
/* The same, at the end; then index_table_sort() makes the order. */
void index_table_append(struct index_table *table, struct index_node *node);
void index_table_sort(struct index_table *table);
/* Frees it. */
void index_table_remove(struct index_table *table, struct index_node *node);
void index_table_release(struct index_table *table);

/* NULL if there is none. */
struct index_node *index_table_find(const struct index_table *table, const char *id);
void index_table_lower_size(struct index_table *table, struct index_node *node, uint64_t bytes,
                            uint64_t files);
struct retention_use index_table_use(const struct index_table *table, uid_t uid);
