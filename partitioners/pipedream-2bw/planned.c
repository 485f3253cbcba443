/* SPDX-License-Identifier: Apache-2.0
 *
 * twobw_cut by the answers of the job's scheduler and memory optimizer: versions and in-flight
 * counts, whether a stage fits and at what period.
 */
#include <math.h>

#include "twobw.h"

struct asked {
    struct part_asker asker;
    const struct pst_cost *cost;
};

/* Activations and gradients over both boundaries, not overlapped; the busiest replica's. */
static double transfers_ns(const struct twobw *search, const struct candidate *c,
                           const struct pst_cost *cost, uint32_t stage)
{
    const struct pst_host *host = search->problem->host;
    uint64_t in = (uint64_t)llround(search->span.in_bytes * c->b);
    uint64_t out = (uint64_t)llround(search->span.out_bytes * c->b);
    double most = 0;
    uint32_t p;

    for (p = 0; p < c->w; p++) {
        uint32_t rank = twobw_rank(search, c->w, c->d, stage, p);
        double ns = 0;

        if (stage > 0) {
            uint32_t before = twobw_rank(search, c->w, c->d, stage - 1, p);

            ns += 2.0 * (double)cost->transfer_ns(host, in, before, rank);
        }
        if (stage + 1 < c->d) {
            uint32_t after = twobw_rank(search, c->w, c->d, stage + 1, p);

            ns += 2.0 * (double)cost->transfer_ns(host, out, rank, after);
        }
        most = fmax(most, ns);
    }
    return most;
}

static double ring_ns(const struct twobw *search, const struct candidate *c,
                      const struct pst_cost *cost, uint32_t first, uint32_t end)
{
    double weight = search->ranges.weight[end] - search->ranges.weight[first];

    return c->w == 1
               ? 0
               : (double)cost->allreduce_ns(search->problem->host, (uint64_t)llround(weight), c->w);
}

static void cost_of(struct twobw *search, const struct candidate *c, void *impl, uint32_t stage,
                    struct twobw_cost *ret_cost)
{
    struct asked *asked = impl;
    uint32_t first = search->span.first, end = search->span.end;
    struct pst_stage_price price;

    part_asker_price(&asked->asker, stage, first, end, &price);
    ret_cost->hopeless = false; /* who recomputes may fit with more */
    ret_cost->ns = INFINITY;
    if (price.fits != 0) {
        ret_cost->ns = (double)price.period_ns + transfers_ns(search, c, asked->cost, stage);
        if (c->schedule == SCHEDULE_2BW) {
            ret_cost->ns = fmax(ret_cost->ns, ring_ns(search, c, asked->cost, first, end) / c->m);
        }
    }
}

static void sum_up(struct twobw *search, struct candidate *c, struct asked *asked,
                   const uint32_t *cuts, double ns)
{
    double ring = 0;
    uint32_t s;

    c->bytes = 0;
    for (s = 0; s < c->d; s++) {
        struct pst_stage_price price;

        part_asker_price(&asked->asker, s, cuts[s], cuts[s + 1], &price);
        c->bytes = fmax(c->bytes, (double)price.peak_bytes);
        /* Longer than its passes, but for their rounding: something is replayed or waited for. */
        c->recompute = c->recompute || (double)price.period_ns > search->sum_ns[cuts[s + 1]] -
                                                                     search->sum_ns[cuts[s]] +
                                                                     3.0 * (cuts[s + 1] - cuts[s]);
        ring = fmax(ring, ring_ns(search, c, asked->cost, cuts[s], cuts[s + 1]));
    }
    c->t_ns = twobw_period(c, ns, ring);
}

void twobw_cut_planned(struct twobw *search, struct candidate *c, uint32_t *ret_cuts,
                       bool *ret_found)
{
    const struct pst_host *host = search->problem->host;
    struct asked asked = {.cost = host->get_extension(host, PST_COST)};
    uint32_t *cuts = call_alloc((size_t)c->d + 1, sizeof *cuts);
    double ns = INFINITY;
    uint32_t s;

    call_check(part_asker_init(search->problem, c->d, c->b * c->w, c->w, &asked.asker));
    if (asked.cost == NULL) {
        call_end(pst_failf(host, PST_ERR_UNSUPPORTED, "the host lacks %s", PST_COST));
    }
    part_asker_share(&asked.asker);
    twobw_solve(search, c, false, cost_of, &asked, &ns);
    *ret_found = !isinf(ns);
    if (*ret_found) {
        twobw_cuts(search, c->d, cuts);
        sum_up(search, c, &asked, cuts, ns);
    }
    for (s = 0; *ret_found && ret_cuts != NULL && s <= c->d; s++) {
        ret_cuts[s] = cuts[s];
    }
}
