/* What a fuzzer claims of what it drives; a claim that fails is a finding. */
#pragma once

#include <stdio.h>
#include <stdlib.h>

#define check(good)                                                            \
    do {                                                                       \
        if (!(good)) {                                                         \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #good); \
            abort();                                                           \
        }                                                                      \
    } while (0)
