/* Sizes and times as people write them ("512M", "1.5", "90s", "2min"), for the configuration and
 * the command line. */
#pragma once

#include <stdint.h>

/* Bytes: digits with an optional suffix K, M, G, T or k, m, g, t (powers of 1024; an "iB" or "B"
 * may follow). Returns 0, -EINVAL for anything else (signs, spaces, fractions), -ERANGE above
 * INT64_MAX. */
int parse_bytes(const char *text, uint64_t *ret);
/* Microseconds: "60" (seconds), or digits with ms, s, min or m, h, d, also one after another
 * ("1min30s"). Returns as above, as do the next two. */
int parse_usec(const char *text, uint64_t *ret);
/* CPUs as percent of one: "1", "0.5", "1.25" (two decimals at most); or "150%". At least 1, else
 * -ERANGE. */
int parse_cpus(const char *text, uint64_t *ret_percent);
/* A plain decimal number. */
int parse_number(const char *text, uint64_t *ret);

/* "512 MiB", "1.5 GiB", "1500 MiB", "17 B"; "60 s", "1 min 30 s", "0.25 s": for people. Rounded to
 * a decimal; from a GiB on in the next smaller unit if only that is exact. @buffer holds
 * QUANTITY_TEXT bytes and is returned. */
#define QUANTITY_TEXT 48
const char *format_bytes(uint64_t bytes, char buffer[QUANTITY_TEXT]);
const char *format_usec(uint64_t usec, char buffer[QUANTITY_TEXT]);
