/* SPDX-License-Identifier: Apache-2.0
 *
 * Descriptions of spans and ranks, the same for timelines of simulated and of executed plans.
 */
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "sim/timeline.h"

static void set_transfer(const struct pst_plan *plan, const struct pst_instr *instr,
                         struct pst_span *span)
{
    bool forward = instr->payload == PST_PAYLOAD_ACT;
    if (pst_instr_moves_guest(instr)) {
        span->stage = span->to_stage = instr->stage;
    } else {
        const struct pst_plan_edge *edge = &plan->edges[instr->stage];
        span->stage = forward ? edge->from : edge->to;
        span->to_stage = forward ? edge->to : edge->from;
    }
    span->step += instr->first_sample / plan->batch;
    span->first_sample = instr->first_sample % plan->batch;
    span->n_samples = instr->n_samples;
    span->peer = instr->peer;
    span->payload = instr->payload;
}

static void set_pass(const struct pst_plan *plan, const struct pst_instr *instr,
                     struct pst_span *span)
{
    const struct pst_plan_stage *stage = &plan->stages[instr->stage];
    const uint32_t replica = pst_plan_replica(stage, span->rank);

    span->stage = instr->stage;
    span->step += instr->microbatch / stage->n_microbatches;
    span->microbatch = instr->microbatch % stage->n_microbatches;
    span->n_samples = pst_plan_samples(stage);
    span->first_sample =
        pst_plan_first_sample(stage, replica == PST_NONE ? 0 : replica, span->microbatch);
}

void pst_span_describe(const struct pst_plan *plan, const struct pst_instr *instr, uint32_t batch,
                       struct pst_span *span)
{
    span->stage = PST_NONE;
    span->to_stage = PST_NONE;
    span->microbatch = PST_NONE;
    span->first_sample = 0;
    span->n_samples = 0;
    span->peer = PST_NONE;
    span->payload = 0;
    span->step = batch;
    span->op = instr->op;
    span->lane = pst_lane_of(instr->op);
    switch (instr->op) {
    case PST_I_SEND:
    case PST_I_RECV:
        set_transfer(plan, instr, span);
        break;
    case PST_I_TIE:
    case PST_I_NORM:
        break;
    case PST_I_REDUCE:
    case PST_I_MERGE:
    case PST_I_STEP:
    case PST_I_GATHER:
        span->stage = instr->stage;
        break;
    default:
        set_pass(plan, instr, span);
    }
}

/* Replicas of a stage in one of the plan's copies. */
static uint32_t replicas_of(const struct pst_plan *plan, const struct pst_plan_stage *stage)
{
    return pst_plan_width(plan, stage) / stage->tensor;
}

/* "rank 2 (stage 2, 6)", "rank 5 (stage 1, replica 2, part 1)"; of a copy but the first "rank 2
   (stage 2, 1')". */
static void name_rank(const struct pst_plan *plan, uint32_t rank, char *text, size_t size)
{
    uint32_t n = 0, replica = PST_NONE, part = PST_NONE;

    snprintf(text, size, "rank %u", rank);
    for (uint32_t s = 0; s < plan->n_stages; s++) {
        uint32_t here = pst_plan_replica(&plan->stages[s], rank);

        if (here != PST_NONE && strlen(text) + 32 < size) {
            pst_text_append(text, size, "%s%u%s", n++ == 0 ? " (stage " : ", ", s,
                            here >= replicas_of(plan, &plan->stages[s]) ? "'" : "");
            here %= replicas_of(plan, &plan->stages[s]);
            replica = replicas_of(plan, &plan->stages[s]) > 1 ? here : PST_NONE;
            part = plan->stages[s].tensor > 1 ? pst_plan_part(&plan->stages[s], rank) : PST_NONE;
        }
    }
    if (replica != PST_NONE) {
        pst_text_append(text, size, ", replica %u", replica);
    }
    if (part != PST_NONE) {
        pst_text_append(text, size, ", part %u", part);
    }
    if (n > 0 && plan->devices[rank].kind != NULL && strlen(text) + 20 < size) {
        pst_text_append(text, size, ", %.16s", plan->devices[rank].kind);
    }
    if (n > 0) {
        pst_text_append(text, size, ")");
    }
}

static uint8_t *copies_of(const struct pst_plan *plan, struct pst_arena *arena)
{
    size_t n = (size_t)plan->n_devices * plan->n_stages;
    uint8_t *copy_of = pst_arena_array(arena, n, sizeof *copy_of);
    for (size_t i = 0; i < n; i++) {
        const struct pst_plan_stage *stage = &plan->stages[i % plan->n_stages];
        uint32_t replica = pst_plan_replica(stage, (uint32_t)(i / plan->n_stages));
        copy_of[i] = (uint8_t)(replica == PST_NONE ? 0 : replica / replicas_of(plan, stage));
    }
    return copy_of;
}

static const char *title(struct pst_arena *arena, const struct pst_plan *plan)
{
    char devices[PST_DEVICES_TEXT];
    uint32_t n = 0;
    const char *scheduler = plan->scheduler != NULL ? plan->scheduler : "";
    for (uint32_t s = 0; s < plan->n_stages; s++) {
        n = plan->stages[s].n_microbatches > n ? plan->stages[s].n_microbatches : n;
    }
    n *= plan->copies;
    return pst_arena_printf(
        arena, "%.*s%s%u stage%s on %s device%s, %u micro-batches", (int)strcspn(scheduler, " "),
        scheduler, scheduler[0] != '\0' ? ", " : "", plan->n_stages, plan->n_stages == 1 ? "" : "s",
        pst_plan_devices_text(plan, devices), plan->n_devices == 1 ? "" : "s", n);
}

void pst_timeline_describe(struct pst_timeline *timeline, const struct pst_plan *plan,
                           const char *kind, uint32_t n_steps)
{
    timeline->kind = kind;
    timeline->title = title(&timeline->arena, plan);
    timeline->n_stages = plan->n_stages;
    timeline->copies = plan->copies;
    timeline->copy_of = plan->copies > 1 ? copies_of(plan, &timeline->arena) : NULL;
    timeline->n_steps = n_steps;
    for (uint32_t d = 0; d < plan->n_devices; d++) {
        struct pst_timeline_rank *row = &timeline->ranks[d];
        name_rank(plan, d, row->name, sizeof row->name);
        row->capacity_bytes = pst_plan_capacity(plan, d);
    }
}
