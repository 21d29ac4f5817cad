/* The counters of a control group, see counters.h. */
#include "engine/counters.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/file.h"

#define ROOT "/sys/fs/cgroup"

/* Where a counter stands: the first file that exists counts. A file with several has a line "key
 * value" for each. */
struct place {
    const char *hierarchy, *file, *key;
    uint64_t divisor;
};

static const struct place oom_kills[] = {
    { "", "memory.events", "oom_kill", 1 },
    { "/memory", "memory.oom_control", "oom_kill", 1 },
    { NULL },
};
static const struct place task_refusals[] = {
    { "", "pids.events", "max", 1 },
    { "/pids", "pids.events", "max", 1 },
    { NULL },
};
static const struct place memory_peak[] = {
    { "", "memory.peak", NULL, 1 }, /* since Linux 5.19 */
    { "/memory", "memory.max_usage_in_bytes", NULL, 1 },
    { NULL },
};
static const struct place cpu_usec[] = {
    { "", "cpu.stat", "usage_usec", 1 },
    /* On hybrid hosts: it counts without the controller, too (cgroup-v2.rst, "cpu.stat"). */
    { "/unified", "cpu.stat", "usage_usec", 1 },
    { "/cpuacct", "cpuacct.usage", NULL, 1000 },
    { NULL },
};
static const char *const process_hierarchies[] = { "", "/systemd", NULL };

/* Reads up to @size - 1 bytes of a control group's file, terminated. */
static bool read_file(const char *hierarchy, const char *cgroup, const char *file, char *buffer,
                      size_t size)
{
    char path[512];

    if (snprintf(path, sizeof(path), ROOT "%s%s/%s", hierarchy, cgroup, file) >= (int)sizeof(path))
        return false;
    _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t n = pread_full(fd, buffer, size - 1, 0);
    buffer[n < 0 ? 0 : n] = '\0';
    return n >= 0;
}

/* The value behind "key " at the beginning of a line, or NULL. */
static const char *find_key(const char *text, const char *key)
{
    size_t n = strlen(key);

    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, key, n) == 0 && line[n] == ' ')
            return line + n + 1;
    }
    return NULL;
}

static uint64_t read_counter(const struct place *places, const char *cgroup)
{
    char buffer[4096];

    for (const struct place *p = places; p->hierarchy; p++) {
        if (!read_file(p->hierarchy, cgroup, p->file, buffer, sizeof(buffer)))
            continue;
        const char *value = p->key ? find_key(buffer, p->key) : buffer;
        if (value)
            return strtoull(value, NULL, 10) / p->divisor;
    }
    return UINT64_MAX;
}

static uint64_t count_lines(const char *text)
{
    uint64_t n = 0;

    for (; (text = strchr(text, '\n')); text++)
        n++;
    return n;
}

static uint64_t count_processes(const char *cgroup)
{
    /* A line has at most 8 bytes here (pid_max is 4194304), and TasksMax bounds their number. */
    static char buffer[256 * 1024];

    for (size_t i = 0; process_hierarchies[i]; i++)
        if (read_file(process_hierarchies[i], cgroup, "cgroup.procs", buffer, sizeof(buffer)))
            return count_lines(buffer);
    return UINT64_MAX;
}

void counters_read(const char *cgroup, struct counters *ret)
{
    bool known = cgroup[0] == '/';

    *ret = (struct counters){
        .oom_kills = known ? read_counter(oom_kills, cgroup) : UINT64_MAX,
        .task_refusals = known ? read_counter(task_refusals, cgroup) : UINT64_MAX,
        .cpu_usec = known ? read_counter(cpu_usec, cgroup) : UINT64_MAX,
        .memory_peak_bytes = known ? read_counter(memory_peak, cgroup) : UINT64_MAX,
        .processes = known ? count_processes(cgroup) : UINT64_MAX,
    };
}
