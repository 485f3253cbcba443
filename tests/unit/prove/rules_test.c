/* SPDX-License-Identifier: Apache-2.0
 *
 * Rules by hand-made examples: blocking lists, capacities and groups, cycles as they are reported,
 * R, replicas, reductions in different order.
 */
#include "unit/prove/rig.h"

static struct pst_check_report report;
static struct pst_error err;

static struct pst_instr pass(uint8_t op, uint32_t stage, uint32_t microbatch)
{
    return (struct pst_instr){.op = op, .stage = stage, .microbatch = microbatch};
}

static struct pst_instr move(uint8_t op, uint8_t payload, uint32_t first, uint32_t n, uint32_t peer)
{
    return (struct pst_instr){
        .op = op, .payload = payload, .first_sample = first, .n_samples = n, .peer = peer};
}

static struct pst_instr after(struct pst_instr instr, const uint32_t *waits)
{
    instr.waits = waits;
    instr.n_waits = 1;
    return instr;
}

static void set_list(struct rig *rig, uint32_t rank, const struct pst_instr *list, uint32_t n)
{
    rig->plan->devices[rank].body = list;
    rig->plan->devices[rank].n_instrs = n;
}

/* mlp in two stages on two devices, 4 samples by 2. */
static void open_pair(struct rig *rig)
{
    struct rig_shape shape = {.devices = 2, .chunks = 1, .batch = 4, .microbatch = 2};
    rig_open(rig, "mlp", "inputs=4 hidden=4 layers=2 classes=3", 3);
    rig_cut(rig, &shape);
}

static bool text_has(const char *rule, const char *text)
{
    for (uint32_t i = 0; i < report.n_violations && i < PST_CHECK_MAX; i++) {
        if (strcmp(report.violations[i].rule, rule) == 0 &&
            strstr(report.violations[i].text, text) != NULL) {
            return true;
        }
    }
    return false;
}

/* The steady state of 1F1B with sends that block: both neighbours send, neither receives. */
TEST(both_send_first)
{
    FINISHED_BY(rig_close) struct rig rig;
    const uint32_t zero = 0;
    open_pair(&rig);
    const struct pst_instr a[] = {
        move(PST_I_SEND, PST_PAYLOAD_ACT, 2, 2, 1),
        after(move(PST_I_RECV, PST_PAYLOAD_GRAD, 0, 2, 1), &zero),
    };
    const struct pst_instr b[] = {
        move(PST_I_SEND, PST_PAYLOAD_GRAD, 0, 2, 0),
        after(move(PST_I_RECV, PST_PAYLOAD_ACT, 2, 2, 0), &zero),
    };
    set_list(&rig, 0, a, 2);
    set_list(&rig, 1, b, 2);
    rig_check(&rig, false, &report, &err);
    assert_true(text_has("LIVE2", "channels hold 0 messages, 1 would do"));
    assert_true(text_has("LIVE4", "cycle: "));
    assert_true(text_has("LIVE4", "device 0 list at 1, RECV 0 grad 0+2 from 1 -> device 0 sends at "
                                  "0, SEND 0 act 2+2 to 1 -> device 1 list at 1"));

    rig.limits.channel_capacity = 1;
    rig_check(&rig, false, &report, &err);
    assert_false(rig_has_rule(&report, "LIVE1") || rig_has_rule(&report, "LIVE2"));

    /* one queue for both: alone each send stands before the receive; as a group they go together */
    const struct pst_instr a_apart[] = {a[0], pass(PST_I_F, 0, 0),
                                        move(PST_I_RECV, PST_PAYLOAD_GRAD, 0, 2, 1)};
    const struct pst_instr b_apart[] = {b[0], pass(PST_I_F, 1, 0),
                                        move(PST_I_RECV, PST_PAYLOAD_ACT, 2, 2, 0)};
    rig.limits = (struct pst_check_limits){.ordered = true};
    set_list(&rig, 0, a_apart, 3);
    set_list(&rig, 1, b_apart, 3);
    rig_check(&rig, false, &report, &err);
    assert_true(text_has("LIVE2", "separate queues"));
    const struct pst_instr a_group[] = {a[0], a_apart[2]}, b_group[] = {b[0], b_apart[2]};
    set_list(&rig, 0, a_group, 2);
    set_list(&rig, 1, b_group, 2);
    rig_check(&rig, false, &report, &err);
    assert_false(rig_has_rule(&report, "LIVE1") || rig_has_rule(&report, "LIVE2"));
}

