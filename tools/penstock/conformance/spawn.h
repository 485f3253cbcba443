/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs one test of the plugin checker in a child process and finds out what became of it.
 */
#ifndef PST_CONFORMANCE_SPAWN_H
#define PST_CONFORMANCE_SPAWN_H

#include "conformance/conformance.h"
#include "conformance/verdict.h"

#define PST_SPAWN_OUTPUT 4096 /* bytes of a child's output that are kept */

struct pst_child {
    bool timed_out, stopped; /* stopped: the checker itself shall end */
    int wait_status;         /* of the plugin's process; of its parent where that ended first */
    struct pst_verdict verdict;
    size_t n_output; /* bytes written in all */
    char output[PST_SPAWN_OUTPUT + 1];
};

/* Of this program. Errors: PST_ERR_DEVICE, machine.missing, where no process can be had. */
pst_status pst_child_run(char *const *argv, uint32_t time_limit_s, bool (*cancelled)(void),
                         struct pst_child *ret_child, struct pst_error *err);

#endif
