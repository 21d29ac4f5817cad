/* Which engines there are: a socket's name below ENGINE_SOCKET_DIR is an engine's name. */
#pragma once

#include <stdbool.h>

#include "common/json.h"

/* @name consists of small letters, digits and dashes. */
bool engine_exists(const char *name);

/* All of them as an array of names in no order. A new reference, or NULL out of memory. */
json_object *engines_available(void);

/* The ones to offer instead of @except, for people: "a, b". None of @cloud, where code and files
 * would leave the machine: that is nobody's second best. A new string, or NULL out of memory. */
char *engines_text(const char *except, char *const *cloud);
