/* Sizes and times as people write them, see quantity.h. Strict on purpose: what is not understood
 * whole is refused. */
#include "quantity.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cleanup.h"
#include "clock.h"

#define QUANTITY_MAX ((uint64_t)INT64_MAX)
#define MIB (UINT64_C(1) << 20)
#define USEC_PER_MSEC UINT64_C(1000)
#define USEC_PER_MINUTE (60 * USEC_PER_SEC)
#define USEC_PER_HOUR (60 * USEC_PER_MINUTE)
#define USEC_PER_DAY (24 * USEC_PER_HOUR)

/* Reads digits at *@text, which moves behind them. Returns 0, -EINVAL without a digit, -ERANGE
 * above the maximum. */
static int read_digits(const char **text, uint64_t *ret)
{
    const char *p = *text;
    uint64_t n = 0;

    if (*p < '0' || *p > '9')
        return -EINVAL;
    for (; *p >= '0' && *p <= '9'; p++)
        if (__builtin_mul_overflow(n, 10, &n) ||
            __builtin_add_overflow(n, (uint64_t)(*p - '0'), &n) || n > QUANTITY_MAX)
            return -ERANGE;
    *text = p;
    *ret = n;
    return 0;
}

/* @n × @factor + @add, within the maximum. */
static int scale(uint64_t n, uint64_t factor, uint64_t add, uint64_t *ret)
{
    if (__builtin_mul_overflow(n, factor, &n) || __builtin_add_overflow(n, add, &n) ||
        n > QUANTITY_MAX)
        return -ERANGE;
    *ret = n;
    return 0;
}

int parse_number(const char *text, uint64_t *ret)
{
    uint64_t n;
    int r = read_digits(&text, &n);

    if (r < 0)
        return r;
    if (*text)
        return -EINVAL;
    *ret = n;
    return 0;
}

int parse_bytes(const char *text, uint64_t *ret)
{
    static const char suffixes[] = "KMGTkmgt";
    const char *suffix;
    unsigned shift = 0;
    uint64_t n;
    int r = read_digits(&text, &n);

    if (r < 0)
        return r;
    suffix = *text ? strchr(suffixes, *text) : NULL;
    if (suffix) {
        shift = 10 * ((unsigned)(suffix - suffixes) % 4 + 1);
        text++;
    }
    if (*text && strcmp(text, "B") != 0 && !(suffix && strcmp(text, "iB") == 0))
        return -EINVAL;
    return scale(n, UINT64_C(1) << shift, 0, ret);
}

/* The unit at *@text, which moves behind it; 0 if there is none. */
static uint64_t read_unit(const char **text)
{
    static const struct {
        const char *name;
        uint64_t usec;
    } units[] = {
        { "ms", USEC_PER_MSEC },  { "s", USEC_PER_SEC },  { "min", USEC_PER_MINUTE },
        { "m", USEC_PER_MINUTE }, { "h", USEC_PER_HOUR }, { "d", USEC_PER_DAY },
    };

    for (size_t i = 0; i < ELEMENTS(units); i++) {
        size_t length = strlen(units[i].name);

        if (strncmp(*text, units[i].name, length) == 0) {
            *text += length;
            return units[i].usec;
        }
    }
    return 0;
}

int parse_usec(const char *text, uint64_t *ret)
{
    uint64_t n, sum = 0, unit;
    int r = read_digits(&text, &n);

    if (r < 0)
        return r;
    if (!*text)
        return scale(n, USEC_PER_SEC, 0, ret);
    for (;;) {
        unit = read_unit(&text);
        if (unit == 0)
            return -EINVAL;
        r = scale(n, unit, sum, &sum);
        if (r < 0)
            return r;
        if (!*text)
            break;
        r = read_digits(&text, &n);
        if (r < 0)
            return r;
    }
    *ret = sum;
    return 0;
}

