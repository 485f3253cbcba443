/* SPDX-License-Identifier: Apache-2.0
 *
 * Learning rate by step: linear warm-up, then constant; half a cosine down to min_lr (Loshchilov
 * and Hutter, "SGDR", ICLR 2017, without restarts); a line down to min_lr; constant with a fall at
 * the end ("wsd": Hu et al., "MiniCPM", 2024; forms of the fall: Haegele et al., "Scaling laws and
 * compute-optimal training beyond fixed training durations", 2024); or one over the root of the
 * step, not below min_lr (Vaswani et al., "Attention is all you need", 2017).
 */
#ifndef PST_LOOP_SCHEDULE_H
#define PST_LOOP_SCHEDULE_H

#include "exec/device.h"
#include "job/training.h"

/* Returns the rate of step 0 ... steps - 1. The last warm-up step has lr; the last step has min_lr,
   unless the schedule does not decay to it. */
double pst_learning_rate(const struct pst_job_loop *loop, uint64_t step);
/* The whole update, for gradients that are not clipped. */
struct pst_update pst_update_at(const struct pst_job *job, uint64_t step);

#endif
