/* The verbs of sbxctl and how their options are read: every table comes from verbs.toml. Called by
 * main.c and by the files that implement a verb. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "client/verb-ids.h" /* enum verb_id, enum option_id: made from verbs.toml */

struct verb_option {
    enum option_id id;
    char letter; /* 0 for none */
    const char *name;
    const char *argument; /* what the help calls it; NULL if the option takes none */
    bool optional;        /* the argument may be missing, and is joined by "=" */
    const char *text;
};

struct verb {
    enum verb_id id;
    const char *name;
    const char *synopsis; /* one or more lines, without "sbxctl" and the name */
    const char *summary;
    const char *text;
    const struct verb_option *options;
    size_t n_options;
};

/* The verb called @name, or NULL. */
const struct verb *verb_find(const char *name);

/* What verb_next_option() returns besides an enum option_id. */
enum { VERB_OPTIONS_END = -1, VERB_OPTION_BAD = -2 };

/* Reads the next option of @verb from @argv, whose first element is the verb's name; options end at
 * the first argument that is none, or at "--". The option's argument is in @ret_argument (borrowed
 * from @argv), or NULL. Returns an enum option_id, VERB_OPTIONS_END (the arguments begin at
 * getopt's optind), or VERB_OPTION_BAD, which has been told to the user. */
int verb_next_option(const struct verb *verb, int argc, char **argv, const char **ret_argument);

/* The options of all verbs but run. */
struct verb_arguments {
    bool json, all, follow, kill, no_ask_password;
    const char *output, *engine, *after, *limit; /* NULL if not given */
    char **arguments;                            /* what follows the options; borrowed from argv */
    size_t n_arguments;
};

/* Reads them, and insists on @least to @most arguments. Returns true to go on, or false to end with
 * the exit status in @ret_status: help was shown, or what is wrong has been told. */
bool verb_read_arguments(const struct verb *verb, int argc, char **argv, size_t least, size_t most,
                         struct verb_arguments *ret, int *ret_status);

void verb_print_help(const struct verb *verb);
void verb_print_overview(void);

/* Tells on standard error how @verb is called. Returns the exit status for it. */
int verb_usage_error(const struct verb *verb, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The verbs. @argv[0] is the verb's own name. Each returns the exit status of sbxctl. */
int verb_run(const struct verb *verb, int argc, char **argv);
int verb_ps(const struct verb *verb, int argc, char **argv);
int verb_show(const struct verb *verb, int argc, char **argv);
int verb_get(const struct verb *verb, int argc, char **argv);
int verb_rm(const struct verb *verb, int argc, char **argv);
int verb_logs(const struct verb *verb, int argc, char **argv);
int verb_wait(const struct verb *verb, int argc, char **argv);
int verb_stop(const struct verb *verb, int argc, char **argv);
int verb_mark(const struct verb *verb, int argc, char **argv);
int verb_audit(const struct verb *verb, int argc, char **argv);
int verb_doctor(const struct verb *verb, int argc, char **argv);
int verb_engines(const struct verb *verb, int argc, char **argv);
int verb_pull(const struct verb *verb, int argc, char **argv);
int verb_packages(const struct verb *verb, int argc, char **argv);
int verb_policy(const struct verb *verb, int argc, char **argv);
int verb_mcp(const struct verb *verb, int argc, char **argv);
