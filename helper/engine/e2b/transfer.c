/* Inputs: their copies in the workspace, and from there to the sandbox; see transfer.h. */
#include "transfer.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "common/cleanup.h"
#include "launch/launch.h"

/* A part of a form, read when its turn comes. */
struct part {
    int workspace; /* borrowed */
    const char *name;
    int file; /* -1: not open yet */
    bool is_borrowed;
    uint64_t at, size;
};

struct form {
    const struct transfer *transfer;
    const char *directory, *folder;
    int input; /* -1: none */
};

/* ---- put */

static int remember(struct transfer *transfer, const char *name, bool is_executable)
{
    struct transfer_input *more =
        realloc(transfer->inputs, (transfer->n_inputs + 1) * sizeof(*more));

    if (!more)
        return -ENOMEM;
    transfer->inputs = more;
    more[transfer->n_inputs] = (struct transfer_input){ strdup(name), is_executable, false };
    if (!more[transfer->n_inputs].name)
        return -ENOMEM;
    transfer->n_inputs++;
    return 0;
}

int transfer_put(struct transfer *transfer, const char *name, mode_t mode, int source,
                 uint64_t size, struct launch_put_done *done)
{
    int r = put_file(transfer->workspace, name, mode, source, size, done);

    return r < 0 ? r : remember(transfer, name, mode & 0111);
}

void transfer_release(struct transfer *transfer)
{
    for (size_t i = 0; i < transfer->n_inputs; i++)
        free(transfer->inputs[i].name);
    free(transfer->inputs);
    transfer->inputs = NULL;
    transfer->n_inputs = 0;
}

int transfer_add_executables(const struct transfer *transfer, json_object *arguments)
{
    char text[16];
    unsigned n = 0;

    for (size_t i = 0; i < transfer->n_inputs; i++)
        n += transfer->inputs[i].is_executable;
    snprintf(text, sizeof(text), "%u", n);
    int r = json_append(arguments, json_object_new_string(text));
    for (size_t i = 0; r >= 0 && i < transfer->n_inputs; i++)
        if (transfer->inputs[i].is_executable)
            r = json_append(arguments, json_object_new_string(transfer->inputs[i].name));
    return r < 0 ? -ENOMEM : 0;
}

/* ---- a form */

