/* The engine protocol's parser on arbitrary bytes. What it takes must be within its bounds, and
 * mean the same when it is written and read again. */
#include "engine/protocol.h"

#include <string.h>

#include "common/cleanup.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool good)
{
    if (!good)
        abort();
}

static void check_bounds(const struct engine_message *m)
{
    if (m->type != ENGINE_START)
        return;
    check(m->start.run_id[0] != '\0' && !strpbrk(m->start.run_id, "/. ") &&
          strlen(m->start.run_id) <= ENGINE_RUN_ID_MAX);
    check(!strpbrk(m->start.layer, "/.") &&
          (m->start.layer[0] == '\0') == (m->start.layer_target == ENGINE_TARGET_NONE));
    check(strspn(m->start.wheels, "/") <= 1 && !strstr(m->start.wheels, "/../"));
    check(m->start.cpu_percent > 0 && m->start.tasks > 0 && m->start.lifetime_usec > 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    _cleanup_free_ char *text = NULL, *again = NULL;
    struct engine_message first, second;
    size_t text_size, again_size;

    int r = engine_message_parse((const char *)data, size, &first);
    check(r == 0 || r == -EBADMSG || r == -EPROTONOSUPPORT);
    if (r < 0)
        return 0;
    check_bounds(&first);
    check(engine_message_format(&first, &text, &text_size) == 0);
    check(engine_message_parse(text, text_size, &second) == 0);
    check(engine_message_format(&second, &again, &again_size) == 0);
    check(strcmp(text, again) == 0);
    return 0;
}
