/* Tables for people, see table.h. */
#include "client/table.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "client/text.h"
#include "common/cleanup.h"

#define GAP 2

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

void table_print(FILE *to, const struct table *table, size_t width)
{
    size_t widths[TABLE_COLUMNS_MAX] = {}, used = 0, last = table->n_columns - 1;

    for (size_t i = 0; i < last; i++) {
        widths[i] = column_width(table, i);
        used += widths[i] + GAP;
    }
    size_t left = used + 1 < width ? width - used : 1;

    for (size_t row = 0; row < table->n_rows; row++) {
        char **cells = table->cells + row * table->n_columns;
        bool ends_early = cells[last][0] == '\0';
        for (size_t i = 0; i < last; i++)
            text_print_padded(to, cells[i], ends_early && i + 1 == last ? 0 : widths[i] + GAP);
        _cleanup_free_ char *cut = text_cut(cells[last], left);
        fprintf(to, "%s\n", cut ? cut : "");
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
