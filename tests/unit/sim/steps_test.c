/* SPDX-License-Identifier: Apache-2.0
 *
 * Several steps with and without a barrier, by hand; what the timeline says of them.
 */
#include "hand.h"

#include <math.h>

#include "sim/usage.h"

static void assert_near(double value, double expected)
{
    assert_true(fabs(value - expected) < 1e-12);
}

static struct pst_sim_result simulate(struct rig *rig, uint32_t n)
{
    struct pst_sim_result result = {0};
    struct pst_error err = {0};
    assert_ok(pst_sim_steps(rig->plan, rig->graph, &rig->cost, n, &result, &err), &err);
    return result;
}

/*
 * Rank 0: F 1 us, its result takes 4 us to rank 1, F 3 us. Nobody waits for the SEND, so the list
 * of rank 0 ends with it, at 5; rank 1 ends at 8. Then rank 0 runs F again, 5 to 6, but rank 1
 * posts its RECV at 8: transfer 8 to 12, F 12 to 15. From there on 7 us a step: transfer and F of
 * rank 1.
 */
static const struct pst_instr first_list[] = {
    {.op = PST_I_F},
    {.op = PST_I_SEND, .n_samples = 2, .peer = 1},
};
static const uint32_t zero = 0;
static const struct pst_instr second_list[] = {
    {.op = PST_I_RECV, .n_samples = 2, .peer = 0},
    {.op = PST_I_F, .stage = 1, .n_waits = 1, .waits = &zero},
};

TEST(without_a_barrier)
{
    FINISHED_BY(rig_close) struct rig rig;
    open_two_stages(&rig, 2);
    set_list(&rig, 0, first_list, 2);
    set_list(&rig, 1, second_list, 2);
    struct pst_sim_result one = simulate(&rig, 1), four = simulate(&rig, 4);
    assert_int_equal(one.n_steps, 1);
    assert_int_equal(one.total_ns, 8000);
    assert_int_equal(one.span_ns, 3000);
    assert_int_equal(one.work_ns, 3000);
    assert_int_equal(one.period_ns, 7000);
    /* of the 7 us rank 0 computes 1, rank 1 computes 3 */
    assert_int_equal(one.all_work_ns, 4000);
    assert_int_equal(one.n_devices, 2);
    assert_int_equal(one.n_used, 2);
    assert_near(pst_sim_idle(&one).all, 1 - 4. / 14);
    assert_near(pst_sim_idle(&one).busiest, 1 - 3. / 7);
    assert_int_equal(four.total_ns, 8000 + 3 * 7000);
    assert_int_equal(four.period_ns, 7000);
    assert_int_equal(simulate(&rig, 0).total_ns, 8000);
}

/* NORM at 8 of both (2 steps of 2 us and 56 bytes: 4056 ns) ends at 12056. An update of rank 1
   after it is hidden: rank 0 does not wait for that, and rank 1 gets its input later than it ends.
 */
TEST(with_a_barrier)
{
    FINISHED_BY(rig_close) struct rig rig;
    open_two_stages(&rig, 2);
    const uint32_t two = 2;
    const struct pst_instr norm = {.op = PST_I_NORM};
    const struct pst_instr a[] = {first_list[0], first_list[1], norm};
    const struct pst_instr b[] = {second_list[0], second_list[1], norm};
    set_list(&rig, 0, a, 3);
    set_list(&rig, 1, b, 3);
    for (uint32_t n = 1; n < 4; n++) {
        struct pst_sim_result result = simulate(&rig, n);
        assert_int_equal(result.total_ns, n * 12056);
        assert_int_equal(result.period_ns, 12056);
    }
    const struct pst_instr last[] = {
        b[0], b[1], b[2], after((struct pst_instr){.op = PST_I_STEP, .stage = 1}, &two, 1)};
    set_list(&rig, 1, last, 4);
    for (uint32_t n = 1; n < 4; n++) {
        struct pst_sim_result result = simulate(&rig, n);
        assert_int_equal(result.total_ns, n * 12056 + 1000);
        assert_int_equal(result.period_ns, 12056);
    }
}

