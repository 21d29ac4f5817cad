/* The loader of the index of runs, on one file of arbitrary bytes. What it takes must be what it
 * writes itself. */
#include "broker/index.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define ID "0123456789abcdef"
#define FILE_NAME ID ".json"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char directory[] = "/tmp/fuzz-index.XXXXXX";
static int dirfd = -1;

static void check(bool good)
{
    if (!good)
        abort();
}

static void remove_directory(void)
{
    unlinkat(dirfd, FILE_NAME, 0);
    unlinkat(dirfd, FILE_NAME ".bad", 0);
    rmdir(directory);
}

static void prepare(void)
{
    if (dirfd >= 0)
        return;
    check(mkdtemp(directory) != NULL);
    dirfd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    check(dirfd >= 0 && atexit(remove_directory) == 0);
    /* A line for each file that is put aside would be all that is seen. */
    check(freopen("/dev/null", "w", stderr) != NULL);
}

static void rewrite(struct run_index *index)
{
    const struct index_entry *entry = index_get(index, ID);
    json_object *shorter = entry ? index_read_short_result(index, ID) : NULL;
    json_object *result = shorter ? index_read_result(index, ID) : NULL;

    entry = index_get(index, ID);
    check(!entry || result);
    if (result)
        check(index_put(index, ID, entry->uid, entry->created_usec, entry->final, result) == 0);
    json_object_put(shorter);
    json_object_put(result);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct run_index *index = NULL;

    prepare();
    int fd = openat(dirfd, FILE_NAME, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    check(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    close(fd);
    check(index_open(directory, &index) == 0);
    rewrite(index);
    bool taken = index_get(index, ID) != NULL;
    index_close(index);

    check(index_open(directory, &index) == 0);
    check((index_get(index, ID) != NULL) == taken);
    index_close(index);
    return 0;
}
