/* SPDX-License-Identifier: Apache-2.0
 *
 * vpipe: 32 equal blocks on four stages, worked out by hand, and against every partition.
 */
#include "test.h"

#include "../solo_rig.h"

#define GB 1e9

/* f = 0.5, r = 1, activations and static bytes 0.5 GB a block, 12 GB. */
static void blocks_of_32(struct solo *s)
{
    solo_init(s, 32);
    for (uint32_t v = 0; v < 32; v++) {
        s->nodes[v].ns[0] = 500;
        s->nodes[v].ns[1] = 1000;
        s->nodes[v].param_bytes = s->nodes[v].saved_bytes = .5 * GB;
    }
    s->problem.n_devices = 4;
    s->problem.mini_batch = 32;
    s->problem.memory_bytes = 12 * GB;
}

/* Of n such blocks with i in flight as few are recomputed as free enough, after `link` GB a us of
   swapping have freed what they hide. All blocks are alike, so counting is exact. */
static double stage_us(uint32_t n, uint32_t i, double link)
{
    double lacking = .5 * n + i * .5 * n - 12, best = INFINITY;

    for (uint32_t r = 0; r <= n; r++) {
        double us = 1.5 * n + .5 * r;

        for (uint32_t q = 0; q + r <= n && .5 * q <= link * us + 1e-9; q++) {
            if ((i - 1) * .5 * (q + r) >= lacking - 1e-9) {
                best = fmin(best, us);
            }
        }
    }
    return best;
}

/* Over all 4495 partitions into four. */
static double optimum_us(double link, uint32_t *ret_n)
{
    double best = INFINITY;

    *ret_n = 0;
    for (uint32_t a = 1; a < 30; a++) {
        for (uint32_t b = a + 1; b < 31; b++) {
            for (uint32_t c = b + 1; c < 32; c++) {
                double us = fmax(fmax(stage_us(a, 4, link), stage_us(b - a, 3, link)),
                                 fmax(stage_us(c - b, 2, link), stage_us(32 - c, 1, link)));

                best = fmin(best, us);
                ++*ret_n;
            }
        }
    }
    return best;
}

TEST(test_example)
{
    static const struct {
        const char *options, *ratios, *swapped;
        double link, us, of_problem;
    } table[] = {
        /* 4 of 7 and 4 of 8 blocks recomputed: 10.5 + 2, 12 + 2, 12, 13.5 */
        {NULL, "0.5714,0.5,0,0", "0,0,0,0", 0, 14, 0},
        /* two of each swapped for nothing: 10.5 + 1, 12 + 1, 12, 13.5 */
        {"{\"swap_bandwidth\":100000000000000}", "0.2857,0.25,0,0", "1000000000,1000000000,0,0", .1,
         13.5, 0},
        /* the same where the problem says it; and the options win */
        {NULL, "0.2857,0.25,0,0", "1000000000,1000000000,0,0", .1, 13.5, 1e14},
        {"{\"swap_bandwidth\":0}", "0.5714,0.5,0,0", "0,0,0,0", 0, 14, 1e14},
    };
    /* Static, kept times in flight, one of what is not: 3.5 + 4 * 1.5 + 2, 4 + 3 * 2 + 2; the
       others keep everything: 4 + 2 * 4, 4.5 + 4.5. */
    static const double gb[] = {11.5, 12, 12, 9};
    static struct solo s;

    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        struct pst_partition_result result;
        struct pst_error err;
        uint32_t n;

        solo_close(optimum_us(table[i].link, &n), table[i].us);
        assert_int_equal(n, 4495);
        blocks_of_32(&s);
        s.problem.swap_bandwidth = table[i].of_problem;
        if (solo_ask(&s, "vpipe", table[i].options, &result, &err) != PST_OK) {
            fail_msg("%s", err.message);
        }
        solo_close(solo_number(&result, "bottleneck_us_per_sample"), table[i].us);
        assert_string_equal(solo_text(&result, "blocks"), "7,8,8,9");
        assert_string_equal(solo_text(&result, "recompute_ratios"), table[i].ratios);
        assert_string_equal(solo_text(&result, "swapped_bytes_per_stage"), table[i].swapped);
        solo_close(solo_number(&result, "worst_stage_bytes"), 12 * GB);
        assert_true(solo_number(&result, "moves") == 1);
        for (uint32_t k = 0; k < 4; k++) {
            solo_close(result.stages[k].memory_bytes, gb[k] * GB);
        }
        pst_partition_result_finish(&result);
    }
}

/* In proportion alone: blocks are alike, so it finds the same. */
TEST(test_without_enumeration)
{
    static struct solo s;
    struct pst_partition_result result;
    struct pst_error err;

    blocks_of_32(&s);
    assert_int_equal(solo_ask(&s, "vpipe",
                              "{\"exact_blocks\":0,\"swap_bandwidth\":100000000000000}", &result,
                              &err),
                     PST_OK);
    solo_close(solo_number(&result, "bottleneck_us_per_sample"), 13.5);
    pst_partition_result_finish(&result);
}

/* Versions add to the static bytes: stage 0 of the even split holds 4, 8 or 16 GB of them. Two
   need 4 GB more on every stage of eight blocks. */
