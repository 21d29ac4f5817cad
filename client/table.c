/* Tables for people, see table.h. */
#include "client/table.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/text.h"
#include "common/cleanup.h"

#define GAP 2
#define INDENT 4

int table_add(struct table *table, const char *const *cells)
{
    assert(table->n_columns > 0 && table->n_columns <= TABLE_COLUMNS_MAX);

    size_t n = table->n_rows * table->n_columns;
    char **grown = reallocarray(table->cells, n + table->n_columns, sizeof(char *));
    if (!grown)
        return -ENOMEM;
    table->cells = grown;
    for (size_t i = 0; i < table->n_columns; i++) {
        grown[n + i] = strdup(cells[i]);
        if (!grown[n + i]) {
            while (i > 0)
                free(grown[n + --i]);
            return -ENOMEM;
        }
    }
    table->n_rows++;
    return 0;
}

static size_t column_width(const struct table *table, size_t column)
{
    size_t widest = 0;

    for (size_t row = 0; row < table->n_rows; row++) {
        size_t width = text_width(table->cells[row * table->n_columns + column]);
        if (width > widest)
            widest = width;
    }
    return widest;
}

/* Where the last column begins. */
static size_t measure(const struct table *table, size_t widths[TABLE_COLUMNS_MAX])
{
    size_t used = 0;

    for (size_t i = 0; i + 1 < table->n_columns; i++) {
        widths[i] = column_width(table, i) + GAP;
        used += widths[i];
    }
    return used;
}

/* A row's cells but the last one. Returns how many spaces are left up to that. */
static int print_beginning(FILE *to, const struct table *table, size_t row,
                           const size_t widths[TABLE_COLUMNS_MAX])
{
    char **cells = table->cells + row * table->n_columns;
    size_t n = table->n_columns - 1;

    for (size_t i = 0; i < n; i++)
        text_print_padded(to, cells[i], i + 1 < n ? widths[i] : 0);
    return n > 0 ? (int)(widths[n - 1] - text_width(cells[n - 1])) : 0;
}

static const char *last_cell(const struct table *table, size_t row)
{
    return table->cells[(row + 1) * table->n_columns - 1];
}

void table_print(FILE *to, const struct table *table, size_t width)
{
    size_t widths[TABLE_COLUMNS_MAX] = {}, used = measure(table, widths);
    size_t left = used + 1 < width ? width - used : 1;

    for (size_t row = 0; row < table->n_rows; row++) {
        _cleanup_free_ char *cut = text_cut(last_cell(table, row), left);
        int spaces = print_beginning(to, table, row, widths);
        fprintf(to, "%*s%s\n", cut && *cut ? spaces : 0, "", cut ? cut : "");
    }
}

void table_print_whole(FILE *to, const struct table *table, size_t width)
{
    size_t widths[TABLE_COLUMNS_MAX] = {}, used = measure(table, widths);

    for (size_t row = 0; row < table->n_rows; row++) {
        const char *text = last_cell(table, row);
        int spaces = print_beginning(to, table, row, widths);
        if (row == 0 || used + text_width(text) <= width) {
            fprintf(to, "%*s%s\n", *text ? spaces : 0, "", text);
        } else {
            fprintf(to, "\n%*s", INDENT, "");
            text_print_hanging(to, text, width - INDENT, INDENT);
        }
    }
}

void table_release(struct table *table)
{
    for (size_t i = 0; i < table->n_rows * table->n_columns; i++)
        free(table->cells[i]);
    free(table->cells);
    table->cells = NULL;
    table->n_rows = 0;
}
