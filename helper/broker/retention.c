/* The rules by which results are kept, see retention.h. */
#include "broker/retention.h"

#include <string.h>

uint64_t retention_expiry(const struct retention_rules *rules, uint64_t ended_usec)
{
    return rules->max_age_usec == 0 || ended_usec > INT64_MAX - rules->max_age_usec
               ? 0
               : ended_usec + rules->max_age_usec;
}

static bool is_too_old(const struct retention_rules *rules, const struct retained *run,
                       uint64_t now_usec)
{
    uint64_t expiry = retention_expiry(rules, run->ended_usec);

    return expiry != 0 && expiry <= now_usec;
}

static struct retention_use sum_up(const struct retained *runs, size_t n)
{
    struct retention_use use = { .runs = n };

    for (size_t i = 0; i < n; i++) {
        use.bytes += runs[i].bytes;
        use.files += runs[i].files;
    }
    return use;
}

const char *retention_full(const struct retention_rules *rules, const struct retention_use *use)
{
    if (rules->max_bytes > 0 && use->bytes >= rules->max_bytes)
        return "bytes";
    return rules->max_files > 0 && use->files >= rules->max_files ? "files" : NULL;
}

size_t retention_needed(const struct retention_rules *rules, const struct retained *runs, size_t n)
{
    struct retention_use use = sum_up(runs, n);
    size_t needed = 0;

    while (needed < n && retention_full(rules, &use)) {
        use.bytes -= runs[needed].bytes;
        use.files -= runs[needed].files;
        needed++;
    }
    return needed;
}

size_t retention_find(const struct retention_rules *rules, struct retained *runs, size_t n,
                      uint64_t now_usec)
{
    size_t found = 0, left, needed;
    struct retained *oldest = runs;

    for (size_t i = 0; i < n; i++) {
        runs[i].why = is_too_old(rules, &runs[i], now_usec) ? "it was too old" : NULL;
        found += runs[i].why != NULL;
    }
    /* The others by number and size, the oldest first. */
    left = n - found;
    for (; rules->max_runs > 0 && left > rules->max_runs; oldest++) {
        if (oldest->why)
            continue;
        oldest->why = "there were too many";
        left--;
        found++;
    }
    if (!rules->remove_oldest)
        return found;
    needed = retention_needed(rules, runs, n);
    for (size_t i = 0; i < needed; i++) {
        found += runs[i].why == NULL;
        runs[i].why = runs[i].why ? runs[i].why : "there was no room for others";
    }
    return found;
}
