/* SPDX-License-Identifier: Apache-2.0
 *
 * Orders as PyTorch's CSV. The texts are written by hand after the rules of
 * torch/distributed/pipelining/schedules.py; tests/e2e holds more against that code itself.
 */
#include "exchange/torch_csv.h"

#include "test.h"

#define MOST 32

/* Orders in penstock's letters: "F0.0 B0.0 W0.0" is F, B, W of stage 0, micro-batch 0. */
struct text_order {
    struct pst_torch_order order;
    struct pst_pass passes[4][MOST];
    const struct pst_pass *lists[4];
    uint32_t n_passes[4];
};

static void parse_row(struct text_order *o, uint32_t rank, const char *text)
{
    static const char *const names[] = {"", "F", "B", "W", "BW", "R"};
    char word[4];
    unsigned stage, microbatch;
    int used;

    while (sscanf(text, " %3[A-Z]%u.%u%n", word, &stage, &microbatch, &used) == 3) {
        struct pst_pass *pass = &o->passes[rank][o->n_passes[rank]++];

        assert_true(o->n_passes[rank] <= MOST);
        for (uint8_t op = PST_PASS_F; op <= PST_PASS_R; op++) {
            pass->op = strcmp(word, names[op]) == 0 ? op : pass->op;
        }
        assert_int_not_equal(pass->op, 0);
        pass->stage = stage;
        pass->microbatch = microbatch;
        text += used;
    }
    o->lists[rank] = o->passes[rank];
}

static pst_status write_order(uint32_t n_ranks, uint32_t n_stages, uint32_t m,
                              const uint32_t *rank_of, const char *const *rows,
                              enum pst_torch_flavour flavour, char **ret_text,
                              struct pst_error *err)
{
    struct text_order o = {.order = {n_ranks, n_stages, m, rank_of, NULL, NULL}};

    for (uint32_t r = 0; r < n_ranks; r++) {
        parse_row(&o, r, rows[r]);
    }
    o.order.passes = o.lists;
    o.order.n_passes = o.n_passes;
    return pst_torch_csv(&o.order, flavour, ret_text, err);
}

static void expect(uint32_t n_ranks, uint32_t n_stages, uint32_t m, const uint32_t *rank_of,
                   const char *const *rows, enum pst_torch_flavour flavour, const char *expected)
{
    struct pst_error err = {0};
    char *text = NULL;

    assert_ok(write_order(n_ranks, n_stages, m, rank_of, rows, flavour, &text, &err), &err);
    assert_string_equal(text, expected);
    free(text);
}

static const uint32_t line[] = {0, 1, 2, 3}, loop[] = {0, 1, 0, 1}, vee[] = {0, 1, 1, 0};

TEST(compute)
{
    const char *const one[] = {"F0.0 F0.1 BW0.0 BW0.1", "F1.0 BW1.0 F1.1 BW1.1"};
    const char *const looped[] = {"F0.0 F0.1 F2.0 F2.1 BW2.1 BW2.0 BW0.1 BW0.0",
                                  "F1.0 F1.1 F3.0 F3.1 BW3.1 BW3.0 BW1.1 BW1.0"};
    const char *const v[] = {"F0.0 F3.0 B3.0 B0.0 W3.0 W0.0", "F1.0 F2.0 B2.0 B1.0 W2.0 W1.0"};
    const char *const replayed[] = {"F0.0 R0.0 BW0.0", "F1.0 R1.0 B1.0 W1.0"};

    expect(2, 2, 2, line, one, PST_TORCH_COMPUTE, "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n");
    expect(2, 4, 2, loop, looped, PST_TORCH_COMPUTE,
           "0F0,0F1,2F0,2F1,2B1,2B0,0B1,0B0\n1F0,1F1,3F0,3F1,3B1,3B0,1B1,1B0\n");
    expect(2, 4, 1, vee, v, PST_TORCH_COMPUTE,
           "0F0,3F0,3I0,0I0,3W0,0W0\n1F0,2F0,2I0,1I0,2W0,1W0\n");
    expect(2, 2, 1, line, replayed, PST_TORCH_COMPUTE, "0F0,0B0\n1F0,1I0,1W0\n");
}

/* Zero bubble with memory of 1F1B, two ranks, two micro-batches. */
static const char *const zb_h1[] = {"F0.0 F0.1 B0.0 W0.0 B0.1 W0.1",
                                    "F1.0 B1.0 F1.1 B1.1 W1.0 W1.1"};

TEST(communication)
{
    const char *const v[] = {"F0.0 F3.0 BW3.0 BW0.0", "F1.0 F2.0 BW2.0 BW1.0"};

    expect(2, 2, 2, line, zb_h1, PST_TORCH_COMMS,
           "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0I0,0W0,0RECV_B1,0I1,0W1\n"
           "1RECV_F0,1F0,1RECV_F1,1I0,1SEND_B0,1F1,1I1,1SEND_B1,1W0,1W1\n");
    /* stages 1 and 2 share a rank: nothing is sent between them */
    expect(2, 4, 1, vee, v, PST_TORCH_COMMS,
           "0F0,0SEND_F0,3RECV_F0,3F0,3B0,3SEND_B0,0RECV_B0,0B0\n"
           "1RECV_F0,1F0,2F0,2SEND_F0,2RECV_B0,2B0,1B0,1SEND_B0\n");
}

