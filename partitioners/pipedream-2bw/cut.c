/* SPDX-License-Identifier: Apache-2.0
 *
 * Blocks that differ: the best cut into d consecutive stages by dynamic programming over (stage,
 * position). Memory depends on the stage, so the stage is a dimension.
 */
#include <math.h>

#include "twobw.h"

/* before[i]: least cost of stages 0..stage-1 that end at i. */
static void relax(struct twobw *search, const struct candidate *c, bool add, twobw_cost_fn *cost,
                  void *impl, uint32_t stage, uint32_t end, const double *before, double *ret_after)
{
    uint32_t *parent = &search->parent[(size_t)stage * (search->ranges.n + 1) + end];
    double least = search->bound_ns;

    *parent = PST_NONE;
    part_span_begin(&search->span, end);
    while (search->span.first > stage) {
        double so_far;
        struct twobw_cost of = {0};

        if ((++search->polls & 0xFFF) == 0) {
            call_go_on(search->problem->host);
        }
        twobw_grow(search);
        so_far = before[search->span.first];
        if (!add && search->sum_ns[end] - search->sum_ns[search->span.first] >= least) {
            break; /* compute alone takes as long */
        }
        if (so_far >= least) {
            continue;
        }
        cost(search, c, impl, stage, &of);
        so_far = add ? so_far + of.ns : fmax(so_far, of.ns);
        if (so_far < least) {
            least = so_far;
            *parent = search->span.first;
        }
        if (of.hopeless) {
            break;
        }
    }
    *ret_after = *parent == PST_NONE ? INFINITY : least;
}

/* Must stages up to this one compute too long on what is before `end`, or the rest on what is
   after it? */
static bool is_out_of_reach(const struct twobw *search, const struct candidate *c, bool add,
                            uint32_t stage, uint32_t end)
{
    double before = search->sum_ns[end], after = search->sum_ns[search->ranges.n] - before;

    if (add) {
        return before >= search->bound_ns;
    }
    return before / (stage + 1) >= search->bound_ns ||
           (stage + 1 < c->d && after / (c->d - 1 - stage) >= search->bound_ns);
}

void twobw_solve(struct twobw *search, const struct candidate *c, bool add, twobw_cost_fn *cost,
                 void *impl, double *ret_ns)
{
    uint32_t n = search->ranges.n, stage, end;
    double *before, *after;

    search->bound_ns = search->fastest > 0 ? (double)c->w * c->b / (search->fastest * (1 - 1e-8))
                                           : (double)INFINITY;
    before = search->best;
    after = before + n + 1;
    for (end = 0; end <= n; end++) {
        before[end] = end == 0 ? 0 : INFINITY;
    }
    for (stage = 0; stage < c->d; stage++) {
        uint32_t last = n - (c->d - 1 - stage);
        double *spare = before;

        for (end = 0; end <= n; end++) {
            after[end] = INFINITY;
        }
        for (end = stage + 1 == c->d ? n : stage + 1; end <= last; end++) {
            if (is_out_of_reach(search, c, add, stage, end)) {
                continue;
            }
            relax(search, c, add, cost, impl, stage, end, before, &after[end]);
        }
        call_go_on(search->problem->host);
        before = after;
        after = spare;
    }
    *ret_ns = before[n];
}

void twobw_cuts(const struct twobw *search, uint32_t d, uint32_t *ret_cuts)
{
    uint32_t s, end = search->ranges.n;

    ret_cuts[d] = end;
    for (s = d; s-- > 0;) {
        end = search->parent[(size_t)s * (search->ranges.n + 1) + end];
        ret_cuts[s] = end;
    }
}

/* --- by the reference model --------------------------------------------------------------------*/