TEST(test_versions)
{
    static const struct {
        const char *options;
        double capacity_gb, worst_gb;
    } table[] = {
        {"{\"versions\":\"one\"}", 1000, 4 + 16},
        {"{\"versions\":\"two\"}", 1000, 8 + 16},
        {"{\"versions\":\"stash\"}", 1000, 16 + 16},
    };
    static struct solo s;

    for (size_t i = 0; i < 3; i++) {
        struct pst_partition_result result;
        struct pst_error err;

        blocks_of_32(&s);
        s.problem.memory_bytes = table[i].capacity_gb * GB;
        assert_int_equal(solo_ask(&s, "vpipe", table[i].options, &result, &err), PST_OK);
        assert_string_equal(solo_text(&result, "blocks"), "8,8,8,8");
        solo_close(solo_number(&result, "worst_stage_bytes"), table[i].worst_gb * GB);
        pst_partition_result_finish(&result);
    }
}

/* Recomputing everything leaves static bytes and one micro-batch: 32 GB over four stages never
   come below 8 GB a stage; with 7.9 it must say so. */
TEST(test_infeasible)
{
    static struct solo s;
    struct pst_partition_result result;
    struct pst_error err;

    blocks_of_32(&s);
    s.problem.memory_bytes = 8 * GB;
    assert_int_equal(solo_ask(&s, "vpipe", NULL, &result, &err), PST_OK);
    pst_partition_result_finish(&result);
    s.problem.memory_bytes = 7.9 * GB;
    assert_int_equal(solo_ask(&s, "vpipe", NULL, &result, &err), PST_ERR_INFEASIBLE);
    assert_string_equal(err.kind, "plan.infeasible");
    assert_non_null(strstr(err.message, "stage 0, from node \"n0\""));
}

/* --- blocks that differ, against every partition and every choice of blocks
 * ----------------------*/

struct small {
    uint32_t n;
    double f[8], r[8], a[8], w[8];
    double capacity, link;
};

static uint64_t draw_state;

static uint32_t draw(uint32_t low, uint32_t high)
{
    draw_state = draw_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return low + (uint32_t)(draw_state >> 33) % (high - low + 1);
}

/* All 3^n choices of keep, swap, recompute. */
static double choose(const struct small *p, uint32_t first, uint32_t end, uint32_t i)
{
    double need = 0, base = 0, best = INFINITY;
    uint32_t n_choices = 1, choice;

    for (uint32_t l = first; l < end; l++) {
        need += p->w[l] + i * p->a[l];
        base += p->f[l] + p->r[l];
        n_choices *= 3;
    }
    for (choice = 0; choice < n_choices; choice++) {
        double us = base, freed = 0, swapped = 0;
        uint32_t rest = choice;

        for (uint32_t l = first; l < end; l++, rest /= 3) {
            us += rest % 3 == 1 ? p->f[l] : 0;
            freed += rest % 3 != 0 ? p->a[l] : 0;
            swapped += rest % 3 == 2 ? p->a[l] : 0;
        }
        if (need - (i - 1) * freed <= p->capacity && swapped <= p->link * us + 1e-9) {
            best = fmin(best, us);
        }
    }
    return best;
}

/* One stage: the inner problem is exact. Two: never below the optimum, mostly at it. */
TEST(test_against_every_choice)
{
    const uint64_t seed = 20221;
    uint32_t feasible = 0, optimal = 0, stuck = 0;

    print_message("seed %llu\n", (unsigned long long)seed);
    draw_state = seed;
    for (int round = 0; round < 400; round++) {
        static struct solo s;
        struct pst_partition_result result;
        struct pst_error err;
        struct small p = {.n = draw(2, 7), .link = draw(0, 2) * .5};
        double best = INFINITY;
        char options[64];

        solo_init(&s, p.n);
        for (uint32_t l = 0; l < p.n; l++) {
            p.f[l] = draw(1, 9);
            p.r[l] = draw(1, 9);
            p.a[l] = draw(0, 9);
            p.w[l] = draw(0, 4);
            s.nodes[l].ns[0] = p.f[l] * 1000;
            s.nodes[l].ns[1] = p.r[l] * 1000;
            s.nodes[l].saved_bytes = p.a[l];
            s.nodes[l].param_bytes = p.w[l];
        }
        p.capacity = draw(8, 50);
        s.problem.n_devices = 2;
        s.problem.mini_batch = 4;
        s.problem.memory_bytes = p.capacity;
        snprintf(options, sizeof options, "{\"swap_bandwidth\":%.0f}", p.link * 1e6);
        for (uint32_t c = 1; c < p.n; c++) {
            best = fmin(best, fmax(choose(&p, 0, c, 2), choose(&p, c, p.n, 1)));
        }
        if (solo_ask(&s, "vpipe", options, &result, &err) != PST_OK) {
            stuck += !isinf(best);
            continue;
        }
        feasible++;
        assert_true(solo_number(&result, "bottleneck_us_per_sample") >= best * (1 - 1e-9));
        assert_true(solo_number(&result, "worst_stage_bytes") <= p.capacity * (1 + 1e-9));
        {
            uint32_t c = result.stages[0].n_nodes;

            /* The swaps and recomputations of the cut that it chose are the best there are. */
            solo_close(solo_number(&result, "bottleneck_us_per_sample"),
                       fmax(choose(&p, 0, c, 2), choose(&p, c, p.n, 1)));
        }
        optimal += solo_number(&result, "bottleneck_us_per_sample") <= best * (1 + 1e-9);
        pst_partition_result_finish(&result);
    }
    print_message("%u feasible, %u optimal, %u not found\n", feasible, optimal, stuck);
    assert_true(feasible > 200 && optimal * 10 > feasible * 9 && stuck * 50 < feasible);
}
