/* Both ways, see base64.h. */
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

char *base64_encode(const void *data, size_t size)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const unsigned char *bytes = data;
    char *text = malloc((size + 2) / 3 * 4 + 1), *end = text;

    for (size_t i = 0; text && i < size; i += 3) {
        size_t n = size - i < 3 ? size - i : 3;
        uint32_t bits = (uint32_t)bytes[i] << 16;

        if (n > 1)
            bits |= (uint32_t)bytes[i + 1] << 8;
        if (n > 2)
            bits |= bytes[i + 2];
        for (size_t k = 0; k < 4; k++)
            *end++ = k <= n ? digits[bits >> (18 - 6 * k) & 63] : '=';
    }
    if (text)
        *end = '\0';
    return text;
}
