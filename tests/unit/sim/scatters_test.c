/* SPDX-License-Identifier: Apache-2.0
 *
 * Passes that sum gradients over the replicas of their stage (ZeRO 2), by hand. A kernel takes 1
 * us. A sum over two ranks of one node takes 2 us and half its bytes in ns. The layer of operator 0
 * (1000 + 250 elements) is summed at once in 2 + 2.5 us, that of operator 1 (62,500 + 250) in 2 +
 * 125.5 us, that of operator 2 (750 + 3) in 2 + 1.506 us.
 */
#include "hand_times.h"

#include "plan/shards.h"
#include "sim/durations.h"

static const uint32_t pair[] = {0, 1}, four[] = {0, 1, 2, 3};

/* The stage on these ranks. */
static void open_replicas(uint32_t stage, const uint32_t *ranks, uint32_t n, uint32_t n_all)
{
    open_ranks(n_all);
    rig.plan->zero = 2;
    rig.plan->stages[stage].ranks = ranks;
    rig.plan->stages[stage].n_ranks = n;
}

/* W and BW begin on all ranks, F on each. B of operator 0 takes 1 us for its relu alone. */
TEST(begin_together)
{
    open_replicas(0, pair, 2, 2);
    const struct pst_instr early[] = {pass(PST_I_W, 0, 0), pass(PST_I_F, 0, 0),
                                      pass(PST_I_BW, 0, 1)};
    const struct pst_instr late[] = {pass(PST_I_F, 1, 0), pass(PST_I_W, 0, 0), pass(PST_I_F, 0, 0),
                                     pass(PST_I_F, 0, 0), pass(PST_I_BW, 0, 1)};
    set_list(&rig, 0, early, 3);
    set_list(&rig, 1, late, 5);
    must_run();
    EXPECT(1, 0, 0, 3000);
    for (uint32_t rank = 0; rank < 2; rank++) {
        EXPECT(rank, rank, 3000, 3000 + 1000 + 4500);
        EXPECT(rank, rank + 1, 8500, 9500);
    }
    EXPECT(0, 2, 10500, 10500 + 6500);
    EXPECT(1, 4, 10500, 10500 + 6500);

    /* replicas that accumulate all meet in no pass */
    rig.plan->zero = 1;
    must_run();
    EXPECT(0, 0, 0, 1000);
    EXPECT(0, 2, 2000, 4000);
    EXPECT(1, 1, 3000, 4000);
    rig_close(&rig);
}

/* On one core the passes take turns, and none has ended before the other has met it. */
TEST(ends_together)
{
    open_replicas(0, pair, 2, 2);
    const struct pst_instr list[] = {pass(PST_I_W, 0, 0), pass(PST_I_F, 0, 0)};
    set_list(&rig, 0, list, 2);
    set_list(&rig, 1, list, 2);
    rig.cost.side_by_side = 1;
    must_run();
    EXPECT(0, 0, 0, 11000);
    EXPECT(1, 0, 5500, 11000);
    EXPECT(0, 1, 11000, 12000);
    EXPECT(1, 1, 12000, 13000);
    rig_close(&rig);
}

/* One replica has nobody to meet. */
TEST(alone)
{
    open_replicas(0, pair, 1, 2);
    const struct pst_instr list[] = {pass(PST_I_W, 0, 0)};
    set_list(&rig, 0, list, 1);
    must_run();
    EXPECT(0, 0, 0, 1000);
    rig_close(&rig);
}

/* Micro-batches are summed in their order: one that comes too early waits for the pass of the
   other, and so do its bytes. */
