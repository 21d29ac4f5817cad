/* Lists of a run's files for people: name and size, in columns. Called by whatever tells about
 * files. */
#pragma once

#include <stdio.h>
#include <json-c/json.h>

/* More than this many are counted, not named. */
#define FILE_LIST_MAX 20

/* Prints @files, an array of objects with at least name and bytes (struct output_file): @max lines
 * of it at most, and how many there are more. */
void file_list_print(FILE *to, json_object *files, size_t max);
/* The same to standard error, FILE_LIST_MAX lines, unless --quiet. */
void file_list_say(json_object *files);
