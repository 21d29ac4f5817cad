/* The images in which a launcher found no device nodes (helper/launch/nodes.c), so that it looks
 * through an image once and not for each run. Called by main.c, which makes the list, and by
 * sandbox*.c in the processes of the connections, which share it; it ends with the service.
 *
 * What is known holds for the id of an image, which is a digest of all that is in it, together with
 * the place of its topmost layer: one that was unpacked again, or by another daemon or storage
 * driver, is looked through again. Whatever is in doubt is not known. */
#pragma once

#include <stdbool.h>

#include "image.h"

struct searched;

/* NULL if there is no memory for it; nothing is known then, and nothing noted. Stays until the
 * process ends. */
struct searched *searched_new(void);

bool searched_has(const struct searched *list, const struct image *image);
/* To be called when the launcher itself, that was told to look, has become ready in @image, and
 * before anything of the image runs. When the list is full, the rest is looked through each time.
 */
void searched_add(struct searched *list, const struct image *image);
