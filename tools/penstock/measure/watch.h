/* SPDX-License-Identifier: Apache-2.0
 *
 * A stop watch beside which others may work. Where one thread computes, its own clock leaves out
 * when others had its core. Reading that clock is a system call, which short kernels would show, so
 * the clock on the wall counts unless the thread was interrupted: the shorter of the two.
 */
#ifndef PST_MEASURE_WATCH_H
#define PST_MEASURE_WATCH_H

#include "base/machine.h"
#include "exec/device.h"

struct pst_watch {
    bool own; /* the thread's clock is read, too */
    uint64_t wall_ns, own_ns;
};

/* Does the device compute on the thread that drives it, and on no other? */
static inline bool pst_computes_alone(const struct pst_device_ops *ops,
                                      const struct pst_device_config *config)
{
    return pst_device_is_host(ops) && config->threads == 1;
}

static inline void pst_watch_begin(struct pst_watch *watch)
{
    watch->own_ns = watch->own ? pst_clock_ns(CLOCK_THREAD_CPUTIME_ID) : 0;
    watch->wall_ns = pst_now_ns();
}

/* Nanoseconds since the beginning or the last lap. */
static inline uint64_t pst_watch_lap(struct pst_watch *watch)
{
    const uint64_t wall_ns = pst_now_ns() - watch->wall_ns, own_ns = watch->own_ns;

    pst_watch_begin(watch);
    return watch->own && watch->own_ns - own_ns < wall_ns ? watch->own_ns - own_ns : wall_ns;
}

/* Starts a watch. In some sandboxes the thread's clock stands still between two readings: then it
   is not used. */
static inline struct pst_watch pst_watch_of(const struct pst_device_ops *ops,
                                            const struct pst_device_config *config)
{
    struct pst_watch watch = {.own = pst_computes_alone(ops, config) &&
                                     pst_clock_ns(CLOCK_THREAD_CPUTIME_ID) !=
                                         pst_clock_ns(CLOCK_THREAD_CPUTIME_ID)};

    pst_watch_begin(&watch);
    return watch;
}

#endif
