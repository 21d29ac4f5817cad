/* Text of strangers made safe to show, and back, see escape.h. */
#include "escape.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cleanup.h"

#define ELLIPSIS "\xe2\x80\xa6"
#define ELLIPSIS_LENGTH (sizeof(ELLIPSIS) - 1)
#define REPLACEMENT "\xef\xbf\xbd"
#define REPLACEMENT_LENGTH (sizeof(REPLACEMENT) - 1)
#define ESCAPE_LENGTH 4 /* \xNN */

/* The smallest code point that needs a sequence of this length. */
static const uint32_t code_min[] = { 0, 0, 0x80, 0x800, 0x10000 };

/* The length that the first byte promises, 0 if it cannot be first; the bits it brings in
 * @ret_code. */
static size_t sequence_length(unsigned char c, uint32_t *ret_code)
{
    if (c < 0x80) {
        *ret_code = c;
        return 1;
    }
    if (c >= 0xc2 && c <= 0xdf) {
        *ret_code = c & 0x1f;
        return 2;
    }
    if ((c & 0xf0) == 0xe0) {
        *ret_code = c & 0x0f;
        return 3;
    }
    if (c >= 0xf0 && c <= 0xf4) {
        *ret_code = c & 0x07;
        return 4;
    }
    return 0;
}

size_t utf8_sequence(const char *data, size_t size, uint32_t *ret_code)
{
    uint32_t code;
    size_t length;

    if (size == 0)
        return 0;
    length = sequence_length((unsigned char)data[0], &code);
    if (length == 0 || length > size)
        return 0;
    for (size_t i = 1; i < length; i++) {
        unsigned char c = (unsigned char)data[i];

        if ((c & 0xc0) != 0x80)
            return 0;
        code = code << 6 | (c & 0x3f);
    }
    if (code < code_min[length] || (code >= 0xd800 && code <= 0xdfff) || code > 0x10ffff ||
        is_noncharacter(code))
        return 0;
    if (ret_code)
        *ret_code = code;
    return length;
}

bool utf8_is_valid(const char *text)
{
    size_t left = strlen(text), length;

    for (; left > 0; text += length, left -= length) {
        length = utf8_sequence(text, left, NULL);
        if (length == 0)
            return false;
    }
    return true;
}

/* Characters that would move the cursor, break the line, reorder or hide text. */
static bool must_escape(uint32_t code)
{
    static const struct {
        uint32_t first, last;
    } ranges[] = {
        { 0x00, 0x1f },     { '\\', '\\' },     { 0x7f, 0x9f },     /* C0, backslash, DEL and C1 */
        { 0x61c, 0x61c },   { 0x200e, 0x200f }, { 0x202a, 0x202e }, /* bidi marks, embeddings */
        { 0x200b, 0x200b }, { 0x2028, 0x2029 }, { 0x2060, 0x206f }, /* separators, isolates */
        { 0xfeff, 0xfeff }, { 0xfff9, 0xfffb }, { 0xe0000, 0xe0fff }, /* BOM, annotations, tags */
    };

    for (size_t i = 0; i < ELEMENTS(ranges); i++)
        if (code >= ranges[i].first && code <= ranges[i].last)
            return true;
    return false;
}

char *escape_json(const char *json)
{
    size_t left = strlen(json), size = 0;
    char *text = NULL;
    FILE *to = open_memstream(&text, &size);

    if (!to)
        return NULL;
    while (left > 0) {
        uint32_t code = 0;
        size_t length = utf8_sequence(json, left, &code);
        if (length == 0 || code < 0x7f || !must_escape(code))
            fwrite(json, 1, length ? length : 1, to);
        else if (code < 0x10000)
            fprintf(to, "\\u%04" PRIx32, code);
        else
            fprintf(to, "\\u%04" PRIx32 "\\u%04" PRIx32, 0xd7c0 + (code >> 10),
                    0xdc00 + (code & 0x3ff));
        json += length ? length : 1;
        left -= length ? length : 1;
    }
    if (fclose(to) == 0)
        return text;
    free(text);
    return NULL;
}

static size_t put_escape(char *target, unsigned char c)
{
    static const char digits[] = "0123456789abcdef";

    target[0] = '\\';
    target[1] = 'x';
    target[2] = digits[c >> 4];
    target[3] = digits[c & 0x0f];
    return ESCAPE_LENGTH;
}

