/* Lists of words, see config-words.h. */
#include "broker/config-words.h"
#include "common/cleanup.h"

#include <string.h>

#define SPACE " \t"

int words_for_each(const char *value, int (*add)(void *list, const char *word), void *list)
{
    _cleanup_free_ char *copy = strdup(value);
    char *rest = copy, *word;
    int r = copy ? 0 : -ENOMEM;

    while (r >= 0 && (word = strsep(&rest, SPACE)))
        if (*word)
            r = add(list, word);
    return r;
}

bool words_are_none(const char *value)
{
    return value[strspn(value, SPACE)] == '\0';
}

int words_add(char **list, size_t most, const char *word)
{
    size_t n = 0;

    while (list[n])
        n++;
    if (n == most)
        return -E2BIG;
    list[n] = strdup(word);
    return list[n] ? 0 : -ENOMEM;
}

void words_free(char **list)
{
    for (; *list; list++) {
        free(*list);
        *list = NULL;
    }
}

bool words_have(char *const *list, const char *word, size_t length)
{
    for (; *list; list++)
        if (strlen(*list) == length && memcmp(*list, word, length) == 0)
            return true;
    return false;
}
