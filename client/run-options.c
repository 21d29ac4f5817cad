/* The options of `sbxctl run`, see run-options.h. */
#include "client/run-options.h"

#include <errno.h>
#include <getopt.h>
#include <string.h>

#include "client/exit-status.h"
#include "client/say.h"
#include "common/cleanup.h"
#include "common/quantity.h"

/* Takes a quantity; returns 0, or the exit status after telling what is wrong with it. */
static int take_quantity(const struct verb *verb, int (*parse)(const char *, uint64_t *),
                         const char *option, const char *example, const char *text, uint64_t *ret)
{
    int r = parse(text, ret);

    if (r == -ERANGE)
        return verb_usage_error(verb, "--%s: '%s' is out of range", option, text);
    if (r < 0 || *ret == 0)
        return verb_usage_error(verb, "--%s: '%s' is not understood; write it like %s", option,
                                text, example);
    return 0;
}

static int take_environment(const struct verb *verb, const char *text, struct run_options *options)
{
    if (*text == '\0' || *text == '=')
        return verb_usage_error(verb, "--env: '%s' has no name", text);
    options->environment[options->n_environment++] = text;
    return 0;
}

static int take_file(const struct verb *verb, const char *text, struct run_options *options)
{
    if (*text == '\0' || *text == ':')
        return verb_usage_error(verb, "--file: '%s' has no path", text);
    options->files[options->n_files++] = text;
    return 0;
}

static int take_input_run(const struct verb *verb, const char *text, struct run_options *options)
{
    if (*text == '\0' || *text == ':')
        return verb_usage_error(verb, "--input-run: '%s' has no id", text);
    options->input_runs[options->n_input_runs++] = text;
    return 0;
}

/* Whether such hosts may be named is the helper's to say. */
static int take_network(const struct verb *verb, const char *text, struct run_options *options)
{
    options->network = true;
    if (!text)
        return 0;
    for (const char *name = text;; name += strcspn(name, ",") + 1) {
        size_t length = strcspn(name, ",");
        if (length == 0)
            return verb_usage_error(verb, "--network: '%s' lacks the name of a host", text);
        if (name[length] == '\0')
            break;
    }
    options->hosts[options->n_hosts++] = text;
    return 0;
}

/* Of "-r FILE" the file is a word of its own, as for pip; getopt would take it for the script. */
static int take_with(const struct verb *verb, const char *text, int argc, char **argv,
                     struct run_options *options)
{
    struct package_wish *wish = &options->packages[options->n_packages++];

    *wish = (struct package_wish){ .text = text, .is_file = strncmp(text, "-r", 2) == 0 };
    if (wish->is_file)
        wish->text = text[2] != '\0' ? text + 2 + strspn(text + 2, " ")
                     : optind < argc ? argv[optind++]
                                     : "";
    return *wish->text ? 0
                       : verb_usage_error(verb, "--with: the %s is missing",
                                          wish->is_file ? "file" : "name of a package");
}

