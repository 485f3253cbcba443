/* SPDX-License-Identifier: Apache-2.0
 *
 * The eager evaluation of an order: round and round over the devices, each running what is ready,
 * until all is done or nothing moves.
 */
#include <string.h>

#include "order.h"

#define UNKNOWN UINT64_MAX

struct eager {
    const struct order *order;
    uint64_t *done[3]; /* forward, backward for inputs, for weights: end of (stage, micro-batch) */
    uint64_t *clock, *begin; /* per device: end of its last pass, start of its first */
    uint32_t *position;      /* per device */
    uint32_t m;              /* most micro-batches of a stage */
};

static uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* Saturates below UNKNOWN. */
static uint64_t after(uint64_t a, uint64_t b)
{
    return a >= UNKNOWN - 1 - b ? UNKNOWN - 1 : a + b;
}

/* The micro-batches first to last of `other` that share samples with this one of `stage`. */
static void overlap(const struct pst_schedule_stage *stage, const struct pst_schedule_stage *other,
                    uint32_t microbatch, uint32_t *ret_first, uint32_t *ret_last)
{
    uint64_t b = stage->microbatch_size, size = other->microbatch_size;

    if (other->n_microbatches == stage->n_microbatches || size == 0) {
        *ret_first = *ret_last = microbatch;
        return;
    }
    *ret_first = (uint32_t)(microbatch * b / size);
    *ret_last = (uint32_t)(((microbatch + 1) * b - 1) / size);
}

/* When all neighbours have sent what `op` needs; UNKNOWN if one has not run. */
static uint64_t arrival(const struct eager *e, const struct order_op *op)
{
    const struct pst_schedule_in *in = e->order->in;
    const struct pst_schedule_stage *stage = pst_schedule_stage_at(in, op->stage);
    bool forward = op->pass == PST_PASS_F;
    uint32_t n = forward ? stage->n_pred : stage->n_succ, i;
    uint64_t at = 0;

    for (i = 0; i < n; i++) {
        uint32_t row = forward ? stage->first_pred + i : in->out_links[stage->first_succ + i];
        const struct pst_schedule_link *link = pst_schedule_link_at(in, row);
        uint32_t other = forward ? link->from : link->to;
        const uint64_t *done = e->done[forward ? 0 : 1] + (size_t)other * e->m;
        uint32_t first, last;

        overlap(stage, pst_schedule_stage_at(in, other), op->microbatch, &first, &last);
        for (uint32_t j = first; j <= last; j++) {
            if (done[j] == UNKNOWN) {
                return UNKNOWN;
            }
            at = later(at, after(done[j], link->transfer_ns));
        }
    }
    return at;
}

/* When `op` could start as far as data goes, and how long it takes. */
static uint64_t ready(const struct eager *e, const struct order_op *op, uint64_t *ret_length)
{
    const struct pst_schedule_stage *stage = pst_schedule_stage_at(e->order->in, op->stage);
    size_t cell = (size_t)op->stage * e->m + op->microbatch;

    switch (op->pass) {
    case PST_PASS_F:
        *ret_length = stage->forward_ns;
        return e->done[0][cell] != UNKNOWN ? UNKNOWN : arrival(e, op);
    case PST_PASS_B:
    case PST_PASS_BW:
        *ret_length = op->pass == PST_PASS_B
                          ? stage->backward_input_ns
                          : after(stage->backward_input_ns, stage->backward_weight_ns);
        return e->done[0][cell] == UNKNOWN || e->done[1][cell] != UNKNOWN
                   ? UNKNOWN
                   : later(e->done[0][cell], arrival(e, op));
    case PST_PASS_W:
        *ret_length = stage->backward_weight_ns;
        return e->done[2][cell] != UNKNOWN ? UNKNOWN : e->done[1][cell];
    default:
        return UNKNOWN;
    }
}

static void finish_op(struct eager *e, const struct order_op *op, uint64_t end)
{
    size_t cell = (size_t)op->stage * e->m + op->microbatch;

    if (op->pass == PST_PASS_F) {
        e->done[0][cell] = end;
    }
    if (op->pass == PST_PASS_B || op->pass == PST_PASS_BW) {
        e->done[1][cell] = end;
    }
    if (op->pass == PST_PASS_W || op->pass == PST_PASS_BW) {
        e->done[2][cell] = end;
    }
}

/* Runs what device d can run now; true if anything. */
static bool run_device(struct eager *e, uint32_t d)
{
    const struct order_list *list = &e->order->lists[d];
    uint32_t first = e->position[d];

    for (; e->position[d] < list->n; e->position[d]++) {
        const struct order_op *op = &list->ops[e->position[d]];
        uint64_t length = 0, start = ready(e, op, &length);

        if (start == UNKNOWN) {
            break;
        }
        start = later(start, e->clock[d]);
        e->begin[d] = e->position[d] == 0 ? start : e->begin[d];
        e->clock[d] = after(start, length);
        finish_op(e, op, e->clock[d]);
    }
    return e->position[d] > first;
}

static bool run(struct eager *e, struct order_times *times)
{
    uint32_t n_devices = e->order->in->n_devices, d;
    bool moved = true, complete;

    do {
        moved = false;
        complete = true;
        for (d = 0; d < n_devices; d++) {
            moved |= run_device(e, d);
            complete &= e->position[d] == e->order->lists[d].n;
        }
    } while (moved && !complete);
    if (!complete) {
        return false;
    }
    for (d = 0; d < n_devices; d++) {
        times->makespan_ns = later(times->makespan_ns, e->clock[d]);
        times->span_ns = later(times->span_ns, e->clock[d] - e->begin[d]);
    }
    return true;
}

bool order_evaluate(const struct order *order, struct order_times *ret_times)
{
    const struct pst_schedule_in *in = order->in;
    struct eager e = {.order = order};
    size_t cells;
    bool ran;

    for (uint32_t s = 0; s < in->n_stages; s++) {
        uint32_t n = pst_schedule_stage_at(in, s)->n_microbatches;

        e.m = n > e.m ? n : e.m;
    }
    cells = (size_t)in->n_stages * e.m;
    CALL_TAKE(e.clock, in->n_devices);
    CALL_TAKE(e.begin, in->n_devices);
    CALL_TAKE(e.position, in->n_devices);
    CALL_TAKE(e.done[0], 3 * cells);
    memset(e.done[0], 0xFF, 3 * cells * sizeof *e.done[0]);
    e.done[1] = e.done[0] + cells;
    e.done[2] = e.done[1] + cells;
    *ret_times = (struct order_times){0};
    ran = run(&e, ret_times);
    call_free(e.clock);
    call_free(e.begin);
    call_free(e.position);
    call_free(e.done[0]);
    return ran;
}