TEST(never_sent)
{
    FINISHED_BY(rig_close) struct rig rig;
    const uint32_t zero = 0;
    open_pair(&rig);
    const struct pst_instr b[] = {move(PST_I_RECV, PST_PAYLOAD_ACT, 0, 2, 0),
                                  after(pass(PST_I_F, 1, 0), &zero)};
    set_list(&rig, 0, NULL, 0);
    set_list(&rig, 1, b, 2);
    rig_check(&rig, false, &report, &err);
    assert_true(text_has("LIVE1", "0 of 2 instructions"));
    assert_true(text_has("LIVE4", "waits for an instruction in no list"));
    assert_true(text_has("PASS1", "need 4 forward passes, the lists hold 2 instructions"));
    /* with room for all passes the tables are made and name what is missing */
    const struct pst_instr a[] = {pass(PST_I_F, 0, 0), pass(PST_I_F, 0, 1)};
    set_list(&rig, 0, a, 2);
    rig_check(&rig, false, &report, &err);
    assert_true(text_has("COMM1", "no SEND of edge 0"));
    assert_true(text_has("PASS1", "stage 1, micro-batch 1: no F"));
}

/* Two ranks meet for a tie and for a reduction in different order: neither ends. */
TEST(reductions_cross)
{
    FINISHED_BY(rig_close) struct rig rig;
    struct rig_shape shape = {.devices = 2, .chunks = 1, .batch = 4, .microbatch = 2};
    const uint32_t both[] = {0, 1};
    rig_open(&rig, "gpt", "layers=1 dim=4 heads=1 context=2 vocab=3", 3);
    rig_cut(&rig, &shape);
    rig.plan->stages[0].ranks = both;
    rig.plan->stages[0].n_ranks = 2;
    const struct pst_instr tie_first[] = {{.op = PST_I_TIE}, {.op = PST_I_REDUCE}};
    const struct pst_instr tie_last[] = {{.op = PST_I_REDUCE}, {.op = PST_I_TIE}};
    set_list(&rig, 0, tie_first, 2);
    set_list(&rig, 1, tie_last, 2);
    for (uint32_t async = 0; async < 2; async++) {
        rig.limits.async_reductions = async;
        rig_check(&rig, false, &report, &err);
        assert_true(rig_has_rule(&report, "LIVE1"));
        assert_true(text_has("LIVE4", "cycle: "));
    }
    set_list(&rig, 1, tie_first, 2);
    rig_check(&rig, false, &report, &err);
    assert_false(rig_has_rule(&report, "LIVE1"));
}

/* R: at most one, of a stage that recomputes, between F and B. */
TEST(placed_recompute)
{
    FINISHED_BY(rig_close) struct rig rig;
    struct rig_shape shape = {.devices = 1, .chunks = 1, .batch = 2, .microbatch = 2};
    const uint32_t norm = 5;
    rig_open(&rig, "mlp", "inputs=4 hidden=4 layers=2 classes=3", 3);
    rig_cut(&rig, &shape);
    struct pst_instr list[] = {
        pass(PST_I_F, 0, 0),
        pass(PST_I_R, 0, 0),
        pass(PST_I_B, 0, 0),
        pass(PST_I_W, 0, 0),
        {.op = PST_I_REDUCE},
        {.op = PST_I_NORM},
        after((struct pst_instr){.op = PST_I_STEP}, &norm),
    };
    set_list(&rig, 0, list, 7);
    rig_check(&rig, false, &report, &err);
    assert_true(text_has("PASS2", "R belongs between"));
    *(uint8_t *)rig.plan->stages[0].actions = PST_ACTION_RECOMPUTE;
    assert_int_equal(rig_check(&rig, false, &report, &err), PST_OK);
    list[1] = pass(PST_I_B, 0, 0);
    list[2] = pass(PST_I_R, 0, 0);
    rig_check(&rig, false, &report, &err);
    assert_true(text_has("PASS2", "R belongs between"));
    list[1] = list[2];
    rig_check(&rig, false, &report, &err);
    assert_true(text_has("PASS1", "twice") && text_has("PASS1", "no B"));
}

/*
 * One stage on two ranks feeds one on a third: 4 samples, micro-batches of 2 (one sample a replica)
 * and of 4. Every sample crosses on its own.
 */
