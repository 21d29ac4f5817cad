/* envd's stream of a process: framing, messages, base64. The first byte says how the rest is cut;
 * however that is, the same must be heard. */
#include <stdint.h>
#include <string.h>

#include "check.h"
#include "engine/e2b/connect-frame.h"
#include "engine/e2b/process-event.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct heard {
    uint64_t hash;
    size_t messages, bytes;
    bool over;
};

static void add(struct heard *heard, const char *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++)
        heard->hash = (heard->hash ^ (unsigned char)bytes[i]) * 1099511628211ULL;
    heard->bytes += size;
}

static int on_message(const char *message, size_t size, bool end, void *userdata)
{
    struct heard *heard = userdata;
    struct process_event event;

    check(!heard->over && size <= CONNECT_MESSAGE_MAX && message[size] == '\0');
    heard->over = end;
    heard->messages++;
    int r = process_event_parse(message, size, end, &event);
    if (r < 0)
        return r;
    check((event.type == PROCESS_OVER) == end);
    check(event.type != PROCESS_STARTED || event.pid > 0);
    check(event.type != PROCESS_ENDED || (event.exit_code >= -1 && event.exit_code <= 255));
    if (event.data)
        add(heard, event.data, event.data_size);
    add(heard, (char *)&event.type, sizeof(event.type));
    process_event_release(&event);
    return 0;
}

static int hear(const char *data, size_t size, size_t piece, struct heard *ret)
{
    struct connect_frames frames = { 0 };
    int r = 0;

    *ret = (struct heard){ 0 };
    for (size_t at = 0; r >= 0 && at < size; at += piece)
        r = connect_feed(&frames, data + at, size - at < piece ? size - at : piece, on_message,
                         ret);
    check(r < 0 || connect_is_complete(&frames) == ret->over);
    connect_release(&frames);
    return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct heard whole, cut;

    if (size == 0)
        return 0;
    size_t piece = data[0] % 16 + 1;
    char *copy = malloc(size);
    memcpy(copy, data + 1, size - 1);
    int r = hear(copy, size - 1, size, &whole);
    check(hear(copy, size - 1, piece, &cut) == r);
    check(whole.hash == cut.hash && whole.messages == cut.messages && whole.bytes == cut.bytes);
    free(copy);
    return 0;
}
