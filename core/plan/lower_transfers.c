/* SPDX-License-Identifier: Apache-2.0
 *
 * Which ends of transfers a list of a rank has, and where each is posted. In a synchronous plan
 * they are ordered by the times of all passes: one global order, in which every device posts its
 * ends, so that the earliest unmatched transfer is always next on both. Lists of an asynchronous
 * plan repeat, so nothing there looks at times: sends follow their pass, receives are posted one
 * pass ahead in the order in which their rows are read.
 *
 * Guests: a micro-batch leaves behind its F, beside the next pass, and comes back beside the pass
 * before its backward pass, so that its bytes are away in all passes between. Both ways are
 * transfers like others, in the one order of all transfers, which therefore makes no cycle.
 */
#include <stdlib.h>

#include "base/util.h"
#include "plan/lower.h"

#define MOST_SEND_BUFFERS 4 /* of a stage and direction; beyond that the link is what is slow */

/* Finds the ends of transfers of one list of one rank. */
struct finder {
    const struct pst_list *list;
    const struct pst_lowering *low;
    const struct pst_plan *plan;
    struct pst_ends *ends;
};

static uint32_t max_u32(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

static struct pst_end *add_end(struct finder *f, bool send, uint8_t payload, uint32_t edge)
{
    struct pst_ends *ends = f->ends;

    pst_grow(&ends->rows, &ends->room, ends->n, sizeof *ends->rows);
    ends->rows[ends->n] = (struct pst_end){.send = send,
                                           .payload = payload,
                                           .edge = edge,
                                           .pass = PST_NONE,
                                           .join = PST_NONE,
                                           .behind = PST_NONE,
                                           .before = PST_NONE};
    return &ends->rows[ends->n++];
}

/* One end for each part of the pass's samples, from `first` on, that one rank of `other` has in one
   micro-batch. */
static void add_parts(struct finder *f, const struct pst_pass *pass, uint32_t edge, uint32_t other,
                      bool send, uint32_t first)
{
    const struct pst_plan_stage *self = &f->plan->stages[pass->stage];
    const struct pst_plan_stage *peer = &f->plan->stages[other];
    uint32_t end = first + pst_plan_samples(self), share = pst_plan_samples(peer);

    while (first < end) {
        uint32_t border = (first / share + 1) * share, next = border < end ? border : end;
        struct pst_end *row =
            add_end(f, send, pass->op == PST_PASS_F ? PST_PAYLOAD_ACT : PST_PAYLOAD_GRAD, edge);

        row->first_sample = first;
        row->n_samples = next - first;
        row->peer = pst_plan_rank_of(peer, first);
        first = next;
    }
}

/*
 * All that a pass sends, or receives, `batches` batches on: activations from or to the lowest stage
 * first, gradients from or to the highest, as that is the order in which they are made and read.
 * Returns how many rows there were before.
 */
static uint32_t add_ends(struct finder *f, const struct pst_pass *pass, bool send, uint32_t batches)
{
    const struct pst_lowering *low = f->low;
    const struct pst_plan_stage *self = &f->plan->stages[pass->stage];
    bool forward = pass->op == PST_PASS_F, out = forward == send;
    const uint32_t *first = out ? low->out_first : low->in_first;
    uint32_t n = first[pass->stage + 1] - first[pass->stage], before = f->ends->n;
    uint32_t replica = f->list->replica[pass->stage];
    uint32_t sample =
        pst_plan_first_sample(self, replica, pass->microbatch) + batches * f->plan->batch;

    for (uint32_t i = 0; i < n && pass->op != PST_PASS_W; i++) {
        uint32_t row = first[pass->stage] + (forward ? i : n - 1 - i);
        uint32_t e = out ? row : low->in_edges[row];
        const struct pst_plan_edge *edge = &f->plan->edges[e];
        uint32_t other = out ? edge->to : edge->from;

        if ((forward || low->edge_grad[e]) && !pst_lowering_together(low, pass->stage, other)) {
            add_parts(f, pass, e, other, send, sample);
        }
    }
    return before;
}

/* The pass from `from` on that writes the same buffer as the producer: same stage, same direction.
   PST_NONE: there is none. */
static uint32_t next_alike(const struct finder *f, uint32_t producer, uint32_t from)
{
    const struct pst_pass *pass = &f->list->passes[producer];
    bool forward = pass->op == PST_PASS_F;

    for (uint32_t p = max_u32(from, producer + 1); p < f->list->n_passes; p++) {
        const struct pst_pass *other = &f->list->passes[p];

        if (other->stage == pass->stage && other->op != PST_PASS_W &&
            (other->op == PST_PASS_F) == forward) {
            return p;
        }
    }
    return PST_NONE;
}

/* --- guests ------------------------------------------------------------------------------------*/

/* First pass of the rank that ends after `time`. */
static uint32_t running_at(const struct pst_lowering *low, uint32_t rank, uint64_t time)
{
    uint32_t lo = 0, hi = low->n_passes[rank];

    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;

        if (low->end_ns[rank][mid] > time) {
            hi = mid;
        } else {
            lo = mid + 1;
        }
    }
    return lo;
}

