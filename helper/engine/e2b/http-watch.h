/* Waiting for libcurl and the watches. Called by http.c. */
#pragma once

#include "http.h"

/* Waits for anything, @usec at most, and lets the watches do what there is. Returns 0, -ETIME when
 * the deadline is over, what a watch returned, or -EIO. */
int http_wait_once(struct http *http, uint64_t usec);
