/* SPDX-License-Identifier: Apache-2.0
 *
 * Advice to who asks a partitioner about a problem file.
 */
#ifndef PST_TUNE_PARTITION_ADVISE_H
#define PST_TUNE_PARTITION_ADVISE_H

#include "ask/problem_partition.h"

/*
 * After pst_problem_partition was refused with *err: if memory is what is missing, adds to
 * err->hint how much of it would do, and to err->details what the stages take then, found by asking
 * again with other amounts. limits: those of the process that is asked; NULL: this one. Returns
 * err->status; PST_ERR_CANCELLED, when the user stops it; or PST_OK and a result, where the
 * partitioner found one that fits by being given another amount.
 */
pst_status pst_problem_partition_advise(const struct pst_problem_job *job,
                                        const struct pst_worker_task *limits,
                                        bool (*cancelled)(void),
                                        struct pst_partition_result *ret_result,
                                        struct pst_error *err);

#endif
