/* SPDX-License-Identifier: Apache-2.0
 *
 * Lower bounds of an instance, whatever the order of its passes.
 *
 * For a stage s let `arrival` be the time before which no F of s starts, `turn` the least time from
 * the end of an F to the start of its backward, and `home` the least time from the start of that
 * backward until nothing depends on it any more. All three follow stage by stage from links and
 * passes; a stage of b samples needs at least ceil(b / b') passes of a neighbour of b' samples,
 * which run one after the other.
 *
 * Memory, for a device: before its first backward it can run no more forwards than it has room for,
 * so that much of its work at least comes later. With one stage on the device more is true: when
 * its last forward starts, all but the room's worth of micro-batches have been released, which took
 * their backwards; and the last forward has its way out and back yet to come.
 */
#include <string.h>

#include "reports/order_bounds.h"

struct reach {
    uint64_t arrival, turn, home;
};

struct device_work {
    uint64_t all, without_weights; /* F + B + W; F + B */
    uint64_t replays;              /* what of it may come ahead of the first backward */
    uint64_t arrival;              /* the earliest F */
    uint64_t first_turn;           /* from there to the first backward, measured from arrival 0 */
    uint64_t first_backward;       /* the earliest backward */
    uint64_t after_backward;       /* least time from the end of the last B to the end of all */
    uint32_t n_stages, stage;      /* the one stage */
};

struct bounds {
    const struct pst_schedule_in *in;
    struct pst_arena arena;
    struct reach *reach;         /* [n_stages] */
    struct device_work *devices; /* [n_devices] */
    uint32_t *by_ratio;          /* [n_stages] scratch */
};

