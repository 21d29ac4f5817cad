/* From a run's id to its files, see input-run.h. */
#include "client/input-run.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "client/exit-status.h"
#include "client/helper.h"
#include "client/runs.h"
#include "client/save.h"
#include "client/say.h"

/* Where the files of the run @id lie: an open directory. */
static int open_files(const char *id, int *ret)
{
    _cleanup_client_ struct varlink_client *client = NULL;
    _cleanup_json_ json_object *object = NULL;
    struct result run;

    int r = helper_connect(&client);
    if (r == 0)
        r = runs_describe(client, id, &object, &run);
    if (r != 0)
        return r;
    _cleanup_free_ char *shown = displayed(run.id);
    if (!run_status_is_final(run.status))
        return say_failure(EXIT_OURS, "RunActive", "'sbxctl wait' waits for its end",
                           "the run %s has not ended yet, so it has no files", shown);
    if (!run.output_directory)
        return say_failure(EXIT_OURS, "NoOutput", NULL, "nothing is kept of the run %s", shown);
    *ret = outputs_open(run.output_directory);
    return *ret < 0 ? say_failure(EXIT_OURS, "NoOutput", NULL,
                                  "cannot read the files of the run %s: %s", shown, strerror(-*ret))
                    : 0;
}

static int fail_open(const char *text, int r)
{
    return input_files_fail(text, r == -ELOOP    ? "there is a link in the way"
                                  : r == -EXDEV  ? "it does not lie among the run's files"
                                  : r == -ENOENT ? "the run made no such file"
                                                 : strerror(-r));
}

int input_run_find(struct input_files *files, const char *text)
{
    size_t length = strcspn(text, ":");
    const char *path = text[length] == ':' ? text + length + 1 : "";
    _cleanup_free_ char *id = strndup(text, length), *name = strdup(path);
    _cleanup_close_ int dir = -1;
    int r = id && name ? 0 : say_failure_errno(-ENOMEM, "cannot pass on the files");

    if (r == 0)
        r = open_files(id, &dir);
    if (r != 0)
        return r;
    if (*path == '\0')
        return input_files_add_opened(files, TAKE_FD(dir), text, "");
    for (size_t n = strlen(name); n > 1 && name[n - 1] == '/'; n--)
        name[n - 1] = '\0';
    const char *last = strrchr(name, '/');
    last = last ? last + 1 : name;
    if (strcmp(last, ".") == 0 || strcmp(last, "..") == 0 || *last == '\0')
        return input_files_fail(text, "that is no name of a file");
    int fd = outputs_open_file(dir, path);
    return fd < 0 ? fail_open(text, fd) : input_files_add_opened(files, fd, text, last);
}
