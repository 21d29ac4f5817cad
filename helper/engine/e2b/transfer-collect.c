/* From an archive's entries to files of the workspace, see transfer.h. */
#include "transfer.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/file.h"
#include "launch/launch.h"
#include "tar.h"

#define SILENCE_USEC (60 * USEC_PER_SEC)
#define REPORT_MAX 4096

struct collect {
    struct transfer *transfer;
    struct transfer_report *report;
    struct tar tar;
    int file, folder; /* -1: the entry is left out */
    const char *leaf;
    char name[TAR_NAME_MAX + 1];
    mode_t mode;
    uint64_t size;
    char text[REPORT_MAX + 1]; /* the report's */
    size_t text_size;
};

/* ---- report */

/* "0m1.25s 0m0.10s", as a shell has it: user and system. */
static bool parse_times(const char *text, uint64_t *ret)
{
    double user, system;
    unsigned user_minutes, system_minutes;

    if (sscanf(text, "%9um%12lfs %9um%12lfs", &user_minutes, &user, &system_minutes, &system) != 4)
        return false;
    if (!(user >= 0 && user < 1e6 && system >= 0 && system < 1e6))
        return false;
    *ret = (uint64_t)((user + system) * 1e6) + (user_minutes + system_minutes) * 60 * USEC_PER_SEC;
    return true;
}

void transfer_parse_report(const char *text, struct transfer_report *ret)
{
    unsigned long long before = 0, after = 0;
    unsigned scratch, status;
    bool have_before = false;

    ret->cpu_usec = ret->oom_kills = UINT64_MAX;
    ret->status = -1;
    for (const char *line = text; *line; line += strcspn(line, "\n"), line += *line == '\n') {
        if (strncmp(line, "missing\n", 8) == 0)
            ret->is_missing = true;
        else if (sscanf(line, "status %3u", &status) == 1 && status <= UINT8_MAX)
            ret->status = (int)status;
        else if (sscanf(line, "before %19llu", &before) == 1)
            have_before = true;
        else if (sscanf(line, "after %19llu", &after) == 1 && have_before && after >= before)
            ret->oom_kills = after - before;
        else if (sscanf(line, "scratch %9u", &scratch) == 1)
            ret->scratch_files = scratch;
        else if (strncmp(line, "times ", 6) == 0)
            parse_times(line + 6, &ret->cpu_usec);
    }
}

/* ---- entries */

static int leave_out(struct collect *c)
{
    if (c->report->left_out[0] == '\0') {
        snprintf(c->report->left_out, sizeof(c->report->left_out), "%.*s", ENGINE_TEXT_MAX,
                 c->name);
        c->report->left_out_bytes = c->size;
    }
    return -EFBIG;
}

/* What an error means for all that follows: nothing smaller comes after what did not fit. */
static int judge(struct collect *c, int error)
{
    return error == -ENOSPC || error == -EDQUOT ? leave_out(c) : 0;
}

static void drop_entry(struct collect *c)
{
    c->file = close_fd(c->file);
    c->folder = close_fd(c->folder);
}

/* An input of that name was changed; a folder stays what it is. */
static int make_file(struct collect *c)
{
    if (unlinkat(c->folder, c->leaf, 0) < 0 && errno != ENOENT)
        return -errno;
    c->file =
        openat(c->folder, c->leaf, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    return c->file < 0 ? -errno : 0;
}

/* What is no file is left out by whoever collects the workspace, who says so of each. */
static int make_other(struct collect *c, const struct tar_entry *entry)
{
    if (entry->type == TAR_DIRECTORY)
        return mkdirat(c->folder, c->leaf, 0755) < 0 && errno != EEXIST ? -errno : 0;
    unlinkat(c->folder, c->leaf, 0);
    if (entry->type == TAR_SYMLINK)
        return symlinkat(entry->target[0] ? entry->target : "?", c->folder, c->leaf) < 0 ? -errno
                                                                                         : 0;
    if (entry->type == TAR_FIFO)
        return mkfifoat(c->folder, c->leaf, 0600) < 0 ? -errno : 0;
    return 0;
}

static int on_entry(const struct tar_entry *entry, void *userdata)
{
    struct collect *c = userdata;
    const char *name = entry->name;

    drop_entry(c);
    if (strncmp(name, "./", 2) == 0)
        name += 2;
    snprintf(c->name, sizeof(c->name), "%s", name);
    size_t length = strlen(c->name);
    if (length > 0 && c->name[length - 1] == '/')
        c->name[length - 1] = '\0';
    c->mode = entry->mode & 0777;
    c->size = entry->size;
    if (!path_is_plain(c->name))
        return 0;
    c->folder = put_open_folder(c->transfer->workspace, c->name, &c->leaf);
    if (c->folder < 0)
        return judge(c, c->folder);
    return judge(c, entry->type == TAR_FILE ? make_file(c) : make_other(c, entry));
}

static int on_data(const char *data, size_t size, uint64_t offset, void *userdata)
{
    struct collect *c = userdata;
    int r = c->file < 0 ? 0 : pwrite_all(c->file, data, size, (off_t)offset);

    if (r < 0) {
        unlinkat(c->folder, c->leaf, 0);
        drop_entry(c);
    }
    return judge(c, r);
}

static int on_done(void *userdata)
{
    struct collect *c = userdata;

    /* A hole at its end. */
    if (c->file >= 0 && (ftruncate(c->file, (off_t)c->size) < 0 || fchmod(c->file, c->mode) < 0))
        unlinkat(c->folder, c->leaf, 0);
    drop_entry(c);
    return 0;
}

/* ---- bytes */

static int on_output(bool is_stderr, const char *data, size_t size, void *userdata)
{
    struct collect *c = userdata;
    const struct tar_handler handler = { on_entry, on_data, on_done, c };

    if (!is_stderr)
        return tar_feed(&c->tar, data, size, &handler);
    size_t n = size < REPORT_MAX - c->text_size ? size : REPORT_MAX - c->text_size;
    memcpy(c->text + c->text_size, data, n);
    c->text_size += n;
    return 0;
}

int transfer_collect(struct transfer *transfer, struct envd *envd, json_object *arguments,
                     struct transfer_report *ret)
{
    struct envd_result result;
    struct collect *c = calloc(1, sizeof(*c));
    struct envd_program program = {
        .arguments = arguments,
        .silence_usec = SILENCE_USEC,
        .output = on_output,
        .userdata = c,
    };

    *ret = (struct transfer_report){ 0 };
    if (!c)
        return cloud_fail(envd->cloud, -ENOMEM, "Out of memory.");
    *c = (struct collect){ .transfer = transfer, .report = ret, .file = -1, .folder = -1 };
    int r = envd_run(envd, &program, &result);
    /* It may have been in the middle of a file. */
    if (c->file >= 0)
        unlinkat(c->folder, c->leaf, 0);
    drop_entry(c);
    if (r == -EFBIG && ret->left_out[0])
        r = 0;
    else if (r >= 0 && !tar_is_complete(&c->tar))
        r = cloud_fail(envd->cloud, -EBADMSG, "The sandbox did not send all of the run's files.");
    tar_release(&c->tar);
    transfer_parse_report(c->text, ret);
    free(c);
    return r;
}
