/* The start of a cloud sandbox: what is asked for, and what there has to be. */
#include "sandbox-internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <systemd/sd-daemon.h>
#include <openssl/sha.h>

#include "common/cleanup.h"
#include "key.h"
#include "workspace.h"

/* Whose run it is stays on this machine: the cloud learns a number that is the same for the same
 * user, and nothing else. */
static void hash_user(const struct service *service, uint32_t uid, char ret[33])
{
    unsigned char digest[SHA256_DIGEST_LENGTH];
    char text[64];

    int n = snprintf(text, sizeof(text), "%s %" PRIu32, service->machine, uid);
    SHA256((const unsigned char *)text, (size_t)n, digest);
    for (int i = 0; i < 16; i++)
        snprintf(ret + 2 * i, 3, "%02x", digest[i]);
}

static void write_labels(struct sandbox *s)
{
    struct cloud_labels *labels = &s->labels;

    memcpy(labels->machine, s->service->machine, sizeof(labels->machine));
    memcpy(labels->service, s->service->id, sizeof(labels->service));
    memcpy(labels->run, s->start.run_id, sizeof(labels->run));
    snprintf(labels->connection, sizeof(labels->connection), "%" PRIu64, s->connection);
    hash_user(s->service, s->start.owner_uid, labels->user);
}

const char *sandbox_template(const struct sandbox *s)
{
    return s->start.image[0] ? s->start.image : s->service->config->template_id;
}

int sandbox_check_key(struct sandbox *s)
{
    return key_is_known()
               ? 0
               : sandbox_refuse(s, -ENOKEY, "engine",
                                "The E2B engine has no key. The administrator puts it into "
                                "/etc/credstore/" KEY_CREDENTIAL " and runs: systemctl stop "
                                "sbxctl-engine-e2b");
}

static int check_start(struct sandbox *s)
{
    char sentence[160];

    int r = sandbox_check_key(s);
    if (r < 0)
        return r;
    if (!config_template_is_valid(sandbox_template(s)))
        return sandbox_refuse(s, -EINVAL, "start", "That is not the name of an E2B template.");
    if (s->start.layer[0] || s->start.wheels[0])
        return sandbox_refuse(
            s, -EOPNOTSUPP, "start",
            "The E2B engine cannot take this machine's packages along. Use a template "
            "that has them.");
    if (places_take(s->service->places, s->connection))
        return 0;
    snprintf(sentence, sizeof(sentence),
             "%" PRIu64 " cloud sandboxes run already, and this machine allows no more. Try again "
             "when one has ended.",
             s->service->config->max_sandboxes);
    return sandbox_refuse(s, -EBUSY, "start", sentence);
}

/* Once asked for, the answer is waited for whatever the broker does: only so it is known what there
 * is to be removed. */
static int create(struct sandbox *s)
{
    const struct cloud_request request = {
        .template_id = sandbox_template(s),
        .labels = &s->labels,
        .seconds = life_begin(&s->life, s->start.lifetime_usec),
        .network = s->start.network,
        .hosts = s->start.hosts,
    };

    write_labels(s);
    int r = cloud_create(&s->cloud, &request, &s->box);
    s->made = s->box.id[0] != '\0';
    life_created(&s->life);
    return r < 0 ? sandbox_refuse_cloud(s, r) : 0;
}

static int make_workspace(struct sandbox *s)
{
    int fd = workspace_make(s->start.workspace_bytes, s->start.workspace_inodes);

    if (fd < 0) {
        fprintf(stderr, SD_ERR "%s: workspace: %s\n", s->start.run_id, strerror(-fd));
        return sandbox_refuse(
            s, fd, "engine",
            "The E2B engine cannot make a workspace on this machine: the kernel must "
            "allow user namespaces to users.");
    }
    s->run.transfer.workspace = fd;
    s->run.transfer.workspace_bytes = s->start.workspace_bytes;
    return 0;
}

static int hand_over(struct sandbox *s)
{
    struct engine_message message = { .type = ENGINE_READY };
    int ends[2];

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
        return -errno;
    const int fds[] = { s->run.transfer.workspace, ends[1] };
    strcpy(message.ready.sandbox_id, s->box.id);
    snprintf(message.ready.image, sizeof(message.ready.image), "%s", sandbox_template(s));
    int r = engine_send(s->broker, &message, fds, ELEMENTS(fds));
    close(ends[1]);
    s->control = ends[0];
    return r;
}

int sandbox_start(struct sandbox *s)
{
    int r = check_start(s);

    r = r < 0 ? r : make_workspace(s);
    r = r < 0 ? r : sandbox_tell_progress(s, "create", 0, 0);
    r = r < 0 ? r : create(s);
    if (r < 0)
        return r;
    envd_open(&s->cloud, &s->box, &s->envd);
    return hand_over(s);
}
