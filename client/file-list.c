/* Lists of files, see file-list.h. */
#include "client/file-list.h"

#include <stdbool.h>
#include <unistd.h>

#include "client/result.h"
#include "client/say.h"
#include "client/text.h"
#include "common/cleanup.h"
#include "common/quantity.h"

#define NAME_WIDTH_MAX 60

static size_t widest_name(json_object *files, size_t n)
{
    size_t widest = 0;

    for (size_t i = 0; i < n; i++) {
        struct output_file file;
        if (output_file_parse(json_object_array_get_idx(files, i), &file) < 0)
            continue;
        _cleanup_free_ char *name = displayed(file.name);
        size_t width = text_width(name);
        if (width > widest)
            widest = width;
    }
    return widest < NAME_WIDTH_MAX ? widest : NAME_WIDTH_MAX;
}

void file_list_print(FILE *to, json_object *files, size_t max)
{
    size_t length = json_object_array_length(files), n = length < max ? length : max;
    size_t width = widest_name(files, n);
    bool is_terminal = isatty(fileno(to));

    for (size_t i = 0; i < n; i++) {
        struct output_file file;
        char size[QUANTITY_TEXT];
        if (output_file_parse(json_object_array_get_idx(files, i), &file) < 0)
            continue;
        _cleanup_free_ char *whole = displayed(file.name), *cut = NULL;
        const char *name = whole;
        /* Its name is in the file's directory and in --json, whole. */
        if (is_terminal && text_width(name) > NAME_WIDTH_MAX)
            name = (cut = text_cut(name, NAME_WIDTH_MAX)) ? cut : name;
        fputs("  ", to);
        text_print_padded(to, name, width);
        fprintf(to, "  %s\n", format_bytes(file.bytes, size));
    }
    if (length > n)
        fprintf(to, "  … and %zu more\n", length - n);
}

void file_list_say(json_object *files)
{
    if (!say_mode.quiet)
        file_list_print(stderr, files, FILE_LIST_MAX);
}
