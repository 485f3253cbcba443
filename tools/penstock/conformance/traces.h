/* SPDX-License-Identifier: Apache-2.0
 *
 * The state of a process that is visible from outside: a plugin must leave it unchanged.
 */
#ifndef PST_CONFORMANCE_TRACES_H
#define PST_CONFORMANCE_TRACES_H

#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

struct pst_traces {
    uint32_t n_threads, n_descriptors, n_children;
    void (*handlers[NSIG])(int);
    bool blocked[NSIG];
    struct rlimit limits[RLIM_NLIMITS];
    char folder[512], locale[256];
    uint64_t environment; /* a digest */
    uint32_t umask;
    int rounding;
    uint64_t float_mode, descriptors; /* descriptors: a digest */
    cpu_set_t processors;
    int nice, policy, priority;
    uint32_t n_timers, next_key;
    pid_t group, session;
    const void *signal_stack;
};

void pst_traces_take(struct pst_traces *ret_traces);

/* The first difference in words ("a thread"), or NULL. `folder`: where no file may be. Takes
   `after` again while the kernel still shows a thread that was joined. */
const char *pst_traces_differ(const struct pst_traces *before, struct pst_traces *after,
                              const char *folder);

/* Has an exit handler been added since pst_traces_fill_exit? To be asked once; false where that
   cannot be told: under sanitizers. */
void pst_traces_fill_exit(void);
bool pst_traces_exit_differs(void);

#endif
