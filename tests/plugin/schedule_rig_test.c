/* SPDX-License-Identifier: Apache-2.0
 *
 * A scheduler on its own, through the rig that the tests of all schedulers use: small instances
 * drawn by hand.
 */
#include "schedule_rig.h"

static void expect(const struct schedule_run *run, uint64_t makespan, uint64_t span,
                   const uint64_t *peaks, uint32_t n)
{
    assert_int_equal(run->makespan, makespan);
    assert_int_equal(run->span, span);
    for (uint32_t d = 0; d < n; d++) {
        assert_int_equal(run->peaks[d], peaks[d]);
    }
    assert_true(run->bounds.makespan_ns <= run->makespan_ns);
    assert_true(run->bounds.span_ns <= run->span_ns);
}

TEST(test_gpipe)
{
    static const uint64_t peaks[] = {3, 3};
    struct schedule_run run = SCHEDULE("gpipe", .p = 2, .m = 3);

    expect(&run, 12, 12, peaks, 2);
    assert_string_equal(run.picture, "FFF...XXXXXX\n.FFFXXXXXX..\n");
    assert_string_equal(run.csv, "0F0,0F1,0F2,0B0,0B1,0B2\n1F0,1F1,1F2,1B0,1B1,1B2\n");
    schedule_run_free(&run);
}

TEST(test_one_f_one_b)
{
    static const uint64_t peaks[] = {4, 3, 2, 1};
    struct schedule_run run = SCHEDULE("1f1b", .p = 4, .m = 8, .c = 1);

    expect(&run, 49, 49, peaks, 4);
    schedule_run_free(&run);
    run = SCHEDULE("1f1b", .options = "split=true", .p = 4, .m = 8, .unit = 1000);
    expect(&run, 30, 30, peaks, 4);
    schedule_run_free(&run);
    run = SCHEDULE("1f1b", .p = 2, .m = 2);
    assert_string_equal(run.csv, "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n");
    schedule_run_free(&run);
}

/* Without a barrier a step of 1F1B begins when the device is free: the period is the span. */
TEST(test_batches_in_a_row)
{
    struct schedule_run one = SCHEDULE("1f1b", .p = 4, .m = 8);
    struct schedule_run four = SCHEDULE("1f1b", .p = 4, .m = 8, .batches = 4);

    assert_int_equal(one.span, 33);
    assert_int_equal(four.makespan, 4 * 33);
    schedule_run_free(&one);
    schedule_run_free(&four);
}

TEST(test_failures)
{
    struct schedule_run run =
        SCHEDULE("1f1b", .options = "splat=true", .p = 2, .m = 2, .may_fail = true);

    assert_int_equal(run.status, PST_ERR_CONFIG);
    assert_non_null(strstr(run.error.message, "split"));
    schedule_run_free(&run);
    run = SCHEDULE("1f1b", .options = "split", .p = 2, .m = 2, .may_fail = true);
    assert_string_equal(run.error.kind, "config.syntax");
    schedule_run_free(&run);
}
