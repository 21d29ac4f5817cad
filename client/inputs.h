/* The files that --file gives to a run, opened as the user. Called by request.c. Inside a directory
 * no link is followed: who wrote the link may not be who runs sbxctl. */
#pragma once

#include "client/request.h"

/* Adds what @text, PATH[:NAME], names: a file, or all files of a directory as NAME/…. What of a
 * directory is left out is told. Returns 0, or the exit status of a failure that has been told. */
int inputs_add(struct request *request, const char *text);

/* Splits PATH[:NAME] at its last colon, unless all of it is the path of something that exists.
 * @ret_path and
 * @ret_name are new strings; without NAME it is the last part of the path. Returns 0, -EINVAL if
 * there is no name (as for "/"), or another negative errno. */
int input_split(const char *text, char **ret_path, char **ret_name);
