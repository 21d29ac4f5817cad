/* See places.h. A place holds the number of its connection, 0 if it is free. */
#include "places.h"

#include <stdatomic.h>
#include <sys/mman.h>

struct places {
    size_t n;
    _Atomic uint64_t connections[];
};

struct places *places_new(size_t n)
{
    size_t size = sizeof(struct places) + n * sizeof(_Atomic uint64_t);
    struct places *places =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (places == MAP_FAILED)
        return NULL;
    places->n = n;
    return places;
}

static bool replace(struct places *places, uint64_t from, uint64_t to)
{
    for (size_t i = 0; i < places->n; i++) {
        uint64_t expected = from;
        if (atomic_compare_exchange_strong(&places->connections[i], &expected, to))
            return true;
    }
    return false;
}

bool places_take(struct places *places, uint64_t connection)
{
    return replace(places, 0, connection);
}

void places_leave(struct places *places, uint64_t connection)
{
    (void)replace(places, connection, 0);
}
