/* The socket at one end of a connection: what is waited for, and what the kernel keeps for it.
 * Called by the connections. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <systemd/sd-event.h>

struct side {
    int fd;
    sd_event_source *source;
};

/* What is not waited for is not asked about: the kernel would tell of a hangup for ever. */
void side_wait(struct side *side, bool input, bool output);
/* As large as told, and no more: the kernel makes them grow with the speed otherwise. */
void side_set_buffers(const struct side *side, int size);
void side_set_nodelay(const struct side *side);
/* The other end learns that something is missing: an end of file would look like a success. */
void side_reset_on_close(const struct side *side);
/* The bytes that the other end has yet to confirm, our end of file among them; none if that end is
 * gone. */
size_t side_undelivered(const struct side *side);
/* Data that is not delivered is dropped. */
void side_close(struct side *side);
