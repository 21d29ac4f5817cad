/* Values of the configuration that are lists of words, with spaces between them. Called by
 * config.c and its sections, and by whoever looks a word up. A list is an array that ends in NULL.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Calls @add with each word of @value, until it returns a negative errno. Returns that, 0, or
 * -ENOMEM. */
int words_for_each(const char *value, int (*add)(void *list, const char *word), void *list);
/* Whether @value has no word, by which a list begins anew. */
bool words_are_none(const char *value);

/* Adds a copy of @word to a list that has room for @most. Returns 0, -E2BIG or -ENOMEM. */
int words_add(char **list, size_t most, const char *word);
/* Frees the words; the list is empty then. */
void words_free(char **list);

/* Whether the word of @length bytes is in the list. */
bool words_have(char *const *list, const char *word, size_t length);
