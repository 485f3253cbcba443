/* SPDX-License-Identifier: Apache-2.0
 *
 * vpipe on blocks that differ, against every partition and every choice of blocks.
 * e2e/partition_examples_test.txt has what was worked out by hand.
 */
#include "test.h"

#include "../chain_rig.h"

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

    draw_state = seed;
    for (int round = 0; round < 400; round++) {
        static struct chain_rig s;
        struct pst_partition_result result;
        struct pst_error err;
        struct small p = {.n = draw(2, 7), .link = draw(0, 2) * .5};
        double best = INFINITY;
        char options[64];

        chain_init(&s, p.n);
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
        if (chain_ask(&s, "vpipe", options, &result, &err) != PST_OK) {
            stuck += !isinf(best);
            continue;
        }
        feasible++;
        assert_true(chain_number(&result, "bottleneck_us_per_sample") >= best * (1 - 1e-9));
        assert_true(chain_number(&result, "worst_stage_bytes") <= p.capacity * (1 + 1e-9));
        {
            uint32_t c = result.stages[0].n_nodes;

            /* The swaps and recomputations of the cut that it chose are the best there are. */
            chain_close(chain_number(&result, "bottleneck_us_per_sample"),
                        fmax(choose(&p, 0, c, 2), choose(&p, c, p.n, 1)));
        }
        optimal += chain_number(&result, "bottleneck_us_per_sample") <= best * (1 + 1e-9);
        pst_partition_result_finish(&result);
    }
    print_message("%u feasible, %u optimal, %u not found\n", feasible, optimal, stuck);
    assert_true(feasible > 200 && optimal * 10 > feasible * 9 && stuck * 50 < feasible);
}
