/* SPDX-License-Identifier: Apache-2.0
 *
 * Stages with micro-batch sizes and k of their own, against every choice for every plan of the
 * family; samples in flight against published numbers.
 */
#include "levels.h"
#include "solver.h"

#include "test.h"

#include "graphpipe_family_rig.h"
#include "graphpipe_rig.h"

static const uint32_t sizes[] = {1, 2, 4};
static const uint32_t ks[] = {1, 2};

/* b = 1, 2, 4 with k = 1, 2, 1 along three stages; an eight-stage chain; six stages of CANDLE-Uno
   as a graph, four branches before two stages (Jeon et al., ASPLOS 2025). */
TEST(test_in_flight)
{
    uint64_t i = 4;

    i = gp_in_flight(2, 2, i, 4, 1);
    assert_int_equal(i, 8);
    i = gp_in_flight(1, 1, i, 2, 2);
    assert_int_equal(i, 10);
    assert_int_equal(gp_in_flight(64, 1, 64, 64, 1), 128);
    assert_int_equal(gp_in_flight(64, 1, 128, 64, 1), 192);
    assert_int_equal(gp_in_flight(1, 2, 2, 2, 1), 4);
    i = gp_in_flight(1, 4, 4, 4, 1); /* b = 4, 1, 4 with k = 1, 4, 1 */
    assert_int_equal(i, 8);
    assert_int_equal(gp_in_flight(4, 1, i, 1, 4), 12);
}

/* Levels say the same as the closed form. */
TEST(test_levels)
{
    struct gp_levels levels;

    gp_levels_init_general(&levels, sizes, 3, ks, 2, 8);
    for (uint32_t x = 0; x < levels.n; x++) {
        const struct gp_group *gx = &levels.groups[levels.group[x]];

        assert_int_equal(levels.in_flight[x] % gx->b, 0);
        assert_true(levels.in_flight[x] >= (uint64_t)gx->b * gx->k);
        for (uint32_t y = 0; y < levels.n; y++) {
            const struct gp_group *gy = &levels.groups[levels.group[y]];
            uint64_t need = gp_in_flight(gx->b, gx->k, levels.in_flight[y], gy->b, gy->k);

            assert_int_equal(gp_before(&levels, x, y),
                             (need < 8 ? need : 8) <= levels.in_flight[x]);
            if (gp_covers(&levels, x, y)) {
                for (uint32_t z = 0; z < levels.n; z++) {
                    assert_true(!gp_before(&levels, z, x) || gp_before(&levels, z, y));
                }
            }
        }
        assert_true(gp_covers(&levels, x, x));
    }
}

/* Least T in us over sizes and ks of every stage from `at` on. */
static double all_choices(const struct part_problem *p, struct part_plan *plan, uint32_t at,
                          double best)
{
    if (at == plan->n_stages) {
        struct part_value value;

        part_plan_value(plan, p, false, &value);
        assert_true(value.legal);
        return value.fits && value.bottleneck_ns / 1000 < best ? value.bottleneck_ns / 1000 : best;
    }
    for (uint32_t i = 0; i < p->n_sizes; i++) {
        for (uint32_t k = 0; k < 2; k++) {
            if (p->sizes[i] * ks[k] <= p->batch) {
                plan->stages[at].b = p->sizes[i];
                plan->stages[at].k = ks[k];
                best = all_choices(p, plan, at + 1, best);
            }
        }
    }
    return best;
}

static double all_plans(const struct rig_case *c, const struct part_problem *p)
{
    struct family f = family_all(c->graph, false);
    double best = INFINITY;

    for (size_t i = 0; i < f.n; i++) {
        uint32_t stage_of[10], n_stages = family_stages(f.items[i], p->n, stage_of);
        struct part_plan plan;

        if (n_stages <= c->devices) {
            part_plan_init(&plan, p, stage_of, n_stages, 1);
            best = all_choices(p, &plan, 0, best);
            part_plan_finish(&plan);
        }
    }
    free(f.items);
    return best;
}

TEST(test_every_choice)
{
    uint32_t n_mixed = 0;

    for (uint64_t seed = 1; seed <= 60; seed++) {
        uint64_t draws = seed;
        struct gp_options options = rig_options();
        struct gp_answer answer;
        struct part_problem p;
        FINISHED_BY(rig_graph_finish) struct rig_graph g;
        struct rig_case c;
        double t;

        rig_nested(&g, (uint32_t)rig_draw(&draws, 2, 5), 3, 2, 60, &draws);
        rig_costs(&g, RIG_UNIFORM, &draws);
        for (uint32_t v = 0; v < g.n; v++) {
            g.alpha[v] = (double)rig_draw(&draws, 0, 60);
        }
        c = rig_case_of(&g);
        c.devices = (uint32_t)rig_draw(&draws, 2, 3);
        c.batch = 8;
        c.sizes = sizes;
        c.n_sizes = 3;
        c.multiplier = 1;
        c.memory = (double)rig_draw(&draws, 40, 260);
        c.comm = (uint32_t)rig_draw(&draws, 0, 1);
        c.p2p = 1;
        options.per_stage = true;
        options.ks = ks;
        options.n_ks = 2;
        t = rig_solve(&c, &options, &answer);
        for (uint32_t s = 1; answer.found && s < answer.plan.n_stages; s++) {
            n_mixed += answer.plan.stages[s].b != answer.plan.stages[0].b;
        }
        rig_problem(&c, &p);
        rig_agree(t, all_plans(&c, &p), seed);
    }
    assert_true(n_mixed > 0);
}
