/* Which engines there are, see engines.h. */
#include "broker/engines.h"
#include "broker/config-words.h"
#include "common/directory.h"
#include "engine/protocol.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

bool engine_exists(const char *name)
{
    char path[256];

    return snprintf(path, sizeof(path), ENGINE_SOCKET_DIR "/%s", name) < (int)sizeof(path) &&
           access(path, F_OK) == 0;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(json_object_get_string(*(json_object *const *)a),
                  json_object_get_string(*(json_object *const *)b));
}

json_object *engines_available(void)
{
    json_object *names = json_object_new_array();
    _cleanup_closedir_ DIR *dir = opendir(ENGINE_SOCKET_DIR);

    for (struct dirent *entry; dir && names && (entry = directory_next(dir));)
        (void)json_append(names, json_object_new_string(entry->d_name));
    if (names)
        json_object_array_sort(names, compare_names);
    return names;
}

char *engines_text(const char *except, char *const *cloud)
{
    _cleanup_json_ json_object *names = engines_available();
    char *text = strdup("");

    for (size_t i = 0; text && names && i < json_object_array_length(names); i++) {
        const char *name = json_object_get_string(json_object_array_get_idx(names, i));
        char *longer;

        if (strcmp(name, except) == 0 || words_have(cloud, name, strlen(name)))
            continue;
        if (asprintf(&longer, "%s%s%s", text, *text ? ", " : "", name) < 0)
            longer = NULL;
        free(text);
        text = longer;
    }
    return text;
}
