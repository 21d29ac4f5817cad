/* The framing of Connect's streams (connectrpc.com/docs/protocol, "Enveloped-Message"): bytes as
 * they come in, whole messages out. Pure. Called by envd.c and its fuzzer. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CONNECT_HEADER 5
/* Bytes of one message at most: envd sends 32 KiB of output, in base64, at a time. */
#define CONNECT_MESSAGE_MAX (1024 * 1024)

enum connect_flags { CONNECT_COMPRESSED = 1, CONNECT_END = 2 };

struct connect_frames {
    char header[CONNECT_HEADER];
    char *message; /* of .size bytes, as far as they came */
    size_t size, have_header, have;
    bool ended; /* the last message was seen */
};

/* Gets a message's bytes (@end: the stream's last one), borrowed. Returns 0, or a negative errno.
 */
typedef int (*connect_message_fn)(const char *message, size_t size, bool end, void *userdata);

/* Takes the next @size bytes of the stream. Returns 0; -EMSGSIZE for a message above the limit;
 * -EBADMSG for what is no framing: unknown flags, compression (nobody asked for it), bytes after
 * the last message; -ENOMEM; or what @fn returned. After an error nothing more may be fed. */
int connect_feed(struct connect_frames *frames, const char *data, size_t size,
                 connect_message_fn fn, void *userdata);
/* Whether nothing of a message is missing. */
bool connect_is_complete(const struct connect_frames *frames);
void connect_release(struct connect_frames *frames);

/* Writes the header of a message of @size bytes, without flags. */
void connect_header(size_t size, char ret[CONNECT_HEADER]);
