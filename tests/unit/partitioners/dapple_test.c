/* SPDX-License-Identifier: Apache-2.0
 *
 * DAPPLE's latency on worked examples and against 1F1B run step by step; its search against trying
 * every cut, every degree and every placement.
 */
#include "latency.h"
#include "place.h"
#include "search.h"

#include <math.h>
#include "test.h"

#include "downsets_rig.h"

/* Word for word: which step is the pivot, then the three parts of the sum. */
static double defined(const struct dapple_step *steps, uint32_t n, uint32_t m)
{
    uint32_t q = n - 1;
    double latency = 0, end = 0;

    for (uint32_t s = n - 1; s-- > 0;) {
        double wait = (m - 1) * (steps[q].forward + steps[q].backward);

        for (uint32_t a = s + 1; a < q; a++) {
            wait += steps[a].forward + steps[a].backward;
        }
        if ((m - 1) * (steps[s].forward + steps[s].backward) > wait * (1 + 1e-9)) {
            q = s;
        }
    }
    for (uint32_t a = 0; a <= q; a++) {
        latency += steps[a].forward;
    }
    for (uint32_t s = 0; s < n; s++) {
        double left = steps[s].allreduce;

        for (uint32_t a = s; a <= q; a++) {
            left += steps[a].backward;
        }
        for (uint32_t a = q + 1; a < s; a++) {
            left -= steps[a].backward;
        }
        end = fmax(end, left);
    }
    return latency + (m - 1) * (steps[q].forward + steps[q].backward) + end;
}

TEST(test_definition)
{
    uint64_t seed = 10;

    for (int round = 0; round < 2000; round++) {
        struct dapple_step steps[9];
        uint32_t n = mask_between(&seed, 1, 9), m = mask_between(&seed, 1, 20);
        double is, was;

        for (uint32_t s = 0; s < n; s++) {
            steps[s] = (struct dapple_step){mask_between(&seed, 0, 9), mask_between(&seed, 0, 20),
                                            mask_between(&seed, 0, 60)};
        }
        is = dapple_latency(steps, n, m, NULL);
        was = defined(steps, n, m);
        if (!(fabs(is - was) <= 1e-12 * was)) {
            fail_msg("seed 10, round %d: %.15g, by definition %.15g", round, is, was);
        }
    }
}

/* 1F1B as a list of passes per stage, each as soon as what it needs is there. */
static double simulate(const struct dapple_step *steps, uint32_t n, uint32_t m)
{
    enum { MOST = 16 };
    double f[8][MOST], b[8][MOST], free_at[8] = {0}, end = 0;
    uint32_t next[8] = {0}, done = 0;

    for (uint32_t s = 0; s < n; s++) {
        for (uint32_t j = 0; j < m; j++) {
            f[s][j] = b[s][j] = -1;
        }
    }
    while (done < 2 * n * m) {
        for (uint32_t s = 0; s < n; s++) {
            uint32_t warm = n - s < m ? n - s : m, i = next[s], j;
            bool forward;
            double ready;

            if (i == 2 * m) {
                continue;
            }
            /* F x warm, then B F B F ..., then B. */
            forward = i < warm || (i - warm < 2 * (m - warm) && (i - warm) % 2 == 1);
            j = i < warm                    ? i
                : i - warm < 2 * (m - warm) ? (forward ? warm + (i - warm) / 2 : (i - warm) / 2)
                                            : i - m;
            ready = forward ? (s == 0 ? 0 : f[s - 1][j]) : (s + 1 == n ? f[s][j] : b[s + 1][j]);
            if (ready < 0) {
                continue;
            }
            free_at[s] = fmax(free_at[s], ready) + (forward ? steps[s].forward : steps[s].backward);
            (forward ? f : b)[s][j] = free_at[s];
            next[s]++;
            done++;
        }
    }
    for (uint32_t s = 0; s < n; s++) {
        end = fmax(end, free_at[s] + steps[s].allreduce);
    }
    return end;
}

/* Never above 1F1B, and close to it. */
TEST(test_against_simulation)
{
    uint64_t seed = 8;
    double sum = 0;

    for (int round = 0; round < 500; round++) {
        struct dapple_step steps[6];
        uint32_t n = mask_between(&seed, 1, 6), m = mask_between(&seed, 1, 16);
        double bound, real;

        for (uint32_t s = 0; s < n; s++) {
            double f = mask_between(&seed, 1, 9);

            steps[s] = (struct dapple_step){f, 2 * f, 0};
        }
        bound = dapple_latency(steps, n, m, NULL);
        real = simulate(steps, n, m);
        if (bound > real + 1e-9) {
            fail_msg("round %d: bound %g above %g", round, bound, real);
        }
        sum += real / bound;
        assert_true(real / bound < 1.5);
    }
    assert_true(sum / 500 < 1.05);
}

