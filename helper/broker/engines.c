/* Which engines there are, see engines.h. */
#include "broker/engines.h"
#include "engine/protocol.h"

#include <dirent.h>
#include <string.h>

json_object *engines_available(const char *except)
{
    json_object *names = json_object_new_array();
    DIR *dir = opendir(ENGINE_SOCKET_DIR);

    for (struct dirent *entry; dir && names && (entry = readdir(dir));)
        if (entry->d_name[0] != '.' && (!except || strcmp(entry->d_name, except) != 0))
            (void)json_object_array_add(names, json_object_new_string(entry->d_name));
    if (dir)
        closedir(dir);
    return names;
}
