/* Option parsing and help for all verbs, from the tables that verbs.toml gives. */
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "client/exit-status.h"
#include "client/verb.h"
#include "common/cleanup.h"

#include "client/verb-tables.h" /* verbs[]: made from verbs.toml */

#define OPTIONS_MAX 32
#define HELP_WIDTH 80
#define HELP_INDENT 28

const struct verb *verb_find(const char *name)
{
    for (size_t i = 0; i < ELEMENTS(verbs); i++)
        if (strcmp(verbs[i].name, name) == 0)
            return &verbs[i];
    return NULL;
}

/* getopt gives a letter for a short option, and the id for a long one. */
static int option_id(const struct verb *verb, int c)
{
    for (size_t i = 0; i < verb->n_options; i++)
        if (verb->options[i].letter == c)
            return (int)verb->options[i].id;
    return c;
}

/* As getopt_long() calls it. */
static int argument_kind(const struct verb_option *option)
{
    return !option->argument  ? no_argument
           : option->optional ? optional_argument
                              : required_argument;
}

int verb_next_option(const struct verb *verb, int argc, char **argv, const char **ret_argument)
{
    struct option longs[OPTIONS_MAX + 1] = {};
    char shorts[2 * OPTIONS_MAX + 2] = "+", *end = shorts + 1;

    for (size_t i = 0; i < verb->n_options && i < OPTIONS_MAX; i++) {
        const struct verb_option *o = &verb->options[i];
        longs[i] = (struct option){ o->name, argument_kind(o), NULL, (int)o->id };
        if (o->letter)
            *end++ = o->letter;
        if (o->letter && o->argument)
            *end++ = ':';
    }

    int c = getopt_long(argc, argv, shorts, longs, NULL);
    if (c == -1)
        return VERB_OPTIONS_END;
    if (c == '?') {
        fprintf(stderr, "Try 'sbxctl %s --help'.\n", verb->name);
        return VERB_OPTION_BAD;
    }
    *ret_argument = optarg;
    return option_id(verb, c);
}

int verb_usage_error(const struct verb *verb, const char *format, ...)
{
    va_list ap;

    fprintf(stderr, "sbxctl %s: ", verb->name);
    va_start(ap, format);
    vfprintf(stderr, format, ap);
    va_end(ap);
    fprintf(stderr, "\nTry 'sbxctl %s --help'.\n", verb->name);
    return EXIT_USAGE;
}

bool verb_read_arguments(const struct verb *verb, int argc, char **argv, size_t least, size_t most,
                         struct verb_arguments *ret, int *ret_status)
{
    const char *argument;
    int option;

    *ret = (struct verb_arguments){};
    while ((option = verb_next_option(verb, argc, argv, &argument)) != VERB_OPTIONS_END)
        switch (option) {
        case OPTION_JSON:
            ret->json = true;
            break;
        case OPTION_ALL:
            ret->all = true;
            break;
        case OPTION_AFTER:
            ret->after = argument;
            break;
        case OPTION_FOLLOW:
            ret->follow = true;
            break;
        case OPTION_KILL:
            ret->kill = true;
            break;
        case OPTION_LIMIT:
            ret->limit = argument;
            break;
        case OPTION_ENGINE:
            ret->engine = argument;
            break;
        case OPTION_NO_ASK_PASSWORD:
            ret->no_ask_password = true;
            break;
        case OPTION_OUTPUT:
            ret->output = argument;
            break;
        case OPTION_HELP:
            verb_print_help(verb);
            *ret_status = 0;
            return false;
        default:
            *ret_status = EXIT_USAGE;
            return false;
        }

    ret->arguments = argv + optind;
    ret->n_arguments = (size_t)(argc - optind);
    if (ret->n_arguments >= least && ret->n_arguments <= most)
        return true;
    *ret_status = ret->n_arguments < least
                      ? verb_usage_error(verb, "the %s is missing",
                                         verb->id == VERB_PULL ? "image" : "ID of a run")
                      : verb_usage_error(verb, "too many arguments; options come first");
    return false;
}

/* Prints @text in lines of at most HELP_WIDTH columns, from @column of the present line on; further
 * lines begin at @indent. */
static void print_wrapped(const char *text, size_t column, size_t indent)
{
    bool line_is_empty = true;

    while (*text) {
        size_t word = strcspn(text, " ");
        if (!line_is_empty && column + 1 + word > HELP_WIDTH) {
            printf("\n%*s", (int)indent, "");
            column = indent;
            line_is_empty = true;
        }
        column += (size_t)printf("%s%.*s", line_is_empty ? "" : " ", (int)word, text);
        line_is_empty = false;
        text += word + strspn(text + word, " ");
    }
    putchar('\n');
}

static void print_option(const struct verb_option *option)
{
    int width = printf(option->letter ? "  -%c, " : "      ", option->letter);

    width += printf("--%s%s%s%s", option->name,
                    !option->argument  ? ""
                    : option->optional ? "[="
                                       : " ",
                    option->argument ? option->argument : "", option->optional ? "]" : "");
    if (width > HELP_INDENT - 2) {
        putchar('\n');
        width = 0;
    }
    printf("%*s", HELP_INDENT - width, "");
    print_wrapped(option->text, HELP_INDENT, HELP_INDENT);
}

void verb_print_help(const struct verb *verb)
{
    const char *line = verb->synopsis;

    for (const char *label = "Usage:"; *line; label = "      ") {
        size_t size = strcspn(line, "\n");
        printf("%s sbxctl %s %.*s\n", label, verb->name, (int)size, line);
        line += size + (line[size] == '\n');
    }
    putchar('\n');
    print_wrapped(verb->text, 0, 0);
    putchar('\n');
    for (size_t i = 0; i < verb->n_options; i++)
        print_option(&verb->options[i]);
}

void verb_print_overview(void)
{
    printf("Usage: sbxctl VERB [OPTION]... [ARGUMENT]...\n\n"
           "Runs code that is not fully trusted in a sandbox.\n\n");
    for (size_t i = 0; i < ELEMENTS(verbs); i++)
        printf("  %-10s %s\n", verbs[i].name, verbs[i].summary);
    printf("\n'sbxctl VERB --help' tells the options of a verb; sbxctl(1) tells the rest.\n");
}
