/* SPDX-License-Identifier: Apache-2.0
 *
 * What a process can be seen by from outside: a plugin must leave it as it was.
 */
#ifndef PST_CONFORMANCE_TRACES_H
#define PST_CONFORMANCE_TRACES_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>

struct pst_traces {
    uint32_t n_threads, n_descriptors, n_children;
    void (*handlers[NSIG])(int);
    bool blocked[NSIG];
    struct rlimit limits[RLIM_NLIMITS];
    char folder[512], locale[256];
    uint64_t environment; /* a digest */
    uint32_t umask;
    int rounding;
};

void pst_traces_take(struct pst_traces *ret_traces);

/* The first difference in words ("a thread"), or NULL. `folder`: where no file may be. Takes
   `after` again while the kernel still shows a thread that was joined. */
const char *pst_traces_differ(const struct pst_traces *before, struct pst_traces *after,
                              const char *folder);

#endif
