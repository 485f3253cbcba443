/* SPDX-License-Identifier: Apache-2.0
 *
 * The cost model of the paper (ICML 2021, section 3.3 and appendix) for blocks that are all alike,
 * with bandwidths by placement.
 */
#include <math.h>

#include "twobw.h"

uint32_t twobw_rank(const struct twobw *search, uint32_t w, uint32_t d, uint32_t stage,
                    uint32_t replica)
{
    const struct part_chain_shape shape = {d, 0, w,
                                           search->config->placement == PLACE_PIPELINE_MAJOR};

    return part_chain_rank(&shape, stage, replica);
}

/* Do these devices, that span `devices` ranks from a multiple of that on, share a server? */
static double rate_within(const struct twobw *search, uint32_t devices, bool strict)
{
    bool inside = strict ? devices < search->node_size : devices <= search->node_size;

    return inside ? search->high : search->low;
}

static uint32_t server(const struct twobw *search, uint32_t rank)
{
    return rank / search->node_size;
}

double twobw_pipe_rate(const struct twobw *search, uint32_t w, uint32_t d, uint32_t boundary)
{
    uint32_t p;

    if (boundary == PST_NONE) {
        bool stage_major = search->config->placement == PLACE_STAGE_MAJOR;

        return rate_within(search, stage_major ? w * d : d, false);
    }
    for (p = 0; p < w; p++) {
        if (server(search, twobw_rank(search, w, d, boundary, p)) !=
            server(search, twobw_rank(search, w, d, boundary + 1, p))) {
            return search->low;
        }
    }
    return search->high;
}

static double ring_rate(const struct twobw *search, uint32_t w, uint32_t d, uint32_t stage)
{
    const struct config *config = search->config;
    uint32_t p;

    if (config->transfers == TRANSFERS_PAPER) {
        return rate_within(search, config->placement == PLACE_STAGE_MAJOR ? w : w * d,
                           config->strict_width);
    }
    for (p = 1; p < w; p++) {
        if (server(search, twobw_rank(search, w, d, stage, p)) !=
            server(search, twobw_rank(search, w, d, stage, 0))) {
            return search->low;
        }
    }
    return search->high;
}

double twobw_ring_ns(const struct twobw *search, uint32_t w, uint32_t d, uint32_t stage,
                     double weight)
{
    double rate = w == 1 ? 0 : ring_rate(search, w, d, stage);

    return rate == 0 ? 0 : search->config->allreduce_coefficient * (w - 1) / w * weight / rate;
}

double twobw_copies(const struct twobw *search, const struct candidate *c)
{
    double multiplier = search->problem->weight_multiplier;

    return c->pipeline && c->schedule == SCHEDULE_2BW ? multiplier + 1 : multiplier;
}

uint32_t twobw_held(const struct candidate *c, uint32_t stage)
{
    uint32_t held = c->d - stage;

    if (!c->pipeline) {
        return 1;
    }
    if (c->schedule == SCHEDULE_GPIPE) {
        return c->m;
    }
    return c->schedule == SCHEDULE_FLUSH && c->m < held ? c->m : held;
}

double twobw_period(const struct candidate *c, double slowest_ns, double ring_ns)
{
    if (c->schedule == SCHEDULE_2BW) {
        return fmax(slowest_ns, ring_ns / c->m);
    }
    return ((c->m + c->d - 1) * slowest_ns + ring_ns) / c->m;
}

/* Transfers of the stage that has most of them. A message is the same at every boundary. */
static double pipe_ns(const struct twobw *search, const struct candidate *c, double message)
{
    double most = 0, rate, before = 0;
    uint32_t s;

    if (c->d == 1) {
        return 0;
    }
    if (search->config->transfers == TRANSFERS_PAPER) {
        rate = twobw_pipe_rate(search, c->w, c->d, PST_NONE);
        return rate == 0 ? 0 : 2 * (2 * message) * c->b / rate;
    }
    for (s = 0; s < c->d; s++) {
        double after = 0;

        if (s + 1 < c->d) {
            rate = twobw_pipe_rate(search, c->w, c->d, s);
            after = rate == 0 ? 0 : 2 * message * c->b / rate;
        }
        most = fmax(most, before + after);
        before = after;
    }
    return most;
}

void twobw_closed(const struct twobw *search, struct candidate *c)
{
    const struct part_ranges *ranges = &search->ranges;
    uint32_t n = ranges->n, held = twobw_held(c, 0), s;
    double weight = ranges->weight[n] / c->d, saved = ranges->saved[n] / c->d * c->b;
    double message = n > 1 ? ranges->message[0] : 0;
    double compute = search->sum_ns[n] / c->d, transfers = pipe_ns(search, c, message), ring = 0;

    for (s = 0; s < c->d; s++) {
        ring = fmax(ring, twobw_ring_ns(search, c->w, c->d, s, weight));
    }
    c->bytes = twobw_copies(search, c) * weight + (c->recompute ? saved : held * saved) +
               held * message * c->b;
    if (c->pipeline) {
        compute *= c->recompute ? search->config->c_extra : 1;
        c->t_ns = twobw_period(c, compute + transfers, ring);
    } else {
        c->t_ns = c->d * fmax(compute + transfers, ring / c->m);
    }
}
