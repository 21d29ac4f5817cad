/* Text in columns: as wide as a terminal shows it, in UTF-8. Called by what prints tables and
 * lists. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Columns that @text, which was made safe to show, takes. */
size_t text_width(const char *text);

/* Prints @text and spaces up to @width columns; wider text is printed whole. */
void text_print_padded(FILE *to, const char *text, size_t width);

/* @text if it fits @width columns (at least 1), else its beginning and "…". Returns a new string,
 * or NULL out of memory. */
char *text_cut(const char *text, size_t width);

/* Prints @text, which was made safe to show, in lines of at most @width columns, broken at spaces
 * where there are any. */
void text_print_wrapped(FILE *to, const char *text, size_t width);

/* The same, with all lines but the first behind @indent spaces. */
void text_print_hanging(FILE *to, const char *text, size_t width, size_t indent);

/* Columns of the terminal on standard error; 0 if it is none, does not tell, or is too narrow for
 * sentences. */
size_t error_terminal_width(void);

/* Columns of the terminal on standard output; 80 if it is none or narrower. */
size_t terminal_width(void);

/* "3 min ago", from microseconds since the epoch. @buffer is returned. */
#define TEXT_AGE 32
const char *text_age(uint64_t usec, uint64_t now_usec, char buffer[TEXT_AGE]);
/* "3 d" in the same way. */
const char *text_span(uint64_t usec, char buffer[TEXT_AGE]);
/* "in 3 d" in the same way; "now" for what has passed. */
const char *text_until(uint64_t usec, uint64_t now_usec, char buffer[TEXT_AGE]);