static const struct pst_schedule_stage *stage_at(const struct bounds *b, uint32_t s)
{
    return pst_schedule_stage_at(b->in, s);
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* A scheduler may place the replay by itself, ahead of what its backward waits for. */
static uint64_t backward(const struct pst_schedule_stage *s)
{
    return s->backward_input_ns - smaller(s->backward_input_ns, s->replay_ns);
}

/* Passes of `of` that one micro-batch of `s` needs. */
static uint64_t passes_for(const struct pst_schedule_stage *s, const struct pst_schedule_stage *of)
{
    uint64_t size = larger(s->microbatch_size, 1), other = larger(of->microbatch_size, 1);

    return smaller((size + other - 1) / other, of->n_microbatches);
}

static uint64_t latency(const struct bounds *b, const struct pst_schedule_link *link)
{
    return stage_at(b, link->from)->device == stage_at(b, link->to)->device ? 0 : link->transfer_ns;
}

static void find_reach(struct bounds *b)
{
    const struct pst_schedule_in *in = b->in;
    uint32_t s, i;

    for (s = 0; s < in->n_stages; s++) {
        const struct pst_schedule_stage *stage = stage_at(b, s);
        uint64_t home = stage->backward_weight_ns;

        for (i = 0; i < stage->n_pred; i++) {
            const struct pst_schedule_link *link = pst_schedule_link_at(in, stage->first_pred + i);
            const struct pst_schedule_stage *from = stage_at(b, link->from);
            uint64_t n = passes_for(stage, from), c = latency(b, link);

            b->reach[s].arrival = larger(b->reach[s].arrival,
                                         b->reach[link->from].arrival + n * from->forward_ns + c);
            home = larger(home, c + (n - 1) * backward(from) + b->reach[link->from].home);
        }
        b->reach[s].home = backward(stage) + home;
    }
    for (s = in->n_stages; s-- > 0;) {
        const struct pst_schedule_stage *stage = stage_at(b, s);

        for (i = 0; i < stage->n_succ; i++) {
            const struct pst_schedule_link *link =
                pst_schedule_link_at(in, in->out_links[stage->first_succ + i]);
            const struct pst_schedule_stage *to = stage_at(b, link->to);

            b->reach[s].turn = larger(b->reach[s].turn, 2 * latency(b, link) + to->forward_ns +
                                                            b->reach[link->to].turn + backward(to));
        }
    }
}

static void find_work(struct bounds *b)
{
    for (uint32_t s = 0; s < b->in->n_stages; s++) {
        const struct pst_schedule_stage *stage = stage_at(b, s);
        const struct reach *reach = &b->reach[s];
        struct device_work *d = &b->devices[stage->device];
        uint64_t fb = stage->forward_ns + stage->backward_input_ns;
        uint64_t turn = stage->forward_ns + reach->turn;
        uint64_t after = reach->home - backward(stage);

        if (d->n_stages++ == 0) {
            *d = (struct device_work){.arrival = UINT64_MAX,
                                      .first_turn = UINT64_MAX,
                                      .first_backward = UINT64_MAX,
                                      .after_backward = UINT64_MAX,
                                      .n_stages = 1,
                                      .stage = s};
        }
        d->all += (fb + stage->backward_weight_ns) * stage->n_microbatches;
        d->replays += stage->replay_ns * stage->n_microbatches;
        d->without_weights += fb * stage->n_microbatches;
        d->arrival = smaller(d->arrival, reach->arrival);
        d->first_turn = smaller(d->first_turn, turn);
        d->first_backward = smaller(d->first_backward, reach->arrival + turn);
        d->after_backward = smaller(d->after_backward, after);
    }
}

/* Forwards' time per byte, largest first; insertion, as devices have few stages. */
static uint32_t sort_by_ratio(struct bounds *b, uint32_t device)
{
    uint32_t n = 0;

    for (uint32_t s = 0; s < b->in->n_stages; s++) {
        const struct pst_schedule_stage *stage = stage_at(b, s);
        uint32_t at = n;

        if (stage->device != device) {
            continue;
        }
        for (; at > 0; at--) {
            const struct pst_schedule_stage *other = stage_at(b, b->by_ratio[at - 1]);

            if ((long double)other->forward_ns * (long double)stage->saved_bytes >=
                (long double)stage->forward_ns * (long double)other->saved_bytes) {
                break;
            }
            b->by_ratio[at] = b->by_ratio[at - 1];
        }
        b->by_ratio[at] = s;
        n++;
    }
    return n;
}

/* The most time of forwards that fit on a device before anything is released: pieces of passes
   allowed, so never too little. */
static uint64_t room_for_forwards(struct bounds *b, uint32_t device)
{
    uint64_t room = b->in->activation_bytes[device], time = 0;
    uint32_t n = sort_by_ratio(b, device);

    for (uint32_t i = 0; i < n; i++) {
        const struct pst_schedule_stage *stage = stage_at(b, b->by_ratio[i]);
        uint64_t fit = stage->saved_bytes == 0 ? stage->n_microbatches : room / stage->saved_bytes;

        fit = smaller(fit, stage->n_microbatches);
        time += fit * stage->forward_ns;
        room -= fit * stage->saved_bytes;
        if (fit < stage->n_microbatches) {
            return n == 1 ? time : time + stage->forward_ns;
        }
    }
    return time;
}

/* Time of backwards that release all but what a device has room for, when its last forward starts:
   whole backwards, or halves without their W where those release more in the time. */
static uint64_t releases(const struct pst_schedule_stage *s, uint64_t room)
{
    uint64_t kept = room / s->saved_bytes, both = backward(s) + s->backward_weight_ns;
    uint64_t weight = smaller(s->saved_weight_bytes, s->saved_bytes);
    long double excess, by_both, by_half;

    if (kept >= s->n_microbatches) {
        return 0;
    }
    if (weight == s->saved_bytes) {
        return (s->n_microbatches - kept) * both;
    }
    excess = (long double)s->n_microbatches * (long double)s->saved_bytes - (long double)room;
    by_both = excess * (long double)both / (long double)s->saved_bytes;
    by_half = excess * (long double)backward(s) / (long double)(s->saved_bytes - weight);
    /* one less: roundings */
    by_both = (by_half < by_both ? by_half : by_both) - 1;
    return by_both > 0 ? (uint64_t)by_both : 0;
}

/* From the first backward of a device to its end (ret_end), or to the end of all (ret_all): what
   comes later because there was no room before. `first` is when that backward starts. */
static void memory_bound(struct bounds *b, uint32_t device, uint64_t first, uint64_t *ret_end,
                         uint64_t *ret_all)
{
    const struct device_work *d = &b->devices[device];
    const struct pst_schedule_stage *s = stage_at(b, d->stage);
    uint64_t room = b->in->activation_bytes[device], fitting = room_for_forwards(b, device), start;

    *ret_end = *ret_all = first + d->all - smaller(d->all, d->replays + fitting);
    if (d->n_stages != 1 || s->saved_bytes == 0 || room / s->saved_bytes >= s->n_microbatches) {
        return;
    }
    start = first + (s->n_microbatches - 1) * s->forward_ns - fitting + releases(s, room) +
            s->forward_ns + b->reach[d->stage].turn;
    *ret_end = larger(*ret_end, start + backward(s) + s->backward_weight_ns);
    *ret_all = larger(*ret_all, start + b->reach[d->stage].home);
}

/* A V of unit passes with room for k of them on each device: the passes' time, and k; 0: it is
   something else. */
static uint64_t vshape_unit(const struct bounds *b, uint64_t *ret_k)
{
    const struct pst_schedule_in *in = b->in;
    const struct pst_schedule_stage *first = stage_at(b, 0);
    uint32_t n = in->n_devices;
    uint64_t unit = first->forward_ns;

    if (n < 2 || in->n_stages != 2 * n || in->n_links != in->n_stages - 1 || unit == 0 ||
        first->saved_bytes == 0) {
        return 0;
    }
    for (uint32_t s = 0; s < in->n_stages; s++) {
        const struct pst_schedule_stage *stage = stage_at(b, s);

        if (stage->device != (s < n ? s : 2 * n - 1 - s) || stage->forward_ns != unit ||
            stage->backward_input_ns != unit || stage->backward_weight_ns != unit ||
            stage->replay_ns != 0 || stage->n_microbatches != first->n_microbatches ||
            stage->saved_bytes != first->saved_bytes ||
            stage->saved_weight_bytes != stage->saved_bytes ||
            in->activation_bytes[stage->device] / stage->saved_bytes !=
                in->activation_bytes[0] / stage->saved_bytes) {
            return 0;
        }
        if (s > 0 &&
            (stage->n_pred != 1 || pst_schedule_link_at(in, stage->first_pred)->from != s - 1 ||
             latency(b, pst_schedule_link_at(in, stage->first_pred)) != 0)) {
            return 0;
        }
    }
    *ret_k = in->activation_bytes[0] / first->saved_bytes;
    return unit;
}

static void bound_vshape(const struct bounds *b, struct pst_order_bounds *ret_bounds)
{
    uint64_t k, unit = vshape_unit(b, &k), m = stage_at(b, 0)->n_microbatches;
    uint64_t p = b->in->n_devices;

    if (unit != 0 && k < 2 * m && 6 * m + 6 * p > 3 * k + 1) {
        ret_bounds->vshape_ns = (6 * m + 6 * p - 1 - 3 * k) * unit;
    }
}

static void find_bounds(struct bounds *b, struct pst_order_bounds *r)
{
    for (uint32_t d = 0; d < b->in->n_devices; d++) {
        const struct device_work *work = &b->devices[d];
        uint64_t end, all, unused;

        if (work->n_stages == 0) {
            continue;
        }
        r->work_ns = larger(r->work_ns, work->all);
        r->fill_ns = larger(r->fill_ns, work->arrival + work->all);
        r->fill_ns =
            larger(r->fill_ns, work->arrival + work->without_weights + work->after_backward);
        memory_bound(b, d, work->first_backward, &unused, &all);
        r->memory_ns = larger(r->memory_ns, all);
        memory_bound(b, d, work->first_turn, &end, &unused);
        r->span_ns = larger(r->span_ns, larger(end, work->all));
    }
    for (uint32_t s = 0; s < b->in->n_stages; s++) {
        const struct pst_schedule_stage *stage = stage_at(b, s);
        uint64_t turn = stage->forward_ns + b->reach[s].turn;

        r->chain_ns = larger(r->chain_ns, b->reach[s].arrival + turn + b->reach[s].home);
        r->span_ns = larger(r->span_ns, turn + backward(stage) + stage->backward_weight_ns);
    }
    bound_vshape(b, r);
    r->makespan_ns = larger(larger(r->work_ns, r->fill_ns), larger(r->chain_ns, r->memory_ns));
    r->makespan_ns = larger(larger(r->makespan_ns, r->vshape_ns), r->span_ns);
}

void pst_order_bounds(const struct pst_schedule_in *in, struct pst_order_bounds *ret_bounds)
{
    struct bounds b = {.in = in};

    memset(ret_bounds, 0, sizeof *ret_bounds);
    b.reach = pst_arena_array(&b.arena, in->n_stages, sizeof *b.reach);
    b.devices = pst_arena_array(&b.arena, in->n_devices, sizeof *b.devices);
    b.by_ratio = pst_arena_array(&b.arena, in->n_stages, sizeof *b.by_ratio);
    if (in->n_stages > 0) {
        find_reach(&b);
        find_work(&b);
        find_bounds(&b, ret_bounds);
    }
    pst_arena_finish(&b.arena);
}
