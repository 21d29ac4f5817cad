/* The entries of the index in memory, see index-table.h. */
#include "broker/index-table.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* FNV-1a; ids are random. */
static size_t hash(const char *id)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);

    for (; *id; id++)
        h = (h ^ (unsigned char)*id) * UINT64_C(0x100000001b3);
    return (size_t)(h ^ (h >> 32));
}

static struct index_node **bucket(const struct index_table *table, const char *id)
{
    return &table->buckets[hash(id) & (table->allocated - 1)];
}

struct index_node *index_table_find(const struct index_table *table, const char *id)
{
    struct index_node *node = table->allocated ? *bucket(table, id) : NULL;

    while (node && strcmp(node->id, id) != 0)
        node = node->next;
    return node;
}

static void link_node(struct index_table *table, struct index_node *node)
{
    struct index_node **at = bucket(table, node->id);

    node->next = *at;
    *at = node;
}

static struct index_user *find_user(const struct index_table *table, uid_t uid)
{
    for (size_t i = 0; i < table->n_users; i++)
        if (table->users[i].uid == uid)
            return &table->users[i];
    return NULL;
}

static int reserve_user(struct index_table *table, uid_t uid)
{
    if (find_user(table, uid))
        return 0;
    struct index_user *users = realloc(table->users, (table->n_users + 1) * sizeof(*users));
    if (!users)
        return -ENOMEM;
    users[table->n_users++] = (struct index_user){ .uid = uid };
    table->users = users;
    return 0;
}

static void add_use(struct index_table *table, const struct index_entry *entry)
{
    struct index_user *user = find_user(table, entry->uid);

    if (!entry->final)
        return;
    user->use.runs++;
    user->use.bytes += entry->bytes;
    user->use.files += entry->files;
}

static void subtract_use(struct index_table *table, const struct index_entry *entry)
{
    struct index_user *user = find_user(table, entry->uid);

    if (!entry->final)
        return;
    user->use.runs--;
    user->use.bytes -= entry->bytes;
    user->use.files -= entry->files;
}

int index_table_reserve(struct index_table *table, uid_t uid)
{
    if (reserve_user(table, uid) < 0)
        return -ENOMEM;
    if (table->n < table->allocated)
        return 0;
    size_t allocated = table->allocated ? table->allocated * 2 : 64;
    struct index_node **nodes = realloc(table->nodes, allocated * sizeof(struct index_node *));
    if (!nodes)
        return -ENOMEM;
    table->nodes = nodes;
    struct index_node **buckets = calloc(allocated, sizeof(struct index_node *));
    if (!buckets)
        return -ENOMEM;
    free(table->buckets);
    table->buckets = buckets;
    table->allocated = allocated;
    for (size_t i = 0; i < table->n; i++)
        link_node(table, table->nodes[i]);
    return 0;
}

/* Before it are those that are older, and as old. */
static size_t find_place(const struct index_table *table, uint64_t created_usec)
{
    size_t low = 0, high = table->n;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (table->nodes[middle]->entry.created_usec <= created_usec)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

void index_table_remove(struct index_table *table, struct index_node *node)
{
    size_t at = find_place(table, node->entry.created_usec);
    struct index_node **link = bucket(table, node->id);

    subtract_use(table, &node->entry);
    while (table->nodes[--at] != node)
        ;
    memmove(&table->nodes[at], &table->nodes[at + 1], (--table->n - at) * sizeof(table->nodes[0]));
    while (*link != node)
        link = &(*link)->next;
    *link = node->next;
    json_object_put(node->unwritten);
    free(node);
}

struct index_node *index_node_new(const struct index_entry *entry)
{
    struct index_node *node = calloc(1, sizeof(*node));

    if (!node)
        return NULL;
    node->entry = *entry;
    snprintf(node->id, sizeof(node->id), "%s", entry->id);
    node->entry.id = node->id;
    return node;
}

void index_table_insert(struct index_table *table, struct index_node *node)
{
    size_t at = find_place(table, node->entry.created_usec);

    memmove(&table->nodes[at + 1], &table->nodes[at], (table->n - at) * sizeof(table->nodes[0]));
    table->nodes[at] = node;
    table->n++;
    link_node(table, node);
    add_use(table, &node->entry);
}

void index_table_append(struct index_table *table, struct index_node *node)
{
    table->nodes[table->n++] = node;
    link_node(table, node);
    add_use(table, &node->entry);
}

static int compare_nodes(const void *a, const void *b)
{
    const struct index_node *x = *(struct index_node *const *)a,
                            *y = *(struct index_node *const *)b;

    return x->entry.created_usec != y->entry.created_usec
               ? (x->entry.created_usec < y->entry.created_usec ? -1 : 1)
               : strcmp(x->id, y->id);
}

void index_table_sort(struct index_table *table)
{
    if (table->n > 0)
        qsort(table->nodes, table->n, sizeof(table->nodes[0]), compare_nodes);
}

void index_table_lower_size(struct index_table *table, struct index_node *node, uint64_t bytes,
                            uint64_t files)
{
    subtract_use(table, &node->entry);
    if (bytes < node->entry.bytes)
        node->entry.bytes = bytes;
    if (files < node->entry.files)
        node->entry.files = files;
    add_use(table, &node->entry);
}

struct retention_use index_table_use(const struct index_table *table, uid_t uid)
{
    const struct index_user *user = find_user(table, uid);

    return user ? user->use : (struct retention_use){ 0 };
}

void index_table_release(struct index_table *table)
{
    for (size_t i = 0; i < table->n; i++) {
        json_object_put(table->nodes[i]->unwritten);
        free(table->nodes[i]);
    }
    free(table->nodes);
    free(table->buckets);
    free(table->users);
    *table = (struct index_table){ 0 };
}
