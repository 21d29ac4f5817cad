/* The engine's own small configuration, /etc/sbxctl/engine-e2b.conf. Read once, at start. The key
 * is not in it, see key.h. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct config {
    char *api_url;     /* no slash at the end; https */
    char *domain;      /* of the sandboxes' own host names */
    char *sandbox_url; /* NULL: by the domain; else one for all sandboxes */
    char *template_id; /* for runs that name none */
    char *ca_file;
    char *proxy;        /* NULL: none */
    char *user;         /* NULL: the template's own */
    char *interpreters; /* templates that carry a code interpreter, with spaces between them */
    uint64_t max_sandboxes;
};

/* The built-in values, and what the file @path has, if there is one. Returns 0, or a negative errno
 * with a sentence in @ret_error, to be freed. */
int config_load(const char *path, struct config *ret, char **ret_error);
void config_release(struct config *config);

/* Whether @name is what E2B calls a template: an id or a name, with a namespace and a tag. */
bool config_template_is_valid(const char *name);
