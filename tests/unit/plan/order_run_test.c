/* SPDX-License-Identifier: Apache-2.0
 *
 * Passes that devices begin together are timed so, and an order in which they cannot is refused
 * with the devices that wait for each other.
 */
#include "test.h"

#include "plan/order_run.h"

static const uint32_t both[] = {0, 1};

static bool need(const void *of, uint32_t device, const struct pst_pass *pass, uint32_t i,
                 struct pst_order_need *ret_need)
{
    return false;
}

/* F of micro-batch j takes 10 j, W 7. */
static uint64_t duration(const void *of, const struct pst_pass *pass)
{
    return pass->op == PST_PASS_F ? 10 * (uint64_t)pass->microbatch : 7;
}

static const uint32_t *together(const void *of, const struct pst_pass *pass, uint32_t *ret_n)
{
    *ret_n = 2;
    return pass->op == PST_PASS_W ? both : NULL;
}

static pst_status run_lists(const struct pst_pass *a, const struct pst_pass *b, uint32_t n,
                            struct pst_order_run *run, struct pst_arena *arena,
                            struct pst_error *err)
{
    const struct pst_pass *const passes[] = {a, b};
    const uint32_t n_passes[] = {n, n};

    *run = (struct pst_order_run){.n_devices = 2,
                                  .passes = passes,
                                  .n_passes = n_passes,
                                  .need = need,
                                  .duration_ns = duration,
                                  .together = together,
                                  .rule = "LIVE1: ",
                                  .tells_before = true};
    return pst_order_run(run, arena, err);
}

/* Whoever is ready first waits for the other: 30 + 7, and after 10 more for the first 47 + 7. */
TEST(the_last_decides)
{
    static const struct pst_pass a[] = {
        {PST_PASS_F, 0, 3}, {PST_PASS_W, 0, 0}, {PST_PASS_F, 0, 0}, {PST_PASS_W, 0, 1}};
    static const struct pst_pass b[] = {
        {PST_PASS_F, 0, 2}, {PST_PASS_W, 0, 0}, {PST_PASS_F, 0, 1}, {PST_PASS_W, 0, 1}};
    static const uint64_t ends[2][4] = {{30, 37, 37, 54}, {20, 37, 47, 54}};
    struct pst_arena arena = {NULL, 0, 0};
    struct pst_error err = {0};
    struct pst_order_run run;

    assert_ok(run_lists(a, b, 4, &run, &arena, &err), &err);
    for (uint32_t d = 0; d < 2; d++) {
        for (uint32_t i = 0; i < 4; i++) {
            assert_int_equal(run.end_ns[d][i], ends[d][i]);
        }
        assert_int_equal(run.before[d][1].device, 0);
        assert_int_equal(run.before[d][3].device, 1);
    }
    pst_arena_finish(&arena);
}

TEST(in_a_circle)
{
    static const struct pst_pass a[] = {{PST_PASS_W, 0, 0}, {PST_PASS_W, 0, 1}};
    static const struct pst_pass b[] = {{PST_PASS_W, 0, 1}, {PST_PASS_W, 0, 0}};
    struct pst_arena arena = {NULL, 0, 0};
    struct pst_error err = {0};
    struct pst_order_run run;

    assert_int_equal(run_lists(a, b, 2, &run, &arena, &err), PST_ERR_BUG);
    assert_non_null(strstr(err.message, "wait for each other in a circle"));
    assert_non_null(strstr(err.details,
                           "device 0: W of micro-batch 0 on stage 0 waits for W of micro-batch 0 "
                           "on stage 0 on device 1, where it comes later"));
    assert_non_null(strstr(err.details, "device 1: W of micro-batch 1 on stage 0 waits for W of "
                                        "micro-batch 1 on stage 0 on device 0"));
    pst_arena_finish(&arena);
}
