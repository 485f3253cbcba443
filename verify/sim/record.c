/* SPDX-License-Identifier: Apache-2.0
 *
 * From simulated times to a timeline.
 */
#include "base/memory.h"
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
    case PST_I_MERGE:
    case PST_I_TIE:
    case PST_I_NORM:
    case PST_I_STEP:
    case PST_I_GATHER:
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
        .bytes = pst_sim_bytes(&sim->durations, &run->list[at], rank),
        .stall_ns = run->stall != NULL ? run->stall[at] : 0,
        .rank = rank,
        .instr = at,
    };
    pst_span_describe(record->plan, &run->list[at], batch_of(record, sim, rank, at), &span);
    return span;
}

/* Room for all runs of all ranks, so that each span is written once and to its place. */
static void make_room(struct pst_timeline *timeline, const struct pst_sim *sim)
{
    uint64_t n = 0;

    PST_ASSERT(timeline->n_spans == 0 && sim->suffices == NULL); /* all of them will be written */
    for (uint32_t r = 0; r < sim->plan->n_devices; r++) {
        timeline->ranks[r].first = (uint32_t)n;
        n += (uint64_t)sim->ranks[r].n * sim->n_runs;
    }
    PST_ASSERT(n <= UINT32_MAX);
    timeline->spans = pst_resize(NULL, n, sizeof *timeline->spans);
    timeline->n_spans = (uint32_t)n;
    timeline->room = n;
}

/* The instructions of a lane begin in list order, in one run after the other. */
void pst_sim_record_run(void *context, const struct pst_sim *sim, uint32_t rank)
{
    const struct pst_sim_record *record = context;
    const struct pst_sim_rank *run = &sim->ranks[rank];
    uint32_t count[PST_LANES] = {0}, at[PST_LANES];
    if (record->timeline->spans == NULL) {
        make_room(record->timeline, sim);
    }
    for (uint32_t i = 0; i < run->n; i++) {
        count[pst_lane_of(run->list[i].op)]++;
    }
    for (uint32_t lane = 0, first = record->timeline->ranks[rank].first; lane < PST_LANES; lane++) {
        at[lane] = first + run->number * count[lane];
        first += sim->n_runs * count[lane];
    }
    for (uint32_t i = 0; i < run->n; i++) {
        struct pst_span span = make_span(record, sim, rank, i);
        record->timeline->spans[at[span.lane]++] = span;
    }
    if (record->programs != NULL) {
        pst_sim_memory_add(record, &sim->ranks[rank], rank);
    }
}
