/* SPDX-License-Identifier: Apache-2.0
 *
 * Piper's search against trying every sequence of stages, every degree and every way to run every
 * node; its knapsack against trying every choice; the worked example of two operators.
 */
#include "knapsack.h"
#include "search.h"

#include <math.h>
#include "test.h"

#include "downsets_rig.h"

struct instance {
    struct mask_dag g;
    uint32_t first[MASK_NODES + 1];
    struct piper_way ways[4 * MASK_NODES];
    double bytes[MASK_EDGES], workspace[MASK_NODES];
    struct piper_question q;
};

/* Least time of the nodes of `mask` from node v on, each in some way with this tensor degree,
   within what is left of the memory. */
static double try_ways(const struct instance *x, uint32_t mask, uint32_t v, uint32_t t, uint32_t d,
                       uint32_t held, double room)
{
    const struct piper_question *q = &x->q;
    double best = INFINITY;

    while (v < x->g.dag.n && (mask >> v & 1) == 0) {
        v++;
    }
    if (v == x->g.dag.n) {
        return 0;
    }
    for (uint32_t w = x->first[v]; w < x->first[v + 1]; w++) {
        const struct piper_way *way = &x->ways[w];
        double bytes = way->in_flight * held + way->fixed, time = way->time / d;

        if (way->tensor != t || bytes > room) {
            continue;
        }
        if (q->sync_rate > 0) {
            time += 4.0 * (d - 1) * way->weight / (d * q->n_units * q->sync_rate);
        }
        best = fmin(best, time + try_ways(x, mask, v + 1, t, d, held, room - bytes));
    }
    return best;
}

static double stage(const struct instance *x, uint32_t mask, uint32_t t, uint32_t d, uint32_t s)
{
    double cut = 0, room = x->q.capacity;

    for (uint32_t e = 0; e < x->g.dag.n_edges; e++) {
        if ((mask >> x->g.from[e] & 1) != (mask >> x->g.to[e] & 1)) {
            cut += x->bytes[e];
        }
    }
    if (x->q.workspace != NULL) {
        double most = 0;

        for (uint32_t v = 0; v < x->g.dag.n; v++) {
            most = (mask >> v & 1) != 0 ? fmax(most, x->workspace[v]) : most;
        }
        room -= most;
    }
    return try_ways(x, mask, 0, t, d, (s + d - 1) / d, room) +
           (x->q.transfer_rate > 0 ? 2 * cut / (d * x->q.transfer_rate) : 0);
}

/* All ways to cut what is not in `done`, with degrees that add up to at most s. */
static double try_all(const struct instance *x, uint32_t done, uint32_t k, uint32_t s)
{
    uint32_t rest = ((1u << x->g.dag.n) - 1) & ~done, part;
    double best = INFINITY;

    if (rest == 0) {
        return 0;
    }
    for (part = rest; part != 0; part = (part - 1) & rest) {
        if (!mask_is_downset(&x->g, done | part)) {
            continue;
        }
        for (uint32_t i = 0; i < x->q.n_degrees; i++) {
            uint32_t d = x->q.degrees[i];

            for (uint32_t t = 1; t * d <= k && d <= s && x->q.n_units % d == 0; t++) {
                double first = stage(x, part, t, d, s);

                if (first < best) {
                    best = fmin(best, fmax(first, try_all(x, done | part, k - t * d, s - d)));
                }
            }
        }
    }
    return best;
}

/* As the text has it: the least over the sum of degrees. */
static double by_trying(const struct instance *x)
{
    uint32_t most = x->q.n_units < x->q.n_devices ? x->q.n_units : x->q.n_devices;
    double best = INFINITY;

    for (uint32_t s = 1; s <= most; s++) {
        best = fmin(best, try_all(x, 0, x->q.n_devices, s));
    }
    return best;
}