TEST(waits)
{
    expect(2, 2, 2, line, zb_h1, PST_TORCH_WAITS,
           "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0I0,0WAIT_SEND_F0,0W0,0RECV_B1,0I1,0WAIT_SEND_F1,"
           "0W1,0REDUCE_GRAD,0WAIT_REDUCE_GRAD\n"
           "1RECV_F0,1F0,1RECV_F1,1I0,1SEND_B0,1F1,1I1,1SEND_B1,1W0,1W1,1REDUCE_GRAD,"
           "1WAIT_REDUCE_GRAD,1WAIT_SEND_B0,1WAIT_SEND_B1\n");
}

/* Each rank's first pass reads what the other's second one makes. */
TEST(circle)
{
    const char *const rows[] = {"BW0.0 F0.0", "F1.0 BW1.0"};
    struct pst_error err = {0};
    char *text = NULL;

    assert_int_equal(write_order(2, 2, 1, line, rows, PST_TORCH_COMMS, &text, &err), PST_ERR_BUG);
    assert_string_equal(err.kind, "plan.illegal");
    assert_null(text);
    assert_ok(write_order(2, 2, 1, line, rows, PST_TORCH_COMPUTE, &text, &err), &err);
    free(text);
}

/* A plan by hand: two stages on two ranks, two micro-batches, transfers between. */
struct hand {
    struct pst_plan plan;
    struct pst_plan_stage stages[3];
    struct pst_plan_edge edges[2];
    struct pst_plan_device devices[2];
    uint32_t ranks[2];
    uint8_t actions[2];
    struct pst_instr lists[2][8];
};

static void make_hand(struct hand *h)
{
    static const uint8_t ops[2][7] = {
        {PST_I_F, PST_I_SEND, PST_I_RECV, PST_I_BW, PST_I_REDUCE, PST_I_NORM, PST_I_STEP},
        {PST_I_RECV, PST_I_F, PST_I_R, PST_I_BW, PST_I_SEND, PST_I_NORM, PST_I_STEP}};

    *h = (struct hand){.plan = {.batch = 4,
                                .version_rule = PST_VERSION_SYNC,
                                .n_stages = 2,
                                .n_edges = 1,
                                .n_devices = 2},
                       .ranks = {0, 1},
                       .edges = {{.from = 0, .to = 1}, {.from = 0, .to = 2}}};
    h->plan.stages = h->stages;
    h->plan.edges = h->edges;
    h->plan.devices = h->devices;
    for (uint32_t s = 0; s < 3; s++) {
        h->stages[s] = (struct pst_plan_stage){.n_nodes = 2,
                                               .actions = h->actions,
                                               .n_ranks = 1,
                                               .ranks = &h->ranks[s % 2],
                                               .microbatch_size = 4,
                                               .n_microbatches = 1,
                                               .weight_versions = 1};
    }
    for (uint32_t r = 0; r < 2; r++) {
        for (uint32_t i = 0; i < 7; i++) {
            h->lists[r][i] = (struct pst_instr){.op = ops[r][i], .stage = r};
        }
        h->devices[r] = (struct pst_plan_device){.n_instrs = 7, .body = h->lists[r]};
    }
}

TEST(of_a_plan)
{
    struct pst_error err = {0};
    struct hand hand;
    uint32_t n_dropped = 99;
    char *text = NULL;

    make_hand(&hand);
    hand.actions[1] = PST_ACTION_RECOMPUTE; /* of both stages */
    assert_ok(pst_torch_csv_of_plan(&hand.plan, PST_TORCH_COMMS, &text, &n_dropped, &err), &err);
    assert_string_equal(text, "0F0,0SEND_F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0\n");
    assert_int_equal(n_dropped, 3); /* and the R */
    free(text);
}

static void expect_refused(struct hand *hand, const char *words)
{
    struct pst_error err = {0};
    uint32_t n_dropped = 0;
    char *text = NULL;

    assert_int_equal(pst_torch_csv_of_plan(&hand->plan, PST_TORCH_COMPUTE, &text, &n_dropped, &err),
                     PST_ERR_INFEASIBLE);
    assert_string_equal(err.kind, "output.form");
    assert_int_equal(pst_error_exit_code(&err), 1);
    assert_non_null(strstr(err.message, words));
    assert_null(text);
}

TEST(refusals)
{
    struct hand hand;

    make_hand(&hand);
    hand.plan.asynchronous = true;
    expect_refused(&hand, "asynchronous");
    make_hand(&hand);
    hand.plan.version_rule = PST_VERSION_DELAYED;
    expect_refused(&hand, "asynchronous");
    make_hand(&hand);
    hand.stages[1].n_ranks = 2;
    expect_refused(&hand, "replicas");
    make_hand(&hand);
    hand.stages[1].n_microbatches = 2;
    expect_refused(&hand, "different sizes");
    make_hand(&hand);
    hand.stages[0].weight_versions = 2;
    expect_refused(&hand, "versions of weights");
    make_hand(&hand);
    hand.plan.n_stages = 3;
    hand.plan.n_edges = 2;
    expect_refused(&hand, "not a chain");
}
