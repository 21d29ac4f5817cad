/* Packets and payloads between broker and store, see store-protocol.h. */
#include "broker/store-protocol.h"
#include "common/cleanup.h"
#include "common/packet.h"

#include <fcntl.h>
#include <linux/memfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U /* Linux 6.3 */
#endif
#define PAYLOAD_SEALS (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)

/* A machine with vm.memfd_noexec=2 wants the flag, a kernel before 6.3 refuses it. */
static int payload_create(void)
{
    unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
    int fd = memfd_create("sbxctl-payload", flags | MFD_NOEXEC_SEAL);

    if (fd < 0 && errno == EINVAL)
        fd = memfd_create("sbxctl-payload", flags);
    return fd < 0 ? -errno : fd;
}

int store_payload_new(json_object *object)
{
    size_t size;
    const char *text = json_text(object, &size);
    if (!text)
        return -ENOMEM;
    if (size > STORE_PAYLOAD_MAX)
        return -E2BIG;

    _cleanup_close_ int fd = payload_create();
    if (fd < 0)
        return fd;
    for (size_t done = 0; done < size;) {
        ssize_t n = write(fd, text + done, size - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        done += (size_t)n;
    }
    if (fcntl(fd, F_ADD_SEALS, PAYLOAD_SEALS) < 0)
        return -errno;
    return TAKE_FD(fd);
}

int store_payload_read(int fd, json_object **ret)
{
    struct stat st;

    /* Only a memfd has seals; sealed it cannot change while it is read. */
    int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 || (seals & PAYLOAD_SEALS) != PAYLOAD_SEALS || fstat(fd, &st) < 0 ||
        st.st_size <= 0 || st.st_size > STORE_PAYLOAD_MAX)
        return -EBADMSG;

    size_t size = (size_t)st.st_size;
    _cleanup_free_ char *text = malloc(size);
    if (!text)
        return -ENOMEM;
    for (size_t done = 0; done < size;) {
        ssize_t n = pread(fd, text + done, size - done, (off_t)done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? -errno : -EBADMSG;
        done += (size_t)n;
    }
    return json_parse_guarded(text, size, ret);
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