static double solve(struct instance *x, struct piper_answer *ret_answer)
{
    struct part_downsets sets;
    uint64_t count;
    bool exact;
    double value;

    assert_int_equal(part_downsets_all(&x->g.dag, 1000, NULL, &sets, &count, &exact), PST_OK);
    x->q.sets = &sets;
    x->q.dag = &x->g.dag;
    x->q.first_way = x->first;
    x->q.ways = x->ways;
    x->q.edge_bytes = x->bytes;
    assert_int_equal(piper_solve(&x->q, ret_answer), PST_OK);
    value = ret_answer->bottleneck;
    for (uint32_t s = 0, at = 0, k = 0; s < ret_answer->n_stages; s++) {
        const struct piper_stage *a = &ret_answer->stages[s];
        uint32_t mask = (uint32_t)(sets.bits[a->to] & ~sets.bits[a->from]), behind = 0;
        double time = 0, bytes = 0, aside = 0;

        assert_int_equal(a->from, at);
        at = a->to;
        k += a->tensor * a->degree;
        for (uint32_t r = s; r < ret_answer->n_stages; r++) {
            behind += ret_answer->stages[r].degree;
        }
        assert_true(a->held >= (behind + a->degree - 1) / a->degree);
        for (uint32_t v = 0; v < x->g.dag.n; v++) {
            const struct piper_way *way = &x->ways[ret_answer->way[v]];

            if ((mask >> v & 1) != 0) {
                assert_true(ret_answer->way[v] >= x->first[v]);
                assert_true(ret_answer->way[v] < x->first[v + 1]);
                assert_int_equal(way->tensor, a->tensor);
                time += way->time / a->degree;
                bytes += way->in_flight * a->held + way->fixed;
                aside = fmax(aside, x->q.workspace == NULL ? 0 : x->q.workspace[v]);
            }
        }
        assert_true(time <= value * (1 + 1e-12));
        assert_true(bytes <= x->q.capacity * (1 + 1e-8));
        assert_true(fabs(bytes + aside - a->bytes) <= 1e-9 * (1 + bytes));
        assert_true(s + 1 < ret_answer->n_stages || at == sets.n_sets - 1);
        assert_true(k <= x->q.n_devices);
    }
    return value;
}

static void draw(struct instance *x, int round, uint64_t *seed)
{
    static const uint32_t degrees[] = {1, 2, 3, 4};
    uint32_t n = mask_between(seed, 1, 4), n_ways = 0;
    bool small = round % 4 == 0;

    memset(x, 0, sizeof *x);
    mask_random(&x->g, n, 40, false, seed);
    for (uint32_t v = 0; v < n; v++) {
        uint32_t kinds = mask_between(seed, 1, 3);

        x->first[v] = n_ways;
        for (uint32_t i = 0; i < kinds; i++) {
            x->ways[n_ways++] = (struct piper_way){
                i == 0 ? 1 : mask_between(seed, 1, 2),
                mask_between(seed, 0, 20),
                mask_between(seed, 0, 10),
                mask_between(seed, 0, 9),
                mask_between(seed, 0, 9),
            };
        }
        x->workspace[v] = mask_between(seed, 0, 5);
    }
    x->first[n] = n_ways;
    for (uint32_t e = 0; e < x->g.dag.n_edges; e++) {
        x->bytes[e] = mask_between(seed, 0, 9);
    }
    x->q.degrees = degrees;
    x->q.n_degrees = small ? 1 : 4;
    x->q.n_devices = mask_between(seed, 1, 4);
    x->q.n_units = mask_between(seed, 1, 6);
    x->q.sync_rate = round % 3 == 0 ? 0 : mask_between(seed, 1, 3);
    x->q.transfer_rate = round % 5 == 0 ? 0 : mask_between(seed, 1, 5);
    x->q.workspace = round % 7 == 0 ? x->workspace : NULL;
    x->q.capacity = round % 6 == 0 ? INFINITY : mask_between(seed, 5, 70);
}

