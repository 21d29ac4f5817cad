/* One connection of the broker: one sandbox from its start to its end, in a process of its own that
 * may block. Called by main.c; speaks the engine protocol and nothing else, and never sees what
 * goes into the sandbox or comes out of it. */
#pragma once

#include <stdint.h>

/* Serves the connection until its end; owns and closes @sock. The number @connection is noted in
 * the unit's description, @systemd is PID 1's version. Returns 0, and no sandbox is left, or a
 * negative errno if something may be left for the sweep. */
int sandbox_serve(int sock, uint64_t connection, unsigned systemd);