/* The passes of a micro-batch in the order of its rank; of guests, which a plan with copies has
   not, those of the first replica. */
static uint32_t forward_at(const struct pst_lowering *low, uint32_t s, uint32_t microbatch)
{
    return low->at[PST_PASS_F][low->base[s] + microbatch];
}

static uint32_t backward_at(const struct pst_lowering *low, uint32_t s, uint32_t microbatch)
{
    return pst_lowering_backward(low, low->base[s] + microbatch);
}

static pst_status check_guest(const struct pst_lowering *low, uint32_t s,
                              const struct pst_plan_guest *guest, struct pst_error *err)
{
    const struct pst_plan_stage *stage = &low->plan->stages[s];
    uint32_t forward, backward, own;

    if (guest->microbatch >= stage->n_microbatches || guest->rank >= low->plan->n_devices ||
        pst_lowering_replica(low, guest->rank, s) != PST_NONE ||
        pst_plan_guest_rank(low->plan, stage, guest, 0) == PST_NONE) {
        return pst_fail(err, PST_ERR_UNSUPPORTED, "plan.mismatch",
                        "micro-batch %u of stage %u cannot be a guest of device %u, which must be "
                        "another one with as many replicas",
                        guest->microbatch, s, guest->rank);
    }
    forward = forward_at(low, s, guest->microbatch);
    backward = backward_at(low, s, guest->microbatch);
    own = stage->ranks[0];
    if (backward < forward + 3 || low->end_ns[own][backward - 2] >= low->end_ns[own][backward]) {
        return pst_fail(err, PST_ERR_UNSUPPORTED, "plan.mismatch",
                        "micro-batch %u of stage %u cannot be a guest on another device: its "
                        "backward pass must be at least three passes after its forward pass",
                        guest->microbatch, s);
    }
    return PST_OK;
}

pst_status pst_lowering_guests_possible(struct pst_lowering *low, struct pst_error *err)
{
    pst_status status = PST_OK;

    low->guest_bytes = pst_arena_array(&low->arena, low->plan->n_stages, sizeof *low->guest_bytes);
    for (uint32_t s = 0; s < low->plan->n_stages; s++) {
        const struct pst_plan_stage *stage = &low->plan->stages[s];
        uint32_t *tensors, n;

        if (stage->n_guests > 0 && low->plan->copies > 1) {
            return pst_fail(err, PST_ERR_UNSUPPORTED, "plan.mismatch",
                            "stage %u is to leave bytes to other devices, but they have a copy of "
                            "it; this version keeps, recomputes or offloads there",
                            s);
        }
        if (stage->n_guests > 0) {
            pst_plan_guest_tensors(stage, low->graph, &low->arena, &tensors, &n);
            low->guest_bytes[s] = pst_plan_guest_bytes(stage, low->graph, tensors, n);
        }
        for (uint32_t i = 0; status == PST_OK && low->training && i < stage->n_guests; i++) {
            status = check_guest(low, s, &stage->guests[i], err);
        }
    }
    return status;
}