static double transfers_ns(const struct twobw *search, const struct candidate *c, uint32_t stage)
{
    bool whole = search->config->transfers == TRANSFERS_PAPER;
    double ns = 0, rate;

    if (stage > 0) {
        rate = twobw_pipe_rate(search, c->w, c->d, whole ? PST_NONE : stage - 1);
        ns += rate == 0 ? 0 : 2 * search->span.in_bytes * c->b / rate;
    }
    if (stage + 1 < c->d) {
        rate = twobw_pipe_rate(search, c->w, c->d, whole ? PST_NONE : stage);
        ns += rate == 0 ? 0 : 2 * search->span.out_bytes * c->b / rate;
    }
    return ns;
}

static void cost_of(struct twobw *search, const struct candidate *c, void *impl, uint32_t stage,
                    struct twobw_cost *ret_cost)
{
    const struct part_ranges *ranges = &search->ranges;
    uint32_t first = search->span.first, end = search->span.end, held = twobw_held(c, stage);
    double weight = ranges->weight[end] - ranges->weight[first];
    double saved = (ranges->saved[end] - ranges->saved[first]) * c->b;
    double compute = search->sum_ns[end] - search->sum_ns[first];
    double bytes =
        twobw_copies(search, c) * weight + (c->recompute || !c->pipeline ? saved : held * saved);
    double ring = twobw_ring_ns(search, c->w, c->d, stage, weight);

    (void)impl;
    ret_cost->hopeless = !part_fits(search->problem, bytes);
    ret_cost->ns = INFINITY;
    if (!part_fits(search->problem, bytes + held * search->span.in_bytes * c->b)) {
        return;
    }
    compute *= c->recompute ? search->config->c_extra : 1;
    ret_cost->ns = compute + transfers_ns(search, c, stage);
    if (c->schedule == SCHEDULE_2BW || !c->pipeline) {
        ret_cost->ns = fmax(ret_cost->ns, ring / c->m);
    }
}

void twobw_stage_bytes(struct twobw *search, const struct candidate *c, const uint32_t *cuts,
                       double *ret_bytes)
{
    const struct part_ranges *ranges = &search->ranges;
    uint32_t s;

    for (s = 0; s < c->d; s++) {
        double weight = ranges->weight[cuts[s + 1]] - ranges->weight[cuts[s]];
        double saved = (ranges->saved[cuts[s + 1]] - ranges->saved[cuts[s]]) * c->b;
        uint32_t held = twobw_held(c, s);

        part_span_begin(&search->span, cuts[s + 1]);
        while (search->span.first > cuts[s]) {
            twobw_grow(search);
        }
        ret_bytes[s] =
            twobw_copies(search, c) * weight + (c->recompute ? 1 : held) * saved +
            held * (search->equal && ranges->n > 1 ? ranges->message[0] : search->span.in_bytes) *
                c->b;
    }
}

/* Largest all-reduce and largest memory of the cut that was found. */
static void sum_up(struct twobw *search, struct candidate *c, const uint32_t *cuts, double ns)
{
    const struct part_ranges *ranges = &search->ranges;
    double *bytes = call_alloc((size_t)c->d + 1, sizeof *bytes), ring = 0;
    uint32_t s;

    twobw_stage_bytes(search, c, cuts, bytes);
    c->bytes = 0;
    for (s = 0; s < c->d; s++) {
        double weight = ranges->weight[cuts[s + 1]] - ranges->weight[cuts[s]];

        c->bytes = fmax(c->bytes, bytes[s]);
        ring = fmax(ring, twobw_ring_ns(search, c->w, c->d, s, weight));
    }
    c->t_ns = c->pipeline ? twobw_period(c, ns, ring) : ns;
}

void twobw_cut(struct twobw *search, struct candidate *c, uint32_t *ret_cuts, bool *ret_found)
{
    uint32_t *cuts = call_alloc((size_t)c->d + 1, sizeof *cuts);
    double ns = INFINITY;
    uint32_t s;

    twobw_solve(search, c, !c->pipeline, cost_of, NULL, &ns);
    *ret_found = !isinf(ns);
    if (*ret_found) {
        twobw_cuts(search, c->d, cuts);
        sum_up(search, c, cuts, ns);
    }
    for (s = 0; *ret_found && ret_cuts != NULL && s <= c->d; s++) {
        ret_cuts[s] = cuts[s];
    }
}