TEST(in_turn)
{
    OWN(timeline) *timeline = NULL;
    struct pst_sim_result result;
    open_replicas(0, pair, 2, 2);
    const struct pst_instr list[] = {
        pass(PST_I_W, 0, 1), pass(PST_I_W, 0, 0), {.op = PST_I_REDUCE}};
    set_list(&rig, 0, list, 3);
    set_list(&rig, 1, list, 3);
    must_run();
    for (uint32_t rank = 0; rank < 2; rank++) {
        EXPECT(rank, 0, 0, 1000);
        EXPECT(rank, 1, 1000, 2000 + 2 * 4500);
        EXPECT(rank, 2, 11000, 11000 + 2 * 2000); /* of nothing: two phases of a ring */
    }
    assert_ok(
        pst_sim_timeline(rig.plan, rig.graph, &rig.cost, 1, 0, NULL, &timeline, &result, &err),
        &err);
    for (uint32_t rank = 0; rank < 2; rank++) {
        const struct pst_span *spans = &timeline->spans[timeline->ranks[rank].first];
        assert_int_equal(spans[0].bytes, 0);
        assert_int_equal(spans[1].bytes, 2 * 5000);
        assert_int_equal(spans[2].op, PST_I_REDUCE);
        assert_int_equal(spans[2].bytes, 0);
    }
    rig_close(&rig);
}

/* Two replicas of two parts, in two nodes: the sums of both parts share the nodes' links of 3 us
   and 1 ns a byte, so all of the bytes count. */
TEST(between_nodes)
{
    open_replicas(0, four, 4, 4);
    rig.plan->stages[0].tensor = 2;
    rig.cluster.node_size = 2;
    rig.cluster.node_link_bandwidth = 1000000000;
    rig.cluster.node_link_latency = 3000;
    const struct pst_instr list[] = {pass(PST_I_W, 0, 0)};
    const struct pst_instr late[] = {pass(PST_I_F, 0, 0), pass(PST_I_W, 0, 0)};
    for (uint32_t rank = 0; rank < 4; rank++) {
        set_list(&rig, rank, rank == 3 ? late : list, rank == 3 ? 2 : 1);
    }
    must_run();
    for (uint32_t rank = 0; rank < 4; rank++) {
        EXPECT(rank, rank == 3, 1000, 1000 + 1000 + (3000 + 5000));
    }
    rig_close(&rig);
}

static struct pst_instr fetch(uint32_t microbatch, uint32_t node)
{
    return (struct pst_instr){
        .op = PST_I_FETCH, .stage = 1, .microbatch = microbatch, .node = node};
}

/*
 * BW of stage 1 calls B3 B2 W2 B1 W1. A copy that waits for a call waits for its kernel, not for
 * the sums after it; a call that waits for a copy comes after the sums before it.
 */
TEST(beside_copies)
{
    const uint32_t zero = 0;
    open_replicas(1, pair, 2, 2);
    ((uint8_t *)rig.plan->stages[1].actions)[0] = PST_ACTION_OFFLOAD;
    ((uint8_t *)rig.plan->stages[1].actions)[1] = PST_ACTION_OFFLOAD;
    rig.cluster.host_bandwidth = 500000000;
    rig.cluster.link_directions = 1;
    const struct pst_instr behind[] = {pass(PST_I_BW, 1, 0), after(fetch(1, 2), &zero, 1),
                                       after(fetch(1, 1), &zero, 1)};
    const struct pst_instr before[] = {fetch(0, 1), after(pass(PST_I_BW, 1, 0), &zero, 1)};
    set_list(&rig, 0, behind, 3);
    set_list(&rig, 1, behind, 3);
    must_run();
    for (uint32_t rank = 0; rank < 2; rank++) {
        EXPECT(rank, 0, 0, 5000 + 3506 + 127500);
        EXPECT(rank, 1, 3000, 3024);                             /* 12 bytes, after W2 */
        EXPECT(rank, 2, 3000 + 3506 + 2000, 3000 + 3506 + 4000); /* 1000 bytes, after W1 */
    }

    /* W2 reads what comes at 20 us; W1 is called 1 + 3.506 + 1 us after that */
    rig.cluster.host_bandwidth = 50000000;
    set_list(&rig, 0, before, 2);
    set_list(&rig, 1, before, 2);
    must_run();
    for (uint32_t rank = 0; rank < 2; rank++) {
        EXPECT(rank, 0, 0, 20000);
        EXPECT(rank, 1, 0, 20000 + 1000 + 3506 + 2000 + 127500);
    }

    /* out of turn nothing is summed in the first pass, and twice in the second: at its end, too */
    rig.cluster.host_bandwidth = 500000000;
    const struct pst_instr turned[] = {pass(PST_I_BW, 1, 1), after(fetch(1, 2), &zero, 1),
                                       pass(PST_I_BW, 1, 0)};
    set_list(&rig, 0, turned, 3);
    set_list(&rig, 1, turned, 3);
    must_run();
    for (uint32_t rank = 0; rank < 2; rank++) {
        EXPECT(rank, 0, 0, 5000);
        EXPECT(rank, 1, 3000, 3024);
        EXPECT(rank, 2, 5000, 10000 + 2 * (3506 + 127500));
    }
    rig_close(&rig);
}

