/* Pictures on terminals: which protocol one speaks, and writing in it. Called by figures.c. */
#pragma once

#include <stddef.h>

enum terminal_images {
    TERMINAL_IMAGES_NONE,
    TERMINAL_IMAGES_KITTY,
    TERMINAL_IMAGES_ITERM,
    TERMINAL_IMAGES_SIXEL
};

/* What the terminal on standard error shows, by SBXCTL_IMAGES, by the variables that terminals set,
 * and else by asking it, for 0.3 s at most. */
enum terminal_images terminal_images(void);

/* Writes the image, the whole content of a file, to standard error. Returns 0, or a negative errno
 * if it cannot be shown: -EOPNOTSUPP if the terminal has no such images, or img2sixel is missing.
 */
int terminal_image_write(enum terminal_images how, int fd, const char *data, size_t size);
