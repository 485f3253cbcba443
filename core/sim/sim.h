/* SPDX-License-Identifier: Apache-2.0
 *
 * Times a lowered plan against the cost model: event-driven, the executor's own instruction lists,
 * deterministic (integer nanoseconds, ties by device, then position).
 */
#ifndef PST_SIM_SIM_H
#define PST_SIM_SIM_H

#include "cost/cost.h"
#include "plan/plan.h"

/* Start and end of every instruction, [rank][instr]; arrays owned by the caller, may be NULL.
   PST_ERR_BUG plan.illegal when the lists cannot run to their end. */
pst_status pst_sim_run(const struct pst_plan *plan, const struct pst_graph *graph,
                       const struct pst_cost_model *cost, uint64_t *const *ret_start,
                       uint64_t *const *ret_end, uint64_t *ret_makespan_ns, struct pst_error *err);

#endif