/* Two operators of one layer: nothing is summed after W2, and all of it at once after W1. */
TEST(one_layer)
{
    const uint32_t zero = 0;
    open_replicas(1, pair, 2, 2);
    rig.graph->ops[2].layer = rig.graph->ops[1].layer;
    ((uint8_t *)rig.plan->stages[1].actions)[0] = PST_ACTION_OFFLOAD;
    ((uint8_t *)rig.plan->stages[1].actions)[1] = PST_ACTION_OFFLOAD;
    rig.cluster.host_bandwidth = 500000000;
    rig.cluster.link_directions = 1;
    const struct pst_instr list[] = {pass(PST_I_BW, 1, 0), after(fetch(1, 2), &zero, 1),
                                     after(fetch(1, 1), &zero, 1)};
    set_list(&rig, 0, list, 3);
    set_list(&rig, 1, list, 3);
    must_run();
    for (uint32_t rank = 0; rank < 2; rank++) {
        EXPECT(rank, 0, 0, 5000 + 2000 + 125500 + 1506);
        EXPECT(rank, 1, 3000, 3024);
        EXPECT(rank, 2, 5000, 7000);
    }
    rig_close(&rig);
}

/*
 * With room ahead meetings go on beside kernels. BW of stage 1 calls B3 B2 W2 B1 W1: the sum after
 * W2 begins at 3 us and has ended at 6.506, while W1 ends at 5; only then does the next begin.
 * Copies wait for kernels alone.
 */
TEST(beside_kernels)
{
    const uint32_t zero = 0;
    open_replicas(1, pair, 2, 2);
    rig.plan->prefetch = 1;
    const struct pst_instr alone[] = {pass(PST_I_BW, 1, 0)};
    set_list(&rig, 0, alone, 1);
    set_list(&rig, 1, alone, 1);
    must_run();
    EXPECT(0, 0, 0, 6506 + 127500);
    EXPECT(1, 0, 0, 6506 + 127500);

    ((uint8_t *)rig.plan->stages[1].actions)[0] = PST_ACTION_OFFLOAD;
    ((uint8_t *)rig.plan->stages[1].actions)[1] = PST_ACTION_OFFLOAD;
    rig.cluster.host_bandwidth = 500000000;
    rig.cluster.link_directions = 1;
    const struct pst_instr copies[] = {pass(PST_I_BW, 1, 0), after(fetch(1, 2), &zero, 1),
                                       after(fetch(1, 1), &zero, 1)};
    set_list(&rig, 0, copies, 3);
    set_list(&rig, 1, copies, 3);
    must_run();
    for (uint32_t rank = 0; rank < 2; rank++) {
        EXPECT(rank, 0, 0, 6506 + 127500);
        EXPECT(rank, 1, 3000, 3024);
        EXPECT(rank, 2, 5000, 7000);
    }
    rig_close(&rig);
}

/* Two micro-batches in one pass: the second is summed when all of the first has been. */
TEST(late_beside_nothing)
{
    open_replicas(1, pair, 2, 2);
    rig.plan->prefetch = 1;
    const struct pst_instr list[] = {pass(PST_I_BW, 1, 1), pass(PST_I_BW, 1, 0)};
    set_list(&rig, 0, list, 2);
    set_list(&rig, 1, list, 2);
    must_run();
    EXPECT(0, 0, 0, 5000);
    EXPECT(0, 1, 5000, 5000 + 6506 + 127500 + (3506 + 127500));
    rig_close(&rig);
}

