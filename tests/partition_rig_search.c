/* SPDX-License-Identifier: Apache-2.0
 *
 * The reference cost model and exhaustive searches, by their definitions.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "partition_rig.h"

#define STAGES_MAX 16

struct sums {
    double alpha, tau, weight, saved, workspace, cut;
};

static void add_up(const struct rig_case *c, const uint32_t *stage_of, uint32_t n_stages,
                   struct sums *sums)
{
    const struct rig_graph *g = c->graph;

    memset(sums, 0, n_stages * sizeof *sums);
    for (uint32_t v = 0; v < g->n; v++) {
        struct sums *s = &sums[stage_of[v]];

        s->alpha += g->alpha[v];
        s->tau += g->tau[v];
        s->weight += g->weight[v];
        s->saved += g->saved[v];
        s->workspace = fmax(s->workspace, g->workspace[v]);
    }
    for (uint32_t e = 0; e < g->n_edges; e++) {
        if (stage_of[g->from[e]] != stage_of[g->to[e]]) {
            sums[stage_of[g->from[e]]].cut += g->bytes[e];
            sums[stage_of[g->to[e]]].cut += g->bytes[e];
        }
    }
}

static double tps(const struct rig_case *c, const struct sums *s, uint32_t d)
{
    double comp = s->alpha / c->b + s->tau / d;
    double p2p = c->p2p > 0 ? 2 * s->cut / (d * c->p2p) : 0;
    double sync = c->allreduce > 0 ? 2.0 * (d - 1) / d * s->weight / (c->allreduce * c->batch) : 0;

    switch (c->comm) {
    case PST_COMM_SUM:
        return comp + p2p + sync;
    case PST_COMM_MAX:
        return fmax(comp, fmax(p2p, sync));
    default:
        return comp + sync;
    }
}

static double bytes_of(const struct rig_case *c, const struct sums *s, uint32_t d, uint32_t depth)
{
    return c->multiplier * s->weight + s->saved * fmin(c->batch, (double)c->b * depth) / d +
           s->workspace;
}

/* Longest paths to a sink by repeated relaxation; false: a cycle. */
static bool depths(const struct rig_case *c, const uint32_t *stage_of, uint32_t n_stages,
                   uint32_t *depth)
{
    const struct rig_graph *g = c->graph;

    for (uint32_t s = 0; s < n_stages; s++) {
        depth[s] = 1;
    }
    for (uint32_t round = 0; round <= n_stages; round++) {
        bool changed = false;

        for (uint32_t e = 0; e < g->n_edges; e++) {
            uint32_t a = stage_of[g->from[e]], b = stage_of[g->to[e]];

            if (a != b && depth[a] < depth[b] + 1) {
                depth[a] = depth[b] + 1;
                changed = true;
            }
        }
        if (!changed) {
            return true;
        }
    }
    return false;
}

struct rig_worth rig_judge(const struct rig_case *c, const uint32_t *stage_of, uint32_t n_stages,
                           const uint32_t *d, bool by_index)
{
    struct rig_worth worth = {.legal = true, .fits = true};
    struct sums *sums = calloc((size_t)n_stages + 1, sizeof *sums);
    uint32_t *depth = calloc((size_t)n_stages + 1, sizeof *depth);

    if (sums == NULL || depth == NULL) {
        abort();
    }
    worth.legal = depths(c, stage_of, n_stages, depth);
    add_up(c, stage_of, n_stages, sums);
    for (uint32_t s = 0; s < n_stages; s++) {
        double bytes = bytes_of(c, &sums[s], d[s], by_index ? n_stages - s : depth[s]);

        worth.bottleneck = fmax(worth.bottleneck, tps(c, &sums[s], d[s]));
        worth.peak = fmax(worth.peak, bytes);
        worth.fits = worth.fits && bytes <= c->memory * (1 + 1e-12);
        worth.depth = depth[s] > worth.depth ? depth[s] : worth.depth;
        worth.devices += d[s];
        worth.legal = worth.legal && c->b % d[s] == 0;
    }
    worth.legal = worth.legal && worth.devices <= c->devices;
    free(sums);
    free(depth);
    return worth;
}

