/* SPDX-License-Identifier: Apache-2.0
 *
 * Every partition of a small graph: nodes join one of the stages so far or found the next, as far
 * as that can still be as good as the best.
 */
#include <math.h>
#include <string.h>

#include "refine_parts.h"

struct sums {
    int64_t *comp, *sync; /* [degrees] */
    double weight, saved, workspace;
};

struct leaf {
    int64_t ticks;
    double peak;
    uint32_t depth, devices, n_stages;
    uint32_t stage_of[SMALL_NODES], k[SMALL_NODES];
};

struct small {
    const struct part_problem *problem;
    const struct part_costs *costs;
    struct sums sums[SMALL_NODES];
    uint32_t stage_of[SMALL_NODES];
    uint32_t depth[SMALL_NODES];
    int64_t *p2p; /* [SMALL_NODES * degrees] of the leaf at hand */
    struct leaf best, now;
    bool found;
    uint64_t looked;
};

static double bytes_at(const struct small *s, uint32_t stage, uint32_t k, uint32_t depth)
{
    const struct sums *sums = &s->sums[stage];

    return part_memory(s->problem, sums->weight, sums->saved, sums->workspace, s->costs->degrees[k],
                       (uint64_t)s->costs->b * depth);
}

/* Devices that the stages need at least, whatever else joins them; too many: it is hopeless. */
static bool is_hopeful(const struct small *s, uint32_t n_stages)
{
    uint32_t stage, k, devices = 0;

    for (stage = 0; stage < n_stages; stage++) {
        const struct sums *sums = &s->sums[stage];
        uint32_t least = UINT32_MAX;

        for (k = 0; k < s->costs->n_degrees && least == UINT32_MAX; k++) {
            if (part_tps(s->costs, sums->comp[k], 0, sums->sync[k]) <= s->best.ticks &&
                part_fits(s->problem, bytes_at(s, stage, k, 1))) {
                least = s->costs->degrees[k];
            }
        }
        if (least == UINT32_MAX) {
            return false;
        }
        devices += least;
    }
    return devices <= s->problem->n_devices;
}

/* Depths in the stage graph; false: a cycle. */
static bool set_depths(struct small *s, uint32_t n_stages)
{
    const struct part_problem *p = s->problem;
    uint32_t round, e, stage;
    bool changed = true;

    for (stage = 0; stage < n_stages; stage++) {
        s->depth[stage] = 1;
    }
    for (round = 0; changed && round <= n_stages; round++) {
        changed = false;
        for (e = 0; e < p->n_edges; e++) {
            uint32_t a = s->stage_of[p->from[e]], b = s->stage_of[p->to[e]];

            if (a != b && s->depth[a] <= s->depth[b]) {
                s->depth[a] = s->depth[b] + 1;
                changed = true;
            }
        }
    }
    return !changed;
}

static void set_transfers(struct small *s, uint32_t n_stages)
{
    const struct part_problem *p = s->problem;
    uint32_t n = s->costs->n_degrees, e, k;

    memset(s->p2p, 0, (size_t)n_stages * n * sizeof *s->p2p);
    for (e = 0; e < p->n_edges; e++) {
        uint32_t a = s->stage_of[p->from[e]], b = s->stage_of[p->to[e]];

        for (k = 0; a != b && k < n; k++) {
            s->p2p[a * n + k] += s->costs->p2p[k][e];
            s->p2p[b * n + k] += s->costs->p2p[k][e];
        }
    }
}

static int64_t ticks_of(const struct small *s, uint32_t stage, uint32_t k)
{
    return part_tps(s->costs, s->sums[stage].comp[k], s->p2p[stage * s->costs->n_degrees + k],
                    s->sums[stage].sync[k]);
}

