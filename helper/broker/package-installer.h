/* The program that installs packages of an ecosystem, helper/packages/: the broker puts it into a
 * sandbox of its own, with a request beside it, and reads its events. */
#pragma once

#include <stddef.h>

#include "broker/package.h"

struct package_installer {
    const char *name; /* of its file */
    const char *text;
    size_t size;
    const char *folder; /* what the request should call its target: "packages", "node_modules" */
};

const struct package_installer *package_installer(enum ecosystem ecosystem);
