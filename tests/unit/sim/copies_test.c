/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies to host memory and back, by hand. Stage 1 has operators 1 (linear with relu), 2 (linear)
 * and 3 (the loss); each kernel takes 1 us. F calls F1 F2 F3, BW calls B3 B2 W2 B1 W1. Operator 1
 * leaves 1000 bytes a sample that W2 reads first: 2000 bytes a copy, 4 us at 500 MB/s.
 */
#include "hand_times.h"

#include "sim/usage.h"

static struct pst_instr copy(uint8_t op, uint32_t microbatch, uint32_t node)
{
    return (struct pst_instr){.op = op, .stage = 1, .microbatch = microbatch, .node = node};
}

static void open_stage(void)
{
    open_ranks(2);
    ((uint8_t *)rig.plan->stages[1].actions)[0] = PST_ACTION_OFFLOAD;
    rig.cluster.host_bandwidth = 500000000;
    rig.cluster.link_directions = 1;
}

/* A copy that stands behind no pass is posted where it stands; the list goes on at once. */
TEST(queues)
{
    const uint32_t two = 2, last = 1;
    open_stage();
    const struct pst_instr out = copy(PST_I_OFFLOAD, 0, 1), in = copy(PST_I_FETCH, 0, 1);
    const struct pst_instr list[] = {out, in, pass(PST_I_F, 0, 0),
                                     after(pass(PST_I_F, 0, 1), &two, 1)};
    set_list(&rig, 1, list, 4);
    must_run();
    EXPECT(1, 0, 0, 4000);
    EXPECT(1, 1, 0, 4000);
    EXPECT(1, 2, 0, 1000);
    EXPECT(1, 3, 1000, 2000);
    rig.cluster.link_directions = 2;
    must_run();
    EXPECT(1, 0, 0, 4000);
    EXPECT(1, 1, 4000, 8000);

    /* two of one direction are in line either way; a pass of another stage waits for all of it */
    const struct pst_instr line[] = {in, in, after(pass(PST_I_F, 0, 0), &last, 1),
                                     after(out, &two, 1)};
    set_list(&rig, 1, line, 4);
    rig.cluster.link_directions = 1;
    must_run();
    EXPECT(1, 0, 0, 4000);
    EXPECT(1, 1, 4000, 8000);
    EXPECT(1, 2, 8000, 9000);
    EXPECT(1, 3, 9000, 13000);

    /* what the plan keeps moves nothing */
    ((uint8_t *)rig.plan->stages[1].actions)[0] = PST_ACTION_KEEP;
    must_run();
    EXPECT(1, 3, 1000, 1000);
    rig_close(&rig);
}

/* F0, out, F1, out, back, BW0. */
static void open_passes(void)
{
    static const uint32_t zero = 0, one = 1, two = 2, four = 4;
    static struct pst_instr list[6];
    open_stage();
    list[0] = pass(PST_I_F, 1, 0);
    list[1] = after(copy(PST_I_OFFLOAD, 0, 1), &zero, 1);
    list[2] = after(pass(PST_I_F, 1, 1), &one, 1);
    list[3] = after(copy(PST_I_OFFLOAD, 1, 1), &two, 1);
    list[4] = after(copy(PST_I_FETCH, 0, 1), &one, 1);
    list[5] = after(pass(PST_I_BW, 1, 0), &four, 1);
    set_list(&rig, 1, list, 6);
}

TEST(inside_passes)
{
    open_passes();
    must_run();
    EXPECT(1, 0, 0, 3000);
    EXPECT(1, 1, 1000, 5000);  /* from the end of F1 on */
    EXPECT(1, 2, 3000, 8000);  /* F1 may write again at 5000 */
    EXPECT(1, 3, 6000, 10000); /* behind that */
    EXPECT(1, 4, 5000, 9000);  /* posted at 3000 */
    EXPECT(1, 5, 8000, 13000); /* W2 is called at 10000 */

    /* one link: back comes behind the second way out */
    rig.cluster.link_directions = 2;
    must_run();
    EXPECT(1, 4, 10000, 14000);
    EXPECT(1, 5, 8000, 17000); /* W2 stands still for 4 us */
    rig_close(&rig);
}

