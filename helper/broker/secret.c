/* The formats of credentials, see secret.h. */
#include "broker/secret.h"
#include "common/cleanup.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define DIGITS "0123456789"
#define UPPER "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define LOWER "abcdefghijklmnopqrstuvwxyz"
#define WORD UPPER LOWER DIGITS
#define BASE64 WORD "+/="
#define MASK "[...]"

/* A prefix, and how many of which letters follow it. */
static const struct format {
    const char *what, *prefix, *letters;
    size_t min, max; /* SIZE_MAX: no end */
} formats[] = {
    { "an AWS access key", "AKIA", UPPER DIGITS, 16, 16 },
    { "an AWS access key", "ASIA", UPPER DIGITS, 16, 16 },
    { "an Anthropic key", "sk-ant-", WORD "-_", 40, SIZE_MAX },
    { "an Azure storage key", "AccountKey=", BASE64, 80, SIZE_MAX },
    { "a DigitalOcean token", "dop_v1_", LOWER DIGITS, 64, 64 },
    { "an E2B key", "e2b_", LOWER DIGITS, 40, SIZE_MAX },
    { "a GitHub token", "ghp_", WORD, 36, SIZE_MAX },
    { "a GitHub token", "gho_", WORD, 36, SIZE_MAX },
    { "a GitHub token", "ghs_", WORD, 36, SIZE_MAX },
    { "a GitHub token", "ghu_", WORD, 36, SIZE_MAX },
    { "a GitHub token", "ghr_", WORD, 36, SIZE_MAX },
    { "a GitHub token", "github_pat_", WORD "_", 60, SIZE_MAX },
    { "a GitLab token", "glpat-", WORD "-_", 20, SIZE_MAX },
    { "a Google key", "AIza", WORD "-_", 35, 35 },
    { "a Hugging Face token", "hf_", WORD, 34, SIZE_MAX },
    { "an npm token", "npm_", WORD, 36, 36 },
    { "an OpenAI key", "sk-proj-", WORD "-_", 40, SIZE_MAX },
    { "an OpenAI key", "sk-svcacct-", WORD "-_", 40, SIZE_MAX },
    { "an OpenAI key", "sk-", WORD, 40, SIZE_MAX },
    { "a PyPI token", "pypi-AgEI", WORD "-_", 50, SIZE_MAX },
    { "a SendGrid key", "SG.", WORD "-_.", 60, SIZE_MAX },
    { "a Slack token", "xoxa-", WORD "-", 20, SIZE_MAX },
    { "a Slack token", "xoxb-", WORD "-", 20, SIZE_MAX },
    { "a Slack token", "xoxp-", WORD "-", 20, SIZE_MAX },
    { "a Slack token", "xoxs-", WORD "-", 20, SIZE_MAX },
    { "a Slack token", "xapp-", WORD "-", 20, SIZE_MAX },
    { "a Stripe key", "sk_live_", WORD, 20, SIZE_MAX },
    { "a Stripe key", "rk_live_", WORD, 20, SIZE_MAX },
    /* A JSON Web Token: the second part begins like the first, see is_token(). */
    { "a JSON Web Token", "eyJ", WORD "-_.", 80, SIZE_MAX },
};

static size_t span_of(const char *text, size_t size, const char *letters)
{
    size_t n = 0;

    while (n < size && text[n] && strchr(letters, text[n]))
        n++;
    return n;
}

/* Random text of 16 letters has more than 7 different ones, but once in a million times; what
 * people write in the place of a key has not. */
static bool is_random(const char *text, size_t size)
{
    bool seen[256] = { false };
    size_t different = 0;

    for (size_t i = 0; i < size; i++) {
        different += !seen[(unsigned char)text[i]];
        seen[(unsigned char)text[i]] = true;
    }
    return different >= 8;
}

static bool is_example(const char *text, size_t size)
{
    /* AWS's own; and the subject of the token that everybody shows. */
    static const char *const marks[] = {
        "EXAMPLE", "example", "xxxx", "XXXX", "1234567890abcdef", "eyJzdWIiOiIxMjM0NTY3ODkw"
    };

    for (size_t i = 0; i < ELEMENTS(marks); i++)
        if (memmem(text, size, marks[i], strlen(marks[i])))
            return true;
    return false;
}

/* header.payload.signature */
static bool is_token(const char *text, size_t size)
{
    const char *second = memmem(text, size, ".eyJ", 4);
    const char *third = second ? memchr(second + 1, '.', (size_t)(text + size - second - 1)) : NULL;

    return third && text + size - third > 20;
}

