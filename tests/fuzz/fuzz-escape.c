/* Escaping of arbitrary bytes: the result is one line of printable UTF-8, fits, and can be undone.
 * The first byte of the input is the limit. */
#include "common/escape.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "common/cleanup.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool good)
{
    if (!good)
        abort();
}

/* Valid UTF-8, and if @printable without controls, separators and direction marks. */
static void check_text(const char *text, bool printable)
{
    size_t size = strlen(text), length;

    for (size_t i = 0; i < size; i += length) {
        uint32_t code;

        length = utf8_sequence(text + i, size - i, &code);
        check(length > 0);
        if (!printable)
            continue;
        check(code >= 0x20 && (code < 0x7f || code > 0x9f));
        check(code != 0x2028 && code != 0x2029 && (code < 0x202a || code > 0x202e));
        check((code < 0x2066 || code > 0x2069) && code != 0xfeff);
    }
}

static void check_undo(const char *text, const char *data, size_t size)
{
    size_t undone_size;
    _cleanup_free_ char *undone = unescape_text(text, &undone_size);

    if (memchr(data, '\0', size)) {
        check(!undone && errno == EINVAL);
        return;
    }
    check(undone && undone_size == size && memcmp(undone, data, size) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
    const char *data = (const char *)input + 1;
    _cleanup_free_ char *whole = NULL, *cut = NULL, *utf8 = NULL, *string = NULL, *undone = NULL;
    size_t max, n;

    if (size < 2)
        return 0;
    max = input[0];
    size--;

    whole = escape_text(data, size, 0);
    check(whole != NULL);
    check_text(whole, true);
    check_undo(whole, data, size);

    cut = escape_text(data, size, max);
    check(cut != NULL && (max == 0 || strlen(cut) <= max));
    check_text(cut, true);

    utf8 = utf8_text(data, size);
    check(utf8 != NULL);
    check_text(utf8, false);

    /* Arbitrary text taken for an escaped one: what is undone must escape to the same text. */
    string = strndup(data, size);
    check(string != NULL);
    undone = unescape_text(string, &n);
    if (undone) {
        _cleanup_free_ char *again = escape_text(undone, n, 0);

        check(again && strcmp(again, string) == 0);
    }
    return 0;
}