/* Up to two decimals at *@text as hundredths; *@text moves behind them. */
static int read_hundredths(const char **text, uint64_t *ret)
{
    const char *start = *text;
    uint64_t n;
    int r = read_digits(text, &n);

    if (r < 0 || *text - start > 2)
        return -EINVAL;
    *ret = *text - start == 1 ? n * 10 : n;
    return 0;
}

int parse_cpus(const char *text, uint64_t *ret_percent)
{
    uint64_t n, hundredths = 0, percent;
    int r = read_digits(&text, &n);

    if (r < 0)
        return r;
    if (strcmp(text, "%") == 0) {
        percent = n;
    } else {
        if (*text == '.') {
            text++;
            r = read_hundredths(&text, &hundredths);
            if (r < 0)
                return r;
        }
        if (*text)
            return -EINVAL;
        r = scale(n, 100, hundredths, &percent);
        if (r < 0)
            return r;
    }
    if (percent == 0)
        return -ERANGE;
    *ret_percent = percent;
    return 0;
}

const char *format_bytes(uint64_t bytes, char buffer[QUANTITY_TEXT])
{
    static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
    uint64_t size = 1, whole, tenths;
    size_t unit = 0;

    while (unit + 1 < ELEMENTS(units) && bytes / size >= 1024) {
        size *= 1024;
        unit++;
    }
    /* Nobody is to approve 1500 MiB as 1.5 GiB; with one decimal only halves are exact. Not below
     * a GiB: what was measured would show all its digits. */
    if (size > MIB && bytes % (size / 2) != 0 && bytes % (size / 1024) == 0) {
        size /= 1024;
        unit--;
    }
    whole = bytes / size;
    tenths = (bytes % size * 10 + size / 2) / size;
    if (tenths == 10) {
        whole++;
        tenths = 0;
        if (whole == 1024 && unit + 1 < ELEMENTS(units)) {
            whole = 1;
            unit++;
        }
    }
    if (tenths > 0)
        snprintf(buffer, QUANTITY_TEXT, "%" PRIu64 ".%" PRIu64 " %s", whole, tenths, units[unit]);
    else
        snprintf(buffer, QUANTITY_TEXT, "%" PRIu64 " %s", whole, units[unit]);
    return buffer;
}

/* Up to a minute: seconds with as many decimals as tell something. */
static void format_seconds(uint64_t usec, char *buffer)
{
    uint64_t step = usec >= USEC_PER_SEC    ? 10 * USEC_PER_MSEC
                    : usec >= USEC_PER_MSEC ? USEC_PER_MSEC
                                            : 1;
    size_t length;

    usec = (usec + step / 2) / step * step;
    length = (size_t)snprintf(buffer, QUANTITY_TEXT, "%" PRIu64 ".%06" PRIu64, usec / USEC_PER_SEC,
                              usec % USEC_PER_SEC);
    while (buffer[length - 1] == '0')
        length--;
    if (buffer[length - 1] == '.')
        length--;
    memcpy(buffer + length, " s", sizeof(" s"));
}

const char *format_usec(uint64_t usec, char buffer[QUANTITY_TEXT])
{
    static const struct {
        const char *name;
        uint64_t usec;
    } units[] = {
        { "d", USEC_PER_DAY },
        { "h", USEC_PER_HOUR },
        { "min", USEC_PER_MINUTE },
        { "s", USEC_PER_SEC },
    };
    size_t i = 0;
    uint64_t rest;

    if (usec <= USEC_PER_MINUTE) {
        format_seconds(usec, buffer);
        return buffer;
    }
    while (usec < units[i].usec)
        i++;
    /* Two units are enough for people. */
    rest = usec % units[i].usec / units[i + 1].usec;
    if (rest > 0)
        snprintf(buffer, QUANTITY_TEXT, "%" PRIu64 " %s %" PRIu64 " %s", usec / units[i].usec,
                 units[i].name, rest, units[i + 1].name);
    else
        snprintf(buffer, QUANTITY_TEXT, "%" PRIu64 " %s", usec / units[i].usec, units[i].name);
    return buffer;
}
