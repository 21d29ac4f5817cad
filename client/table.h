/* Tables for people: columns as wide as their widest cell, the last one cut to what the terminal
 * leaves, or on lines of its own. Called by the verbs that list something. */
#pragma once

#include <stddef.h>
#include <stdio.h>

#define TABLE_COLUMNS_MAX 8

struct table {
    size_t n_columns, n_rows;
    char **cells; /* n_rows * n_columns, all owned */
};

/* Adds a row of @table->n_columns cells, which are copied and must be safe to show. Returns 0 or
 * -ENOMEM. */
int table_add(struct table *table, const char *const *cells);
/* Prints all rows in lines of at most @width columns; the first row is the heading. */
void table_print(FILE *to, const struct table *table, size_t width);
/* The same, but nothing is cut: a last cell that does not fit stands below its row. */
void table_print_whole(FILE *to, const struct table *table, size_t width);
void table_release(struct table *table);