pst_status pst_lowering_no_guests(const struct pst_plan *plan, struct pst_error *err)
{
    for (uint32_t s = 0; s < plan->n_stages; s++) {
        if (pst_plan_stage_has(&plan->stages[s], PST_ACTION_PEER)) {
            return pst_fail(err, PST_ERR_UNSUPPORTED, "plan.mismatch",
                            "stage %u is to leave bytes to other devices in an asynchronous "
                            "schedule; this version keeps, recomputes or offloads there",
                            s);
        }
    }
    return PST_OK;
}

static uint64_t leaves_ns(const struct pst_lowering *low, uint32_t own, uint32_t forward,
                          uint32_t other, uint64_t bytes)
{
    uint64_t leave_ns = low->end_ns[own][forward];
    uint32_t running = running_at(low, other, leave_ns);

    return pst_plan_guest_leaves(leave_ns, low->end_ns[own][forward + 1],
                                 running < low->n_passes[other] ? low->end_ns[other][running]
                                                                : leave_ns,
                                 pst_cost_transfer_ns(low->cost, bytes, own, other));
}

/* Both ways of a guest as far as they have an end on the rank: of the replica `own`, at `other`. */
static void add_guest(struct finder *f, uint32_t s, const struct pst_plan_guest *guest,
                      uint32_t replica, uint32_t other)
{
    const struct pst_lowering *low = f->low;
    const struct pst_plan_stage *stage = &f->plan->stages[s];
    uint32_t own = stage->ranks[replica];
    uint32_t forward = forward_at(low, s, guest->microbatch);
    uint32_t backward = backward_at(low, s, guest->microbatch);
    bool leaves = f->list->rank == own;

    for (uint32_t way = 0; way < 2; way++) {
        bool evict = way == 0;
        struct pst_end *end =
            add_end(f, leaves == evict, evict ? PST_PAYLOAD_EVICT : PST_PAYLOAD_LOAD, s);

        end->first_sample = pst_plan_first_sample(stage, replica, guest->microbatch);
        end->n_samples = pst_plan_samples(stage);
        end->peer = leaves ? other : own;
        end->from_rank = evict ? own : other;
        end->from_pass = evict ? forward : PST_NONE;
        end->time_ns = evict ? leaves_ns(low, own, forward, other, low->guest_bytes[s])
                             : low->end_ns[own][backward - 2];
        end->pass = !leaves ? PST_NONE : evict ? forward : backward;
    }
}

static void add_guests(struct finder *f)
{
    for (uint32_t s = 0; s < f->plan->n_stages && f->low->training; s++) {
        const struct pst_plan_stage *stage = &f->plan->stages[s];

        for (uint32_t i = 0; i < stage->n_guests; i++) {
            for (uint32_t r = 0; r < stage->n_ranks; r++) {
                uint32_t other = pst_plan_guest_rank(f->plan, stage, &stage->guests[i], r);

                if (stage->ranks[r] == f->list->rank || other == f->list->rank) {
                    add_guest(f, s, &stage->guests[i], r, other);
                }
            }
        }
    }
}

/* The RECV of what the SEND of row i takes back. */
static uint32_t arrival_of(const struct pst_ends *ends, uint32_t i)
{
    const struct pst_end *load = &ends->rows[i];

    while (i-- > 0) {
        const struct pst_end *end = &ends->rows[i];

        if (end->payload == PST_PAYLOAD_EVICT && !end->send && end->edge == load->edge &&
            end->first_sample == load->first_sample) {
            return i;
        }
    }
    return PST_NONE;
}

/* The next RECV of a guest's bytes that stands before pass `gap`: it comes before the pass and may
   take the place of what has left. */
static uint32_t next_arrival(const struct pst_ends *ends, uint32_t i, uint32_t gap)
{
    for (i++; i < ends->n && ends->rows[i].gap <= gap; i++) {
        const struct pst_end *end = &ends->rows[i];

        if (!end->send && end->payload >= PST_PAYLOAD_EVICT && end->gap == gap) {
            return i;
        }
    }
    return PST_NONE;
}

