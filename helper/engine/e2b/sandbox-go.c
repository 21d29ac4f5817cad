/* What the broker says to its launcher: a file to be put, and the program that is to go. Its files
 * are sent then, it runs, and what it made comes home. */
#include "sandbox-internal.h"

#include <stdio.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/clock.h"

/* The broker gives up on files that are sent before that. */
#define UPLOAD_USEC (11 * 60 * USEC_PER_SEC)
/* What there is when a connection broke. */
#define LOST_RESCUE_USEC (20 * USEC_PER_SEC)
/* For the files to come home. */
#define HOME_USEC (55 * USEC_PER_SEC)

static union {
    char bytes[LAUNCH_PACKET_MAX];
    struct launch_header header;
    struct launch_put put;
    struct launch_go go;
} packet;

static int handle_put(struct sandbox *s, size_t size, int fds[PACKET_FDS_MAX], size_t n_fds)
{
    struct launch_put_done done = { .header = { LAUNCH_PROTOCOL_VERSION, LAUNCH_PUT_DONE } };
    const char *name;

    if (n_fds != 1 || launch_parse_put(packet.bytes, size, &name) < 0)
        return -EBADMSG;
    done.error =
        -transfer_put(&s->run.transfer, name, packet.put.mode, fds[0], packet.put.size, &done);
    return packet_send(s->control, &done, sizeof(done), NULL, 0);
}

/* The connection broke, or the sandbox is no more, and nobody knows how the program ended. */
static void tell_lost(struct sandbox *s)
{
    char sentence[sizeof(s->cloud.error)], why[320];

    snprintf(why, sizeof(why), "%.300s", s->cloud.error);
    s->cloud.http.deadline_usec = clock_now() + LOST_RESCUE_USEC;
    int there = cloud_exists(&s->cloud, s->box.id);
    if (there == 0)
        snprintf(sentence, sizeof(sentence),
                 "The cloud sandbox vanished while the program ran, so how it ended is not known: "
                 "E2B does not know the sandbox any more.");
    else
        snprintf(sentence, sizeof(sentence),
                 "How the program ended is not known: %s The sandbox is being removed.", why);
    if (there > 0)
        run_rescue(&s->run);
    sandbox_refuse(s, -ENOLINK, ENGINE_PHASE_LOST, sentence);
    sandbox_end_with(s, OUTCOME_KILL);
}

/* The program is over, so its clock is, too: the broker has to know before the files are here. */
static enum run_end come_home(struct sandbox *s, struct launch_exited *ret)
{
    uint64_t latest = clock_now() + HOME_USEC, end = s->life.end_usec - HOME_MARGIN_USEC;

    sandbox_tell_progress(s, ENGINE_PHASE_DOWNLOAD, 0, 0);
    if (!s->asked_to_end)
        s->cloud.http.deadline_usec = latest < end ? latest : end;
    return run_come_home(&s->run, ret);
}

/* Sends the files, and only then has the program's clock begin. */
static enum run_end send_files(struct sandbox *s, const struct launch_program *program,
                               const int stdio[3])
{
    sandbox_tell_progress(s, ENGINE_PHASE_UPLOAD, 0, 0);
    s->cloud.http.deadline_usec = clock_now() + UPLOAD_USEC;
    life_guard(&s->life);
    enum run_end end = run_send(&s->run, program, stdio);
    /* What is wrong with its life is known better than what is wrong with a request to it. */
    if ((end == RUN_SENT || s->outcome == OUTCOME_READY) && life_settle(&s->life) < 0)
        end = s->outcome == OUTCOME_READY ? run_give_up(&s->run) : RUN_STOPPED;
    if (end != RUN_SENT)
        return end;
    s->cloud.http.deadline_usec = s->life.end_usec;
    sandbox_tell_progress(s, ENGINE_PHASE_START, 0, 0);
    return RUN_SENT;
}

static int handle_go(struct sandbox *s, size_t size, int fds[PACKET_FDS_MAX], size_t n_fds)
{
    static struct launch_program program;
    struct launch_exited exited = { 0 };

    if (n_fds != 3 || launch_parse_go(packet.bytes, size, &program) < 0)
        return -EBADMSG;
    const int stdio[] = { TAKE_FD(fds[0]), TAKE_FD(fds[1]), TAKE_FD(fds[2]) };
    enum run_end end = send_files(s, &program, stdio);
    s->runs = end == RUN_SENT;
    if (s->runs)
        end = run_program(&s->run, &program);
    s->runs = false;
    if (end == RUN_EXITED)
        end = come_home(s, &exited);
    switch (end) {
    case RUN_EXITED:
        return packet_send(s->control, &exited, sizeof(exited), NULL, 0);
    case RUN_NOT_STARTED:
        sandbox_refuse(s, -ECOMM, s->cloud.unusable ? "engine" : "start", s->cloud.error);
        sandbox_end_with(s, OUTCOME_KILL);
        return 0;
    case RUN_UNKNOWN:
        tell_lost(s);
        return 0;
    case RUN_SENT:
    case RUN_STOPPED:
    default:
        sandbox_note_time(s);
        return 0;
    }
}

int sandbox_handle_control(struct sandbox *s)
{
    int fds[PACKET_FDS_MAX], r = -EBADMSG;
    size_t n_fds;

    ssize_t size = packet_recv(s->control, packet.bytes, sizeof(packet.bytes), fds, &n_fds);
    /* The end of it, or a BYE: the broker's own socket tells how to go on. */
    if (size == 0) {
        s->control = close_fd(s->control);
        return 0;
    }
    if (size < 0)
        return (int)size;
    if ((size_t)size < sizeof(packet.header) || packet.header.version != LAUNCH_PROTOCOL_VERSION)
        r = -EBADMSG;
    else if (packet.header.type == LAUNCH_BYE)
        r = 0;
    else if (packet.header.type == LAUNCH_PUT)
        r = handle_put(s, (size_t)size, fds, n_fds);
    else if (packet.header.type == LAUNCH_GO)
        r = handle_go(s, (size_t)size, fds, n_fds);
    packet_close_fds(fds);
    return r;
}