/* Returns 0, or the exit status of what has been told. */
static int take_option(const struct verb *verb, int argc, char **argv, int option,
                       const char *argument, struct run_options *options)
{
    switch (option) {
    case OPTION_ALLOW_SECRETS:
        options->allow_secrets = true;
        return 0;
    case OPTION_CODE:
        options->code = argument;
        return 0;
    case OPTION_CPUS:
        return take_quantity(verb, parse_cpus, "cpus", "0.5 or 2", argument, &options->cpu_percent);
    case OPTION_DETACH:
        options->detach = true;
        return 0;
    case OPTION_DRY_RUN:
        options->dry_run = true;
        return 0;
    case OPTION_ENGINE:
        options->engine = argument;
        return 0;
    case OPTION_ENV:
        return take_environment(verb, argument, options);
    case OPTION_FILE:
        return take_file(verb, argument, options);
    case OPTION_IMAGE:
        options->image = argument;
        return *argument ? 0 : verb_usage_error(verb, "--image: the image has no name");
    case OPTION_INPUT_RUN:
        return take_input_run(verb, argument, options);
    case OPTION_JSON:
        options->json = true;
        return 0;
    case OPTION_LANGUAGE:
        options->language = argument;
        return 0;
    case OPTION_MEMORY:
        return take_quantity(verb, parse_bytes, "memory", "800M or 1G", argument,
                             &options->memory_bytes);
    case OPTION_NETWORK:
        return take_network(verb, argument, options);
    case OPTION_NO_ASK_PASSWORD:
        options->no_ask_password = true;
        return 0;
    case OPTION_OPEN:
        options->open = true;
        return 0;
    case OPTION_SHOW:
        options->show = true;
        return 0;
    case OPTION_OUTPUT:
        options->output = argument;
        return *argument ? 0 : verb_usage_error(verb, "--output: the directory has no name");
    case OPTION_QUIET:
        options->quiet = true;
        return 0;
    case OPTION_TEMPLATE:
        options->template = argument;
        return *argument ? 0 : verb_usage_error(verb, "--template: the template has no name");
    case OPTION_REQUIRE_HASHES:
        options->require_hashes = true;
        return 0;
    case OPTION_WITH:
        return take_with(verb, argument, argc, argv, options);
    case OPTION_TIMEOUT:
        return take_quantity(verb, parse_usec, "timeout", "90 or 2min", argument,
                             &options->timeout_usec);
    default:
        return EXIT_USAGE;
    }
}

static int take_arguments(const struct verb *verb, int argc, char **argv,
                          struct run_options *options)
{
    if (!options->code) {
        if (optind == argc)
            return verb_usage_error(verb, "the script is missing");
        options->script = argv[optind++];
        if (!*options->script)
            return verb_usage_error(verb, "the script has no name");
    }
    options->arguments = argv + optind;
    options->n_arguments = (size_t)(argc - optind);
    return 0;
}

bool run_options_parse(const struct verb *verb, int argc, char **argv, struct run_options *ret,
                       int *ret_status)
{
    _cleanup_(run_options_release) struct run_options options = {
        .files = calloc((size_t)argc + 1, sizeof(char *)),
        .input_runs = calloc((size_t)argc + 1, sizeof(char *)),
        .environment = calloc((size_t)argc + 1, sizeof(char *)),
        .hosts = calloc((size_t)argc + 1, sizeof(char *)),
        .packages = calloc((size_t)argc + 1, sizeof(struct package_wish)),
    };
    const char *argument = NULL;
    int option;

    *ret_status = EXIT_OURS;
    if (!options.files || !options.input_runs || !options.environment || !options.hosts ||
        !options.packages)
        return false;

    while ((option = verb_next_option(verb, argc, argv, &argument)) != VERB_OPTIONS_END) {
        if (option == OPTION_HELP) {
            verb_print_help(verb);
            *ret_status = print_end();
            return false;
        }
        *ret_status = take_option(verb, argc, argv, option, argument, &options);
        if (*ret_status != 0)
            return false;
    }

    *ret_status = take_arguments(verb, argc, argv, &options);
    if (*ret_status == 0 && options.detach && options.output)
        *ret_status = verb_usage_error(verb, "--detach and --output do not go together; "
                                             "'sbxctl get' copies the files when it has ended");
    if (*ret_status != 0)
        return false;
    *ret = options;
    options = (struct run_options){};
    return true;
}

void run_options_release(struct run_options *options)
{
    free(options->files);
    free(options->input_runs);
    free(options->environment);
    free(options->hosts);
    free(options->packages);
    *options = (struct run_options){};
}

bool run_options_exceed_defaults(const struct run_options *options)
{
    return options->network || options->memory_bytes || options->cpu_percent ||
           options->timeout_usec || options->engine || options->image || options->template;
}