/* A SEND has run beside the pass that stands behind it: the next one waits for it, and so does what
   comes in before that. */
static void join_guest(const struct finder *f, uint32_t i)
{
    struct pst_end *end = &f->ends->rows[i];
    uint32_t join = end->gap < f->list->n_passes ? end->gap + 1 : f->list->n_passes;

    end->join = join < f->list->n_passes ? join : PST_NONE;
    end->before = next_arrival(f->ends, i, join);
    end->behind = end->payload == PST_PAYLOAD_LOAD ? arrival_of(f->ends, i) : PST_NONE;
}

/* --- by time -----------------------------------------------------------------------------------*/

/* Ends of pass p, from row i on: the pass, and when their data leaves. */
static void time_ends(const struct finder *f, uint32_t p, uint32_t i)
{
    const struct pst_lowering *low = f->low;

    for (; i < f->ends->n; i++) {
        struct pst_end *end = &f->ends->rows[i];
        const struct pst_plan_edge *edge = &f->plan->edges[end->edge];
        uint32_t maker = end->payload == PST_PAYLOAD_ACT ? edge->from : edge->to;
        const struct pst_plan_stage *stage = &f->plan->stages[maker];
        uint32_t row = pst_lowering_row(low, maker, pst_plan_replica_of(stage, end->first_sample),
                                        end->first_sample / stage->microbatch_size);

        end->pass = p;
        end->from_rank = end->send ? f->list->rank : end->peer;
        end->from_pass = end->payload == PST_PAYLOAD_ACT ? low->at[PST_PASS_F][row]
                                                         : pst_lowering_backward(low, row);
        end->time_ns = low->end_ns[end->from_rank][end->from_pass];
    }
}

/* The one order of all transfers. LOAD: behind its EVICT if passes take no time. */
static int compare_ends(const void *a, const void *b)
{
    const struct pst_end *x = a, *y = b;

    return PST_COMPARE_KEYS(
        {x->time_ns, y->time_ns}, {x->payload == PST_PAYLOAD_LOAD, y->payload == PST_PAYLOAD_LOAD},
        {x->from_rank, y->from_rank}, {x->from_pass, y->from_pass}, {x->payload, y->payload},
        {x->edge, y->edge}, {x->first_sample, y->first_sample});
}

/* The pass that waits for a SEND, for it may write to the same buffer: the next one alike. Where
   that would stand still, a later one, and there is a buffer more. */
static uint32_t join_by_time(const struct finder *f, const struct pst_end *end)
{
    const struct pst_lowering *low = f->low;
    uint64_t bytes = f->plan->edges[end->edge].bytes_per_sample * end->n_samples;
    uint64_t free_ns =
        end->time_ns + pst_cost_transfer_ns(low->cost, bytes, f->list->rank, end->peer);
    uint32_t join = next_alike(f, end->pass, end->gap);

    for (uint32_t n = 1; f->plan->spread_sends && n < MOST_SEND_BUFFERS && join != PST_NONE; n++) {
        uint64_t begin_ns =
            low->end_ns[f->list->rank][join] - pst_lowering_pass_ns(low, &f->list->passes[join]);

        if (begin_ns >= free_ns) {
            break;
        }
        join = next_alike(f, join, join + 1);
    }
    return join;
}

/*
 * In key order: a SEND right behind its producer, a RECV before the pass that runs when the data
 * leaves, neither before an earlier transfer of its rank. The consumer ends after the data leaves,
 * so a RECV never comes behind it.
 */
