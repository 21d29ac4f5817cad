/* The list of known layers, see layer-list.h. */
#include "broker/layer-list.h"
#include "common/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ENTRY_BYTES 4096 /* that a file or folder takes besides, whatever is in it */

struct known *known_find(struct known *list, uid_t uid, const char *key)
{
    for (struct known *known = list; known; known = known->next)
        if (known->uid == uid && strcmp(known->key, key) == 0)
            return known;
    return NULL;
}

void known_add(struct known **list, uid_t uid, const char *key, json_object *facts)
{
    struct known *known = calloc(1, sizeof(*known));
    uint64_t created = json_get_number(facts, "createdUSec");
    uint64_t used = json_get_number(facts, "usedUSec"), now = clock_usec(CLOCK_REALTIME);

    if (!known)
        return;
    *known = (struct known){
        .next = *list,
        .uid = uid,
        .bytes = json_get_number(facts, "bytes") + ENTRY_BYTES * json_get_number(facts, "entries"),
        .created_usec = created ? created : now,
        .used_usec = used ? used : now,
    };
    snprintf(known->key, sizeof(known->key), "%s", key);
    *list = known;
}

void known_note_used(struct known **list, uid_t uid, const char *key, json_object *facts)
{
    struct known *known = known_find(*list, uid, key);

    if (known)
        known->used_usec = json_get_number(facts, "usedUSec");
    else
        known_add(list, uid, key, facts);
}

void known_remove(struct known **list, struct known *known)
{
    while (*list && *list != known)
        list = &(*list)->next;
    if (*list)
        *list = known->next;
    free(known);
}
