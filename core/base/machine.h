/* SPDX-License-Identifier: Apache-2.0
 *
 * The clock and the cores of this machine; for modules, too, which bring no more of core than they
 * must.
 */
#ifndef PST_BASE_MACHINE_H
#define PST_BASE_MACHINE_H

#include <sched.h>
#include <stdint.h>
#include <sys/sysinfo.h>
#include <time.h>

static inline uint64_t pst_clock_ns(clockid_t clock)
{
    struct timespec now;

    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}
/* Monotonic nanoseconds. */
static inline uint64_t pst_now_ns(void)
{
    return pst_clock_ns(CLOCK_MONOTONIC);
}

/* How the clock of a rank was brought to that of rank 0. */
struct pst_clock {
    int64_t offset_ns;       /* what was added */
    uint64_t uncertainty_ns; /* it may be off by so much; UINT64_MAX: it was not brought to it */
};

/* A time of that clock, for calls that wait until it. */
static inline struct timespec pst_timespec(uint64_t ns)
{
    return (struct timespec){.tv_sec = (time_t)(ns / 1000000000u),
                             .tv_nsec = (long)(ns % 1000000000u)};
}

/* Cores that this process may use; at least 1. */
static inline uint32_t pst_usable_cores(void)
{
    cpu_set_t set;
    int n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : get_nprocs();

    return n > 0 ? (uint32_t)n : 1;
}

#endif
