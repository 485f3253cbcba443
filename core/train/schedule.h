/* SPDX-License-Identifier: Apache-2.0
 *
 * Learning rate by step: linear warm-up, then constant or half a cosine down to min_lr (Loshchilov
 * and Hutter, "SGDR", ICLR 2017, without restarts).
 */
#ifndef PST_TRAIN_SCHEDULE_H
#define PST_TRAIN_SCHEDULE_H

#include "config/job.h"
#include "exec/device.h"

/* Of step 0 ... steps - 1. The last warm-up step has lr, the last step of a cosine min_lr. */
double pst_learning_rate(const struct pst_job_train *train, uint64_t step);
/* The whole update, for gradients that are not clipped. */
struct pst_update pst_update_at(const struct pst_job_train *train, uint64_t step);

#endif
