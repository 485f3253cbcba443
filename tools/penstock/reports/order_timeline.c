/* SPDX-License-Identifier: Apache-2.0 */
#include "reports/order_timeline.h"

#include <stdio.h>

struct draft {
    const struct pst_order_drawing *drawing;
    struct pst_timeline *timeline;
    uint32_t repeat;
    uint64_t shift_ns;
};

static const struct pst_schedule_stage *stage_at(const struct draft *draft, uint32_t s)
{
    return pst_schedule_stage_at(draft->drawing->in, s);
}

/* On its way from the end of a pass: a row on the sender, one on the receiver. */
static void add_transfer(const struct draft *draft, const struct pst_span *pass, uint32_t to,
                         uint64_t latency_ns)
{
    struct pst_span span = *pass;

    if (latency_ns == 0 || stage_at(draft, to)->device == pass->rank) {
        return;
    }
    span.start_ns = pass->end_ns;
    span.end_ns = pass->end_ns + latency_ns;
    span.to_stage = to;
    span.microbatch = PST_NONE;
    span.n_samples = stage_at(draft, pass->stage)->microbatch_size;
    span.first_sample = pass->microbatch * span.n_samples;
    span.payload = pass->op == PST_I_F ? PST_PAYLOAD_ACT : PST_PAYLOAD_GRAD;
    span.op = PST_I_SEND;
    span.lane = PST_LANE_SEND;
    span.peer = stage_at(draft, to)->device;
    pst_timeline_add(draft->timeline, &span);
    span.op = PST_I_RECV;
    span.lane = PST_LANE_RECV;
    span.peer = span.rank;
    span.rank = stage_at(draft, to)->device;
    pst_timeline_add(draft->timeline, &span);
}

static void add_transfers(const struct draft *draft, const struct pst_span *pass)
{
    const struct pst_schedule_in *in = draft->drawing->in;
    const struct pst_schedule_stage *stage = stage_at(draft, pass->stage);
    bool forward = pass->op == PST_I_F;
    uint32_t n = forward ? stage->n_succ : stage->n_pred;

    if (!forward && pass->op != PST_I_B && pass->op != PST_I_BW) {
        return;
    }
    for (uint32_t i = 0; i < n; i++) {
        const struct pst_schedule_link *link = pst_schedule_link_at(
            in, forward ? in->out_links[stage->first_succ + i] : stage->first_pred + i);

        add_transfer(draft, pass, forward ? link->to : link->from, link->transfer_ns);
    }
}

static void add_pass(const struct draft *draft, uint32_t device, uint32_t i, uint64_t *held)
{
    const struct pst_order_drawing *drawing = draft->drawing;
    const struct pst_pass *pass = &drawing->passes[device][i];
    const struct pst_schedule_stage *stage = stage_at(draft, pass->stage);
    uint32_t per_batch = stage->n_microbatches / drawing->n_batches;
    uint64_t bytes[PST_MEM_KINDS] = {0}, more, less;
    struct pst_span span = {
        .start_ns = drawing->eval->start_ns[device][i] + draft->shift_ns,
        .end_ns = drawing->eval->end_ns[device][i] + draft->shift_ns,
        .rank = device,
        .instr = i,
        .stage = pass->stage,
        .to_stage = PST_NONE,
        .microbatch = pass->microbatch % per_batch,
        .peer = PST_NONE,
        .step = pass->microbatch / per_batch + draft->repeat,
        .op = pass->op,
        .lane = PST_LANE_COMPUTE,
    };
    pst_timeline_add(draft->timeline, &span);

    pst_order_held(stage, pass->op, &more, &less);
    if (more > 0) {
        bytes[PST_MEM_ACTIVATIONS] = *held += more;
        pst_timeline_memory(draft->timeline, device, span.start_ns, bytes);
    }
    if (less > 0) {
        bytes[PST_MEM_ACTIVATIONS] = *held -= less;
        pst_timeline_memory(draft->timeline, device, span.end_ns, bytes);
    }
    add_transfers(draft, &span);
}

static void add_device(struct draft *draft, uint32_t device)
{
    const uint64_t nothing[PST_MEM_KINDS] = {0};
    struct pst_timeline_rank *rank = &draft->timeline->ranks[device];
    uint64_t held = 0;
    pst_timeline_memory(draft->timeline, device, 0, nothing);

    snprintf(rank->name, sizeof rank->name, "device %u", device);
    rank->capacity_bytes = draft->drawing->in->activation_bytes[device];
    for (uint32_t r = 0; r < draft->drawing->n_repeats; r++) {
        draft->repeat = r;
        draft->shift_ns = r * draft->drawing->period_ns;
        for (uint32_t i = 0; i < draft->drawing->n_passes[device]; i++) {
            add_pass(draft, device, i, &held);
        }
    }
}

void pst_order_timeline(const struct pst_order_drawing *drawing, struct pst_timeline **ret_timeline)
{
    struct draft draft = {.drawing = drawing};

    pst_timeline_create(drawing->in->n_devices, &draft.timeline);
    draft.timeline->title = pst_arena_strdup(&draft.timeline->arena, drawing->title);
    draft.timeline->kind = "evaluation";
    draft.timeline->slices = drawing->in->slices;
    draft.timeline->ns_per_unit = drawing->ns_per_unit;
    draft.timeline->bytes_per_unit = drawing->bytes_per_unit;
    draft.timeline->copies = drawing->copies;
    for (uint32_t d = 0; d < drawing->in->n_devices; d++) {
        add_device(&draft, d);
    }
    pst_timeline_finish_build(draft.timeline);
    *ret_timeline = draft.timeline;
}
