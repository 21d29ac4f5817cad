/* A program, and our own scripts, as envd takes them. Called by run.c. */
#pragma once

#include "launch/launch.h"
#include "transfer.h"

/* Of a script of ours (script.h): its $1 is @directory, its $2 @folder. A new reference, or NULL
 * out of memory, as with all of these. */
json_object *arguments_of_script(const char *script, const char *directory, const char *folder);
/* Of SCRIPT_RUN, for a program and what was put for it. */
json_object *arguments_of_program(const struct launch_program *program,
                                  const struct transfer *transfer, const char *directory,
                                  const char *folder);
json_object *arguments_environment(const struct launch_program *program);

/* JSON has no other strings. */
bool arguments_are_text(const struct launch_program *program);
