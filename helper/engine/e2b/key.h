/* The E2B key: read from systemd's credential, kept in one locked page that no core file has, and
 * taken out of every text that leaves this process. Called by main.c and whoever sends it or shows
 * what came back. Must never be copied into a string that is not wiped. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define KEY_CREDENTIAL "e2b-api-key"
#define KEY_MAX 256

/* Reads $CREDENTIALS_DIRECTORY/e2b-api-key. Returns 0; -ENOENT if there is no such credential; or
 * another negative errno: -EBADMSG for what cannot be a key. */
int key_load(void);
/* Wipes it from this process. */
void key_forget(void);
/* Whether there is one. */
bool key_is_known(void);

/* Writes "X-API-Key: ..." into @ret, to be wiped by the caller. */
#define KEY_HEADER_MAX (KEY_MAX + 16)
void key_header(char ret[KEY_HEADER_MAX]);

/* Puts asterisks where the key stands in @text. */
void key_scrub(char *text, size_t size);

/* Whether it stands in @text. */
bool key_is_in(const char *text);

/* Wipes a string's bytes. NULL is fine. */
void wipe(char *text);
