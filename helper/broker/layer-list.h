/* What is remembered of the layers that are there, so that their users and ages are counted without
 * asking the store. Called by layers.c and layer-*.c. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "broker/layer-key.h"
#include "common/json.h"

struct known {
    struct known *next;
    uid_t uid;
    char key[LAYER_KEY_LENGTH + 1];
    uint64_t bytes; /* on the disk, about */
    uint64_t created_usec, used_usec;
};

/* NULL if it is not there. */
struct known *known_find(struct known *list, uid_t uid, const char *key);

/* Puts one in front, by what the store tells of it: "bytes", "entries", and "createdUSec" and
 * "usedUSec", without which it is of now. Out of memory it is left out, and counts for nothing
 * until the next start. */
void known_add(struct known **list, uid_t uid, const char *key, json_object *facts);

/* It was used at "usedUSec"; if it is not in the list, it is now. */
void known_note_used(struct known **list, uid_t uid, const char *key, json_object *facts);

/* Frees it; NULL is fine. */
void known_remove(struct known **list, struct known *known);
