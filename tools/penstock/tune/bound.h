/* SPDX-License-Identifier: Apache-2.0
 *
 * Bounds that no plan of a job can beat, whatever its strategies are: the time of its operators and
 * its weights, each shared evenly by all devices. A search skips numbers of devices by them.
 */
#ifndef PST_TUNE_BOUND_H
#define PST_TUNE_BOUND_H

#include "tune/objective.h"

struct pst_session;

struct pst_bound {
    uint32_t batch;
    uint64_t work_ns;        /* of a step on one device, with the best size of micro-batches */
    uint64_t weight_bytes;   /* of all weights, without what an optimizer keeps */
    uint64_t capacity_bytes; /* of a device; UINT64_MAX: no limit */
};

void pst_bound_find(const struct pst_session *session, struct pst_bound *ret_bound);
/* Also no better than with the operators of this session, such as those of slices of sequences
   or, where the job has slices, of whole ones. */
void pst_bound_lower(const struct pst_session *session, struct pst_bound *bound);
/* Can no plan on so many devices be better than the best, which is as asked for? */
bool pst_bound_excludes(const struct pst_bound *bound, const struct pst_goal *goal,
                        const struct pst_score *best, uint32_t n_devices);

#endif
