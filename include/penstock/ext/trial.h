/* SPDX-License-Identifier: Apache-2.0
 *
 * pst.trial/1: what a step of the job would take with an answer that a partitioner thinks of. The
 * job's memory optimizers and its scheduler are asked as they would be about the answer itself, the
 * passes are lowered to lists, and these are simulated with links that devices share. For
 * partitioners of planning runs whose host can simulate; NULL elsewhere. It costs about as much as
 * simulating the step: milliseconds, so try a few plans and not all.
 */
#ifndef PENSTOCK_EXT_TRIAL_H
#define PENSTOCK_EXT_TRIAL_H

#include "../host.h"
#include "../partitioner.h"

#define PST_TRIAL "pst.trial/1"

struct pst_trial_value {
    uint32_t size;
    uint32_t quick;      /* asked for: 1: step_ns, and of what is near the limit fits, may be about
                            right, and are there sooner: enough to compare with others got so */
    uint32_t fits;       /* 0: no memory optimizer or no scheduler can do with it, or some device
                            takes more than it has; then the rest may be 0 */
    uint64_t step_ns;    /* of one more step in the long run */
    uint64_t peak_bytes; /* of the fullest device, as pst.eval/1 charges its stages */
};

struct pst_trial {
    uint32_t size;
    /*
     * stages: as they would be given to pst_partition_out.stage, n_stages elements of
     * stages[0].size bytes each. The same question always gets the same answer. PST_ERR_BUG: they
     * break a rule, which the host notes as it does for an answer. PST_ERR_CANCELLED. [plan], from
     * within partition() alone.
     */
    pst_status (*step)(const struct pst_host *host, const struct pst_stage_decl *stages,
                       uint32_t n_stages, struct pst_trial_value *value);
};

#endif