TEST(test_placements)
{
    struct dapple_machines m = dapple_machines_of(12, 4);
    const uint16_t used[] = {3, 0, 1};
    uint16_t after[3];
    uint32_t machine, ranks[12];

    assert_int_equal(m.n_machines, 3);
    assert_true(dapple_place(&m, used, 4, DAPPLE_FRESH, after, &machine));
    assert_memory_equal(after, ((uint16_t[]){3, 4, 1}), sizeof after);
    assert_int_equal(machine, 1);
    assert_int_equal(dapple_ranks(&m, used, after, ranks), 4);
    assert_int_equal(ranks[0], 4);
    assert_true(dapple_place(&m, used, 3, DAPPLE_APPEND, after, &machine));
    assert_memory_equal(after, ((uint16_t[]){4, 0, 3}), sizeof after);
    assert_true(machine == UINT32_MAX);
    assert_true(dapple_place(&m, used, 5, DAPPLE_SCATTER, after, &machine));
    assert_memory_equal(after, ((uint16_t[]){4, 1, 4}), sizeof after);
    assert_false(dapple_place(&m, used, 9, DAPPLE_SCATTER, after, &machine));
    /* A last machine that is smaller; one machine for all. */
    m = dapple_machines_of(6, 4);
    assert_true(dapple_place(&m, (uint16_t[]){4, 0}, 2, DAPPLE_FRESH, after, &machine));
    assert_false(dapple_place(&m, (uint16_t[]){4, 0}, 3, DAPPLE_FRESH, after, &machine));
    assert_int_equal(dapple_machines_of(6, 0).n_machines, 1);
}

enum { MOST = 8, DEFAULT_BEAM = 64 };

struct instance {
    double f[3][MOST + 1], b[3][MOST + 1], weight[MOST + 1], saved[MOST + 1], cut[MOST + 1];
    double workspace[MOST + 1];
    const double *forward[3], *backward[3];
    struct dapple_question q;
};

/* Where the stages chosen so far are. */
struct trail {
    struct dapple_step steps[2 * MOST];
    uint32_t n, held_by[MOST][3]; /* from, to, degree */
    uint32_t n_stages, last_d, last_machine;
};

static bool all_fit(const struct instance *x, const struct trail *t)
{
    for (uint32_t s = 0; s < t->n_stages; s++) {
        uint32_t from = t->held_by[s][0], to = t->held_by[s][1], held = t->n_stages - s;
        double work = 0;

        for (uint32_t i = from; i < to; i++) {
            work = fmax(work, x->workspace[i]);
        }
        held = held < x->q.m ? held : x->q.m;
        if (x->q.weight_multiplier * (x->weight[to] - x->weight[from]) +
                (x->saved[to] - x->saved[from]) * x->q.b * held / t->held_by[s][2] + work >
            x->q.capacity) {
            return false;
        }
    }
    return true;
}

static void push(const struct instance *x, struct trail *t, uint32_t from, uint32_t to, uint32_t k,
                 uint32_t machine)
{
    uint32_t d = x->q.degrees[k];
    double rate = machine == UINT32_MAX ? x->q.sync_between : x->q.sync_inside;
    double w = x->weight[to] - x->weight[from];

    if (t->n > 0) {
        double link =
            machine != UINT32_MAX && machine == t->last_machine ? x->q.inside : x->q.between;
        double time = x->cut[from] / (link * (d < t->last_d ? d : t->last_d));

        t->steps[t->n++] = (struct dapple_step){time, time, 0};
    }
    t->steps[t->n++] = (struct dapple_step){
        x->f[k][to] - x->f[k][from], x->b[k][to] - x->b[k][from], 2.0 * (d - 1) / d * w / rate};
    t->held_by[t->n_stages][0] = from;
    t->held_by[t->n_stages][1] = to;
    t->held_by[t->n_stages++][2] = d;
    t->last_d = d;
    t->last_machine = machine;
}