static pst_status place_ends(const struct finder *f, struct pst_error *err)
{
    uint32_t last = 0;

    for (uint32_t i = 0; i < f->ends->n; i++) {
        struct pst_end *end = &f->ends->rows[i];
        bool there = !end->send || end->payload == PST_PAYLOAD_LOAD; /* a guest: for long */
        uint32_t gap = there ? running_at(f->low, f->list->rank, end->time_ns) : end->pass + 1;

        end->gap = last = max_u32(gap, last);
        if (!end->send && end->gap > end->pass) {
            return pst_fail(err, PST_ERR_BUG, "plan.illegal",
                            "LIVE1: no place for the receive of edge %u, samples %u.., before its "
                            "consumer on device %u",
                            end->edge, end->first_sample, f->list->rank);
        }
    }
    for (uint32_t i = 0; i < f->ends->n; i++) {
        struct pst_end *end = &f->ends->rows[i];

        if (end->send && end->payload >= PST_PAYLOAD_EVICT) {
            join_guest(f, i);
        } else if (end->send) {
            end->join = join_by_time(f, end);
        }
    }
    return PST_OK;
}

static pst_status find_by_time(struct finder *f, struct pst_error *err)
{
    for (uint32_t p = 0; p < f->list->n_passes; p++) {
        uint32_t first = add_ends(f, &f->list->passes[p], true, 0);

        add_ends(f, &f->list->passes[p], false, 0);
        time_ends(f, p, first);
    }
    add_guests(f);
    if (f->ends->n > 0) {
        qsort(f->ends->rows, f->ends->n, sizeof *f->ends->rows, compare_ends);
    }
    return place_ends(f, err);
}

/* --- in the order of passes --------------------------------------------------------------------*/

/* Rows from `i` on stand before pass `gap`. */
static void put_ends(const struct finder *f, uint32_t i, uint32_t gap, uint32_t pass)
{
    for (; i < f->ends->n; i++) {
        f->ends->rows[i].gap = gap;
        f->ends->rows[i].pass = pass;
    }
}

/*
 * The SENDs of a pass are waited for by a later pass of the same stage and direction: the next one
 * where they went to a neighbour, the k-th where they went k stages far, where they are read that
 * much later.
 */
static void add_sends(struct finder *f, uint32_t p)
{
    uint32_t first = add_ends(f, &f->list->passes[p], true, 0);

    put_ends(f, first, p + 1, p);
    for (uint32_t i = first; i < f->ends->n; i++) {
        struct pst_end *end = &f->ends->rows[i];
        const struct pst_plan_edge *edge = &f->plan->edges[end->edge];
        uint32_t join = p;

        for (uint32_t k = edge->from; k < edge->to && join != PST_NONE; k++) {
            join = next_alike(f, join, join + 1);
        }
        end->join = join;
    }
}

/* Returns true if receives for the first pass of body and drain are posted in the part before. */
static bool posts_ahead(const struct pst_parts *parts, uint32_t rank)
{
    return parts->n_passes[PST_BODY][rank] > 0 && parts->n_passes[PST_DRAIN][rank] > 0 &&
           pst_pass_same(&parts->passes[PST_BODY][rank][0], &parts->passes[PST_DRAIN][rank][0]);
}

static void find_in_order(struct finder *f)
{
    const struct pst_parts *parts = f->list->parts;
    const enum pst_part part = f->list->part;
    const struct pst_pass *body = parts->passes[PST_BODY][f->list->rank];
    bool ahead = posts_ahead(parts, f->list->rank);
    uint32_t n = f->list->n_passes;

    for (uint32_t p = 0; p <= n; p++) {
        if (p > 0) {
            add_sends(f, p - 1);
        } else if (n > 0 && (part == PST_FILL || !ahead)) {
            put_ends(f, add_ends(f, &f->list->passes[0], false, 0), 0, 0);
        }
        if (p + 1 < n) {
            put_ends(f, add_ends(f, &f->list->passes[p + 1], false, 0), p, p + 1);
        } else if (ahead && part != PST_DRAIN && (p + 1 == n || n == 0)) {
            put_ends(f, add_ends(f, &body[0], false, part == PST_BODY), p, PST_NONE);
        }
    }
}

pst_status pst_lowering_ends(const struct pst_list *list, struct pst_ends *io_ends,
                             struct pst_error *err)
{
    struct finder f = {
        .list = list, .low = list->parts->low, .plan = list->parts->plan, .ends = io_ends};

    io_ends->n = 0;
    if (f.plan->asynchronous) {
        find_in_order(&f);
        return PST_OK;
    }
    return find_by_time(&f, err);
}
