/* The two SHA-256 of a request: what is in a dialog, what runs and what the journal has can be told
 * to be the same by them. */
#pragma once

#include "broker/policy.h"

/* Fills in the script's digest, and that of the whole request as it was planned: script, name,
 * interpreter, arguments, environment, limits, engine, input files by name and size (their content
 * is sealed), and whether there is a stdin. To be called once sizes were admitted. Returns 0 or a
 * negative errno. */
int request_digest(struct request *request, const struct plan *plan);
