/* The names of images, "[host/]name[:tag][@sha256:digest]": what one looks like, and which are the
 * same. Called by the broker, for policy, and by engines, which make paths of them. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* So that a dialog and a record can show all of it. */
#define IMAGE_REFERENCE_MAX 200

/* Whether it is the name of an image, written out: what a daemon could take for an id is none. */
bool image_reference_is_valid(const char *reference);

/* "sha256:" and 64 hex digits. */
bool image_digest_is_valid(const char *digest);

/* Bytes of the name alone, without tag and digest. */
size_t image_reference_name_length(const char *reference);

/* Without what stands for the default registry: "docker.io/library/x" is "x". */
const char *image_reference_short(const char *reference);

/* The digest ("sha256:..."), or NULL. */
const char *image_reference_digest(const char *reference);

/* Whether both have the same name and tag (none is "latest", unless there is a digest). The digest
 * of @wanted counts if it has one. */
bool image_reference_matches(const char *allowed, const char *wanted);
