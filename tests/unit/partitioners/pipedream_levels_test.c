/* SPDX-License-Identifier: Apache-2.0
 *
 * PipeDream's recurrence against trying every sequence of stages and every number of machines, on
 * one and on two levels.
 */
#include "test.h"

#include <math.h>

#include "downsets_rig.h"
#include "levels.h"

/* An instance, stated by masks. */
struct instance {
    struct mask_dag g;
    double time[MASK_NODES], weight[MASK_NODES], saved[MASK_NODES], sends[MASK_NODES];
    struct pd_question q;
};

static double sum(const double *values, uint32_t mask)
{
    double total = 0;

    for (uint32_t v = 0; v < MASK_NODES; v++) {
        total += (mask >> v & 1) != 0 ? values[v] : 0;
    }
    return total;
}

/* What leaves a set: outputs of its nodes that are read outside or by nobody. */
static double leaves(const struct instance *x, uint32_t mask)
{
    double total = 0;

    for (uint32_t v = 0; v < x->g.dag.n; v++) {
        bool inner = x->g.first_out[v] != x->g.first_out[v + 1];

        for (uint32_t e = x->g.first_out[v]; e < x->g.first_out[v + 1]; e++) {
            inner = inner && (mask >> x->g.to[e] & 1) != 0;
        }
        total += (mask >> v & 1) != 0 && !inner ? x->sends[v] : 0;
    }
    return total;
}

static double best_of_level(const struct instance *x, uint32_t level, uint32_t from, uint32_t to);

static bool is_degree(const struct instance *x, uint32_t u)
{
    for (uint32_t k = 0; k < x->q.n_degrees; k++) {
        if (x->q.degrees[k] == u) {
            return true;
        }
    }
    return false;
}

/* Time of one stage, by the text of the objective; `after`: machines of the level behind it. */
static double stage(const struct instance *x, uint32_t level, uint32_t from, uint32_t to,
                    uint32_t u, uint32_t after, bool first)
{
    const struct pd_question *q = &x->q;
    uint32_t nodes = to & ~from;
    double w = sum(x->weight, nodes), a = sum(x->saved, nodes), rate = q->levels[level].sync_rate;
    double t = level == 0 ? sum(x->time, nodes) : best_of_level(x, level - 1, from, to);
    double share = first && level > 0 ? q->levels[level - 1].machines : 1;

    if (!is_degree(x, u) || isinf(t)) {
        return INFINITY;
    }
    if (q->memory == PD_MEMORY_RELEASED && ceil((double)after / u) * (a + w) > q->capacity) {
        return INFINITY;
    }
    if (q->memory == PD_MEMORY_CORRECTED &&
        ceil((double)(after + u) / u) * a + q->weight_multiplier * w > q->capacity) {
        return INFINITY;
    }
    if (q->objective == PD_PAPER) {
        return fmax(t, rate > 0 ? 2.0 * (u - 1) * w / rate : 0) / u;
    }
    return (t + (rate > 0 ? 4.0 * (u - 1) * w / (rate * u) / share : 0)) / u;
}

/* Least bottleneck of nodes to - from as a pipeline on exactly `left` machines. */
static double try_all(const struct instance *x, uint32_t level, uint32_t from, uint32_t to,
                      uint32_t left, bool first)
{
    const struct pd_question *q = &x->q;
    uint32_t rest = to & ~from, part;
    double best = INFINITY;

    /* Non-empty parts of the rest that leave a downset: the next stage. */
    for (part = rest; part != 0; part = (part - 1) & rest) {
        uint32_t end = from | part;

        if (!mask_is_downset(&x->g, end)) {
            continue;
        }
        for (uint32_t u = 1; u <= left; u++) {
            double value = stage(x, level, from, end, u, left - u, first);

            if (end == to ? u < left : u == left) {
                continue;
            }
            if (end != to && value < best) {
                double rate = q->levels[level].transfer_rate;

                if (q->objective == PD_PAPER && rate > 0) {
                    value = fmax(value, 2 * leaves(x, end) / rate);
                }
                value = fmax(value, try_all(x, level, end, to, left - u, false));
            }
            best = fmin(best, value);
        }
    }
    return best;
}

