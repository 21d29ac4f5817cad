/* Copying one file's bytes, see store-copy.h. */
#include "broker/store-copy.h"
#include "broker/store-protocol.h"
#include "common/cleanup.h"
#include "common/file.h"

#include <fcntl.h>
#include <stdbool.h>
#include <sys/stat.h>

/* Between two chunks the job looks whether it is still wanted. */
#define CHUNK (1024 * 1024)

struct copy {
    int in, out, job;
    uint64_t length; /* of the copy so far, holes at its end not counted */
    bool cut;        /* the source became shorter */
    int read_error;  /* positive errno of the source */
};

/* Returns the bytes copied, 0 at the end of the source, or a negative errno of the destination. By
 * hand, since the source is in memory and the copy on a disk: across file systems
 * copy_file_range(2) fails since Linux 5.19, and sendfile(2) takes no less time. */
static ssize_t copy_chunk(struct copy *c, off_t offset, size_t size)
{
    static char buffer[CHUNK];
    ssize_t n;

    do
        n = pread(c->in, buffer, size, offset);
    while (n < 0 && errno == EINTR);
    if (n < 0) {
        c->read_error = errno;
        return 0;
    }
    int r = pwrite_all(c->out, buffer, (size_t)n, offset);
    return r < 0 ? r : n;
}

/* Copies what is between two holes. Returns 0 or a negative errno. */
static int copy_data(struct copy *c, off_t offset, off_t end)
{
    while (offset < end) {
        if (store_peer_gone(c->job))
            return -ECANCELED;
        size_t want = end - offset < CHUNK ? (size_t)(end - offset) : CHUNK;
        ssize_t n = copy_chunk(c, offset, want);
        if (n <= 0) {
            c->cut = true;
            return (int)n;
        }
        offset += n;
        c->length = (uint64_t)offset;
    }
    return 0;
}

int copy_sparse(int in, int out, uint64_t size, int job, uint64_t *ret_bytes)
{
    struct copy c = { .in = in, .out = out, .job = job };
    off_t start, end = 0;
    struct stat st;
    int r = 0;

    while (!c.cut && r == 0 && file_next_data(in, end, (off_t)size, &start, &end))
        r = copy_data(&c, start, end);
    if (r < 0)
        return r;
    if (c.read_error) {
        *ret_bytes = (uint64_t)c.read_error;
        return COPY_UNREADABLE;
    }
    /* The hole at the end; and not the part that was cut off under our hands. */
    if (c.length < size) {
        if (fstat(in, &st) == 0 && (uint64_t)st.st_size < size)
            size = (uint64_t)st.st_size;
        if (ftruncate(out, (off_t)size) < 0)
            return -errno;
    }
    *ret_bytes = size;
    return COPY_DONE;
}
