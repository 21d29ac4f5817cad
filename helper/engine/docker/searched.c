/* Images without device nodes, see searched.h. */
#include "searched.h"

#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

#define IMAGES_MAX 256

struct entry {
    atomic_bool valid; /* the last thing to be written */
    char id[ENGINE_TEXT_MAX + 1];
    char layer[ENGINE_TEXT_MAX + 1];
};

/* Entries are written once, each by the one process that took its number. */
struct searched {
    atomic_uint taken;
    struct entry entries[IMAGES_MAX];
};

struct searched *searched_new(void)
{
    void *list = mmap(NULL, sizeof(struct searched), PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return list == MAP_FAILED ? NULL : list;
}

static bool is_known_by_place(const struct image *image)
{
    return image->id[0] != '\0' && image->layer[0] != '\0';
}

bool searched_has(const struct searched *list, const struct image *image)
{
    if (!list || !is_known_by_place(image))
        return false;
    for (size_t i = 0; i < IMAGES_MAX; i++) {
        const struct entry *entry = &list->entries[i];
        if (atomic_load(&entry->valid) && strcmp(entry->id, image->id) == 0 &&
            strcmp(entry->layer, image->layer) == 0)
            return true;
    }
    return false;
}

void searched_add(struct searched *list, const struct image *image)
{
    if (!list || !is_known_by_place(image) || searched_has(list, image) ||
        atomic_load(&list->taken) >= IMAGES_MAX)
        return;
    unsigned i = atomic_fetch_add(&list->taken, 1);
    if (i >= IMAGES_MAX)
        return;
    strcpy(list->entries[i].id, image->id);
    strcpy(list->entries[i].layer, image->layer);
    atomic_store(&list->entries[i].valid, true);
}
