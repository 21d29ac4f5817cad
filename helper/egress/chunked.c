/* The framing of chunked bodies, see chunked.h. */
#include "chunked.h"

#include <errno.h>
#include <string.h>

#include "http-head.h"

#define SIZE_DIGITS_MAX 12 /* hex: 256 TiB */

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static bool take_digit(struct chunked *chunked, char c)
{
    int digit = hex_digit(c);

    if (digit < 0 || ++chunked->digits > SIZE_DIGITS_MAX)
        return false;
    chunked->left = chunked->left * 16 + (uint64_t)digit;
    chunked->state = CHUNKED_SIZE;
    return true;
}

static bool expect(struct chunked *chunked, char c, char expected, enum chunked_state next)
{
    chunked->state = next;
    return c == expected;
}

static bool is_token(char c)
{
    return c != '\0' && strchr(HTTP_TOKEN, c);
}

static bool is_text(char c)
{
    return c == '\t' || ((unsigned char)c >= ' ' && c != 0x7f);
}

/* One byte of a line behind the last chunk: "name: value", or nothing. */
static bool take_trailer(struct chunked *chunked, char c)
{
    if (++chunked->trailers > CHUNKED_TRAILERS_MAX)
        return false;
    if (chunked->state == CHUNKED_TRAILER_BEGIN && c == '\r') {
        chunked->state = CHUNKED_LAST_LF;
        return true;
    }
    if (chunked->state == CHUNKED_TRAILER_VALUE) {
        if (c == '\r')
            chunked->state = CHUNKED_TRAILER_LF;
        return c == '\r' || is_text(c);
    }
    if (chunked->state == CHUNKED_TRAILER_NAME && c == ':') {
        chunked->state = CHUNKED_TRAILER_VALUE;
        return true;
    }
    chunked->state = CHUNKED_TRAILER_NAME;
    return is_token(c);
}

/* Everything but data. */
static bool take_byte(struct chunked *chunked, char c)
{
    switch (chunked->state) {
    case CHUNKED_SIZE_BEGIN:
        chunked->digits = 0;
        return take_digit(chunked, c);
    case CHUNKED_SIZE:
        if (c != '\r')
            return take_digit(chunked, c);
        chunked->state = CHUNKED_SIZE_LF;
        return true;
    case CHUNKED_SIZE_LF:
        return expect(chunked, c, '\n', chunked->left > 0 ? CHUNKED_DATA : CHUNKED_TRAILER_BEGIN);
    case CHUNKED_DATA_CR:
        return expect(chunked, c, '\r', CHUNKED_DATA_LF);
    case CHUNKED_DATA_LF:
        return expect(chunked, c, '\n', CHUNKED_SIZE_BEGIN);
    case CHUNKED_TRAILER_BEGIN:
    case CHUNKED_TRAILER_NAME:
    case CHUNKED_TRAILER_VALUE:
        return take_trailer(chunked, c);
    case CHUNKED_TRAILER_LF:
        return expect(chunked, c, '\n', CHUNKED_TRAILER_BEGIN);
    case CHUNKED_LAST_LF:
        return expect(chunked, c, '\n', CHUNKED_DONE);
    case CHUNKED_DATA:
    case CHUNKED_DONE:
    default:
        return false;
    }
}

ssize_t chunked_follow(struct chunked *chunked, const char *data, size_t size)
{
    size_t at = 0;

    while (at < size && chunked->state != CHUNKED_DONE) {
        if (chunked->state == CHUNKED_DATA) {
            size_t n = size - at < chunked->left ? size - at : (size_t)chunked->left;

            at += n;
            chunked->left -= n;
            if (chunked->left == 0)
                chunked->state = CHUNKED_DATA_CR;
        } else if (!take_byte(chunked, data[at++])) {
            return -EBADMSG;
        }
    }
    return (ssize_t)at;
}
