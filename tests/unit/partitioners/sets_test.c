/* SPDX-License-Identifier: Apache-2.0
 *
 * Sequences over sets with the cost model of the problem: against every cut of an order, and over
 * all downsets against every partition there is.
 */
#include "chain.h"
#include "partition_rig.h"
#include "sequence.h"
#include "sets.h"

#include <math.h>
#include "test.h"

/* T in us; the stages are held against the rig. */
static double solve(const struct rig_case *c, const struct part_problem *p, const uint32_t *order)
{
    struct part_dag dag = part_sequence_dag(p);
    struct part_downsets sets;
    struct part_costs costs;
    struct part_sets_answer answer = {0};
    uint32_t same[16], edges[128], stage_of[16], d[16], nodes[16];
    struct part_sets_question q = {
        .problem = p,
        .costs = &costs,
        .sets = &sets,
        .dag = &dag,
        .node = same,
        .edge = edges,
        .n_devices = p->n_devices,
        .capacity = p->capacity_bytes,
        .below = INT64_MAX,
    };
    uint64_t count;
    double result;
    bool exact;

    for (uint32_t i = 0; i < 128; i++) {
        edges[i] = i;
        same[i % 16] = i % 16;
    }
    part_costs_init(p, c->b, &costs);
    if (order != NULL) {
        part_downsets_linear(p->n, order, &sets);
    } else {
        assert_int_equal(part_downsets_all(&dag, 5000, NULL, &sets, &count, &exact), PST_OK);
    }
    assert_int_equal(part_sets_solve(&q, &answer), PST_OK);
    result = answer.n_stages > 0 ? (double)answer.ticks * costs.ns_per_tick / 1000 : INFINITY;
    for (uint32_t s = 0; s < answer.n_stages; s++) {
        uint32_t n =
            part_downsets_between(&sets, answer.stages[s].from, answer.stages[s].to, nodes);

        while (n-- > 0) {
            stage_of[nodes[n]] = s;
        }
        d[s] = answer.stages[s].degree;
    }
    if (answer.n_stages > 0) {
        struct rig_worth worth = rig_judge(c, stage_of, answer.n_stages, d, true);

        assert_true(worth.legal && worth.fits);
        assert_true(fabs(worth.bottleneck - result) <= 1e-9 * fmax(1, result));
    } else {
        assert_true(isinf(result));
    }
    return result;
}

static void equal(double is, double should, int round)
{
    if (isinf(is) || isinf(should) ? is != should : fabs(is - should) > 1e-9 * fmax(1, should)) {
        fail_msg("round %d: %.12g is not %.12g", round, is, should);
    }
}

/* The least over all topological orders. */
static double best_of_orders(const struct rig_case *c, const struct part_problem *p,
                             uint32_t *order, uint32_t n, uint32_t taken)
{
    double best = INFINITY;

    if (n == p->n) {
        return rig_best_cut(c, order);
    }
    for (uint32_t v = 0; v < p->n; v++) {
        bool ready = (taken >> v & 1) == 0;

        for (uint32_t e = p->first_in[v]; e < p->first_in[v + 1]; e++) {
            ready = ready && (taken >> p->from[p->in_edges[e]] & 1) != 0;
        }
        if (ready) {
            order[n] = v;
            best = fmin(best, best_of_orders(c, p, order, n + 1, taken | 1u << v));
        }
    }
    return best;
}

static void draw(struct rig_graph *g, struct rig_case *c, uint32_t n, int round, uint64_t *state)
{
    static const uint32_t degrees[3][3] = {{1}, {1, 2, 4}, {1, 2, 4}};
    static const uint32_t comm[] = {PST_COMM_NONE, PST_COMM_SUM, PST_COMM_MAX};

    rig_random(g, n, 35, state);
    rig_costs(g, round % 2 == 0 ? RIG_UNIFORM : RIG_ZERO, state);
    *c = rig_case_of(g);
    c->devices = (uint32_t)rig_draw(state, 1, 4);
    c->b = 4;
    c->batch = 16;
    c->degrees = degrees[round % 3];
    c->n_degrees = round % 3 == 0 ? 1 : 3;
    c->comm = comm[round % 3];
    c->p2p = (double)rig_draw(state, 0, 4);
    c->allreduce = (double)rig_draw(state, 0, 2);
    c->multiplier = 2;
    c->memory = round % 4 == 0 ? INFINITY : (double)rig_draw(state, 100, 900);
}

TEST(test_one_order)
{
    uint64_t seed = 3;
    int answers = 0;

    for (int round = 0; round < 200; round++) {
        FINISHED_BY(rig_graph_finish) struct rig_graph g;
        struct rig_case c;
        struct part_problem p;
        uint32_t order[16];
        double found;

        draw(&g, &c, (uint32_t)rig_draw(&seed, 1, 9), round, &seed);
        rig_problem(&c, &p);
        part_order(&p, PART_ORDER_DFS, NULL, order);
        found = solve(&c, &p, order);
        equal(found, rig_best_cut(&c, order), round);
        answers += !isinf(found);
    }
    assert_true(answers > 100);
}

TEST(test_all_sets)
{
    uint64_t seed = 4;

    for (int round = 0; round < 120; round++) {
        FINISHED_BY(rig_graph_finish) struct rig_graph g;
        struct rig_case c;
        struct part_problem p;
        uint32_t order[16];
        double found;

        draw(&g, &c, (uint32_t)rig_draw(&seed, 1, 6), round, &seed);
        rig_problem(&c, &p);
        found = solve(&c, &p, NULL);
        equal(found, best_of_orders(&c, &p, order, 0, 0), round);
        if (isinf(c.memory)) {
            equal(found, rig_best_partition(&c), round);
        }
    }
}
