/* What the program left in files, for the explanation of its end: called once, after it and all its
 * leftovers are gone. */
#include <dirent.h>
#include <fcntl.h>
#include <sys/statfs.h>

#include "launch.h"

/* A program can make as many as its scratch holds; beyond this the number says nothing more. */
#define SCRATCH_FILES_MAX 1000

static void measure_scratch(const char *path, struct launch_exited *exited)
{
    struct statfs fs;

    if (statfs(path, &fs) < 0)
        return;
    exited->file_bytes += (uint64_t)(fs.f_blocks - fs.f_bfree) * (uint64_t)fs.f_bsize;
    if (fs.f_bavail == 0 || (fs.f_files > 0 && fs.f_ffree == 0))
        exited->scratch_full = 1;
}

/* Ordinary files directly in @path; hidden ones and folders are some library's own. */
static uint32_t count_files(const char *path)
{
    _Alignas(struct dirent64) char buffer[4096];
    _cleanup_close_ int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    uint32_t n = 0;
    ssize_t size;

    while (fd >= 0 && n < SCRATCH_FILES_MAX && (size = getdents64(fd, buffer, sizeof(buffer))) > 0)
        for (ssize_t at = 0; at < size;) {
            const struct dirent64 *entry = (const struct dirent64 *)(buffer + at);
            n += entry->d_type == DT_REG && entry->d_name[0] != '.';
            at += entry->d_reclen;
        }
    return n;
}

void space_measure(int workspace, struct launch_exited *exited)
{
    struct statfs fs;

    if (fstatfs(workspace, &fs) == 0)
        exited->file_bytes = (uint64_t)(fs.f_blocks - fs.f_bfree) * (uint64_t)fs.f_bsize;
    measure_scratch("/tmp", exited);
    measure_scratch("/dev/shm", exited);
    exited->scratch_files = count_files("/tmp");
}
