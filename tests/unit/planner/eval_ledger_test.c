/* SPDX-License-Identifier: Apache-2.0
 *
 * The evaluator of memory plans against a ledger that books every tensor of the active micro-batch
 * one event at a time.
 */
#include "planner/eval.h"

#include "test.h"

#include "memopt_rig.h"

#define MOST 13 /* nodes */

TEST(test_ledger_agrees_on_random_plans)
{
    const uint64_t seed = 20240607;
    uint64_t counter = 0;
    uint32_t legal = 0;

    for (int round = 0; round < 20000; round++) {
        struct stage s;
        char plan[MAX_NODES + 1] = {0};
        struct pst_stage_value value;
        struct ledger_value booked;

        random_stage(&s, MOST, seed, &counter);
        if (round % 2 == 1) {
            random_results(&s, seed, &counter);
        }
        for (uint32_t v = 0; v < s.view.n_nodes; v++) {
            plan[v] = "KRRS"[draw(seed, &counter, 4)];
        }
        value = value_of_letters(&s, plan);
        booked = ledger_value_of(&s, plan);
        assert_int_equal(value.legal, booked.legal);
        if (!value.legal) {
            continue;
        }
        legal++;
        if (value.peak_bytes != booked.peak) {
            fail_msg("round %d, plan %s: %llu, the ledger has %llu", round, plan,
                     (unsigned long long)value.peak_bytes, (unsigned long long)booked.peak);
        }
        assert_int_equal(value.extra_ns, booked.extra);
        assert_int_equal(value.period_ns, booked.total + booked.extra);
    }
    print_message("%u legal plans\n", legal);
    assert_true(legal > 5000);
}

/* The curve that is shown has the peak as its highest point, and the sums add up to it. */
TEST(test_events_have_the_peak)
{
    const uint64_t seed = 20260711;
    uint64_t counter = 0;
    uint32_t legal = 0;

    for (int round = 0; round < 5000; round++) {
        struct stage s;
        char plan[MAX_NODES + 1] = {0};
        uint8_t actions[MAX_NODES];
        struct ledger_value booked;
        struct pst_arena arena = {0};
        struct pst_memory_event *events;
        struct pst_memory_sums sums;
        uint64_t most = 0, ns = 0;
        uint32_t n = 0;

        random_stage(&s, MOST, seed, &counter);
        if (round % 2 == 1) {
            random_results(&s, seed, &counter);
        }
        for (uint32_t v = 0; v < s.view.n_nodes; v++) {
            plan[v] = "KRRS"[draw(seed, &counter, 4)];
        }
        letters(plan, actions);
        booked = ledger_value_of(&s, plan);
        if (!booked.legal) {
            continue;
        }
        legal++;
        pst_memory_events(&s.view, actions, &arena, &events, &n, &sums);
        for (uint32_t i = 0; i < n; i++) {
            most = events[i].bytes > most ? events[i].bytes : most;
            ns += events[i].ns;
        }
        assert_int_equal(most, booked.peak);
        assert_int_equal(sums.static_bytes + sums.parked_bytes + sums.active_bytes, booked.peak);
        assert_int_equal(sums.total_ns, booked.total);
        assert_int_equal(ns, sums.total_ns + sums.replay_ns);
        pst_arena_finish(&arena);
    }
    assert_true(legal > 1000);
}
