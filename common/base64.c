/* Decoder and encoder, see base64.h. */
#include "common/base64.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>

static int value(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '+' || c == '-' ? 62 : c == '/' || c == '_' ? 63 : -1;
}

int base64_decode(char *text, size_t size, size_t *ret)
{
    uint32_t bits = 0;
    size_t n = 0, digits = 0, padding = 0;

    for (size_t i = 0; i < size; i++) {
        char c = text[i];
        if (c == '\n' || c == '\r' || c == ' ')
            continue;
        if (c == '=') {
            padding++;
            continue;
        }
        int digit = value(c);
        if (digit < 0 || padding > 0)
            return -EBADMSG;
        bits = bits << 6 | (uint32_t)digit;
        if (digits++ % 4 != 0)
            text[n++] = (char)(bits >> (6 - 2 * ((digits - 1) % 4)) & 0xff);
    }
    if (digits % 4 == 1 || padding > 2 || (padding > 0 && (digits + padding) % 4 != 0))
        return -EBADMSG;
    *ret = n;
    return 0;
}

char *base64_encode(const void *data, size_t size, size_t *ret_size)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const unsigned char *from = data;
    size_t length;

    if (__builtin_mul_overflow(size / 3 + (size % 3 != 0), 4, &length))
        return NULL;
    char *text = malloc(length + 1), *to = text;
    if (!text)
        return NULL;
    for (; size >= 3; size -= 3, from += 3) {
        *to++ = digits[from[0] >> 2];
        *to++ = digits[(from[0] & 0x3) << 4 | from[1] >> 4];
        *to++ = digits[(from[1] & 0xf) << 2 | from[2] >> 6];
        *to++ = digits[from[2] & 0x3f];
    }
    if (size > 0) {
        unsigned char second = size > 1 ? from[1] : 0;
        *to++ = digits[from[0] >> 2];
        *to++ = digits[(from[0] & 0x3) << 4 | second >> 4];
        *to++ = size > 1 ? digits[(second & 0xf) << 2] : '=';
        *to++ = '=';
    }
    *to = '\0';
    if (ret_size)
        *ret_size = length;
    return text;
}
