/* SPDX-License-Identifier: Apache-2.0
 *
 * Times a lowered plan against the cost model: event-driven, the executor's own instruction lists,
 * deterministic (integer nanoseconds, ties by rank, then list position).
 *
 * A rank walks its list. It stays at an instruction until all that this waits for has ended, and at
 * a pass or STEP until that has ended; transfers, copies and reductions are posted to the queue of
 * their kind and go on beside the list. A transfer starts when it has come to the head of its queue
 * on both ranks and its link direction is free, first come, first served. At the end of a list the
 * rank waits for all that is still open.
 *
 * Steps: a synchronous plan runs its lists once a step. A rank that is through with its list begins
 * the next step; where all must wait for each other, NORM makes them. An asynchronous plan is
 * written out (pst_plan_unroll) as one list: fill, body, ..., drain, and so on after every
 * drain_every steps.
 */
#ifndef PST_SIM_SIM_H
#define PST_SIM_SIM_H

#include "plan/judge.h"
#include "sim/usage.h"

/* Idle shares of one more step. */
struct pst_idle pst_sim_idle(const struct pst_sim_result *result);

/* n steps from rest; 0 counts as 1. PST_ERR_BUG plan.illegal: the lists cannot run to their end. */
pst_status pst_sim_steps(const struct pst_plan *plan, const struct pst_graph *graph,
                         const struct pst_cost_model *cost, uint32_t n_steps,
                         struct pst_sim_result *ret_result, struct pst_error *err);

/* About the period alone, from a few steps: exact where these repeat already, else near it and many
   times as fast. For comparing plans. */
pst_status pst_sim_quick(const struct pst_plan *plan, const struct pst_graph *graph,
                         const struct pst_cost_model *cost, uint64_t *ret_period_ns,
                         struct pst_error *err);

/*
 * pst_sim_steps with all that happens. period_ns: of one more step, which pst_sim_steps found for
 * the same plan and costs; 0: it is simulated. programs: those of the ranks, for the curves of
 * memory; NULL: without curves. Kinds of memory: params are weights, working copies and running
 * statistics, grads the accumulators, buffers what is received and gradients that wait for their
 * turn, activations all else but workspace. The largest point of a rank is its peak_bytes; what is
 * alive for no time at all is shown for one nanosecond. Destroy the timeline.
 */
pst_status pst_sim_timeline(const struct pst_plan *plan, const struct pst_graph *graph,
                            const struct pst_cost_model *cost, uint32_t n_steps, uint64_t period_ns,
                            const struct pst_program *const *programs,
                            struct pst_timeline **ret_timeline, struct pst_sim_result *ret_result,
                            struct pst_error *err);

/* One step of a synchronous plan (of an asynchronous one: fill, drain; no arrays). Start and end of
   every instruction, [rank][instr]; arrays owned by the caller, may be NULL. */
pst_status pst_sim_run(const struct pst_plan *plan, const struct pst_graph *graph,
                       const struct pst_cost_model *cost, uint64_t *const *ret_start,
                       uint64_t *const *ret_end, uint64_t *ret_makespan_ns, struct pst_error *err);

#endif
