/* What is known of names of modules: the package that has one, and whether it is one of Python's or
 * Node's own. Pure; called to explain a module that a program missed. */
#pragma once

#include <stdbool.h>

struct package_name {
    const char *module, *package;
};

/* The package of PyPI that has the module @name ("cv2", "google.cloud.storage"); NULL if that is
 * not known. */
const char *package_of_module(const char *name);

/* Python's own modules that an installation may lack or that newer versions no longer have, each
 * with what to do instead, as a sentence; NULL for any other. */
const char *python_own_module_advice(const char *name);

/* Node's own modules, with or without "node:". */
bool node_has_module(const char *name);
