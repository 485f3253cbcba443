/* SPDX-License-Identifier: Apache-2.0
 *
 * From simulated times to a timeline.
 */
#include "sim/sim.h"
#include "sim/state.h"

static void set_transfer(const struct pst_plan *plan, const struct pst_instr *instr,
                         struct pst_span *span)
{
    const struct pst_plan_edge *edge = &plan->edges[instr->stage];
    bool forward = instr->payload == PST_PAYLOAD_ACT;
    span->stage = forward ? edge->from : edge->to;
    span->to_stage = forward ? edge->to : edge->from;
    span->first_sample = instr->first_sample % plan->batch;
    span->n_samples = instr->n_samples;
    span->peer = instr->peer;
    span->payload = instr->payload;
}

/* The step that an instruction belongs to. In lists that are written out micro-batches and samples
   count through; the rest belongs to the batch that its part closes. */
static uint32_t step_of(const struct pst_sim_record *record, const struct pst_sim *sim,
                        uint32_t rank, uint32_t at)
{
    const struct pst_sim_rank *run = &sim->ranks[rank];
    const struct pst_plan_device *device = &record->plan->devices[rank];
    const struct pst_instr *instr = &run->list[at];
    if (!record->plan->asynchronous) {
        return run->number;
    }
    switch (instr->op) {
    case PST_I_SEND:
    case PST_I_RECV:
        return instr->first_sample / record->plan->batch;
    case PST_I_REDUCE:
    case PST_I_TIE:
    case PST_I_NORM:
    case PST_I_STEP: {
        uint32_t part = at < device->n_fill || device->n_instrs == 0
                            ? 0
                            : (at - device->n_fill) / device->n_instrs;
        return part < record->n_steps ? part : record->n_steps - 1;
    }
    default:
        return instr->microbatch / record->plan->stages[instr->stage].n_microbatches;
    }
}

static struct pst_span make_span(const struct pst_sim_record *record, const struct pst_sim *sim,
                                 uint32_t rank, uint32_t at)
{
    const struct pst_sim_rank *run = &sim->ranks[rank];
    const struct pst_instr *instr = &run->list[at];
    struct pst_span span = {
        .start_ns = run->start[at],
        .end_ns = run->end[at],
        .bytes = pst_sim_bytes(&sim->durations, instr),
        .rank = rank,
        .instr = at,
        .stage = PST_NONE,
        .to_stage = PST_NONE,
        .microbatch = PST_NONE,
        .peer = PST_NONE,
        .step = step_of(record, sim, rank, at),
        .op = instr->op,
        .lane = pst_lane_of(instr->op),
    };
    switch (instr->op) {
    case PST_I_SEND:
    case PST_I_RECV:
        set_transfer(record->plan, instr, &span);
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
        span.microbatch = instr->microbatch % record->plan->stages[instr->stage].n_microbatches;
    }
    return span;
}

pst_status pst_sim_record_run(void *context, const struct pst_sim *sim, uint32_t rank)
{
    const struct pst_sim_record *record = context;
    for (uint32_t i = 0; i < sim->ranks[rank].n; i++) {
        struct pst_span span = make_span(record, sim, rank, i);
        if (pst_timeline_add(record->timeline, &span) != PST_OK) {
            return pst_fail_nomem(sim->err);
        }
    }
    return record->programs == NULL
               ? PST_OK
               : pst_sim_memory_add(record->memory, record->programs[rank], &sim->ranks[rank],
                                    record->timeline, rank, sim->err);
}
