/* SPDX-License-Identifier: Apache-2.0
 *
 * The exact search: cut off; out of memory. schedule_table_test.c has the optima that it proves,
 * and graph_orders_test.c compares it with all orders there are, one by one.
 */
#include "schedule_rig.h"

/* Cut off, it still answers, and its bound stays a bound. */
TEST(test_cut_off)
{
    for (uint32_t nodes = 0; nodes < 3000; nodes += 97) {
        char options[64];
        OWN_RUN run;

        snprintf(options, sizeof options, "placement=vshape,max_nodes=%u", nodes);
        run = SCHEDULE("optimal", .options = options, .p = 3, .m = 4, .cap = 4);
        assert_true(run.makespan >= 29);
        assert_true(run.answer.claim.lower_bound_ns <= 29);
    }
}

TEST(test_large_instances_are_answered)
{
    OWN_RUN run = SCHEDULE("optimal", .options = "placement=vshape,max_nodes=1000", .p = 16,
                           .m = 64, .cap = 32);

    assert_true(run.makespan >= run.answer.claim.lower_bound_ns);
    assert_true(run.answer.claim.lower_bound_ns >= 6 * 64 + 15);
    schedule_run_free(&run);
    /* here a search that only ever goes deeper would leave the stack */
    run = SCHEDULE("optimal", .options = "max_nodes=100000", .p = 32, .m = 64, .f = 337, .b = 571,
                   .w = 123, .c = 57);
    assert_true(run.makespan >= run.answer.claim.lower_bound_ns);
    assert_true(run.answer.claim.lower_bound_ns >= 64 * (337 + 571 + 123) + 31 * (337 + 57));
}

TEST(test_too_little_memory)
{
    OWN_RUN run = SCHEDULE("optimal", .options = "placement=vshape", .p = 3, .m = 4, .cap = 1,
                           .may_fail = true);

    assert_int_equal(run.status, PST_ERR_INFEASIBLE);
    assert_non_null(strstr(run.error.message, "needs 2, which is the least that works"));
}