/* The least degrees with which every stage is within T; false: there are none. */
static bool choose(struct small *s, uint32_t n_stages, int64_t ticks)
{
    uint32_t stage, k;

    s->now.devices = 0;
    s->now.ticks = 0;
    s->now.peak = 0;
    for (stage = 0; stage < n_stages; stage++) {
        int64_t mine;

        for (k = 0; k < s->costs->n_degrees; k++) {
            if (ticks_of(s, stage, k) <= ticks &&
                part_fits(s->problem, bytes_at(s, stage, k, s->depth[stage]))) {
                break;
            }
        }
        if (k == s->costs->n_degrees) {
            return false;
        }
        s->now.k[stage] = k;
        s->now.devices += s->costs->degrees[k];
        mine = ticks_of(s, stage, k);
        s->now.ticks = mine > s->now.ticks ? mine : s->now.ticks;
        s->now.peak = fmax(s->now.peak, bytes_at(s, stage, k, s->depth[stage]));
    }
    return s->now.devices <= s->problem->n_devices;
}

static bool is_better(const struct leaf *a, const struct leaf *b)
{
    if (a->ticks != b->ticks) {
        return a->ticks < b->ticks;
    }
    if (a->peak != b->peak) {
        return a->peak < b->peak;
    }
    return a->depth != b->depth ? a->depth < b->depth : a->devices < b->devices;
}

static void judge(struct small *s, uint32_t n_stages)
{
    int64_t ticks = s->best.ticks;
    uint32_t stage;

    if (!set_depths(s, n_stages)) {
        return;
    }
    set_transfers(s, n_stages);
    s->now.depth = 0;
    for (stage = 0; stage < n_stages; stage++) {
        s->now.depth = s->depth[stage] > s->now.depth ? s->depth[stage] : s->now.depth;
    }
    /* Every success is a T below the last; the first failure ends it. */
    while (choose(s, n_stages, ticks)) {
        if (!s->found || is_better(&s->now, &s->best)) {
            s->found = true;
            s->now.n_stages = n_stages;
            memcpy(s->now.stage_of, s->stage_of, sizeof s->stage_of);
            s->best = s->now;
        }
        ticks = s->now.ticks - 1;
    }
}

static void grow(struct small *s, uint32_t v, uint32_t n_stages)
{
    const struct part_problem *p = s->problem;
    uint32_t stage, k;

    if (s->looked++ % 1024 == 0) {
        call_go_on(p->host);
    }
    if (v == p->n) {
        judge(s, n_stages);
        return;
    }
    for (stage = 0; stage <= n_stages && stage < p->n_devices; stage++) {
        struct sums *sums = &s->sums[stage], old = *sums;
        uint32_t n = stage == n_stages ? n_stages + 1 : n_stages;

        s->stage_of[v] = stage;
        sums->weight += p->weight_bytes[v];
        sums->saved += p->saved_bytes[v];
        sums->workspace = fmax(sums->workspace, p->workspace_bytes[v]);
        for (k = 0; k < s->costs->n_degrees; k++) {
            sums->comp[k] += s->costs->comp[k][v];
            sums->sync[k] += s->costs->sync[k][v];
        }
        if (is_hopeful(s, n)) {
            grow(s, v + 1, n);
        }
        *sums = old;
        for (k = 0; k < s->costs->n_degrees; k++) {
            sums->comp[k] -= s->costs->comp[k][v];
            sums->sync[k] -= s->costs->sync[k][v];
        }
    }
}

static void to_plan(const struct small *s, struct part_plan *plan)
{
    uint32_t stage;

    part_plan_init(plan, s->problem, s->best.stage_of, s->best.n_stages, s->costs->b);
    for (stage = 0; stage < plan->n_stages; stage++) {
        plan->stages[stage].d = s->costs->degrees[s->best.k[stage]];
    }
}

void small_best(const struct part_problem *p, const struct part_costs *c, int64_t most,
                bool *ret_found, struct part_plan *ret_plan)
{
    size_t width = (size_t)c->n_degrees + 1;
    int64_t *rows = call_alloc(3 * SMALL_NODES * width, sizeof *rows);
    struct small s = {.problem = p, .costs = c, .best = {.ticks = most}};
    uint32_t i;

    *ret_found = false;
    for (i = 0; i < SMALL_NODES; i++) {
        s.sums[i].comp = rows + (3 * i) * width;
        s.sums[i].sync = rows + (3 * i + 1) * width;
    }
    CALL_TAKE(s.p2p, SMALL_NODES * width);
    grow(&s, 0, 0);
    if (s.found) {
        to_plan(&s, ret_plan);
        *ret_found = true;
    }
}
