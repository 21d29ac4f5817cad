/* Text of strangers made safe to show: on terminals, in the journal, in dialogs, in file lists. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The length in bytes (1 to 4) of the character that @data begins with, and its code point in
 * @ret_code (may be NULL); 0 if that is not valid UTF-8 (RFC 3629: no overlong forms, no
 * surrogates, nothing above U+10FFFF), is a noncharacter (which systemd's JSON refuses), or @size
 * is 0. */
size_t utf8_sequence(const char *data, size_t size, uint32_t *ret_code);

/* U+FDD0 to U+FDEF and the last two of each plane (Unicode, section 23.7). */
static inline bool is_noncharacter(uint32_t code)
{
    return (code >= 0xfdd0 && code <= 0xfdef) || (code & 0xfffe) == 0xfffe;
}

/* Whether all of @text is valid UTF-8, so that it can stand in a JSON string as it is. */
bool utf8_is_valid(const char *text);

/* Escapes to one line of printable UTF-8: control characters (C0, DEL, C1), line and paragraph
 * separators, bidi controls, other invisible format characters (not the joiners U+200C and U+200D),
 * invalid UTF-8 bytes and the backslash become \xNN per byte (so it can be undone by
 * unescape_text()). The result has at most @max bytes, 0 for no limit; a cut one ends in "…" and
 * never within an escape or a character (with a limit below 3 it is empty). Returns a new string,
 * or NULL out of memory. */
char *escape_text(const char *data, size_t size, size_t max);

/* Undoes escape_text() of an uncut result. Returns a new NUL-terminated buffer with its length in
 * @ret_size, or NULL if the text is not exactly such a result (bad or needless escape, raw control
 * character) or holds an escaped NUL, or out of memory (errno tells: EINVAL, ENOMEM). */
char *unescape_text(const char *text, size_t *ret_size);

/* JSON that means the same with what escape_text() would escape above ASCII as \uNNNN, so that it
 * can be shown on a terminal: JSON itself escapes C0 only. Returns a new string, or NULL out of
 * memory. */
char *escape_json(const char *json);

/* Bytes as valid UTF-8 for JSON: each invalid byte sequence becomes U+FFFD, NUL too; control
 * characters stay (JSON escapes them). Returns a new NUL-terminated string, or NULL out of
 * memory. */
char *utf8_text(const char *data, size_t size);