/* Memory of what is computed once: a value per pair of masks, of the first level. */
static double known[1 << 6][1 << 6];

static double best_of_level(const struct instance *x, uint32_t level, uint32_t from, uint32_t to)
{
    if (x->q.n_levels == 1 || level > 0) {
        return try_all(x, level, from, to, x->q.levels[level].machines, true);
    }
    if (isnan(known[from][to])) {
        known[from][to] = try_all(x, level, from, to, x->q.levels[level].machines, true);
    }
    return known[from][to];
}

/* Solves, holds the stages against the objective, returns the value. */
static double solve(struct instance *x, uint32_t *ret_stages)
{
    struct pd_question *q = &x->q;
    struct part_downsets sets;
    struct pd_answer answer;
    uint64_t count;
    bool exact;
    double *sums, value;
    uint32_t machines = q->levels[0].machines * (q->n_levels > 1 ? q->levels[1].machines : 1);

    assert_int_equal(part_downsets_all(&x->g.dag, 1000, NULL, &sets, &count, &exact), PST_OK);
    sums = calloc(4 * (size_t)sets.n_sets, sizeof *sums);
    part_downsets_sum(&sets, x->time, sums);
    part_downsets_sum(&sets, x->weight, sums + sets.n_sets);
    part_downsets_sum(&sets, x->saved, sums + 2 * sets.n_sets);
    for (uint32_t k = 0; k < sets.n_sets; k++) {
        sums[3 * sets.n_sets + k] = leaves(x, (uint32_t)sets.bits[k]);
    }
    q->sets = &sets;
    q->time = sums;
    q->weight = sums + sets.n_sets;
    q->saved = sums + 2 * sets.n_sets;
    q->out = sums + 3 * sets.n_sets;
    q->bound = INFINITY;
    assert_int_equal(pd_levels_solve(q, &answer), PST_OK);
    value = answer.bottleneck;
    /* Knowing the value, or one near it, changes nothing. */
    for (int tries = 0; tries < 2; tries++) {
        struct pd_answer again;

        q->bound = tries == 0 ? value : value * 1.1;
        assert_int_equal(pd_levels_solve(q, &again), PST_OK);
        assert_true(again.bottleneck == value);
    }
    *ret_stages = answer.n_stages;
    for (uint32_t s = 0, at = 0, used = 0; s < answer.n_stages; s++) {
        const struct part_sets_stage *a = &answer.stages[s];

        assert_int_equal(a->from, at);
        at = a->to;
        used += a->degree;
        assert_true(used <= machines);
        assert_true(s + 1 < answer.n_stages || at == sets.n_sets - 1);
        assert_true(s + 1 < answer.n_stages || q->use_fewer_machines || used == machines);
        if (q->n_levels == 1 && !q->use_fewer_machines) {
            assert_true(stage(x, 0, (uint32_t)sets.bits[a->from], (uint32_t)sets.bits[a->to],
                              a->degree, machines - used, s == 0) <= value * (1 + 1e-12));
        }
    }
    assert_true(isinf(value) == (answer.n_stages == 0));
    free(sums);
    return value;
}

static void draw(struct instance *x, uint32_t n, bool chain, uint64_t *seed)
{
    memset(x, 0, sizeof *x);
    if (chain) {
        mask_chain(&x->g, n);
    } else {
        mask_random(&x->g, n, mask_between(seed, 10, 50), mask_between(seed, 0, 1) == 1, seed);
    }
    for (uint32_t v = 0; v < n; v++) {
        x->time[v] = mask_between(seed, 0, 20);
        x->weight[v] = mask_between(seed, 0, 3) == 0 ? mask_between(seed, 1, 30) : 0;
        x->saved[v] = mask_between(seed, 0, 9);
        x->sends[v] = mask_between(seed, 0, 30);
    }
}

