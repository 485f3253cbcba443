/* SPDX-License-Identifier: Apache-2.0
 *
 * The eager evaluation of an order: round and round over the devices, each running what is ready,
 * until all is done or nothing moves.
 */
#include <stdlib.h>
#include <string.h>

#include "order.h"

#define UNKNOWN UINT64_MAX

struct eager {
    const struct order *order;
    struct order_times *times;
    uint64_t *done[3];  /* forward, backward for inputs, for weights: end of (stage, micro-batch) */
    uint64_t *clock;    /* per device */
    uint32_t *position; /* per device */
    uint32_t m;         /* most micro-batches of a stage */
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
        e->clock[d] = after(start, length);
        e->times->start_ns[d][e->position[d]] = start;
        e->times->end_ns[d][e->position[d]] = e->clock[d];
        finish_op(e, op, e->clock[d]);
    }
    return e->position[d] > first;
}

static pst_status run(struct eager *e)
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
        return PST_ERR_BUG;
    }
    for (d = 0; d < n_devices; d++) {
        if (e->order->lists[d].n > 0) {
            uint64_t span = e->clock[d] - e->times->start_ns[d][0];

            e->times->makespan_ns = later(e->times->makespan_ns, e->clock[d]);
            e->times->span_ns = later(e->times->span_ns, span);
        }
    }
    return PST_OK;
}

static bool init_times(const struct order *order, struct order_times *times)
{
    uint32_t n = order->in->n_devices, d;

    times->n_devices = n;
    times->start_ns = calloc((size_t)n + 1, sizeof *times->start_ns);
    times->end_ns = calloc((size_t)n + 1, sizeof *times->end_ns);
    if (times->start_ns == NULL || times->end_ns == NULL) {
        return false;
    }
    for (d = 0; d < n; d++) {
        size_t room = (size_t)order->lists[d].n + 1;

        times->start_ns[d] = calloc(room, sizeof **times->start_ns);
        times->end_ns[d] = calloc(room, sizeof **times->end_ns);
        if (times->start_ns[d] == NULL || times->end_ns[d] == NULL) {
            return false;
        }
    }
    return true;
}

static bool init_eager(struct eager *e)
{
    const struct pst_schedule_in *in = e->order->in;
    uint32_t s, k;

    for (s = 0; s < in->n_stages; s++) {
        uint32_t n = pst_schedule_stage_at(in, s)->n_microbatches;

        e->m = n > e->m ? n : e->m;
    }
    e->clock = calloc((size_t)in->n_devices + 1, sizeof *e->clock);
    e->position = calloc((size_t)in->n_devices + 1, sizeof *e->position);
    for (k = 0; k < 3; k++) {
        size_t cells = (size_t)in->n_stages * e->m;

        e->done[k] = calloc(cells + 1, sizeof *e->done[k]);
        if (e->done[k] == NULL) {
            return false;
        }
        memset(e->done[k], 0xFF, cells * sizeof *e->done[k]);
    }
    return e->clock != NULL && e->position != NULL;
}

pst_status order_evaluate(const struct order *order, struct order_times *ret_times)
{
    struct eager e = {.order = order, .times = ret_times};
    uint32_t k;
    pst_status st;

    memset(ret_times, 0, sizeof *ret_times);
    st = init_times(order, ret_times) && init_eager(&e) ? run(&e) : PST_ERR_NOMEM;
    for (k = 0; k < 3; k++) {
        free(e.done[k]);
    }
    free(e.clock);
    free(e.position);
    return st;
}

void order_times_finish(struct order_times *times)
{
    uint32_t d;

    for (d = 0; d < times->n_devices; d++) {
        if (times->start_ns != NULL) {
            free(times->start_ns[d]);
        }
        if (times->end_ns != NULL) {
            free(times->end_ns[d]);
        }
    }
    free(times->start_ns);
    free(times->end_ns);
    memset(times, 0, sizeof *times);
}
