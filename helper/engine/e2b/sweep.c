/* What is left of sandboxes whose process died, see sandbox.h: found by our labels, and removed. */
#include "sandbox.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <systemd/sd-daemon.h>

#include "common/clock.h"
#include "control-plane.h"
#include "key.h"

/* The rest of them gets its turn, too. */
#define DELETE_USEC (10 * USEC_PER_SEC)

struct sweep {
    struct cloud *cloud;
    const struct service *service;
    uint64_t connection;
    int error, n;
};

static bool label_is(json_object *labels, const char *key, const char *value)
{
    const char *text = labels ? json_get_string(labels, key) : NULL;

    return text && strcmp(text, value) == 0;
}

/* The server was asked for this machine's; it is asked no more than it is believed. */
static bool is_left(const struct sweep *sweep, json_object *labels)
{
    char connection[24];

    if (!label_is(labels, CLOUD_LABEL_MACHINE, sweep->service->machine))
        return false;
    bool is_ours = label_is(labels, CLOUD_LABEL_SERVICE, sweep->service->id);
    if (sweep->connection == SANDBOX_SWEEP_EARLIER)
        return !is_ours;
    if (sweep->connection == SANDBOX_SWEEP_OURS)
        return is_ours;
    snprintf(connection, sizeof(connection), "%" PRIu64, sweep->connection);
    return is_ours && label_is(labels, CLOUD_LABEL_CONNECTION, connection);
}

static int on_listed(const char *id, json_object *labels, void *userdata)
{
    struct sweep *sweep = userdata;

    if (!is_left(sweep, labels))
        return 0;
    int r = cloud_delete(sweep->cloud, id, DELETE_USEC);
    sweep->n++;
    if (r < 0) {
        sweep->error = r;
        fprintf(stderr, SD_ERR "%s: %s\n", id, sweep->cloud->error);
    } else {
        fprintf(stderr, SD_NOTICE "Removed the abandoned cloud sandbox %s.\n", id);
    }
    return 0;
}

int sandbox_sweep(struct service *service, uint64_t connection, uint64_t timeout_usec)
{
    struct cloud cloud;
    struct sweep sweep = { &cloud, service, connection, 0, 0 };

    if (!key_is_known())
        return 0;
    int r = cloud_open(service->config, &cloud);
    if (r < 0)
        return r;
    cloud.is_v1 = service->is_v1;
    cloud.http.deadline_usec = clock_now() + timeout_usec;
    r = cloud_list(&cloud, CLOUD_LABEL_MACHINE, service->machine, on_listed, &sweep);
    if (r < 0)
        fprintf(stderr, SD_WARNING "Cannot look for abandoned sandboxes: %s\n", cloud.error);
    else
        service->is_v1 = cloud.is_v1;
    cloud_close(&cloud);
    return r < 0 ? r : sweep.error < 0 ? sweep.error : sweep.n;
}
