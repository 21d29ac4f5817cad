/* Copies the files that a run made from the directory that the helper gave to the user to one of
 * their choice. Called by run.c and get.c; opens them for others. Never follows a link on either
 * side. */
#pragma once

#include <json-c/json.h>

/* The directory below @output_directory that has the files, open for reading, or a negative errno.
 */
int outputs_open(const char *output_directory);
/* What lies at @path in it, open for reading without waiting, or a negative errno: -ELOOP if there
 * is a link on the way, -EXDEV if it leads out. */
int outputs_open_file(int directory, const char *path);

/* Whether files could be copied to @target, as far as it can be told before there are any. Returns
 * 0, or the exit status of what was told. */
int save_check_target(const char *target);

/* Copies everything below @output_directory/files to @target, which is made if it is missing; files
 * that exist are overwritten, other things are not. What was written is told, and added to the
 * array @written (NULL for none) as objects with name and bytes. What cannot be copied is told,
 * and the rest is copied still. Returns 0, or the exit status of what was told. */
int save_outputs(const char *output_directory, const char *target, json_object *written);