static const uint32_t degrees_of[4][4] = {{1}, {1, 2, 3, 4}, {1, 2, 4}, {2, 3}};
static const uint32_t n_degrees_of[4] = {1, 4, 3, 2};

TEST(test_one_level)
{
    uint64_t seed = 1;
    int answers = 0, limited = 0;

    for (int round = 0; round < 900; round++) {
        struct instance x;
        uint32_t kind = (uint32_t)round % 4, n_stages;
        double found, expected;

        draw(&x, mask_between(&seed, 1, 6), round % 3 == 0, &seed);
        x.q.n_levels = 1;
        x.q.levels[0] = (struct pd_level){mask_between(&seed, 1, 5), mask_between(&seed, 0, 4),
                                          mask_between(&seed, 0, 6)};
        x.q.degrees = degrees_of[kind];
        x.q.n_degrees = n_degrees_of[kind];
        x.q.objective = round % 5 == 0 ? PD_PAPER : PD_RELEASED;
        x.q.memory = round % 2 == 0 ? PD_MEMORY_RELEASED : PD_MEMORY_CORRECTED;
        x.q.capacity = round % 7 < 4 ? INFINITY : mask_between(&seed, 5, 120);
        x.q.weight_multiplier = 2;
        found = solve(&x, &n_stages);
        expected = best_of_level(&x, 0, 0, (1u << x.g.dag.n) - 1);
        if (found != expected && fabs(found - expected) > 1e-9 * expected) {
            fail_msg("round %d: %.12g, by trying all %.12g", round, found, expected);
        }
        answers += !isinf(found);
        limited += !isinf(found) && !isinf(x.q.capacity);
    }
    assert_true(answers > 400 && limited > 100);
}

TEST(test_two_levels)
{
    uint64_t seed = 2;
    int answers = 0;

    for (int round = 0; round < 240; round++) {
        struct instance x;
        uint32_t kind = (uint32_t)round % 3, n_stages;
        double found, expected;

        draw(&x, mask_between(&seed, 2, 5), round % 2 == 0, &seed);
        x.q.n_levels = 2;
        x.q.levels[0] = (struct pd_level){mask_between(&seed, 1, 3), mask_between(&seed, 1, 8), 0};
        x.q.levels[1] = (struct pd_level){mask_between(&seed, 1, 3), mask_between(&seed, 0, 3), 0};
        x.q.degrees = degrees_of[kind];
        x.q.n_degrees = n_degrees_of[kind];
        x.q.objective = round % 4 == 0 ? PD_PAPER : PD_RELEASED;
        x.q.memory = PD_MEMORY_RELEASED;
        x.q.capacity = round % 3 == 0 ? mask_between(&seed, 20, 200) : INFINITY;
        for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
            for (size_t j = 0; j < sizeof known[0] / sizeof known[0][0]; j++) {
                known[i][j] = NAN;
            }
        }
        found = solve(&x, &n_stages);
        expected = best_of_level(&x, 1, 0, (1u << x.g.dag.n) - 1);
        if (found != expected && fabs(found - expected) > 1e-9 * expected) {
            fail_msg("round %d: %.12g, by trying all %.12g", round, found, expected);
        }
        answers += !isinf(found);
    }
    assert_true(answers > 150);
}

/* More machines than there are stages to make: none, or those that help. */
TEST(test_fewer_machines)
{
    struct instance x = {.time = {4, 6}, .weight = {0, 0}};
    uint32_t n_stages;

    mask_chain(&x.g, 2);
    x.q.n_levels = 1;
    x.q.levels[0] = (struct pd_level){3, 0, 0};
    x.q.degrees = degrees_of[0];
    x.q.n_degrees = 1;
    x.q.capacity = INFINITY;
    assert_true(isinf(solve(&x, &n_stages)));
    x.q.use_fewer_machines = true;
    assert_true(solve(&x, &n_stages) == 6);
    assert_int_equal(n_stages, 2);
}