TEST(replicas_regroup)
{
    FINISHED_BY(rig_close) struct rig rig;
    const uint32_t both[] = {0, 1}, last = 2;
    uint32_t nodes[4] = {0, 1, 2, 3};
    rig_open(&rig, "mlp", "inputs=4 hidden=4 layers=2 classes=3", 3);
    pst_plan_create(rig.graph, 4, 3, &rig.plan);
    pst_plan_add_stage(rig.plan, nodes, 2, both, 2, 2, 1);
    pst_plan_add_stage(rig.plan, nodes + 2, 2, &last, 1, 4, 1);
    assert_int_equal(pst_plan_connect(rig.plan, rig.graph, &err), PST_OK);

    /* replica r has samples r and 2 + r */
    static const uint32_t w[] = {4, 5, 8, 9, 11, 0, 1, 2, 3};
    struct pst_instr lists[2][16], third[16];
    for (uint32_t r = 0; r < 2; r++) {
        const struct pst_instr list[] = {
            pass(PST_I_F, 0, 0),
            move(PST_I_SEND, PST_PAYLOAD_ACT, r, 1, 2),
            pass(PST_I_F, 0, 1),
            move(PST_I_SEND, PST_PAYLOAD_ACT, 2 + r, 1, 2),
            move(PST_I_RECV, PST_PAYLOAD_GRAD, r, 1, 2),
            move(PST_I_RECV, PST_PAYLOAD_GRAD, 2 + r, 1, 2),
            after(pass(PST_I_BW, 0, 0), &w[0]),
            after(pass(PST_I_BW, 0, 1), &w[1]),
            {.op = PST_I_REDUCE},
            {.op = PST_I_NORM},
            after((struct pst_instr){.op = PST_I_STEP}, &w[3]),
        };
        memcpy(lists[r], list, sizeof list);
        set_list(&rig, r, lists[r], sizeof list / sizeof list[0]);
    }
    const struct pst_instr list[] = {
        move(PST_I_RECV, PST_PAYLOAD_ACT, 0, 1, 0),
        move(PST_I_RECV, PST_PAYLOAD_ACT, 1, 1, 1),
        move(PST_I_RECV, PST_PAYLOAD_ACT, 2, 1, 0),
        move(PST_I_RECV, PST_PAYLOAD_ACT, 3, 1, 1),
        {.op = PST_I_F, .stage = 1, .n_waits = 4, .waits = &w[5]},
        pass(PST_I_BW, 1, 0),
        move(PST_I_SEND, PST_PAYLOAD_GRAD, 0, 1, 0),
        move(PST_I_SEND, PST_PAYLOAD_GRAD, 1, 1, 1),
        move(PST_I_SEND, PST_PAYLOAD_GRAD, 2, 1, 0),
        move(PST_I_SEND, PST_PAYLOAD_GRAD, 3, 1, 1),
        {.op = PST_I_REDUCE, .stage = 1},
        {.op = PST_I_NORM},
        after((struct pst_instr){.op = PST_I_STEP, .stage = 1}, &w[4]),
    };
    memcpy(third, list, sizeof list);
    set_list(&rig, 2, third, sizeof list / sizeof list[0]);
    assert_ok(rig_check(&rig, false, &report, &err), &err);
    third[3].first_sample = 2; /* that sample is the other replica's */
    rig_check(&rig, false, &report, &err);
    assert_true(text_has("COMM1", "expected device 2 to receive from device 0"));
    third[3] = list[3];
    third[2].n_samples = 2;
    rig_check(&rig, false, &report, &err);
    assert_true(text_has("COMM1", "meet in 1 samples"));
    third[2] = list[2];
    third[4].n_waits = 3;
    rig_check(&rig, false, &report, &err);
    assert_true(text_has("PASS3", "does not wait for the RECV at 3"));
    third[4] = list[4];
    lists[1][8].op = PST_I_NORM; /* one replica leaves the reduction out */
    rig_check(&rig, false, &report, &err);
    assert_true(text_has("PASS4", "no REDUCE") && rig_has_rule(&report, "LIVE1"));
}

/* A hundred are kept, all are counted. */
TEST(many_violations)
{
    FINISHED_BY(rig_close) struct rig rig;
    struct rig_shape shape = {.devices = 2, .chunks = 1, .batch = 64, .microbatch = 1};
    rig_open(&rig, "mlp", "inputs=4 hidden=4 layers=2 classes=3", 3);
    rig_cut(&rig, &shape);
    struct pst_instr *list = calloc(400, sizeof *list);
    for (uint32_t i = 0; i < 400; i++) {
        list[i] = pass(PST_I_F, 0, 0);
    }
    set_list(&rig, 0, list, 400);
    assert_int_equal(rig_check(&rig, false, &report, &err), PST_ERR_BUG);
    assert_true(report.n_violations > 399);
    assert_string_equal(report.violations[PST_CHECK_MAX - 1].rule, "PASS1");
    assert_string_equal(err.kind, "plan.illegal");
    assert_true(strlen(err.details) > 1000);
    free(list);
}
