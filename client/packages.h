/* What --with names, as a list for method Run: packages, or a file that lists them as pip's
 * requirements.txt does. Called by request.c. */
#pragma once

#include <json-c/json.h>
#include <stdbool.h>
#include <stddef.h>

/* What --with was given: @text is a package, or the path of a file. */
struct package_wish {
    const char *text;
    bool is_file;
};

/* Adds to @array what the wishes say. What a package may look like is the helper's to say. Returns
 * 0, or the exit status of a failure that has been told. */
int packages_add(json_object *array, const struct package_wish *wishes, size_t n);
