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
    bool by_kernel; /* copy_file_range(2) works for this pair */
    char *buffer;   /* CHUNK bytes, made when it does not */
    int read_error; /* positive errno of the source */
};

/* Returns the bytes copied, 0 at the end of the source, or a negative errno of the destination. */
static ssize_t copy_chunk_by_hand(struct copy *c, off_t offset, size_t size)
{
    ssize_t n;

    if (!c->buffer && !(c->buffer = malloc(CHUNK)))
        return -ENOMEM;
    do
        n = pread(c->in, c->buffer, size, offset);
    while (n < 0 && errno == EINTR);
    if (n < 0) {
        c->read_error = errno;
        return 0;
    }
    int r = pwrite_all(c->out, c->buffer, (size_t)n, offset);
    return r < 0 ? r : n;
}

static ssize_t copy_chunk(struct copy *c, off_t offset, size_t size)
{
    if (c->by_kernel) {
        off_t from = offset, to = offset;
        ssize_t n = copy_file_range(c->in, &from, c->out, &to, size, 0);
        if (n > 0)
            return n;
        /* Across file systems it fails with EXDEV since 5.19, and what else it says does not tell
         * which side failed: reading and writing does. */
        c->by_kernel = false;
    }
    return copy_chunk_by_hand(c, offset, size);
}

int copy_sparse(int in, int out, uint64_t size, int job, uint64_t *ret_bytes)
{
    struct copy c = { .in = in, .out = out, .job = job, .by_kernel = true };
    off_t start, end, offset = 0, length = (off_t)size;
    bool cut = false;
    struct stat st;
    int r = 0;

    while (!cut && r == 0 && file_next_data(in, offset, length, &start, &end)) {
        for (offset = start; offset < end;) {
            if (store_peer_gone(job)) {
                r = -ECANCELED;
                break;
            }
            size_t want = end - offset < CHUNK ? (size_t)(end - offset) : CHUNK;
            ssize_t n = copy_chunk(&c, offset, want);
            if (n <= 0) {
                r = (int)n;
                cut = true;
                break;
            }
            offset += n;
        }
    }
    free(c.buffer);
    if (r < 0)
        return r;
    if (c.read_error) {
        *ret_bytes = (uint64_t)c.read_error;
        return COPY_UNREADABLE;
    }
    /* The hole at the end; and not the part that was cut off under our hands. */
    if (fstat(in, &st) == 0 && st.st_size < length)
        length = st.st_size;
    if (ftruncate(out, length) < 0)
        return -errno;
    *ret_bytes = (uint64_t)length;
    return COPY_DONE;
}