/* Where ranks share cores a meeting needs them itself. */
TEST(cores_of_meetings)
{
    open_replicas(1, pair, 2, 2);
    rig.plan->prefetch = 1;
    const struct pst_instr list[] = {pass(PST_I_BW, 1, 0)};
    set_list(&rig, 0, list, 1);
    set_list(&rig, 1, list, 1);
    rig.cost.side_by_side = 1;
    must_run();
    EXPECT(0, 0, 0, 2 * (5000 + 3506 + 127500));
    EXPECT(1, 0, 5000 + 3506 + 127500, 2 * (5000 + 3506 + 127500));

    /* with a core for each nobody shares any: as in beside_kernels, also where copies are */
    rig.cost.side_by_side = 2;
    must_run();
    EXPECT(0, 0, 0, 6506 + 127500);
    EXPECT(1, 0, 0, 6506 + 127500);
    ((uint8_t *)rig.plan->stages[1].actions)[0] = PST_ACTION_OFFLOAD;
    rig.cluster.host_bandwidth = 500000000;
    must_run();
    EXPECT(0, 0, 0, 6506 + 127500);
    EXPECT(1, 0, 0, 6506 + 127500);

    /* ranks with a core each that move what they sum themselves: kernels wait */
    rig.cost.meets_in_waits = true;
    for (uint32_t k = 0; k < 2; k++) {
        must_run();
        EXPECT(0, 0, 0, 5000 + 3506 + 127500);
        EXPECT(1, 0, 0, 5000 + 3506 + 127500);
        ((uint8_t *)rig.plan->stages[1].actions)[0] = PST_ACTION_KEEP;
    }
    rig_close(&rig);
}

/* F of stage 1 reads the layers of operators 1 and 2, which take 127.5 and 3.506 us to come: one
   after the other, or the second while operator 1 runs. BW reads them the other way round, after
   B3, and sums come after what was posted before them: G2 1-4.506, G1 to 132.006; W2 ends at 6.506,
   so the sum of 2 goes on to 135.512, when W1 has ended, and that of 1 takes 127.5 more. */
TEST(gathers_ahead)
{
    const uint64_t f[] = {127500 + 1000 + 3506 + 2000, 131006 + 2000};
    open_replicas(1, pair, 2, 2);
    rig.plan->zero = 3;
    const struct pst_instr list[] = {pass(PST_I_F, 1, 0)};
    set_list(&rig, 0, list, 1);
    set_list(&rig, 1, list, 1);
    for (rig.plan->prefetch = 0; rig.plan->prefetch < 2; rig.plan->prefetch++) {
        must_run();
        EXPECT(0, 0, 0, f[rig.plan->prefetch]);
        EXPECT(1, 0, 0, f[rig.plan->prefetch]);
    }
    const struct pst_instr backward[] = {pass(PST_I_BW, 1, 0)};
    set_list(&rig, 0, backward, 1);
    set_list(&rig, 1, backward, 1);
    rig.plan->prefetch = 1;
    must_run();
    EXPECT(0, 0, 0, 135512 + 127500);
    rig_close(&rig);
}

/* N replicas, m micro-batches, no ties, f32: with the ring's (N - 1) / N a rank sends
   (N - 1) / N (4 m + 4) bytes for each element in a step. */
TEST(bytes_of_a_step)
{
    const uint64_t elems = 1250;
    uint64_t sum = 0;
    OWN(timeline) *timeline = NULL;
    struct pst_sim_result result;
    open_replicas(0, pair, 2, 2);
    const struct pst_instr list[] = {
        pass(PST_I_BW, 0, 0), pass(PST_I_BW, 0, 1), {.op = PST_I_REDUCE}, {.op = PST_I_GATHER}};
    set_list(&rig, 0, list, 4);
    set_list(&rig, 1, list, 4);
    assert_ok(
        pst_sim_timeline(rig.plan, rig.graph, &rig.cost, 1, 0, NULL, &timeline, &result, &err),
        &err);
    for (uint32_t i = 0; i < timeline->n_spans; i++) {
        sum += timeline->spans[i].rank == 1 ? timeline->spans[i].bytes : 0;
    }
    assert_int_equal(sum, (4 * 2 + 4) * elems);
    assert_int_equal(pst_plan_scattered_bytes(rig.plan, rig.graph, 0), 4 * elems);
    assert_int_equal(pst_plan_scattered_bytes(rig.plan, rig.graph, 1), 0); /* one replica */
    rig_close(&rig);
}
