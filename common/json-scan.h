/* The grammar of JSON, strictly, without building anything. Called by json.c only; its callers want
 * json_parse_guarded(). */
#pragma once

#include <stddef.h>

/* Where an object lies in a document, and how many members it has together with all objects inside
 * it. */
struct json_extent {
    const char *start;
    size_t size;
    size_t members;
};

/* Checks that @data is one object by RFC 8259 with only white space around it, in valid UTF-8,
 * without an escaped NUL or lone surrogate, with integers that an int64_t holds, numbers of at most
 * 64 characters, and within JSON_DEPTH_MAX and JSON_ITEMS_MAX. Repeated keys it cannot tell.
 * Returns 0, -EBADMSG, or -E2BIG for too many items. */
int json_scan(const char *data, size_t size, struct json_extent *ret);
