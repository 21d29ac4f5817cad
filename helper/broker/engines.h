/* Which engines there are: a socket's name below ENGINE_SOCKET_DIR is an engine's name. */
#pragma once

#include "common/json.h"

/* All of them as an array of names in no order; @except (may be NULL) is left out. A new reference,
 * or NULL out of memory. */
json_object *engines_available(const char *except);
