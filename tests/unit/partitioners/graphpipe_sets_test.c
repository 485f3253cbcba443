/* SPDX-License-Identifier: Apache-2.0
 *
 * Where a graph has few sets that hold their predecessors, refine gives the optimum of all plans,
 * and says so. Held against a search written here, over bit masks; and against those who cut the
 * model into a sequence.
 */
#include "solver.h"

#include "test.h"

#include "graphpipe_rig.h"

enum { MOST = 14, MOST_MASKS = 1 << MOST };

static uint32_t masks[MOST_MASKS], n_masks;

static void list_masks(const struct rig_graph *g)
{
    n_masks = 0;
    for (uint32_t m = 0; m < UINT32_C(1) << g->n; m++) {
        bool closed = true;

        for (uint32_t e = 0; e < g->n_edges; e++) {
            closed = closed && !((m >> g->to[e] & 1) != 0 && (m >> g->from[e] & 1) == 0);
        }
        if (closed) {
            masks[n_masks++] = m;
        }
    }
}

/* us per sample of these operators on d devices. */
static double stage_us(const struct rig_case *c, uint32_t stage, uint32_t d)
{
    const struct rig_graph *g = c->graph;
    double comp = 0, weight = 0, bytes = 0, p2p, sync;

    for (uint32_t v = 0; v < g->n; v++) {
        if ((stage >> v & 1) != 0) {
            comp += g->alpha[v] / c->b + g->tau[v] / d;
            weight += g->weight[v];
        }
    }
    for (uint32_t e = 0; e < g->n_edges; e++) {
        bytes += (stage >> g->from[e] & 1) != (stage >> g->to[e] & 1) ? g->bytes[e] : 0;
    }
    p2p = c->comm == PST_COMM_NONE || c->p2p == 0 ? 0 : 2 * bytes / (d * c->p2p);
    sync = c->allreduce == 0 ? 0 : 2.0 * (d - 1) / d * weight / (c->allreduce * c->batch);
    return c->comm == PST_COMM_MAX ? fmax(comp, fmax(p2p, sync)) : comp + p2p + sync;
}

/* The least bottleneck of all sequences of closed sets, which are all valid partitions. */
static double best_of_all(const struct rig_case *c)
{
    uint32_t n = c->devices + 1;
    double *best = calloc((size_t)n_masks * n, sizeof *best), least;

    assert_non_null(best);
    for (uint32_t j = 1; j < n_masks; j++) { /* a smaller set has a smaller mask */
        for (uint32_t u = 0; u < n; u++) {
            best[(size_t)j * n + u] = INFINITY;
        }
        for (uint32_t i = 0; i < j; i++) {
            if ((masks[i] & ~masks[j]) != 0) {
                continue;
            }
            for (uint32_t k = 0; k < c->n_degrees; k++) {
                uint32_t d = c->degrees[k];
                double us = c->b % d == 0 ? stage_us(c, masks[j] & ~masks[i], d) : INFINITY;

                for (uint32_t u = d; u < n; u++) {
                    double with = fmax(best[(size_t)i * n + u - d], us);

                    best[(size_t)j * n + u] = fmin(best[(size_t)j * n + u], with);
                }
            }
        }
    }
    least = best[(size_t)n_masks * n - 1];
    free(best);
    return least;
}

TEST(test_optimum)
{
    static const uint32_t one[] = {1}, powers[] = {1, 2, 4};
    uint64_t seed = 20251;

    for (uint32_t round = 0; round < 24; round++, seed++) {
        struct gp_options options = rig_options();
        struct gp_answer answer;
        FINISHED_BY(rig_graph_finish) struct rig_graph g;
        struct rig_case c;
        uint64_t draws = seed;
        double should;

        if (round % 2 == 0) {
            rig_layered(&g, 12 + round % 3, 3, 3, 2, &draws);
        } else {
            rig_nested(&g, 12 + round % 3, 3, 3, 40, &draws);
        }
        rig_costs(&g, round % 5 == 4 ? RIG_ZERO : RIG_UNIFORM, &draws);
        c = rig_case_of(&g);
        c.devices = 3 + round % 4;
        c.batch = 16;
        c.b = 4;
        c.comm = round % 3;
        c.p2p = 4;
        c.allreduce = 2;
        c.degrees = round % 4 < 2 ? one : powers;
        c.n_degrees = round % 4 < 2 ? 1 : 3;
        list_masks(&g);
        should = best_of_all(&c);
        options.refine = true;
        if (fabs(rig_solve(&c, &options, &answer) - should) > 1e-9 * should) {
            fail_msg("seed %llu: T %.12g us, the optimum is %.12g us", (unsigned long long)seed,
                     answer.value.bottleneck_ns / 1000, should);
        }
        /* proven: no plan is below */
        assert_true(answer.lower_ns >= answer.value.bottleneck_ns * (1 - 1e-9));
    }
}

/* With a memory limit the optimum is not claimed, and what is found fits (rig_solve judges it). */
TEST(test_memory)
{
    static const uint32_t one[] = {1};

    for (uint64_t seed = 7; seed < 15; seed++) {
        struct gp_options options = rig_options();
        FINISHED_BY(rig_graph_finish) struct rig_graph g;
        struct rig_case c;
        uint64_t draws = seed;
        double with, without;

        rig_layered(&g, 12, 3, 3, 2, &draws);
        rig_costs(&g, RIG_UNIFORM, &draws);
        c = rig_case_of(&g);
        c.devices = 4;
        c.batch = 16;
        c.b = 2;
        c.multiplier = 1;
        c.degrees = one;
        c.n_degrees = 1;
        options.refine = true;
        without = rig_solve(&c, &options, NULL);
        c.memory = 260;
        with = rig_solve(&c, &options, NULL);
        list_masks(&g);
        rig_close(without, best_of_all(&c));
        assert_true(with >= without * (1 - 1e-9)); /* INFINITY where nothing fits */
    }
}

/* Too many sets for the steps: the search goes without. */
TEST(test_too_many)
{
    const uint32_t lens[] = {9, 9, 9, 9, 9}; /* 10^5 sets and more */
    struct gp_options options = rig_options();
    FINISHED_BY(rig_graph_finish) struct rig_graph g;
    struct rig_case c;
    uint64_t draws = 3;
    double T;

    rig_branches(&g, 5, lens, 1, 1, false);
    rig_costs(&g, RIG_UNIFORM, &draws);
    c = rig_case_of(&g);
    c.devices = 5;
    c.batch = c.b = 4;
    options.refine = true;
    options.refine_steps = 100000;
    T = rig_solve(&c, &options, NULL);
    options.refine = false;
    assert_true(T <= rig_solve(&c, &options, NULL));
}
