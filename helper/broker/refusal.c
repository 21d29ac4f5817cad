/* Writing down a refusal, see refusal.h. */
#include "broker/refusal.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

int refusal_reject(struct refusal *refusal, const char *field, const char *hint, const char *format,
                   ...)
{
    va_list args;

    *refusal = (struct refusal){ .kind = REFUSAL_REJECTED };
    snprintf(refusal->field, sizeof(refusal->field), "%s", field);
    snprintf(refusal->hint, sizeof(refusal->hint), "%s", hint);
    va_start(args, format);
    vsnprintf(refusal->reason, sizeof(refusal->reason), format, args);
    va_end(args);
    return -EPERM;
}
