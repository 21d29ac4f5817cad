/* From a notebook's results to files, see interpreter.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "common/base64.h"
#include "common/cleanup.h"
#include "common/file.h"
#include "interpreter.h"

enum encoding { AS_BASE64, AS_TEXT, AS_JSON, AS_TABLE };

/* The members of a result that are more than text. */
static const struct {
    const char *key, *extension;
    enum encoding encoding;
} forms[] = {
    { "png", "png", AS_BASE64 }, { "jpeg", "jpg", AS_BASE64 }, { "pdf", "pdf", AS_BASE64 },
    { "svg", "svg", AS_TEXT },   { "html", "html", AS_TEXT },  { "markdown", "md", AS_TEXT },
    { "latex", "tex", AS_TEXT }, { "json", "json", AS_JSON },  { "chart", "chart.json", AS_JSON },
    { "data", "csv", AS_TABLE },
};

void shown_release(struct shown *shown)
{
    for (size_t i = 0; i < shown->n_files; i++)
        free(shown->files[i].data);
    *shown = (struct shown){ 0 };
}

/* ---- tables */

static bool write_field(FILE *stream, json_object *value)
{
    const char *text = value ? json_object_is_type(value, json_type_string)
                                   ? json_object_get_string(value)
                                   : json_text(value, &(size_t){ 0 })
                             : "";

    if (text[strcspn(text, ",\"\r\n")] == '\0')
        return fputs(text, stream) >= 0;
    fputc('"', stream);
    for (; *text; text++) {
        if (*text == '"')
            fputc('"', stream);
        fputc(*text, stream);
    }
    return fputc('"', stream) >= 0;
}

/* 0 also for a table whose empty fields alone are more than is kept: one long column beside many
 * empty ones is little to send and endless to write. */
static size_t count_rows(json_object *columns)
{
    size_t rows = 0, n = 0;

    json_object_object_foreach(columns, name, column)
    {
        (void)name;
        if (!json_object_is_type(column, json_type_array))
            return 0;
        rows = json_object_array_length(column) > rows ? json_object_array_length(column) : rows;
        n++;
    }
    return n > 0 && rows <= INTERPRETER_SHOWN_MAX / n ? rows : 0;
}

static bool write_row(FILE *stream, json_object *columns, size_t row)
{
    bool first = true, good = true;

    json_object_object_foreach(columns, name, column)
    {
        (void)name;
        if (!first)
            fputc(',', stream);
        first = false;
        good = good && write_field(stream, json_object_array_get_idx(column, row));
    }
    return good && fputs("\r\n", stream) >= 0;
}

static bool write_names(FILE *stream, json_object *columns)
{
    bool first = true, good = true;

    json_object_object_foreach(columns, name, column)
    {
        _cleanup_json_ json_object *text = json_object_new_string(name);
        (void)column;
        if (!first)
            fputc(',', stream);
        first = false;
        good = good && text && write_field(stream, text);
    }
    return good && fputs("\r\n", stream) >= 0;
}

char *shown_csv(json_object *columns, size_t *ret_size)
{
    size_t rows = json_object_is_type(columns, json_type_object) ? count_rows(columns) : 0;
    char *data = NULL;
    FILE *stream = rows > 0 ? open_memstream(&data, ret_size) : NULL;

    if (!stream)
        return NULL;
    bool good = write_names(stream, columns);
    for (size_t row = 0; good && row < rows; row++)
        good = write_row(stream, columns, row);
    if (fclose(stream) != 0 || !good) {
        free(data);
        return NULL;
    }
    return data;
}

/* ---- results */

/* The bytes of one form, or NULL if it is not what it should be. */
static char *bytes_of(json_object *value, enum encoding encoding, size_t *ret_size)
{
    if (encoding == AS_TABLE)
        return shown_csv(value, ret_size);
    if (encoding != AS_JSON && !json_object_is_type(value, json_type_string))
        return NULL;
    const char *text =
        encoding == AS_JSON ? json_text(value, ret_size) : json_object_get_string(value);
    char *data = strdup(text);
    if (!data)
        return NULL;
    *ret_size = strlen(data);
    if (encoding == AS_BASE64 && base64_decode(data, *ret_size, ret_size) < 0) {
        free(data);
        return NULL;
    }
    return data;
}

static void keep(struct shown *shown, const char *extension, char *data, size_t size)
{
    if (shown->n_files == INTERPRETER_FILES_MAX || size > INTERPRETER_SHOWN_MAX - shown->bytes) {
        shown->is_incomplete = true;
        free(data);
        return;
    }
    shown->files[shown->n_files++] = (struct shown_file){ extension, shown->results, data, size };
    shown->bytes += size;
}

const char *shown_add(struct shown *shown, json_object *result)
{
    json_object *value, *is_main = NULL;
    size_t before = shown->n_files, size = 0;

    shown->results++;
    for (size_t i = 0; i < ELEMENTS(forms); i++) {
        if (!json_object_object_get_ex(result, forms[i].key, &value) || !value)
            continue;
        char *data = bytes_of(value, forms[i].encoding, &size);
        if (data)
            keep(shown, forms[i].extension, data, size);
    }
    json_object_object_get_ex(result, "is_main_result", &is_main);
    /* Of a figure the text says only that it is one; of a value it is the value. */
    return shown->n_files == before || json_object_get_boolean(is_main)
               ? json_get_string(result, "text")
               : NULL;
}

static int make_file(int workspace, const struct shown_file *file)
{
    char name[64];
    int fd = -1;

    /* The program may have files of such names. */
    for (unsigned more = 0; fd < 0 && more < 100; more++) {
        char suffix[16] = "";
        if (more > 0)
            snprintf(suffix, sizeof(suffix), "-%u", more + 1);
        snprintf(name, sizeof(name), "display-%u%s.%s", file->number, suffix, file->extension);
        fd = openat(workspace, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
        if (fd < 0 && errno != EEXIST)
            return -errno;
    }
    if (fd < 0)
        return -EEXIST;
    int r = write_all(fd, file->data, file->size);
    r = r < 0 ? r : fchmod(fd, 0644) < 0 ? -errno : 0;
    close(fd);
    if (r < 0)
        unlinkat(workspace, name, 0);
    return r;
}

void shown_write(const struct shown *shown, int workspace)
{
    for (size_t i = 0; i < shown->n_files; i++)
        make_file(workspace, &shown->files[i]);
}
