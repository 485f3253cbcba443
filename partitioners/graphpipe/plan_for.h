/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to graphpipe: a problem solved for the job at hand.
 */
#ifndef GRAPHPIPE_PLAN_FOR_H
#define GRAPHPIPE_PLAN_FOR_H

#include "solver.h"

/* Solves, verifies by the job's own prices where it is a planning run, answers, remarks. What the
   host has been told of: PST_ERR_INFEASIBLE, PST_ERR_UNSUPPORTED. Changes
   problem->capacity_bytes. */
pst_status gp_plan_for(struct part_problem *problem, const struct gp_options *options,
                       struct pst_partition_out *out);

#endif
