/* The network of a run that was granted one: its egress process, from the connection to its last
 * word. A run without a network has none of this. */
#include "broker/pool.h"
#include "broker/run-internal.h"
#include "common/escape.h"
#include "common/quantity.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <systemd/sd-daemon.h>

static void refuse(struct run *run, const char *remedy, const char *unit, const char *reason)
{
    json_object *fields = json_object_new_object();
    char hint[128];

    snprintf(hint, sizeof(hint), "The administrator can try: systemctl %s sbxctl-egress.%s", remedy,
             unit);
    (void)json_add_string(fields, "hint", hint);
    run_refuse(run, RUN_REJECTED, "io.sbxctl.Sandbox.NetworkUnavailable", fields, reason);
}

__attribute__((format(printf, 2, 3))) static void blame(struct run *run, const char *format, ...)
{
    char reason[ENGINE_TEXT_MAX + 1];
    va_list args;

    va_start(args, format);
    vsnprintf(reason, sizeof(reason), format, args);
    va_end(args);
    refuse(run, "restart", "service", reason);
}

/* The program goes on, and finds nobody any more at the place where its way out was. */
static void lose(struct run *run, int error)
{
    fprintf(stderr, SD_ERR "run %s: egress process lost: %s\n", run->id,
            error < 0 ? strerror(-error) : "it ended");
    run->egress = egress_free(run->egress);
    run->network.lost = run->facts.network_lost = true;
    (void)run_audit_network(run, "lost", "the egress process ended before the run");
}

static void gone(struct run *run, int error)
{
    if (run->go_usec == 0 && error < 0) {
        blame(run, "The network could not be had: its service sent what is not understood (%s).",
              strerror(-error));
    } else if (run->go_usec == 0) {
        blame(run, "The network could not be had: its service went away.");
    } else {
        lose(run, error);
        run_stream_changed(run);
    }
}

static void failed(struct run *run, const struct egress_error *error)
{
    _cleanup_free_ char *shown = escape_text(error->message, strlen(error->message), 400);

    if (run->go_usec == 0)
        blame(run, "The network could not be had: %s", shown ? shown : "its service failed.");
    else
        gone(run, -EBADMSG);
}

static void finished(struct run *run, struct egress_finished *told)
{
    network_use_finish(&run->network, told);
    run->egress = egress_free(run->egress);
    if (run->network.told.unrecorded + run->network.unrecorded > 0)
        (void)run_audit_network(run, "unrecorded", NULL);
    run_stream_changed(run);
}

static void on_egress(const struct egress_event *event, void *userdata)
{
    struct run *run = userdata;

    switch (event->type) {
    case EGRESS_EVENT_READY:
        run->network_ready = true;
        run_go_if_filled(run);
        break;
    case EGRESS_EVENT_CONNECTION:
        network_use_add(&run->network, event->connection);
        if (run_audit_connection(run, event->connection) < 0)
            run->network.unrecorded++;
        break;
    case EGRESS_EVENT_FINISHED:
        finished(run, event->finished);
        break;
    case EGRESS_EVENT_FAILED:
        failed(run, event->failed);
        break;
    case EGRESS_EVENT_GONE:
        gone(run, event->error);
        break;
    default:
        break;
    }
}

int run_restore_network(struct run *run, int sock)
{
    run->network_ready = true;
    if (sock >= 0)
        return egress_restore(run->manager->event, sock, on_egress, run, &run->egress);
    run->network.lost = run->facts.network_lost = true;
    return 0;
}

bool run_network_connect(struct run *run)
{
    struct manager *manager = run->manager;
    int r = run->plan.egress ? egress_new(manager->event, pool_connect_egress(manager->pool),
                                          on_egress, run, &run->egress)
                             : 0;
    bool stopped = r == -ENOENT || r == -ECONNREFUSED;
    char reason[128];

    if (r >= 0)
        return true;
    snprintf(reason, sizeof(reason), "The network could not be had: %s.",
             stopped        ? "the socket of its service is not active"
             : r == -EAGAIN ? "too many are waiting for its service"
                            : strerror(-r));
    refuse(run, stopped ? "enable --now" : "restart", "socket", reason);
    return false;
}

bool run_network_start(struct run *run, int error, int listener)
{
    struct egress_start start;

    if (error != 0) {
        run_blame_engine(run, "made a sandbox that nothing can listen in: %s", strerror(error));
        return false;
    }
    config_network_start(&run->manager->config.network, run->id, &run->plan.hosts, &start);
    int r = egress_start(run->egress, &start, listener);
    if (r < 0)
        blame(run, "The network could not be had: its service does not listen (%s).", strerror(-r));
    return r >= 0;
}

bool run_network_is_ready(const struct run *run)
{
    return !run->plan.egress || run->network_ready;
}

void run_network_refuse_silent(struct run *run)
{
    char time[QUANTITY_TEXT];

    blame(run, "The network could not be had: its service said nothing for %s.",
          format_usec(run->manager->config.start_timeout_usec, time));
}

void run_network_finish(struct run *run)
{
    int r = run->egress ? egress_finish(run->egress) : 0;

    if (r < 0)
        lose(run, r);
}

void run_network_give_up(struct run *run)
{
    if (run->egress)
        lose(run, -ETIMEDOUT);
}
