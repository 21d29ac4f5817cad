/* What a shell asks for while somebody types: `sbxctl --complete KIND`. Called by main.c. */
#pragma once

/* Prints the values of @kind ("runs", "engines", "languages", "images", "packages", "events"), one
 * a line, with a tabulator and a few words about it where there are any. Says nothing if it cannot.
 * Returns the exit status. */
int complete(const char *kind);
