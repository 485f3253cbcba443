/* SPDX-License-Identifier: Apache-2.0
 *
 * Times of hand-made lists, worked out by hand below; then general bounds on random legal plans.
 */
#include "sim/durations.h"

#include "hand_times.h"

/* A transfer of 2 samples takes 2 + 2 us. */
TEST(two_stages)
{
    open_two_stages(&rig, 2);

    const uint32_t w[] = {0, 1, 2, 3};
    const struct pst_instr first[] = {
        pass(PST_I_F, 0, 0),
        transfer(PST_I_SEND, PST_PAYLOAD_ACT, 0, 2, 1),
        pass(PST_I_F, 0, 1),
        transfer(PST_I_SEND, PST_PAYLOAD_ACT, 2, 2, 1),
    };
    const struct pst_instr second[] = {
        transfer(PST_I_RECV, PST_PAYLOAD_ACT, 0, 2, 0),
        transfer(PST_I_RECV, PST_PAYLOAD_ACT, 2, 2, 0),
        after(pass(PST_I_F, 1, 0), w, 1),
        after(pass(PST_I_F, 1, 1), w + 1, 1),
    };
    set_list(&rig, 0, first, 4);
    set_list(&rig, 1, second, 4);
    must_run();
    EXPECT(0, 0, 0, 1000);
    EXPECT(0, 1, 1000, 5000); /* the list goes on at once */
    EXPECT(0, 2, 1000, 2000);
    EXPECT(0, 3, 3000, 7000); /* posted at 2000; the bytes before leave until 3000 */
    EXPECT(1, 0, 1000, 5000);
    EXPECT(1, 1, 3000, 7000);
    EXPECT(1, 2, 5000, 8000);
    EXPECT(1, 3, 8000, 11000);
    assert_int_equal(t.makespan, 11000);

    /* the second pass waits for the first send: its buffer */
    struct pst_instr slow[4];
    memcpy(slow, first, sizeof slow);
    slow[2] = after(slow[2], w + 1, 1);
    set_list(&rig, 0, slow, 4);
    must_run();
    EXPECT(0, 2, 5000, 6000);
    EXPECT(0, 3, 6000, 10000);
    EXPECT(1, 3, 10000, 13000);

    /* a receive that is posted late: the transfer waits for it */
    const struct pst_instr late[] = {
        second[0],
        after(pass(PST_I_F, 1, 0), w, 1),
        transfer(PST_I_RECV, PST_PAYLOAD_ACT, 2, 2, 0),
        after(pass(PST_I_F, 1, 1), w + 2, 1),
    };
    set_list(&rig, 0, first, 4);
    set_list(&rig, 1, late, 4);
    must_run();
    EXPECT(1, 1, 5000, 8000);
    EXPECT(0, 3, 8000, 12000);
    EXPECT(1, 3, 12000, 15000);

    /* what is sent is not what is expected */
    struct pst_instr wrong[4];
    memcpy(wrong, second, sizeof wrong);
    wrong[1].first_sample = 1;
    set_list(&rig, 1, wrong, 4);
    assert_int_equal(run(), PST_ERR_BUG);
    assert_string_equal(err.kind, "plan.illegal");

    /* nobody sends the second */
    set_list(&rig, 0, first, 2);
    set_list(&rig, 1, second, 4);
    assert_int_equal(run(), PST_ERR_BUG);
    assert_non_null(strstr(err.message, "rank 1 stays at instruction 1 (RECV)"));
    rig_close(&rig);
}

/*
 * Backward times on one rank: W of a linear operator is one launch, B too, except where its input
 * is data (no B); the loss has B alone. Recomputed: the first two operators, so B and BW replay 2
 * us.
 */
