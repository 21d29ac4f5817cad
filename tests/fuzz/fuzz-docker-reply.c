/* A daemon that answers the Docker engine with arbitrary bytes: the parsers of versions, images,
 * the lines of a pull, states and lists. The first byte of the input says what is asked (see
 * ask()), the second the head of the replies (see head()), and the rest is a reply for each
 * request, with a byte 0xff between two. What comes out must be within its bounds, and fit to be
 * shown. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "engine/docker/container.h"
#include "engine/docker/image.h"
#include "check.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define REFERENCE "registry.example:5000/a/b:1"
#define PINNED "b@sha256:" ID
#define ID "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

#define OURS "/v1.41/containers/sbxctl-run-"

/* ---- the daemon: a thread that gives each connection the next reply */

static struct {
    char path[64];
    int listener;
    pthread_mutex_t lock;
    const char *head;
    const uint8_t *data;
    size_t size;
} peer = { .listener = -1, .lock = PTHREAD_MUTEX_INITIALIZER };

static const char *head(uint8_t byte)
{
    switch (byte) {
    case '2':
        return "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n";
    case '1':
        return "HTTP/1.1 201 Created\r\nConnection: close\r\n\r\n";
    case '4':
        return "HTTP/1.1 404 Not Found\r\nConnection: close\r\n\r\n";
    case '9':
        return "HTTP/1.1 409 Conflict\r\nConnection: close\r\n\r\n";
    case '5':
        return "HTTP/1.1 500 No\r\nConnection: close\r\n\r\n";
    case 'r': /* the reply brings its own */
        return "";
    default:
        return NULL;
    }
}

/* Nothing that a daemon said may change what another request asks for. */
static void check_request(const char *text)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "._-/:@?&=%";
    const char *path = strchr(text, '/');

    check(path && strncmp(path + strspn(path, plain), " HTTP/1.1\r\n", 11) == 0);
    /* libcurl resolves "..", so what is removed has to be one of ours as it arrives. */
    check(strncmp(text, "DELETE", 6) != 0 || strncmp(path, OURS, strlen(OURS)) == 0);
}

static void read_request(int sock)
{
    char text[16384];
    size_t size = 0;
    ssize_t n;

    while (size < sizeof(text) - 1 && (n = read(sock, text + size, sizeof(text) - 1 - size)) > 0) {
        size += (size_t)n;
        text[size] = '\0';
        if (strstr(text, "\r\n\r\n"))
            break;
    }
    if (size > 0)
        check_request(text);
}

static void answer(int sock)
{
    const uint8_t *end = memchr(peer.data, 0xff, peer.size);
    size_t size = end ? (size_t)(end - peer.data) : peer.size;

    if (peer.head) {
        send(sock, peer.head, strlen(peer.head), MSG_NOSIGNAL);
        send(sock, peer.data, size, MSG_NOSIGNAL);
    }
    size += end != NULL;
    peer.data += size;
    peer.size -= size;
    if (peer.size == 0)
        peer.head = NULL;
}

static void *serve(void *unused)
{
    for (;;) {
        _cleanup_close_ int sock = accept4(peer.listener, NULL, NULL, SOCK_CLOEXEC);
        check(sock >= 0);
        read_request(sock);
        pthread_mutex_lock(&peer.lock);
        answer(sock);
        pthread_mutex_unlock(&peer.lock);
        shutdown(sock, SHUT_RDWR);
    }
    return unused;
}

static void remove_socket(void)
{
    unlink(peer.path);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    sigset_t all, before;
    pthread_t thread;

    (void)argc;
    (void)argv;
    snprintf(peer.path, sizeof(peer.path), "/tmp/fuzz-docker-reply.%d", getpid());
    memcpy(address.sun_path, peer.path, sizeof(peer.path));
    peer.listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    check(peer.listener >= 0);
    unlink(peer.path);
    check(bind(peer.listener, (struct sockaddr *)&address, sizeof(address)) == 0);
    atexit(remove_socket);
    check(listen(peer.listener, 16) == 0);
    /* The fuzzer's alarm is for the thread that fuzzes. */
    sigfillset(&all);
    check(pthread_sigmask(SIG_SETMASK, &all, &before) == 0);
    check(pthread_create(&thread, NULL, serve, NULL) == 0);
    check(pthread_sigmask(SIG_SETMASK, &before, NULL) == 0);
    return 0;
}