static bool is_of_format(const struct format *format, const char *at, size_t n)
{
    size_t prefix = strlen(format->prefix);

    return n >= format->min && n <= format->max && is_random(at + prefix, n) &&
           !is_example(at, prefix + n) &&
           (strcmp(format->prefix, "eyJ") != 0 || is_token(at, prefix + n));
}

static bool is_within_word(const char *text, const char *at)
{
    return at > text && strchr(WORD "_", at[-1]);
}

/* Only up to what was found before. What was looked at is not looked at again, so that the time is
 * linear whatever the text is. */
static void find_format(const struct format *format, const char *text, size_t size,
                        struct secret *found)
{
    size_t prefix = strlen(format->prefix), n = 0;
    const char *end = text + size;

    for (const char *at = text; (at = memmem(at, (size_t)(end - at), format->prefix, prefix));
         at += prefix + n) {
        if ((size_t)(at - text) >= found->offset)
            return;
        n = is_within_word(text, at)
                ? 0
                : span_of(at + prefix, (size_t)(end - at) - prefix, format->letters);
        if (n == 0 || !is_of_format(format, at, n))
            continue;
        *found = (struct secret){ format->what, (size_t)(at - text), prefix + n, 0 };
        return;
    }
}

/* A block in PEM with something in it, also one that is written with "\n". */
static void find_private_key(const char *text, size_t size, struct secret *found)
{
    static const char begin[] = "-----BEGIN ", end_of_label[] = "PRIVATE KEY";
    const char *end = text + size;

    for (const char *at = text;
         (at = memmem(at, (size_t)(end - at), begin, sizeof(begin) - 1)) && at < end;
         at += sizeof(begin) - 1) {
        size_t near = (size_t)(end - at) < 400 ? (size_t)(end - at) : 400;
        const char *label =
            memmem(at, near < 60 ? near : 60, end_of_label, sizeof(end_of_label) - 1);
        if ((size_t)(at - text) >= found->offset)
            return;
        if (!label)
            continue;
        for (const char *p = label; p < at + near; p++) {
            size_t n = span_of(p, (size_t)(at + near - p), BASE64);
            if (n >= 40 && is_random(p, n)) {
                *found = (struct secret){ "a private key", (size_t)(at - text),
                                          (size_t)(p + n - at), 0 };
                return;
            }
            p += n;
        }
    }
}

static unsigned line_of(const char *text, size_t offset)
{
    unsigned line = 1;

    for (size_t i = 0; i < offset; i++)
        line += text[i] == '\n';
    return line;
}

bool secret_find(const char *text, size_t size, struct secret *ret)
{
    struct secret found = { .offset = SIZE_MAX };

    for (size_t i = 0; i < ELEMENTS(formats); i++)
        find_format(&formats[i], text, size, &found);
    find_private_key(text, size, &found);
    if (found.offset == SIZE_MAX)
        return false;
    found.line = line_of(text, found.offset);
    *ret = found;
    return true;
}

/* The first of a format from @from on; the last of them is that of private keys. */
static struct secret find_next(size_t format, const char *text, size_t size, size_t from)
{
    struct secret found = { .offset = SIZE_MAX };

    if (format < ELEMENTS(formats))
        find_format(&formats[format], text + from, size - from, &found);
    else
        find_private_key(text + from, size - from, &found);
    if (found.offset != SIZE_MAX)
        found.offset += from;
    return found;
}

/* What was within a word begins one behind a mask. */
static bool begins(size_t format, const char *text)
{
    return format < ELEMENTS(formats) &&
           strncmp(text, formats[format].prefix, strlen(formats[format].prefix)) == 0;
}

/* Each format goes through the text once, however many credentials there are. */
char *secret_mask(const char *text)
{
    char *masked = strdup(text), *to = masked;
    struct secret next[ELEMENTS(formats) + 1];
    size_t size = strlen(text), from = 0;

    for (size_t i = 0; masked && i < ELEMENTS(next); i++)
        next[i] = find_next(i, text, size, 0);
    /* No credential is shorter than the mask, so it fits in its place. */
    while (masked) {
        const struct secret *first = &next[0];

        for (size_t i = 1; i < ELEMENTS(next); i++)
            if (next[i].offset < first->offset)
                first = &next[i];
        if (first->offset == SIZE_MAX)
            break;
        to = mempcpy(to, text + from, first->offset - from);
        to = mempcpy(to, MASK, sizeof(MASK) - 1);
        from = first->offset + first->size;
        for (size_t i = 0; i < ELEMENTS(next); i++)
            if (next[i].offset < from || begins(i, text + from))
                next[i] = find_next(i, text, size, from);
    }
    if (masked)
        strcpy(to, text + from);
    return masked;
}
