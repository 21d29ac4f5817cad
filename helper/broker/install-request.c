/* Requests for installations that outlive what they were made of, see install.h. */
#include "broker/install.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void install_request_release(struct install_request *request)
{
    struct package *packages = (struct package *)request->packages;

    for (size_t i = 0; packages && i < request->n_packages; i++)
        package_release(&packages[i]);
    free(packages);
    free((char *)request->engine);
    free((char *)request->image);
    free((char *)request->interpreter);
}

static int copy_packages(struct install_request *to, const struct install_request *from)
{
    struct package *packages = calloc(from->n_packages, sizeof(*packages));

    to->packages = packages;
    if (!packages)
        return -ENOMEM;
    for (size_t i = 0; i < from->n_packages; i++) {
        size_t size = from->packages[i].n_hashes * sizeof(package_hash);
        packages[i] = from->packages[i];
        packages[i].hashes = NULL;
        to->n_packages = i + 1;
        if (size == 0)
            continue;
        packages[i].hashes = malloc(size);
        if (!packages[i].hashes)
            return -ENOMEM;
        memcpy(packages[i].hashes, from->packages[i].hashes, size);
    }
    return 0;
}

int install_request_copy(struct install_request *to, const struct install_request *from)
{
    *to = *from;
    to->packages = NULL;
    to->n_packages = 0;
    to->engine = strdup(from->engine);
    to->interpreter = strdup(from->interpreter);
    to->image = from->image ? strdup(from->image) : NULL;
    if (!to->engine || !to->interpreter || (from->image && !to->image))
        return -ENOMEM;
    return copy_packages(to, from);
}
