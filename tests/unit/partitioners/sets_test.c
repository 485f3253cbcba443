/* SPDX-License-Identifier: Apache-2.0
 *
 * Sequences over sets with the cost model of the problem: against every cut of an order, and over
 * all downsets against every partition there is.
 */
#include "chain.h"
#include "partition_check.h"
#include "sequence.h"
#include "sets.h"

#include <math.h>
#include "test.h"

struct asked {
    int64_t below;
    bool shortest;
};

/* T or path in us, INFINITY: none; the stages are held against the rig. */
static double ask(const struct rig_case *c, const struct part_problem *p, const uint32_t *order,
                  struct asked asked, int64_t *ret_ticks)
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
        .below = asked.below,
        .shortest = asked.shortest,
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
    *ret_ticks = answer.ticks;
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
        struct rig_worth worth = rig_judge(c, stage_of, answer.n_stages, d, !asked.shortest);

        assert_true(worth.legal && worth.fits);
        assert_true(asked.shortest || fabs(worth.bottleneck - result) <= 1e-9 * fmax(1, result));
    }
    return result;
}

static double solve(const struct rig_case *c, const struct part_problem *p, const uint32_t *order)
{
    int64_t ticks;

    return ask(c, p, order, (struct asked){INT64_MAX, false}, &ticks);
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
        rig_agree(found, rig_best_cut(&c, order), round);
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
        rig_agree(found, best_of_orders(&c, &p, order, 0, 0), round);
        if (isinf(c.memory)) {
            rig_agree(found, rig_best_partition(&c), round);
        }
    }
}

/* Borders that no stage can end at are left out: not one too many. */
TEST(test_below)
{
    uint64_t seed = 5;
    int answers = 0;

    for (int round = 0; round < 120; round++) {
        FINISHED_BY(rig_graph_finish) struct rig_graph g;
        struct rig_case c;
        struct part_problem p;
        int64_t ticks, again;
        double least;

        draw(&g, &c, (uint32_t)rig_draw(&seed, 1, 8), round, &seed);
        rig_problem(&c, &p);
        least = ask(&c, &p, NULL, (struct asked){INT64_MAX, false}, &ticks);
        if (!isinf(least)) {
            answers++;
            rig_agree(ask(&c, &p, NULL, (struct asked){ticks + 1, false}, &again), least, round);
            rig_agree(ask(&c, &p, NULL, (struct asked){ticks, false}, &again), INFINITY, round);
        }
    }
    assert_true(answers > 60);
}

/* --- paths -------------------------------------------------------------------------------------*/

struct brute {
    const struct rig_case *c;
    const struct part_problem *p;
    struct part_costs costs;
    int64_t below;
    uint32_t stage_of[8], k[8];
    int64_t sum, path; /* the least of all partitions */
};

static void look(struct brute *b, uint32_t n_stages)
{
    int64_t counts[8] = {0}, reach[8] = {0}, sum = 0, longest = 0;
    uint32_t d[8] = {0};

    for (uint32_t s = 0; s < n_stages; s++) {
        int64_t comp = 0, sync = 0, p2p = 0;

        for (uint32_t v = 0; v < b->p->n; v++) {
            comp += b->stage_of[v] == s ? b->costs.comp[b->k[s]][v] : 0;
            sync += b->stage_of[v] == s ? b->costs.sync[b->k[s]][v] : 0;
        }
        for (uint32_t e = 0; e < b->p->n_edges; e++) {
            bool from = b->stage_of[b->p->from[e]] == s, to = b->stage_of[b->p->to[e]] == s;

            p2p += from != to ? b->costs.p2p[b->k[s]][e] : 0;
        }
        if (comp + sync >= b->below) {
            return;
        }
        d[s] = b->costs.degrees[b->k[s]];
        counts[s] = comp + (b->c->comm == PST_COMM_NONE ? 0 : p2p / 2);
        reach[s] = counts[s];
        sum += counts[s];
    }
    if (!rig_judge(b->c, b->stage_of, n_stages, d, false).legal) {
        return;
    }
    for (uint32_t round = 0; round < n_stages; round++) {
        for (uint32_t e = 0; e < b->p->n_edges; e++) {
            uint32_t s = b->stage_of[b->p->from[e]], t = b->stage_of[b->p->to[e]];

            if (s != t && reach[s] + counts[t] > reach[t]) {
                reach[t] = reach[s] + counts[t];
            }
        }
    }
    for (uint32_t s = 0; s < n_stages; s++) {
        longest = reach[s] > longest ? reach[s] : longest;
    }
    b->sum = sum < b->sum ? sum : b->sum;
    b->path = longest < b->path ? longest : b->path;
}

static void look_at_degrees(struct brute *b, uint32_t s, uint32_t n_stages)
{
    if (s == n_stages) {
        look(b, n_stages);
        return;
    }
    for (b->k[s] = 0; b->k[s] < b->costs.n_degrees; b->k[s]++) {
        look_at_degrees(b, s + 1, n_stages);
    }
}

static void look_at_all(struct brute *b, uint32_t v, uint32_t n_stages)
{
    if (v == b->p->n) {
        look_at_degrees(b, 0, n_stages);
        return;
    }
    for (uint32_t s = 0; s <= n_stages && s < b->p->n_devices; s++) {
        b->stage_of[v] = s;
        look_at_all(b, v + 1, s == n_stages ? n_stages + 1 : n_stages);
    }
}

/* In a row the least sum of all partitions. Else not above it, and not below the least of the
   longest paths through the graphs of stages. */
TEST(test_paths)
{
    uint64_t seed = 6;
    int answers = 0, apart = 0;

    for (int round = 0; round < 150; round++) {
        FINISHED_BY(rig_graph_finish) struct rig_graph g;
        struct rig_case c;
        struct part_problem p;
        struct brute b = {.c = &c, .p = &p, .sum = INT64_MAX, .path = INT64_MAX};
        struct asked asked = {.shortest = true};
        int64_t ticks, least;

        draw(&g, &c, (uint32_t)rig_draw(&seed, 1, 6), round, &seed);
        c.memory = INFINITY;
        rig_problem(&c, &p);
        part_costs_init(&p, c.b, &b.costs);
        ask(&c, &p, NULL, (struct asked){INT64_MAX, false}, &least);
        asked.below = b.below = least + least / (int64_t)rig_draw(&seed, 2, 20) + 1;
        look_at_all(&b, 0, 0);
        if (isinf(ask(&c, &p, NULL, asked, &ticks))) {
            assert_true(b.sum == INT64_MAX);
            continue;
        }
        answers++;
        apart += ticks < b.sum;
        assert_true(ticks <= b.sum && ticks >= b.path);
        p.in_row = true;
        ask(&c, &p, NULL, asked, &ticks);
        assert_true(ticks == b.sum);
    }
    assert_true(answers > 60 && apart > 5);
}
