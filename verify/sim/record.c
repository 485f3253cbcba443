/* SPDX-License-Identifier: Apache-2.0
 *
 * From simulated times to a timeline.
 */
#include "sim/sim.h"
#include "sim/state.h"

/* The batch that a list counts from; in lists that are written out micro-batches and samples count
   through, and the rest belongs to the batch that its part closes. */
static uint32_t batch_of(const struct pst_sim_record *record, const struct pst_sim *sim,
                         uint32_t rank, uint32_t at)
{
    const struct pst_sim_rank *run = &sim->ranks[rank];
    if (!record->plan->asynchronous) {
        return run->number;
    }
    switch (run->list[at].op) {
    case PST_I_REDUCE:
    case PST_I_TIE:
    case PST_I_NORM:
    case PST_I_STEP:
        return pst_plan_origin(record->plan, rank, at, record->n_steps, record->plan->drain_every)
            .batch;
    default:
        return 0;
    }
}

static struct pst_span make_span(const struct pst_sim_record *record, const struct pst_sim *sim,
                                 uint32_t rank, uint32_t at)
{
    const struct pst_sim_rank *run = &sim->ranks[rank];
    struct pst_span span = {
        .start_ns = run->start[at],
        .end_ns = run->end[at],
        .bytes = pst_sim_bytes(&sim->durations, &run->list[at]),
        .stall_ns = run->stall != NULL ? run->stall[at] : 0,
        .rank = rank,
        .instr = at,
    };
    pst_span_describe(record->plan, &run->list[at], batch_of(record, sim, rank, at), &span);
    return span;
}

void pst_sim_record_run(void *context, const struct pst_sim *sim, uint32_t rank)
{
    const struct pst_sim_record *record = context;
    for (uint32_t i = 0; i < sim->ranks[rank].n; i++) {
        struct pst_span span = make_span(record, sim, rank, i);
        pst_timeline_add(record->timeline, &span);
    }
    if (record->programs != NULL) {
        pst_sim_memory_add(record, &sim->ranks[rank], rank);
    }
}
