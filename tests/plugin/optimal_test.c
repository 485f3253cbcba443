/* SPDX-License-Identifier: Apache-2.0
 *
 * The exact search: optima that an exhaustive search over states has proven before; cut off; out of
 * memory. graph_orders_test.c compares it with all orders there are, one by one.
 */
#include "schedule_rig.h"

struct row {
    const char *placement;
    uint32_t p, m;
    uint64_t cap, f, b, w, makespan;
};

TEST(test_proven_optima)
{
    static const struct row rows[] = {
        {"sequential", 2, 4, 2, 1, 1, 1, 13}, {"sequential", 3, 6, 3, 1, 1, 1, 20},
        {"sequential", 3, 6, 5, 1, 1, 1, 20}, {"sequential", 4, 8, 4, 1, 1, 1, 27},
        {"sequential", 3, 6, 2, 1, 1, 1, 25}, {"sequential", 4, 6, 3, 1, 1, 1, 24},
        {"sequential", 4, 6, 2, 1, 1, 1, 31}, {"sequential", 3, 6, 3, 2, 2, 1, 36},
        {"sequential", 3, 6, 5, 2, 2, 1, 34}, {"sequential", 3, 6, 3, 1, 2, 1, 28},
        {"sequential", 3, 6, 6, 1, 2, 1, 26}, {"vshape", 2, 4, 2, 1, 1, 1, 33},
        {"vshape", 2, 4, 3, 1, 1, 1, 27},     {"vshape", 2, 4, 4, 1, 1, 1, 25},
        {"vshape", 3, 4, 2, 1, 1, 1, 43},     {"vshape", 3, 4, 3, 1, 1, 1, 36},
        {"vshape", 3, 4, 4, 1, 1, 1, 29},     {"vshape", 3, 4, 5, 1, 1, 1, 27},
        {"vshape", 3, 4, 6, 1, 1, 1, 26},     {"vshape", 4, 4, 3, 1, 1, 1, 46},
        {"vshape", 4, 4, 4, 1, 1, 1, 35},     {"vshape", 4, 4, 5, 1, 1, 1, 32},
        {"vshape", 4, 4, 6, 1, 1, 1, 29},     {"vshape", 4, 4, 7, 1, 1, 1, 28},
        {"vshape", 4, 4, 8, 1, 1, 1, 27},     {"vshape", 4, 5, 4, 1, 1, 1, 41},
        {"vshape", 4, 5, 5, 1, 1, 1, 38},     {"vshape", 4, 5, 6, 1, 1, 1, 35},
        {"vshape", 4, 5, 7, 1, 1, 1, 34},     {"vshape", 4, 5, 8, 1, 1, 1, 33},
        {"vshape", 2, 4, 4, 2, 2, 1, 42},     {"vshape", 2, 4, 4, 2, 3, 2, 59},
        {"vshape", 3, 4, 4, 1, 2, 1, 41},     {"vshape", 3, 4, 6, 1, 2, 1, 36},
        {"looped", 2, 3, 4, 1, 1, 1, 19},     {"looped", 3, 3, 4, 1, 1, 1, 23},
        {"looped", 2, 3, 3, 1, 1, 1, 20},     {"vshape", 2, 3, 3, 1, 1, 1, 21},
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct row *row = &rows[i];
        char options[64];
        struct schedule_run run;

        snprintf(options, sizeof options, "placement=%s", row->placement);
        run = SCHEDULE("optimal", .options = options, .p = row->p, .m = row->m, .cap = row->cap,
                       .f = row->f, .b = row->b, .w = row->w);
        if (run.makespan != row->makespan || run.answer.claim.lower_bound_ns != row->makespan) {
            fail_msg("%s, p = %u, m = %u, cap %lu: %lu, bound %lu, not %lu", row->placement, row->p,
                     row->m, (unsigned long)row->cap, (unsigned long)run.makespan,
                     (unsigned long)run.answer.claim.lower_bound_ns, (unsigned long)row->makespan);
        }
        for (uint32_t d = 0; d < row->p; d++) {
            assert_true(run.peaks[d] <= row->cap);
        }
        schedule_run_free(&run);
    }
}

/* Cut off, it still answers, and its bound stays a bound. */
TEST(test_cut_off)
{
    for (uint32_t nodes = 0; nodes < 3000; nodes += 97) {
        char options[64];
        struct schedule_run run;

        snprintf(options, sizeof options, "placement=vshape,max_nodes=%u", nodes);
        run = SCHEDULE("optimal", .options = options, .p = 3, .m = 4, .cap = 4);
        assert_true(run.makespan >= 29);
        assert_true(run.answer.claim.lower_bound_ns <= 29);
        schedule_run_free(&run);
    }
}

TEST(test_large_instances_are_answered)
{
    struct schedule_run run = SCHEDULE("optimal", .options = "placement=vshape,max_nodes=1000",
                                       .p = 16, .m = 64, .cap = 32);

    assert_true(run.makespan >= run.answer.claim.lower_bound_ns);
    assert_true(run.answer.claim.lower_bound_ns >= 6 * 64 + 15);
    schedule_run_free(&run);
    /* here a search that only ever goes deeper would leave the stack */
    run = SCHEDULE("optimal", .options = "max_nodes=100000", .p = 32, .m = 64, .f = 337, .b = 571,
                   .w = 123, .c = 57);
    assert_true(run.makespan >= run.answer.claim.lower_bound_ns);
    assert_true(run.answer.claim.lower_bound_ns >= 64 * (337 + 571 + 123) + 31 * (337 + 57));
    schedule_run_free(&run);
}

TEST(test_too_little_memory)
{
    struct schedule_run run = SCHEDULE("optimal", .options = "placement=vshape", .p = 3, .m = 4,
                                       .cap = 1, .may_fail = true);

    assert_int_equal(run.status, PST_ERR_INFEASIBLE);
    assert_non_null(strstr(run.error.message, "needs 2, which is the least that works"));
    schedule_run_free(&run);
}
