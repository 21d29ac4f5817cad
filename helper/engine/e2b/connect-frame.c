/* Messages out of a stream of bytes, see connect-frame.h. */
#include "connect-frame.h"

#include <string.h>

#include "common/cleanup.h"

void connect_release(struct connect_frames *frames)
{
    free(frames->message);
    *frames = (struct connect_frames){ 0 };
}

bool connect_is_complete(const struct connect_frames *frames)
{
    return frames->ended && frames->have_header == 0;
}

void connect_header(size_t size, char ret[CONNECT_HEADER])
{
    ret[0] = 0;
    for (int i = 0; i < 4; i++)
        ret[1 + i] = (char)(size >> (24 - 8 * i) & 0xff);
}

/* Moves what there is of what is missing. */
static void take(char *target, size_t *have, size_t wanted, const char **data, size_t *size)
{
    size_t n = wanted - *have < *size ? wanted - *have : *size;

    if (n > 0)
        memcpy(target + *have, *data, n);
    *have += n;
    *data += n;
    *size -= n;
}

static int begin_message(struct connect_frames *frames)
{
    const unsigned char *header = (const unsigned char *)frames->header;
    size_t size = 0;

    if ((header[0] & ~(unsigned)CONNECT_END) != 0)
        return -EBADMSG;
    for (int i = 0; i < 4; i++)
        size = size << 8 | header[1 + i];
    if (size > CONNECT_MESSAGE_MAX)
        return -EMSGSIZE;
    free(frames->message);
    frames->message = malloc(size + 1);
    frames->size = size;
    frames->have = 0;
    return frames->message ? 0 : -ENOMEM;
}

int connect_feed(struct connect_frames *frames, const char *data, size_t size,
                 connect_message_fn fn, void *userdata)
{
    while (size > 0) {
        if (frames->ended)
            return -EBADMSG;
        if (frames->have_header < CONNECT_HEADER) {
            take(frames->header, &frames->have_header, CONNECT_HEADER, &data, &size);
            if (frames->have_header < CONNECT_HEADER)
                return 0;
            int r = begin_message(frames);
            if (r < 0)
                return r;
        }
        take(frames->message, &frames->have, frames->size, &data, &size);
        if (frames->have < frames->size)
            return 0;
        frames->ended = frames->header[0] & CONNECT_END;
        frames->have_header = 0;
        frames->message[frames->size] = '\0';
        int r = fn(frames->message, frames->size, frames->ended, userdata);
        if (r < 0)
            return r;
    }
    return 0;
}
