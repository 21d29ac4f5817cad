/* What the kernel counted for a sandbox, read from its control group: version 2, or the controllers
 * of version 1. Called by the engines of this machine right before they kill a sandbox. */
#pragma once

#include <stdint.h>

/* UINT64_MAX where the kernel does not tell. */
struct counters {
    uint64_t oom_kills, cpu_usec, memory_peak_bytes, processes, task_refusals;
};

/* Reads the counters of the control group @cgroup ("/a/b" as PID 1 has it), which may be gone. */
void counters_read(const char *cgroup, struct counters *ret);
