/* The methods of io.sbxctl.Sandbox. Each: look up its rule, parse, check the owner, act, answer. */
#pragma once

#include "common/varlink.h"

/* Its userdata is the struct manager. */
extern const struct varlink_interface sandbox_interface;