TEST(replays_and_updates)
{
    const uint32_t rank = 0, nodes[] = {0, 1, 2, 3}, norm = 4;
    open_hand(&rig, "inputs=4 hidden=8 layers=2 classes=3 act=relu");
    pst_plan_create(rig.graph, 2, 1, &rig.plan);
    pst_plan_add_stage(rig.plan, nodes, 4, &rank, 1, 1, 1);
    assert_ok(pst_plan_connect(rig.plan, rig.graph, &err), &err);
    uint8_t *actions = (uint8_t *)rig.plan->stages[0].actions;
    actions[0] = actions[1] = PST_ACTION_RECOMPUTE;
    rig.plan->optimizer_slots = 2;

    uint64_t b = 0, w = 0;
    for (uint32_t v = 0; v < 4; v++) {
        struct pst_op_grad grad;
        pst_op_grad_info(rig.graph, v, &grad);
        b += grad.has_b ? 1000 : 0;
        w += grad.has_w ? 1000 : 0;
    }
    assert_int_equal(w, 3000);
    const struct pst_instr list[] = {
        pass(PST_I_F, 0, 0), pass(PST_I_B, 0, 0),
        pass(PST_I_W, 0, 0), {.op = PST_I_REDUCE},
        {.op = PST_I_NORM},  after((struct pst_instr){.op = PST_I_STEP}, &norm, 1),
    };
    set_list(&rig, 0, list, 6);
    must_run();
    EXPECT(0, 0, 0, 4000);
    EXPECT(0, 1, 4000, 4000 + b + 2000);
    EXPECT(0, 2, 6000 + b, 6000 + b + w);
    EXPECT(0, 3, 6000 + b + w, 6000 + b + w); /* alone: nothing to reduce */
    EXPECT(0, 5, 6000 + b + w, 6000 + b + w + 1000);

    /* parameters: 4*8+8, 8*8+8, 8*3+3 = 139 f32; weight twice, two moments twice: 6 passes, 1
     * byte/ns */
    rig.cluster.memory_bandwidth = 1000000000;
    const struct pst_instr step[] = {{.op = PST_I_STEP}};
    set_list(&rig, 0, step, 1);
    must_run();
    EXPECT(0, 0, 0, 139 * 4 * 6 + 1000);

    /* an R of its own takes the replay out of BW */
    rig.cluster.memory_bandwidth = 0;
    const struct pst_instr placed[] = {pass(PST_I_F, 0, 0), pass(PST_I_R, 0, 0),
                                       pass(PST_I_BW, 0, 0)};
    set_list(&rig, 0, placed, 3);
    must_run();
    EXPECT(0, 1, 4000, 6000);
    EXPECT(0, 2, 6000, 6000 + b + w);
    rig_close(&rig);
}

/* 1000 bytes at 4 bytes/ns; without a measurement 6 passes over them at 1 byte/ns and a launch. */
TEST(updates_take_what_was_measured)
{
    struct pst_cluster cluster = {.memory_bandwidth = 1000000000, .launch_overhead = 1000};
    struct pst_costed profile = {.update_bytes_per_second = 4e9};
    struct pst_cost_model cost = {.cluster = &cluster};
    assert_int_equal(pst_sim_update_ns(&cost, 1000, 2), 7000);
    cost.profile = &profile;
    assert_int_equal(pst_sim_update_ns(&cost, 1000, 2), 250);
    assert_int_equal(pst_sim_update_ns(&cost, 0, 2), 0);
    profile.update_bytes_per_second = 0;
    assert_int_equal(pst_sim_update_ns(&cost, 1000, 2), 7000);
}

/* 12.5 us and 250 ns for each of 8 samples, where the devices need all cores. */
TEST(the_host_delays_devices_that_have_all_cores)
{
    struct pst_costed profile = {.host_step_ns = 12500, .host_sample_ns = 250, .host_devices = 2};
    struct pst_cost_model cost = {.profile = NULL};
    struct pst_plan plan = {.n_devices = 2, .batch = 8};
    assert_int_equal(pst_sim_host_ns(&cost, &plan), 0);
    cost.profile = &profile;
    assert_int_equal(pst_sim_host_ns(&cost, &plan), 14500);
    plan.n_devices = 1;
    assert_int_equal(pst_sim_host_ns(&cost, &plan), 0);
}

/* The table of the head is that of the tokens, 11 x 8 values: on one rank it is there once, and the
   lower stage updates it; on two ranks both do. One byte takes 1 ns, six passes over it. */
TEST(tied_parameters_are_updated_once)
{
    const struct pst_instr low[] = {{.op = PST_I_STEP}}, high[] = {{.op = PST_I_STEP, .stage = 1}};
    uint64_t ns[2][2];
    for (uint32_t apart = 0; apart < 2; apart++) {
        uint32_t nodes[64], ranks[] = {0, apart};
        rig_open(&rig, "gpt", "layers=1 dim=8 heads=2 context=4 vocab=11", 1);
        rig.cluster = (struct pst_cluster){
            .devices = 2, .memory_bandwidth = 1000000000, .link_bandwidth = 1000000000};
        uint32_t n = rig.graph->n_ops;
        assert_in_range(n, 4, 64);
        for (uint32_t i = 0; i < n; i++) {
            nodes[i] = i;
        }
        pst_plan_create(rig.graph, 1, 1 + apart, &rig.plan);
        pst_plan_add_stage(rig.plan, nodes, n - 2, &ranks[0], 1, 1, 1);
        pst_plan_add_stage(rig.plan, &nodes[n - 2], 2, &ranks[1], 1, 1, 1);
        assert_ok(pst_plan_connect(rig.plan, rig.graph, &err), &err);
        assert_int_equal(rig.plan->n_ties, 1);
        rig.plan->optimizer_slots = 2;
        for (uint32_t stage = 0; stage < 2; stage++) {
            set_list(&rig, 0, NULL, 0);
            set_list(&rig, ranks[stage], stage == 0 ? low : high, 1);
            if (apart != 0) {
                set_list(&rig, 1 - stage, NULL, 0);
            }
            must_run();
            ns[apart][stage] = t.end[ranks[stage]][0];
        }
        rig_close(&rig);
    }
    assert_int_equal(ns[0][0], ns[1][0]);
    assert_int_equal(ns[1][1], 11 * 8 * 4 * 6);
    assert_int_equal(ns[0][1], 0);
}