/* ---- what is made of it */

static void check_shown(const char *text)
{
    check(text[0] != '\0' && strlen(text) <= ENGINE_TEXT_MAX);
    for (const char *c = text; *c; c++)
        check((unsigned char)*c >= ' ' && *c != 0x7f);
}

static void check_digest(const char *text)
{
    const char *colon = strchr(text, ':');

    check_shown(text);
    check(colon && colon[1 + strspn(colon + 1, "0123456789abcdef")] == '\0');
}

static bool on_progress(uint64_t current, uint64_t total, void *userdata)
{
    size_t *calls = userdata;

    check(current <= total && total < UINT64_C(1) << 62);
    return ++*calls < 1000;
}

static int find(struct api *api, const char *reference)
{
    struct image image;

    int r = image_find(api, reference, &image);
    if (r < 0)
        return r;
    check_digest(image.id);
    check_digest(image.digest);
    check(!strchr(reference, '@') || strcmp(image.digest, strchr(reference, '@') + 1) == 0);
    return 0;
}

static int pull(struct api *api)
{
    size_t calls = 0;

    return image_pull(api, REFERENCE, false, 5 * USEC_PER_SEC, on_progress, &calls);
}

static int create(struct api *api)
{
    static const struct engine_start start = { .run_id = "0123", .memory_bytes = 1 << 20 };
    static const struct account account = { "/run/run-7", "/nowhere/cpus" };
    const struct container_spec spec = {
        .start = &start,
        .image = "sha256:" ID,
        .service = "service",
        .connection = 7,
        .launcher = "/launcher",
        .control = "/control",
        .account = &account,
        .runtime = "runtime",
    };
    char id[CONTAINER_ID_MAX];

    int r = container_create(api, &spec, "sbxctl-run-0123", id);
    check(r < 0 || memchr(id, '\0', sizeof(id)));
    return r;
}

static int inspect(struct api *api)
{
    struct container_state state;

    int r = container_inspect(api, "sbxctl-run-0123", &state);
    check(r < 0 || state.exists || (!state.running && state.pid == 0));
    return r;
}

static int ask(uint8_t what, struct api *api)
{
    switch (what) {
    case 'f':
        return find(api, REFERENCE);
    case 'F':
        return find(api, PINNED);
    case 'p':
        return pull(api);
    case 'c':
        return create(api);
    case 'i':
        return inspect(api);
    case 'm':
        return container_memory_peak(api, "sbxctl-run-0123") > 0 ? 0 : -EBADMSG;
    case 'l':
        return container_sweep(api, "service", 0);
    case 'L':
        return container_sweep(api, "service", 7);
    default:
        return container_remove(api, "sbxctl-run-0123");
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct api_version none, agreed = { "1.45", "/v1.41" };
    struct api api = { .socket = peer.path, .version = agreed };

    if (size < 3 || !strchr("vfFpcimlLr", data[0]) || !head(data[1]))
        return -1;
    pthread_mutex_lock(&peer.lock);
    peer.head = head(data[1]);
    peer.data = data + 2;
    peer.size = size - 2;
    pthread_mutex_unlock(&peer.lock);
    int r = data[0] == 'v' ? api_open(peer.path, &none, &api) : http_open(peer.path, &api.http);
    if (r == 0 && data[0] != 'v')
        r = ask(data[0], &api);
    check(r >= 0 || r == -ECANCELED || api.error[0] != '\0');
    if (r < 0 && r != -ECANCELED)
        check_shown(api.error);
    check(memchr(api.version.prefix, '\0', sizeof(api.version.prefix)));
    api_close(&api);
    /* No late connection may see the next input. */
    pthread_mutex_lock(&peer.lock);
    peer.head = NULL;
    peer.size = 0;
    pthread_mutex_unlock(&peer.lock);
    return 0;
}