static size_t read_part(char *data, size_t one, size_t size, void *userdata)
{
    struct part *part = userdata;

    if (part->at == part->size)
        return 0;
    if (part->file < 0)
        part->file = openat(part->workspace, part->name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    ssize_t n = part->file < 0 ? -1 : pread(part->file, data, size, (off_t)part->at);
    if (n <= 0)
        return CURL_READFUNC_ABORT;
    part->at += (uint64_t)n;
    return (size_t)n;
}

/* A connection that broke is begun again. */
static int seek_part(void *userdata, curl_off_t offset, int origin)
{
    struct part *part = userdata;

    if (origin != SEEK_SET || offset < 0 || (uint64_t)offset > part->size)
        return CURL_SEEKFUNC_FAIL;
    part->at = (uint64_t)offset;
    return CURL_SEEKFUNC_OK;
}

static void free_part(void *userdata)
{
    struct part *part = userdata;

    if (!part->is_borrowed)
        close_fd(part->file);
    free(part);
}

static bool add_part(curl_mime *mime, const char *path, const struct part *wanted)
{
    curl_mimepart *place = curl_mime_addpart(mime);
    struct part *part = malloc(sizeof(*part));

    if (!place || !part) {
        free(part);
        return false;
    }
    *part = *wanted;
    if (curl_mime_data_cb(place, (curl_off_t)part->size, read_part, seek_part, free_part, part) !=
        CURLE_OK) {
        free(part);
        return false;
    }
    return curl_mime_name(place, "file") == CURLE_OK &&
           curl_mime_filename(place, path) == CURLE_OK &&
           curl_mime_type(place, "application/octet-stream") == CURLE_OK;
}

/* Names that stand in a header as they are. */
static bool fits_form(const char *name)
{
    for (; *name; name++)
        if ((unsigned char)*name < ' ' || *name == '"' || *name == '\\' || *name == '%' ||
            (unsigned char)*name > '~')
            return false;
    return true;
}

static bool add_input(curl_mime *mime, const struct form *form, const struct transfer_input *input)
{
    struct part part = { form->transfer->workspace, input->name, -1, false, 0, 0 };
    _cleanup_free_ char *path = NULL;
    struct stat st;

    if (asprintf(&path, "%s/%s", form->directory, input->name) < 0) {
        path = NULL;
        return false;
    }
    if (fstatat(part.workspace, input->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return false;
    part.size = (uint64_t)st.st_size;
    return add_part(mime, path, &part);
}

/* Something of its own is in the folder in any case, or a shell would have to make it. */
static bool add_folder(curl_mime *mime, const struct form *form)
{
    struct part part = { -1, NULL, form->input, true, 0, 0 };
    _cleanup_free_ char *path = NULL;
    struct stat st = { 0 };

    if (asprintf(&path, "%s/%s", form->folder, form->input >= 0 ? "stdin" : "sent") < 0) {
        path = NULL;
        return false;
    }
    if (form->input >= 0 && fstat(form->input, &st) < 0)
        return false;
    part.size = (uint64_t)st.st_size;
    return add_part(mime, path, &part);
}

static curl_mime *make_form(CURL *curl, void *userdata)
{
    const struct form *form = userdata;
    curl_mime *mime = curl_mime_init(curl);
    bool good = mime;

    for (size_t i = 0; good && i < form->transfer->n_inputs; i++) {
        const struct transfer_input *input = &form->transfer->inputs[i];
        if (!input->is_sent && fits_form(input->name))
            good = add_input(mime, form, input);
    }
    if (!good || !add_folder(mime, form)) {
        curl_mime_free(mime);
        return NULL;
    }
    return mime;
}

/* ---- upload */

static int upload_one(struct transfer *transfer, struct envd *envd, const char *directory,
                      const char *name)
{
    _cleanup_close_ int file = openat(transfer->workspace, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    _cleanup_free_ char *path = NULL;
    struct stat st;

    if (file < 0 || fstat(file, &st) < 0)
        return cloud_fail(envd->cloud, -errno, "A file of the run cannot be read any more.");
    if (asprintf(&path, "%s/%s", directory, name) < 0) {
        path = NULL;
        return cloud_fail(envd->cloud, -ENOMEM, "Out of memory.");
    }
    return envd_upload(envd, path, file, (uint64_t)st.st_size);
}

/* A directory is made by whatever file is sent there. */
static int make_directory(struct envd *envd, const char *directory)
{
    _cleanup_close_ int empty = open("/dev/null", O_RDONLY | O_CLOEXEC);
    _cleanup_free_ char *path = NULL;

    if (asprintf(&path, "%s/.sbxctl", directory) < 0) {
        path = NULL;
        return cloud_fail(envd->cloud, -ENOMEM, "Out of memory.");
    }
    return envd_upload(envd, path, empty, 0);
}

int transfer_upload(struct transfer *transfer, struct envd *envd, const char *directory, int input,
                    const char *folder)
{
    struct form form = { transfer, directory, folder, input };
    bool need_form = input >= 0;
    int r = transfer->n_inputs == 0 ? make_directory(envd, directory) : 0;

    for (size_t i = 0; i < transfer->n_inputs; i++)
        need_form =
            need_form || (!transfer->inputs[i].is_sent && fits_form(transfer->inputs[i].name));
    if (r >= 0 && need_form)
        r = envd_upload_form(envd, make_form, &form);
    for (size_t i = 0; r >= 0 && i < transfer->n_inputs; i++)
        if (!transfer->inputs[i].is_sent && !fits_form(transfer->inputs[i].name))
            r = upload_one(transfer, envd, directory, transfer->inputs[i].name);
    for (size_t i = 0; r >= 0 && i < transfer->n_inputs; i++)
        transfer->inputs[i].is_sent = true;
    return r;
}