/* Three ranks come to NORM at 1, 2 and 3 us: it starts with the last, and 56 bytes ring around them
   (a sum for each of the 6 parameters, and the loss). */
TEST(norm_is_a_meeting)
{
    const uint32_t ranks[] = {0, 1, 2}, nodes[] = {0, 1, 2, 3}, zero = 0, one = 1;
    open_hand(&rig, "inputs=4 hidden=8 layers=2 classes=3");
    pst_plan_create(rig.graph, 2, 3, &rig.plan);
    for (uint32_t s = 0; s < 3; s++) {
        pst_plan_add_stage(rig.plan, &nodes[s], s == 2 ? 2 : 1, &ranks[s], 1, 1, 1);
    }
    assert_ok(pst_plan_connect(rig.plan, rig.graph, &err), &err);
    const struct pst_instr norm = {.op = PST_I_NORM};
    const struct pst_instr a[] = {norm, after((struct pst_instr){.op = PST_I_STEP}, &zero, 1)};
    const struct pst_instr b[] = {pass(PST_I_F, 1, 0), norm, pass(PST_I_F, 1, 1),
                                  after((struct pst_instr){.op = PST_I_STEP, .stage = 1}, &one, 1)};
    const struct pst_instr c[] = {pass(PST_I_F, 2, 0), norm};
    set_list(&rig, 0, a, 2);
    set_list(&rig, 1, b, 4);
    set_list(&rig, 2, c, 2);
    must_run();
    /* 4 steps of 2 us; 2 * 2 / 3 of 56 bytes is 74.67, 75 ns at 1 byte/ns */
    EXPECT(0, 0, 2000, 10075);
    EXPECT(1, 1, 2000, 10075);
    EXPECT(2, 1, 2000, 10075);
    EXPECT(0, 1, 10075, 11075);
    EXPECT(1, 2, 1000, 2000); /* the list went on beside it */
    EXPECT(1, 3, 10075, 11075);
    rig_close(&rig);
}

/* Legal plans end; no device is busier than the makespan; the same input gives the same times. */
TEST(random_plans)
{
    rig_open(&rig, "gpt", "layers=2 dim=8 heads=2 context=4 vocab=7", 77);
    for (uint32_t i = 0; i < 60; i++) {
        struct rig_shape shape = rig_draw_shape(&rig);
        uint64_t makespan = 0, again = 0, *start[RIG_MAX] = {NULL}, *end[RIG_MAX] = {NULL};
        shape.zero = shape.replicas ? rig_draw(&rig, 3) : 0;
        rig_plan(&rig, &shape);
        for (uint32_t d = 0; d < rig.plan->n_devices; d++) {
            start[d] = calloc(rig.plan->devices[d].n_instrs + 1, sizeof **start);
            end[d] = calloc(rig.plan->devices[d].n_instrs + 1, sizeof **end);
        }
        assert_ok(pst_sim_run(rig.plan, rig.graph, &rig.cost, start, end, &makespan, &err), &err);
        assert_ok(pst_sim_run(rig.plan, rig.graph, &rig.cost, NULL, NULL, &again, &err), &err);
        assert_int_equal(makespan, again);
        for (uint32_t d = 0; d < rig.plan->n_devices; d++) {
            uint64_t last = 0;
            for (uint32_t k = 0; k < rig.plan->devices[d].n_instrs; k++) {
                const struct pst_instr *instr = &rig.plan->devices[d].body[k];
                assert_true(start[d][k] <= end[d][k] && end[d][k] <= makespan);
                for (uint32_t w = 0; w < instr->n_waits; w++) {
                    assert_true(start[d][k] >= end[d][instr->waits[w]]);
                }
                if (instr->op <= PST_I_R || instr->op == PST_I_STEP) {
                    assert_true(start[d][k] >= last); /* one pass at a time */
                    last = end[d][k];
                }
            }
            free(start[d]);
            free(end[d]);
        }
        rig_drop_plan(&rig);
    }
    rig_close(&rig);
}