/* Operator 2 leaves 12 bytes a sample, that B3 reads first; W2 is its own last call, so its place
   for the next micro-batch is free at the third of five calls, that of operator 1 at the end. */
TEST(places_one_by_one)
{
    const uint32_t zero = 0, three = 3, five_two[] = {2, 5}, five_one[] = {1, 5};
    open_stage();
    ((uint8_t *)rig.plan->stages[1].actions)[1] = PST_ACTION_OFFLOAD;
    const struct pst_instr list[] = {
        pass(PST_I_F, 1, 0),
        after(copy(PST_I_OFFLOAD, 0, 1), &zero, 1),
        after(copy(PST_I_OFFLOAD, 0, 2), &zero, 1),
        pass(PST_I_F, 0, 0),
        pass(PST_I_F, 0, 1),
        after(pass(PST_I_BW, 1, 1), &three, 1),
        after(copy(PST_I_FETCH, 0, 2), five_two, 2),
        after(copy(PST_I_FETCH, 0, 1), five_one, 2),
    };
    set_list(&rig, 1, list, 8);
    must_run();
    EXPECT(1, 1, 1000, 5000);
    EXPECT(1, 2, 5000, 5048);
    EXPECT(1, 5, 5000, 10000);
    EXPECT(1, 6, 8000, 8048); /* B3 B2 W2 */
    EXPECT(1, 7, 10000, 14000);

    /* behind a pass of another stage it is posted when that begins, too, and waits for all of it
       where it names it */
    const uint32_t four = 4;
    const struct pst_instr other[] = {list[0],
                                      list[1],
                                      list[2],
                                      list[3],
                                      list[4],
                                      copy(PST_I_FETCH, 0, 2),
                                      after(copy(PST_I_FETCH, 0, 2), &four, 1)};
    set_list(&rig, 1, other, 7);
    must_run();
    EXPECT(1, 4, 4000, 5000);
    EXPECT(1, 5, 4000, 4048);
    EXPECT(1, 6, 5000, 5048);
    rig_close(&rig);
}

/* Stalls are no work: a rank is busy with its 11 kernels. */
TEST(usage)
{
    OWN(timeline) * timeline;
    struct pst_sim_result result;
    open_passes();
    rig.cluster.link_directions = 2;
    assert_ok(
        pst_sim_timeline(rig.plan, rig.graph, &rig.cost, 1, 0, NULL, &timeline, &result, &err),
        &err);
    struct pst_usage use = pst_timeline_usage(timeline, 1);
    assert_int_equal(use.stall_ns, 2000 + 4000);
    assert_int_equal(use.busy_ns, 11000);
    assert_int_equal(use.idle_ns, 6000);
    assert_int_equal(use.exposed_ns, 6000);
    assert_int_equal(result.work_ns, 11000);
    for (uint32_t i = 0; i < timeline->n_spans; i++) {
        const struct pst_span *span = &timeline->spans[i];
        bool is_copy = span->op == PST_I_OFFLOAD || span->op == PST_I_FETCH;
        assert_int_equal(span->bytes, is_copy ? 2000 : 0);
        assert_int_equal(span->lane, span->op == PST_I_OFFLOAD ? PST_LANE_D2H
                                     : is_copy                 ? PST_LANE_H2D
                                                               : PST_LANE_COMPUTE);
    }
    rig_close(&rig);
}

/* A list that waits for a copy which stands behind it is told, not followed out of the list. */
TEST(refusals)
{
    const uint32_t one = 1, far = 99;
    open_stage();
    const struct pst_instr early[] = {after(pass(PST_I_F, 1, 0), &one, 1),
                                      copy(PST_I_OFFLOAD, 0, 1)};
    const struct pst_instr wild[] = {pass(PST_I_F, 1, 0),
                                     after(copy(PST_I_OFFLOAD, 0, 1), &far, 1)};
    const struct pst_instr *lists[] = {early, wild};
    for (uint32_t i = 0; i < 2; i++) {
        set_list(&rig, 1, lists[i], 2);
        assert_int_equal(run(), PST_ERR_BUG);
        assert_string_equal(err.kind, "plan.illegal");
    }
    rig_close(&rig);
}
