/* What the sandbox of an installation is given: its limits, the installer, and the request for it.
 * Called by install.c; opens nothing and starts nothing. */
#pragma once

#include "broker/install.h"
#include "engine/protocol.h"

#define INSTALL_WORKSPACE "/workspace"

/* What an engine is asked for. @id is the installation's. */
void install_plan_sandbox(const struct config *config, const char *id,
                          const struct install_request *from, struct engine_start *ret);
/* Makes sealed memfds: the installer, and its request. Returns 0 or a negative errno; what was made
 * until then is the caller's. */
int install_plan_files(const struct config_packages *packages, const struct install_request *from,
                       int ret[2]);