static double try_all(const struct instance *x, const struct trail *t, uint32_t at,
                      const uint16_t *used)
{
    double best = INFINITY;
    uint32_t taken = 0, most = UINT32_MAX;

    for (uint32_t i = 0; i < x->q.machines.n_machines; i++) {
        taken += used[i];
    }
    for (uint32_t k = 0; k < x->q.n_degrees; k++) {
        most = x->q.degrees[k] <= x->q.machines.n_devices - taken ? k : most;
    }
    for (uint32_t policy = 0; most != UINT32_MAX && policy < 3; policy++) {
        uint16_t after[8];
        uint32_t machine;
        struct trail last = *t;

        assert_true(
            dapple_place(&x->q.machines, used, x->q.degrees[most], policy, after, &machine));
        push(x, &last, at, x->q.n, most, machine);
        if (all_fit(x, &last)) {
            best = fmin(best, defined(last.steps, last.n, x->q.m));
        }
        for (uint32_t k = 0; k < x->q.n_degrees; k++) {
            if (!dapple_place(&x->q.machines, used, x->q.degrees[k], policy, after, &machine)) {
                continue;
            }
            for (uint32_t to = at + 1; to < x->q.n; to++) {
                struct trail next = *t;

                push(x, &next, at, to, k, machine);
                best = fmin(best, try_all(x, &next, to, after));
            }
        }
    }
    return best;
}

static void point_at(struct instance *x)
{
    for (uint32_t k = 0; k < 3; k++) {
        x->forward[k] = x->f[k];
        x->backward[k] = x->b[k];
    }
    x->q.forward = x->forward;
    x->q.backward = x->backward;
    x->q.weight = x->weight;
    x->q.saved = x->saved;
    x->q.workspace = x->workspace;
    x->q.cut = x->cut;
}

static void draw(struct instance *x, int round, uint64_t *seed)
{
    static const uint32_t degrees[] = {1, 2, 3};

    memset(x, 0, sizeof *x);
    x->q.n_degrees = 1 + round % 3;
    x->q.n = mask_between(seed, 1, x->q.n_degrees == 3 ? 5 : MOST);
    x->q.degrees = degrees;
    for (uint32_t i = 0; i < x->q.n; i++) {
        double f = mask_between(seed, 0, 9), b = mask_between(seed, 0, 20);

        for (uint32_t k = 0; k < 3; k++) {
            x->f[k][i + 1] = x->f[k][i] + f / degrees[k];
            x->b[k][i + 1] = x->b[k][i] + b / degrees[k];
        }
        x->weight[i + 1] = x->weight[i] + mask_between(seed, 0, 40);
        x->saved[i + 1] = x->saved[i] + mask_between(seed, 0, 9);
        x->workspace[i] = mask_between(seed, 0, 5);
        x->cut[i] = mask_between(seed, 0, 20);
    }
    point_at(x);
    x->q.inside = mask_between(seed, 4, 9);
    x->q.between = mask_between(seed, 1, 4);
    x->q.sync_inside = mask_between(seed, 4, 9);
    x->q.sync_between = mask_between(seed, 1, 4);
    x->q.machines = dapple_machines_of(mask_between(seed, 1, x->q.n_degrees == 3 ? 5 : 6),
                                       mask_between(seed, 0, 3));
    x->q.m = mask_between(seed, 1, 17);
    x->q.b = 2;
    x->q.weight_multiplier = 1;
    x->q.capacity = round % 2 == 0 ? INFINITY : mask_between(seed, 30, 200);
}

TEST(test_search)
{
    uint64_t seed = 9;
    int answers = 0;

    for (int round = 0; round < 2000; round++) {
        const uint16_t none[8] = {0};
        struct instance x;
        struct trail trail = {.n = 0};
        struct dapple_answer answer;
        double expected;

        draw(&x, round, &seed);
        expected = try_all(&x, &trail, 0, none);
        x.q.beam = 0;
        dapple_solve(&x.q, &answer);
        if (isinf(expected) ? !isinf(answer.latency)
                            : !(fabs(answer.latency - expected) <= 1e-9 * expected)) {
            fail_msg("seed 9, round %d: %.12g, by trying all %.12g", round, answer.latency,
                     expected);
        }
        /* Stages follow each other, on devices of their own. */
        for (uint32_t s = 0, at = 0, seen = 0; s < answer.n_stages; s++) {
            const struct dapple_stage *stage = &answer.stages[s];

            assert_int_equal(stage->from, at);
            at = stage->to;
            for (uint32_t i = 0; i < stage->degree; i++) {
                uint32_t rank = answer.ranks[stage->first_rank + i];

                assert_true(rank < x.q.machines.n_devices && (seen >> rank & 1) == 0);
                seen |= 1u << rank;
            }
            assert_true(s + 1 < answer.n_stages || at == x.q.n);
        }
        answers += !isinf(expected);
        /* By default as good, but for one in a hundred. */
        x.q.beam = DEFAULT_BEAM;
        dapple_solve(&x.q, &answer);
        if (isinf(expected)
                ? !isinf(answer.latency)
                : answer.latency < expected * (1 - 1e-9) || answer.latency > expected * 1.01) {
            fail_msg("seed 9, round %d: %.12g by default, by trying all %.12g", round,
                     answer.latency, expected);
        }
    }
    assert_true(answers > 1200);
}
