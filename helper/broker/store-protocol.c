/* Packets and payloads between broker and store, see store-protocol.h. */
#include "broker/store-protocol.h"
#include "common/cleanup.h"
#include "common/memfd.h"
#include "common/packet.h"

#include <sys/socket.h>

int store_payload_new(json_object *object)
{
    size_t size;
    const char *text = json_text(object, &size);
    if (!text)
        return -ENOMEM;
    if (size > STORE_PAYLOAD_MAX)
        return -E2BIG;
    return memfd_with("sbxctl-payload", text, size);
}

int store_payload_read(int fd, json_object **ret)
{
    /* Only a memfd has seals; sealed it cannot change while it is read. */
    return memfd_is_sealed(fd) ? json_parse_file(fd, STORE_PAYLOAD_MAX, ret) : -EBADMSG;
}

int store_answer_send(int job, int error, json_object *result, int file)
{
    struct store_answer answer = { .error = error };
    _cleanup_close_ int payload = -1;
    int fds[2];
    size_t n_fds = 0;

    if (result) {
        payload = store_payload_new(result);
        if (payload >= 0) {
            answer.has_result = 1;
            fds[n_fds++] = payload;
        } else if (error == 0) {
            answer.error = payload;
        }
    }
    if (file >= 0 && answer.error == 0) {
        answer.has_file = 1;
        fds[n_fds++] = file;
    }
    return packet_send(job, &answer, sizeof(answer), fds, n_fds);
}

bool store_peer_gone(int job)
{
    char byte;
    ssize_t n = recv(job, &byte, sizeof(byte), MSG_PEEK | MSG_DONTWAIT);

    /* No packet of ours is empty, so 0 is the end of file. */
    return n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
}