TEST(test_search)
{
    uint64_t seed = 5;
    int answers = 0, limited = 0, tensor = 0;

    for (int round = 0; round < 400; round++) {
        struct instance x;
        struct piper_answer answer;
        double found, expected;

        draw(&x, round, &seed);
        found = solve(&x, &answer);
        expected = by_trying(&x);
        if (isinf(found) ? !isinf(expected) : !(fabs(found - expected) <= 1e-9 * expected)) {
            fail_msg("round %d: %.12g, by trying all %.12g", round, found, expected);
        }
        answers += !isinf(found);
        limited += !isinf(found) && !isinf(x.q.capacity);
        for (uint32_t s = 0; s < answer.n_stages; s++) {
            tensor += answer.stages[s].tensor > 1;
        }
    }
    assert_true(answers > 250 && limited > 150 && tensor > 30);
}

/* Random items; every choice is tried. */
TEST(test_knapsack)
{
    uint64_t seed = 6;

    for (int round = 0; round < 500; round++) {
        struct knapsack_option options[24];
        uint32_t n = mask_between(&seed, 0, 7), first[9] = {0}, choice[8], n_options = 0;
        double budget = mask_between(&seed, 0, 60), best = INFINITY, time, total = 0, bytes = 0;
        uint32_t combinations = 1;
        bool exact;

        for (uint32_t i = 0; i < n; i++) {
            uint32_t count = mask_between(&seed, 1, 3);

            for (uint32_t o = 0; o < count; o++) {
                options[n_options++] = (struct knapsack_option){
                    round % 3 == 0 ? mask_between(&seed, 0, 1000) / 7.0 : mask_between(&seed, 0, 9),
                    mask_between(&seed, 0, 15)};
            }
            first[i + 1] = n_options;
            combinations *= count;
        }
        for (uint32_t c = 0; c < combinations; c++) {
            uint32_t left = c;
            double t = 0, m = 0;

            for (uint32_t i = 0; i < n; i++) {
                const struct knapsack_option *o =
                    &options[first[i] + left % (first[i + 1] - first[i])];

                left /= first[i + 1] - first[i];
                t += o->time;
                m += o->bytes;
            }
            best = m <= budget ? fmin(best, t) : best;
        }
        knapsack_solve(n, first, options, budget, &time, choice, &exact);
        assert_true(exact);
        if (isinf(best) ? !isinf(time) : !(fabs(time - best) <= 1e-12 * best)) {
            fail_msg("round %d: %.12g, by trying all %.12g", round, time, best);
        }
        for (uint32_t i = 0; i < n && !isinf(best); i++) {
            assert_true(choice[i] >= first[i] && choice[i] < first[i + 1]);
            total += options[choice[i]].time;
            bytes += options[choice[i]].bytes;
        }
        assert_true(isinf(best) || (bytes <= budget && fabs(total - time) <= 1e-12 * total));
    }
}

/* Sixty items of two options: known, because all swaps are alike but for one of them. */
TEST(test_large_knapsack)
{
    enum { N = 200 };
    static struct knapsack_option options[2 * N];
    static uint32_t first[N + 1];
    double time;
    bool exact;

    for (uint32_t i = 0; i < N; i++) {
        options[2 * i] = (struct knapsack_option){i == 7 ? 3 : 1, 10};
        options[2 * i + 1] = (struct knapsack_option){2, 4};
        first[i + 1] = 2 * i + 2;
    }
    /* 60 items, 600 bytes at most; item 7 is better lean, and saves 6 bytes; 5 more must save. */
    knapsack_solve(60, first, options, 567, &time, NULL, &exact);
    assert_true(exact);
    assert_true(time == 59 + 2 + 5);
    knapsack_solve(N, first, options, 2000 - 33, &time, NULL, &exact);
    assert_false(exact);
    assert_true(time == 199 + 2 + 5);
}
