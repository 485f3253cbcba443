/* SPDX-License-Identifier: Apache-2.0
 *
 * From simulated times to a timeline.
 */
#include <stdio.h>
#include <string.h>

#include "sim/sim.h"
#include "sim/state.h"

static void set_transfer(const struct pst_plan *plan, const struct pst_instr *instr,
                         struct pst_span *span)
{
    const struct pst_plan_edge *edge = &plan->edges[instr->stage];
    bool forward = instr->payload == PST_PAYLOAD_ACT;
    span->stage = forward ? edge->from : edge->to;
    span->to_stage = forward ? edge->to : edge->from;
    span->step += instr->first_sample / plan->batch;
    span->first_sample = instr->first_sample % plan->batch;
    span->n_samples = instr->n_samples;
    span->peer = instr->peer;
    span->payload = instr->payload;
}

static struct pst_span make_span(const struct pst_sim *sim, uint32_t rank,
                                 const struct pst_sim_visit *visit, uint32_t at)
{
    const struct pst_instr *instr = &visit->list->instrs[at];
    const struct pst_plan *plan = sim->plan;
    struct pst_span span = {
        .start_ns = visit->start[at],
        .end_ns = visit->end[at],
        .bytes = pst_sim_bytes(&sim->durations, instr),
        .rank = rank,
        .instr = at,
        .stage = PST_NONE,
        .to_stage = PST_NONE,
        .microbatch = PST_NONE,
        .peer = PST_NONE,
        .step = visit->batch,
        .op = instr->op,
        .lane = pst_lane_of(instr->op),
    };
    switch (instr->op) {
    case PST_I_SEND:
    case PST_I_RECV:
        set_transfer(plan, instr, &span);
        break;
    case PST_I_TIE:
    case PST_I_NORM:
        break;
    case PST_I_REDUCE:
    case PST_I_STEP:
        span.stage = instr->stage;
        break;
    default:
        span.stage = instr->stage;
        span.step += instr->microbatch / plan->stages[instr->stage].n_microbatches;
        span.microbatch = instr->microbatch % plan->stages[instr->stage].n_microbatches;
    }
    return span;
}

pst_status pst_sim_record_visit(void *context, const struct pst_sim *sim, uint32_t rank,
                                const struct pst_sim_visit *visit)
{
    struct pst_sim_record *record = context;
    for (uint32_t i = 0; i < visit->list->n; i++) {
        struct pst_span span = make_span(sim, rank, visit, i);
        if (pst_timeline_add(record->timeline, &span) != PST_OK) {
            return pst_fail_nomem(sim->err);
        }
    }
    return record->programs == NULL ? PST_OK
                                    : pst_sim_memory_add(record->memory, record->programs[rank],
                                                         visit, record->timeline, rank, sim->err);
}
