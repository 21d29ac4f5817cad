/* The loader of the index of runs, on one file of arbitrary bytes. What it takes must be what it
 * writes itself. */
#include "broker/index.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define FILE_NAME "0123456789abcdef.json"

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

static bool rewrite(const struct index_entry *entry, void *userdata)
{
    struct run_index *index = userdata;
    json_object *result = json_object_get(entry->result);
    char id[64];

    snprintf(id, sizeof(id), "%s", entry->id);
    check(index_put(index, id, entry->uid, entry->created_usec, entry->final, result) == 0);
    json_object_put(result);
    return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct run_index *index = NULL;

    prepare();
    int fd = openat(dirfd, FILE_NAME, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    check(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    close(fd);
    check(index_open(directory, &index) == 0);
    bool taken = index_get(index, "0123456789abcdef") != NULL;
    index_foreach(index, rewrite, index);
    index_close(index);

    check(index_open(directory, &index) == 0);
    check((index_get(index, "0123456789abcdef") != NULL) == taken);
    index_close(index);
    return 0;
}
