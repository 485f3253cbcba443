/* SPDX-License-Identifier: Apache-2.0
 *
 * Is an asynchronous order whole? Fill, body, body, drain, one behind the other, must be three
 * batches, and fill with drain one: every micro-batch of every stage forward and backward once, in
 * this order. What depends on other devices is found when the plan is lowered.
 */
#ifndef PST_PLANNER_PARTS_H
#define PST_PLANNER_PARTS_H

#include "plan/plan.h"

/*
 * passes[part][device][position]; stages and devices are in range and numbers below twice
 * n_microbatches. False: *ret_fault (of `room` bytes) says what is wrong. PST_ERR_NOMEM.
 */
pst_status pst_parts_complete(const struct pst_schedule_in *in,
                              struct pst_pass *const *const passes[PST_PARTS],
                              const uint32_t *const n_passes[PST_PARTS], char *ret_fault,
                              size_t room, bool *ret_complete);

const char *pst_part_name(uint32_t part); /* "fill", "body", "drain" */

#endif
