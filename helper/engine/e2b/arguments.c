/* Programs as JSON, see arguments.h. */
#include "arguments.h"

#include <errno.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/escape.h"
#include "script.h"

json_object *arguments_of_script(const char *script, const char *directory, const char *folder)
{
    const char *const words[] = { "-c", script, "sbxctl", directory, folder };
    json_object *arguments = json_object_new_array();
    int r = arguments ? 0 : -ENOMEM;

    for (size_t i = 0; r >= 0 && i < ELEMENTS(words); i++)
        r = json_append(arguments, json_object_new_string(words[i]));
    if (r < 0) {
        json_object_put(arguments);
        return NULL;
    }
    return arguments;
}

json_object *arguments_of_program(const struct launch_program *program,
                                  const struct transfer *transfer, const char *directory,
                                  const char *folder)
{
    json_object *arguments = arguments_of_script(SCRIPT_RUN, directory, folder);
    int r = arguments ? transfer_add_executables(transfer, arguments) : -ENOMEM;

    for (char *const *word = program->argv; r >= 0 && *word; word++)
        r = json_append(arguments, json_object_new_string(*word));
    if (r < 0) {
        json_object_put(arguments);
        return NULL;
    }
    return arguments;
}

json_object *arguments_environment(const struct launch_program *program)
{
    json_object *environment = json_object_new_object();
    int r = environment ? 0 : -ENOMEM;

    for (char *const *variable = program->env; r >= 0 && *variable; variable++) {
        /* The parser has seen to it that each has one. */
        const char *value = strchr(*variable, '=');
        _cleanup_free_ char *name = strndup(*variable, (size_t)(value - *variable));
        r = name ? json_add_string(environment, name, value + 1) : -ENOMEM;
    }
    if (r < 0) {
        json_object_put(environment);
        return NULL;
    }
    return environment;
}

bool arguments_are_text(const struct launch_program *program)
{
    for (char *const *word = program->argv; *word; word++)
        if (!utf8_is_valid(*word))
            return false;
    for (char *const *word = program->env; *word; word++)
        if (!utf8_is_valid(*word))
            return false;
    return true;
}
