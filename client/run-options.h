/* What the command line of `sbxctl run` says, as a struct. Called by run.c; opens nothing. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/packages.h"
#include "client/verb.h"

/* Strings are borrowed from argv; numbers are 0 for what was not asked for. */
struct run_options {
    const char *script; /* a path, or "-" for standard input; NULL with @code */
    const char *code;
    char **arguments;
    size_t n_arguments;
    const char **files; /* as given: PATH[:NAME] */
    size_t n_files;
    const char **input_runs; /* as given: ID[:PATH] */
    size_t n_input_runs;
    const char **environment; /* as given: NAME[=VALUE] */
    size_t n_environment;
    const char **hosts; /* as given: NAME,... */
    size_t n_hosts;
    struct package_wish *packages;
    size_t n_packages;
    bool require_hashes;
    const char *engine, *image, *template, *language, *output;
    uint64_t memory_bytes, cpu_percent, timeout_usec;
    bool network, json, quiet, detach, dry_run, no_ask_password, allow_secrets, show, open;
};

/* Returns true to go on (@ret is to be released), or false to end with @ret_status: help was shown,
 * or what is wrong has been told. */
bool run_options_parse(const struct verb *verb, int argc, char **argv, struct run_options *ret,
                       int *ret_status);
void run_options_release(struct run_options *options);

/* If more is asked for than comes without being asked; then an approval may be needed. */
bool run_options_exceed_defaults(const struct run_options *options);
