/* Sandboxes that are being removed while their runs have gone on: the engine's last word on each
 * goes into the audit trail, or that there was none. */
#pragma once

struct manager;
struct run;

/* Takes over @engine, the connection to the engine of @run's sandbox, also on failure. @run need
 * not stay. Returns 0 or a negative errno. */
int removal_await(struct run *run, int engine);
/* Waits no longer. */
void removal_free_all(struct manager *manager);
