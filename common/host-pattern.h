/* Names of hosts and patterns of them: what one looks like, and which stand for which. Called by
 * the broker, for the configuration and for admission, and by the egress process for its verdict.
 * Pure; never resolves anything.
 *
 * A pattern is
 *   *          any name, but no address
 *   *.suffix   the names below suffix, without suffix itself
 *   a name     that name
 *   an address in canonical text (ip-prefix.h), that address
 *
 * All functions but the first two want normal text, which those make: lower case, no dot at the
 * end, addresses as inet_ntop(3) writes them. A host in normal text is a pattern for itself. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define HOST_TEXT_MAX 255 /* bytes of a pattern; a name has 253 */

enum host_kind {
    HOST_MALFORMED,
    HOST_NAME,
    HOST_ADDRESS,
};

struct host_list {
    char **items;
    size_t n;
};

/* What @text of @size bytes is, with its normal text in @ret unless malformed. A name consists of
 * labels of 1 to 63 letters, digits, "-" (not at their ends) and "_". One whose last label is a
 * number, decimal or beginning with 0x, is malformed: some programs read it as an address
 * (https://url.spec.whatwg.org/#ends-in-a-number-checker). */
enum host_kind host_parse(const char *text, size_t size, char ret[HOST_TEXT_MAX + 1]);

/* The normal text of a pattern in @ret; false if it is none. */
bool host_pattern_parse(const char *text, char ret[HOST_TEXT_MAX + 1]);

/* Whether everything that @other (a host or a pattern) stands for is in @pattern. */
bool host_pattern_covers(const char *pattern, const char *other);

/* "localhost" and what is below it: loopback, whatever a name server says (RFC 6761). */
bool host_is_localhost(const char *name);

/* Adds a pattern, normalised. Returns 0, -EINVAL if it is none, or -ENOMEM. */
int host_list_add(struct host_list *list, const char *pattern);
void host_list_release(struct host_list *list);
/* The first pattern of the list that covers @other, or NULL. */
const char *host_list_find(const struct host_list *list, const char *other);