/* --- degrees for given stages ------------------------------------------------------------------*/

struct option {
    double ticks;
    uint32_t d;
};

/* Least devices that bring every stage to T; more than there are: it cannot be. */
static uint32_t devices_for(const struct option *options, const uint32_t *n_options,
                            uint32_t n_stages, double ticks, uint32_t width)
{
    uint32_t sum = 0;

    for (uint32_t s = 0; s < n_stages; s++) {
        uint32_t least = UINT32_MAX / STAGES_MAX;

        for (uint32_t i = 0; i < n_options[s]; i++) {
            const struct option *o = &options[s * width + i];

            if (o->ticks <= ticks * (1 + 1e-12) && o->d < least) {
                least = o->d;
            }
        }
        sum += least;
    }
    return sum;
}

/* The best degrees: every stage time is a candidate for T. */
static double best_degrees(const struct rig_case *c, const struct sums *sums, const uint32_t *depth,
                           uint32_t n_stages)
{
    static const uint32_t one[] = {1};
    const uint32_t *degrees = c->degrees == NULL ? one : c->degrees;
    uint32_t width = c->degrees == NULL ? 1 : c->n_degrees, n_options[STAGES_MAX];
    struct option options[STAGES_MAX * 8];
    double best = INFINITY;

    for (uint32_t s = 0; s < n_stages; s++) {
        n_options[s] = 0;
        for (uint32_t i = 0; i < width; i++) {
            if (c->b % degrees[i] == 0 &&
                bytes_of(c, &sums[s], degrees[i], depth[s]) <= c->memory * (1 + 1e-12)) {
                options[s * width + n_options[s]++] =
                    (struct option){tps(c, &sums[s], degrees[i]), degrees[i]};
            }
        }
    }
    for (uint32_t s = 0; s < n_stages; s++) {
        for (uint32_t i = 0; i < n_options[s]; i++) {
            double ticks = options[s * width + i].ticks;

            if (ticks < best &&
                devices_for(options, n_options, n_stages, ticks, width) <= c->devices) {
                best = ticks;
            }
        }
    }
    return best;
}

/* Restricted-growth strings: node v goes to one of the stages so far or to the next. */
static void grow(const struct rig_case *c, uint32_t *stage_of, uint32_t v, uint32_t n_stages,
                 double *best)
{
    struct sums sums[STAGES_MAX];
    uint32_t depth[STAGES_MAX];

    if (v == c->graph->n) {
        if (depths(c, stage_of, n_stages, depth)) {
            add_up(c, stage_of, n_stages, sums);
            *best = fmin(*best, best_degrees(c, sums, depth, n_stages));
        }
        return;
    }
    for (uint32_t s = 0; s <= n_stages && s < c->devices && s < STAGES_MAX; s++) {
        stage_of[v] = s;
        grow(c, stage_of, v + 1, s == n_stages ? n_stages + 1 : n_stages, best);
    }
}

double rig_best_partition(const struct rig_case *c)
{
    uint32_t stage_of[STAGES_MAX];
    double best = INFINITY;

    if (c->graph->n > STAGES_MAX) {
        abort();
    }
    grow(c, stage_of, 0, 0, &best);
    return best;
}

double rig_best_cut(const struct rig_case *c, const uint32_t *order)
{
    uint32_t n = c->graph->n;
    double best = INFINITY;

    if (n > STAGES_MAX) {
        abort();
    }
    for (uint32_t cuts = 0; cuts < UINT32_C(1) << (n - 1); cuts++) {
        uint32_t stage_of[STAGES_MAX], depth[STAGES_MAX], s = 0;
        struct sums sums[STAGES_MAX];

        for (uint32_t i = 0; i < n; i++) {
            stage_of[order[i]] = s;
            s += cuts >> i & 1;
        }
        s = stage_of[order[n - 1]] + 1;
        if (s > c->devices) {
            continue;
        }
        for (uint32_t i = 0; i < s; i++) {
            depth[i] = s - i;
        }
        add_up(c, stage_of, s, sums);
        best = fmin(best, best_degrees(c, sums, depth, s));
    }
    return best;
}
