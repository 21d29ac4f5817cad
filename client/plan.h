/* `sbxctl run --dry-run` for people. Called by run.c. */
#pragma once

#include <json-c/json.h>

/* Prints type Plan of io.sbxctl.Sandbox. Returns 0, or the exit status of what was told. */
int plan_print(json_object *object);
