/* SPDX-License-Identifier: Apache-2.0
 *
 * The evaluator of memory plans against a ledger that books every tensor of the active micro-batch
 * one event at a time.
 */
#include "plugin/eval.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "memopt_rig.h"

#define MOST 13 /* nodes */

static void test_ledger_agrees_on_random_plans(void **state)
{
    const uint64_t seed = 20240607;
    uint64_t counter = 0;
    uint32_t legal = 0;

    (void)state;
    print_message("seed %llu\n", (unsigned long long)seed);
    for (int round = 0; round < 20000; round++) {
        struct stage s;
        char plan[MAX_NODES + 1] = {0};
        struct pst_stage_value value;
        struct ledger_value booked;

        random_stage(&s, MOST, seed, &counter);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ledger_agrees_on_random_plans),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