TEST(the_timeline)
{
    FINISHED_BY(rig_close) struct rig rig;
    OWN(timeline) *timeline = NULL;
    struct pst_sim_result result;
    struct pst_error err = {0};
    open_two_stages(&rig, 2);
    set_list(&rig, 0, first_list, 2);
    set_list(&rig, 1, second_list, 2);
    assert_ok(
        pst_sim_timeline(rig.plan, rig.graph, &rig.cost, 2, 0, NULL, &timeline, &result, &err),
        &err);
    assert_int_equal(timeline->n_spans, 8);
    assert_int_equal(timeline->n_steps, 2);
    assert_int_equal(timeline->n_stages, 2);
    assert_int_equal(timeline->end_ns, 15000);
    assert_string_equal(timeline->kind, "simulation");
    assert_string_equal(timeline->ranks[1].name, "rank 1 (stage 1)");
    const struct pst_span *spans = &timeline->spans[timeline->ranks[1].first];
    const struct {
        uint64_t start, end;
        uint32_t lane, op, step, stage;
    } expected[] = {{5000, 8000, PST_LANE_COMPUTE, PST_I_F, 0, 1},
                    {12000, 15000, PST_LANE_COMPUTE, PST_I_F, 1, 1},
                    {1000, 5000, PST_LANE_RECV, PST_I_RECV, 0, 0},
                    {8000, 12000, PST_LANE_RECV, PST_I_RECV, 1, 0}};
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(spans[i].start_ns, expected[i].start);
        assert_int_equal(spans[i].end_ns, expected[i].end);
        assert_int_equal(spans[i].lane, expected[i].lane);
        assert_int_equal(spans[i].op, expected[i].op);
        assert_int_equal(spans[i].step, expected[i].step);
        assert_int_equal(spans[i].stage, expected[i].stage);
    }
    assert_int_equal(spans[0].microbatch, 0);
    assert_int_equal(spans[2].to_stage, 1);
    assert_int_equal(spans[2].bytes, 2000);
    assert_int_equal(spans[2].peer, 0);
    /* rank 1 computes 2 x 3 us; of the other 9 the transfers take 8, at the start it is idle */
    struct pst_usage usage = pst_timeline_usage(timeline, 1);
    assert_int_equal(usage.busy_ns, 6000);
    assert_int_equal(usage.idle_ns, 9000);
    assert_int_equal(usage.exposed_ns, 8000);
    /* rank 0: its second SEND waits for the RECV from 6 to 8, then goes alone */
    usage = pst_timeline_usage(timeline, 0);
    assert_int_equal(usage.busy_ns, 2000);
    assert_int_equal(usage.exposed_ns, 8000);
    assert_near(pst_timeline_idle(timeline).all, 1 - (2. + 6) / (2 * 15));
    assert_near(pst_timeline_idle(timeline).busiest, 1 - 6. / 15);
}

/* Devices without a stage count: 1 and 3 of 7 us on two of four. */
TEST(idle_devices)
{
    FINISHED_BY(rig_close) struct rig rig;
    open_two_stages(&rig, 4);
    set_list(&rig, 0, first_list, 2);
    set_list(&rig, 1, second_list, 2);
    struct pst_sim_result result = simulate(&rig, 1);
    assert_int_equal(result.n_devices, 4);
    assert_int_equal(result.n_used, 2);
    assert_near(pst_sim_idle(&result).all, 1 - 4. / 28);
    assert_near(pst_sim_idle(&result).busiest, 1 - 3. / 7);
}

/* Nothing to do is no time. */
TEST(empty_lists)
{
    FINISHED_BY(rig_close) struct rig rig;
    open_two_stages(&rig, 2);
    struct pst_sim_result result = simulate(&rig, 3);
    assert_int_equal(result.total_ns, 0);
    assert_int_equal(result.period_ns, 0);
    assert_near(pst_sim_idle(&result).all, 0);
}
