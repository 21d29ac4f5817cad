/* The archive that brings a run's files home, cut in pieces by its first byte, and the report
 * beside it. Data must lie within the file that was told of. */
#include <stdint.h>
#include <string.h>

#include "check.h"
#include "engine/e2b/tar.h"
#include "engine/e2b/transfer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct heard {
    uint64_t size, entries, bytes;
    bool in_file;
};

static int on_entry(const struct tar_entry *entry, void *userdata)
{
    struct heard *heard = userdata;

    check(!heard->in_file && strlen(entry->name) <= TAR_NAME_MAX && entry->mode <= 07777);
    heard->size = entry->size;
    heard->entries++;
    heard->in_file = true;
    return 0;
}

static int on_data(const char *data, size_t size, uint64_t offset, void *userdata)
{
    struct heard *heard = userdata;

    check(heard->in_file && size > 0 && offset <= heard->size && size <= heard->size - offset);
    heard->bytes += size;
    return 0;
}

static int on_done(void *userdata)
{
    struct heard *heard = userdata;

    check(heard->in_file);
    heard->in_file = false;
    return 0;
}

static int hear(const char *data, size_t size, size_t piece, struct heard *ret)
{
    const struct tar_handler handler = { on_entry, on_data, on_done, ret };
    struct tar tar = { 0 };
    int r = 0;

    *ret = (struct heard){ 0 };
    for (size_t at = 0; r >= 0 && at < size; at += piece)
        r = tar_feed(&tar, data + at, size - at < piece ? size - at : piece, &handler);
    tar_release(&tar);
    return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct transfer_report report = { 0 };
    struct heard whole, cut;

    if (size == 0)
        return 0;
    size_t piece = data[0] * 7 + 1;
    char *copy = malloc(size);
    memcpy(copy, data + 1, size - 1);
    copy[size - 1] = '\0';
    int r = hear(copy, size - 1, size, &whole);
    check(hear(copy, size - 1, piece, &cut) == r);
    check(whole.entries == cut.entries && (r < 0 || whole.bytes == cut.bytes));
    transfer_parse_report(copy, &report);
    check(report.status >= -1 && report.status <= 255);
    free(copy);
    return 0;
}
