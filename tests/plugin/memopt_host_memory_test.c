/* SPDX-License-Identifier: Apache-2.0
 *
 * Stages with a limit on host memory: of k micro-batches no more is offloaded than there is room
 * for, whoever decides, and within that the best plan is found and every plan that fits.
 */
#include "planner/eval.h"

#include "test.h"

#include "memopt_rig.h"

#define PLAIN "slot_filter = false\nlink_target = 1.0\nmin_swap_bytes = 0\n"

static const struct {
    const char *id, *options;
    bool complete; /* misses no plan that fits */
    double slower; /* than the best, at most; 0: whatever */
} rows[] = {
    {"exact", "", true, 1},
    {"exact", "method = \"branch\"", true, 1},
    {"two-ended", PLAIN "host_memory = 1.0\n", true, 1.05},
    {"two-ended", PLAIN "host_memory = 0.5\n", false, 0},
    {"dawnpiper", PLAIN "host_memory = 1.0\npolicy = \"capuchin\"\n", false, 0},
    {"offload", PLAIN "min_windows = 0\nwhen = \"always\"\n", false, 0},
    {"vpipe", "min_swap_bytes = 0\n", false, 0},
    {"vpipe", "min_swap_bytes = 0\nexact_layers = 0\n", false, 0},
};

enum { ROWS = sizeof rows / sizeof rows[0] };

static uint64_t offloaded_of(const struct stage *s, const char *plan)
{
    uint64_t bytes = 0;

    for (uint32_t v = 0; v < s->view.n_nodes; v++) {
        bytes += plan[v] == 'S' ? s->nodes[v].saved_bytes : 0;
    }
    return bytes;
}

TEST(test_random_stages)
{
    const uint64_t seed = 77;
    struct pst_instance *instances[ROWS];
    uint32_t used[ROWS] = {0}, decided = 0;
    uint64_t counter = 0;

    for (size_t i = 0; i < ROWS; i++) {
        instances[i] = open_memopt(rows[i].id, rows[i].options);
    }
    for (uint32_t round = 0; round < 150; round++) {
        struct optimum best, unlimited;
        struct stage s;
        uint64_t all, host;

        random_stage(&s, 6, seed, &counter);
        all = enumerate(&s, "K").least_peak;
        s.view.capacity_bytes = all - draw(seed, &counter, 40) * all / 60;
        unlimited = enumerate(&s, "KRS");
        host = 1 + draw(seed, &counter, 80);
        s.view.host_capacity_bytes = host;
        best = enumerate(&s, "KRS");
        decided += unlimited.fits && (!best.fits || best.extra > unlimited.extra);
        for (size_t i = 0; i < ROWS; i++) {
            struct memopt_answer answer = ask(instances[i], &s); /* legal by the ledger, too */
            uint64_t bytes;

            assert_true(best.fits || !answer.price.fits);
            assert_true(!rows[i].complete || answer.price.fits == best.fits);
            if (answer.status != PST_OK) {
                continue;
            }
            bytes = s.view.in_flight * offloaded_of(&s, answer.plan);
            used[i] += bytes > 0;
            assert_true(bytes <= (strstr(rows[i].options, "= 0.5") != NULL ? host / 2 : host));
            assert_true(answer.value.extra_ns >= best.extra);
            if (rows[i].slower > 0) {
                uint64_t total = answer.value.period_ns - answer.value.extra_ns;

                assert_true((double)answer.value.period_ns <=
                            rows[i].slower * (double)(total + best.extra));
            }
        }
    }
    print_message("the limit decides in %u of 150\n", decided);
    assert_true(decided > 5);
    for (size_t i = 0; i < ROWS; i++) {
        print_message("%s: something offloaded in %u\n", rows[i].id, used[i]);
        assert_true(used[i] > 0);
        pst_instance_destroy(instances[i]);
    }
}