/* One character of @data as it is shown, into @target (room for four escapes). Returns the bytes
 * written. */
static size_t put_character(char *target, const char *data, size_t size, size_t *ret_used)
{
    uint32_t code = 0;
    size_t length = utf8_sequence(data, size, &code), n = 0;

    if (length > 0 && !must_escape(code)) {
        memcpy(target, data, length);
        *ret_used = length;
        return length;
    }
    *ret_used = length > 0 ? length : 1;
    for (size_t i = 0; i < *ret_used; i++)
        n += put_escape(target + n, (unsigned char)data[i]);
    return n;
}

char *escape_text(const char *data, size_t size, size_t max)
{
    size_t capacity, n = 0, fits = 0, used;
    char *text, *shrunk;

    if (size > (SIZE_MAX - 1) / ESCAPE_LENGTH) {
        errno = ENOMEM;
        return NULL;
    }
    capacity = size * ESCAPE_LENGTH;
    if (max > 0 && max < capacity)
        capacity = max;
    text = malloc(capacity + 1);
    if (!text)
        return NULL;

    for (size_t i = 0; i < size; i += used) {
        char unit[4 * ESCAPE_LENGTH];
        size_t length = put_character(unit, data + i, size - i, &used);

        if (length > capacity - n) {
            /* Cut at the last place where the ellipsis still fits; no room even for that leaves
             * nothing. */
            n = fits;
            if (capacity >= ELLIPSIS_LENGTH) {
                memcpy(text + n, ELLIPSIS, ELLIPSIS_LENGTH);
                n += ELLIPSIS_LENGTH;
            }
            break;
        }
        memcpy(text + n, unit, length);
        n += length;
        if (n + ELLIPSIS_LENGTH <= capacity)
            fits = n;
    }
    text[n] = '\0';
    shrunk = realloc(text, n + 1);
    return shrunk ? shrunk : text;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return -1;
}

char *unescape_text(const char *text, size_t *ret_size)
{
    _cleanup_free_ char *data = malloc(strlen(text) + 1), *again = NULL;
    size_t n = 0;

    if (!data)
        return NULL;
    for (const char *p = text; *p; p++) {
        int high, low;

        if (*p != '\\') {
            data[n++] = *p;
            continue;
        }
        if (p[1] != 'x' || (high = hex_digit(p[2])) < 0 || (low = hex_digit(p[3])) < 0 ||
            (high | low) == 0) {
            errno = EINVAL;
            return NULL;
        }
        data[n++] = (char)(high << 4 | low);
        p += ESCAPE_LENGTH - 1;
    }
    data[n] = '\0';

    /* One name for one thing: only what escape_text() itself makes of these bytes is taken. */
    again = escape_text(data, n, 0);
    if (!again)
        return NULL;
    if (strcmp(again, text) != 0) {
        errno = EINVAL;
        return NULL;
    }
    *ret_size = n;
    return TAKE_PTR(data);
}

/* How many bytes at @data are one broken character: the first, and those after it that would have
 * continued it. */
static size_t broken_length(const char *data, size_t size)
{
    uint32_t code;
    size_t promised = sequence_length((unsigned char)data[0], &code), n = 1;

    while (n < promised && n < size && ((unsigned char)data[n] & 0xc0) == 0x80)
        n++;
    return n;
}

char *utf8_text(const char *data, size_t size)
{
    size_t n = 0, used;
    char *text, *shrunk;

    if (size > (SIZE_MAX - 1) / REPLACEMENT_LENGTH) {
        errno = ENOMEM;
        return NULL;
    }
    text = malloc(size * REPLACEMENT_LENGTH + 1);
    if (!text)
        return NULL;
    for (size_t i = 0; i < size; i += used) {
        used = data[i] ? utf8_sequence(data + i, size - i, NULL) : 0;
        if (used > 0) {
            memcpy(text + n, data + i, used);
            n += used;
        } else {
            used = broken_length(data + i, size - i);
            memcpy(text + n, REPLACEMENT, REPLACEMENT_LENGTH);
            n += REPLACEMENT_LENGTH;
        }
    }
    text[n] = '\0';
    shrunk = realloc(text, n + 1);
    return shrunk ? shrunk : text;
}
