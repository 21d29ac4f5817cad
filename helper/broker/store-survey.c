/* Measuring of a user's results, see store-survey.h. The user owns the trees, and may have put
 * anything there; it is looked at only, by stat(2). */
#include "broker/store-survey.h"
#include "broker/run-id.h"
#include "broker/store-beneath.h"
#include "broker/store-collect.h"
#include "common/cleanup.h"
#include "common/directory.h"

#include <sys/stat.h>

#define DEPTH_MAX (COLLECT_DEPTH_MAX + 2)
/* Of all runs together. */
#define ENTRIES_MAX 1000000
#define RUNS_MAX 50000

struct survey {
    uint64_t bytes, files; /* of one run */
    uint64_t n_entries;
};

/* Takes over @fd. */
static void add_directory(struct survey *survey, int fd, unsigned depth)
{
    _cleanup_closedir_ DIR *dir = directory_take(fd);
    struct dirent *entry;
    struct stat st;

    while (dir && survey->n_entries < ENTRIES_MAX && (entry = directory_next(dir))) {
        survey->n_entries++;
        if (beneath_stat(dirfd(dir), entry->d_name, &st) < 0)
            continue;
        if (!S_ISDIR(st.st_mode)) {
            survey->bytes += S_ISREG(st.st_mode) ? (uint64_t)st.st_size : 0;
            survey->files++;
        } else if (depth < DEPTH_MAX) {
            int below = beneath_open_directory(dirfd(dir), entry->d_name);
            if (below >= 0)
                add_directory(survey, below, depth + 1);
        }
    }
}

static int add_run(json_object *runs, const char *id, const struct survey *survey)
{
    _cleanup_json_ json_object *run = json_object_new_object();

    if (!run || json_add_uint64(run, "bytes", survey->bytes) < 0 ||
        json_add_uint64(run, "files", survey->files) < 0)
        return -ENOMEM;
    return json_add(runs, id, TAKE_PTR(run));
}

int survey_user(int state, uid_t uid, json_object **ret)
{
    _cleanup_json_ json_object *result = json_object_new_object();
    json_object *runs = json_object_new_object();
    struct survey survey = { 0 };
    size_t n = 0;

    if (json_add(result, "runs", runs) < 0)
        return -ENOMEM;
    int user = beneath_open_user(state, uid);
    if (user < 0)
        return user;
    _cleanup_closedir_ DIR *dir = directory_take(user);
    if (!dir)
        return -errno;
    for (struct dirent *entry; n < RUNS_MAX && (entry = directory_next(dir));) {
        if (!run_id_valid(entry->d_name))
            continue;
        int fd = beneath_open_directory(dirfd(dir), entry->d_name);
        if (fd < 0)
            continue;
        survey.bytes = survey.files = 0;
        add_directory(&survey, fd, 0);
        int r = add_run(runs, entry->d_name, &survey);
        if (r < 0)
            return r;
        n++;
    }
    *ret = TAKE_PTR(result);
    return 0;
}
