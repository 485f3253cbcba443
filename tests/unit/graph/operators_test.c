/* SPDX-License-Identifier: Apache-2.0
 *
 * Buckets of distances, frequencies of rotations, and what shapes the newer operators refuse.
 */
#include "graph/distance.h"
#include "graph/rotary.h"
#include "unit/graph/graph_support.h"

/* T5's own numbers: 32 buckets up to 128. Both ways 8 distances have a bucket of their own, then
   8 + floor(8 ln(d / 8) / ln 16); one way 16, then 16 + floor(16 ln(d / 16) / ln 8). */
TEST(buckets)
{
    static const struct {
        int64_t offset;
        uint32_t both, one;
    } rows[] = {{0, 0, 0},      {-1, 1, 1},     {-7, 7, 7},      {-8, 8, 8},    {-11, 8, 11},
                {-12, 9, 12},   {-15, 9, 15},   {-16, 10, 16},   {-32, 12, 21}, {-64, 14, 26},
                {-127, 15, 31}, {-128, 15, 31}, {-5000, 15, 31}, {1, 17, 0},    {7, 23, 0},
                {8, 24, 0},     {16, 26, 0},    {127, 31, 0},    {9000, 31, 0}};

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(pst_distance_bucket(rows[i].offset, 32, 128, false), rows[i].both);
        assert_int_equal(pst_distance_bucket(rows[i].offset, 32, 128, true), rows[i].one);
    }
}

/* Never down with the distance, never out of range, and every bucket is used. */
TEST(buckets_grow)
{
    for (uint32_t n = 4; n <= 64; n += 2) {
        for (uint32_t most = n / 4 + 1; most < 200; most += 13) {
            uint32_t last = 0;

            for (int64_t d = 0; d < 300; d++) {
                uint32_t bucket = pst_distance_bucket(-d, n, most, false);

                assert_true(bucket >= last && bucket < n / 2);
                assert_true(d == 0 || pst_distance_bucket(d, n, most, false) == bucket + n / 2);
                last = bucket;
            }
            assert_int_equal(last, n / 2 - 1);
        }
    }
}

/* Llama 3.2 1B, by transformers 5.23.0 in f32 (ROPE_INIT_FUNCTIONS["llama3"]): heads of 64, theta
   500000, factor 32, low 1, high 4, context 8192. */
TEST(llama3_frequencies)
{
    static const double expected[] = {1.0,
                                      0.663601279,
                                      0.440366626,
                                      0.292227834,
                                      0.193922758,
                                      0.128687382,
                                      0.0853971019,
                                      0.0566696189,
                                      0.0376060307,
                                      0.0249554086,
                                      0.0165604409,
                                      0.0109895291,
                                      0.00729266508,
                                      0.00483942125,
                                      0.00321144611,
                                      0.00129054801,
                                      0.000429556705,
                                      9.70828623e-05,
                                      1.94616387e-05,
                                      1.29147675e-05,
                                      8.57025589e-06,
                                      5.68723226e-06,
                                      3.77405445e-06,
                                      2.50446715e-06,
                                      1.66196742e-06,
                                      1.10288363e-06,
                                      7.31874934e-07,
                                      4.85673127e-07,
                                      3.22293289e-07,
                                      2.1387423e-07,
                                      1.41927202e-07,
                                      9.41830649e-08};
    const struct pst_rope llama3 = {PST_ROPE_LLAMA3, 500000, 32, 1, 4, 8192};
    const struct pst_rope plain_rope = {.theta = 10000};
    const struct pst_rope linear_rope = {PST_ROPE_LINEAR, 10000, 4, 0, 0, 0};

    for (uint32_t i = 0; i < 32; i++) {
        const double found = pst_rotary_frequency(&llama3, 64, i);

        assert_true(fabs(found / expected[i] - 1) < 4e-7); /* roundings of f32 */
    }
    /* theta^(-2 i / D), by hand */
    assert_true(fabs(pst_rotary_frequency(&plain_rope, 8, 2) - 0.01) < 1e-15);
    assert_true(fabs(pst_rotary_frequency(&linear_rope, 8, 2) - 0.0025) < 1e-15);
}

static void refuse(struct pst_graph_builder *b, uint32_t tensor, const char *text)
{
    assert_int_equal(tensor, PST_NONE);
    check_fails(b, tensor, PST_ERR_CONFIG, text);
}

TEST(refusals)
{
    const struct pst_op causal = {.kind = PST_OP_ATTENTION, .heads = 2, .causal = true};
    const struct pst_op plain_op = {.kind = PST_OP_ATTENTION, .heads = 2};
    struct pst_op far = {.kind = PST_OP_ATTENTION, .heads = 2, .max_distance = 2};
    const struct pst_op bag = {.kind = PST_OP_EMBEDDING, .bag = PST_BAG_SUM};
    const struct pst_op padded = {.kind = PST_OP_EMBEDDING, .padding = 10};
    const struct pst_op shift = {.kind = PST_OP_SHIFT2D, .pad = {4, 0}};
    struct pst_graph_builder *b = new_builder(PST_F32);
    uint32_t x, table;

    refuse(b,
           add_op(b, causal, "a", input(b, "q", PST_F32, 5, 8, 0),
                  input(b, "kv", PST_F32, 7, 16, 0), PST_NONE, PST_NONE),
           "no causal mask");
    b = new_builder(PST_F32);
    refuse(b,
           add_op(b, plain_op, "a", input(b, "q", PST_F32, 5, 8, 0),
                  input(b, "kv", PST_F32, 7, 24, 0), PST_NONE, PST_NONE),
           "expected [S, 16]");
    b = new_builder(PST_F32);
    x = input(b, "qkv", PST_F32, 5, 24, 0);
    far.name = "a";
    far.in = &x;
    far.n_in = far.n_param = 1;
    far.param = &table;
    table = param(b, "d", 8, 2, 0, 0);
    refuse(b, pst_graph_add(b, &far), "8 buckets up to a distance of 2");
    b = new_builder(PST_F32);
    refuse(b,
           add_op(b, bag, "e", input(b, "t", PST_I32, 5, 0, 0), PST_NONE, param(b, "w", 9, 4, 0, 0),
                  param(b, "p", 5, 4, 0, 0)),
           "has no positions");
    b = new_builder(PST_F32);
    refuse(b,
           add_op(b, padded, "e", input(b, "t", PST_I32, 5, 0, 0), PST_NONE,
                  param(b, "w", 9, 4, 0, 0), PST_NONE),
           "row 9 has no gradient, but the table has only 9 rows");
    b = new_builder(PST_F32);
    refuse(b, add_op(b, shift, "s", input(b, "x", PST_F32, 4, 6, 3), PST_NONE, PST_NONE, PST_NONE),
           "nothing is left");
    b = new_builder(PST_F32);
    refuse(b,
           plain(b, PST_OP_MSE, "loss", input(b, "x", PST_F32, 4, 0, 0),
                 linear(b, "fc", input(b, "y", PST_F32, 4, 0, 0), 4, 4, PST_ACT_NONE)),
           "are no data");
}

/* One operator on an f32 input of 5 x columns is refused with this text. */
static void refuse_on(const char *text, uint64_t columns, struct pst_op op)
{
    struct pst_graph_builder *b = new_builder(PST_F32);

    refuse(b,
           add_op(b, op, "o", input(b, "x", PST_F32, 5, columns, 0), PST_NONE, PST_NONE, PST_NONE),
           text);
}

/* The gains of 4 and `second` numbers. */
static void refuse_qknorm(const char *text, uint64_t columns, uint64_t second, float eps)
{
    const struct pst_op op = {.kind = PST_OP_QKNORM, .heads = 2, .kv_heads = 1, .eps = eps};
    struct pst_graph_builder *b = new_builder(PST_F32);

    refuse(b,
           add_op(b, op, "o", input(b, "x", PST_F32, 5, columns, 0), PST_NONE,
                  param(b, "q", 4, 0, 0, 0), param(b, "k", second, 0, 0, 0)),
           text);
}

TEST(refusals_of_the_decoder)
{
    const struct pst_rope plain_rope = {.theta = 10000};
    struct pst_op op = {.kind = PST_OP_ATTENTION, .heads = 6, .kv_heads = 4, .causal = true};

    refuse_on("4 key heads do not divide 6 heads", 28, op);
    op.kv_heads = 2;
    refuse_on("not 6 heads of queries, 2 of keys and as many of values", 28, op);
    op = (struct pst_op){.kind = PST_OP_ATTENTION, .heads = 2, .window = 3};
    refuse_on("a window of 3 keys takes a causal mask", 24, op);
    op = (struct pst_op){.kind = PST_OP_ROTARY, .heads = 2, .head_dim = 5, .rope = plain_rope};
    refuse_on("heads of 5 columns are not made of pairs", 24, op);
    op.head_dim = 14;
    refuse_on("does not begin with 2 heads of 14", 24, op);
    op.head_dim = 12;
    op.rope.theta = 0;
    refuse_on("theta 0 is not above 1", 24, op);
    op.rope = (struct pst_rope){PST_ROPE_LINEAR, 10000, 0.5f, 0, 0, 0};
    refuse_on("cannot be scaled by 0.5", 24, op);
    op.rope = (struct pst_rope){PST_ROPE_LLAMA3, 10000, 8, 4, 4, 64};
    refuse_on("0 < low_freq_factor (4) < high_freq_factor (4)", 24, op);
    op = (struct pst_op){.kind = PST_OP_GLU, .act = PST_ACT_SILU};
    refuse_on("last axis 25, which is not a gate", 25, op);
    op.act = PST_ACT_RELU;
    refuse_on("gates go with silu or gelu", 24, op);
    refuse_qknorm("does not begin with 3 heads of 4", 11, 4, 1e-6f);
    refuse_qknorm("parameter k has shape [3], expected [4]", 12, 3, 1e-6f);
    refuse_qknorm("eps must be greater than 0", 12, 4, 0);
}

/* Key heads and windows change what a product costs, and shapes, by hand: 6 heads of 4 share 2, 10
   tokens. Two products of 2 x 6 x 4 a pair, of which half of 10 x 10 are causal; in a window of 4
   there are 4 x 10 less half of 4 x 4. */
TEST(grouped_shapes_and_work)
{
    for (uint32_t window = 0; window <= 4; window += 4) {
        const struct pst_op op = {
            .kind = PST_OP_ATTENTION, .heads = 6, .kv_heads = 2, .causal = true, .window = window};
        struct pst_graph_builder *b = new_builder(PST_F32);
        uint32_t x = linear(b, "qkv", input(b, "x", PST_F32, 10, 8, 0), 8, 40, PST_ACT_NONE);
        struct pst_graph *graph =
            finish(b, add_op(b, op, "a", x, PST_NONE, PST_NONE, PST_NONE), 10, 0);
        const uint32_t a = find_op(graph, "a");
        const double pairs = window == 0 ? 50 : 40 - 8;

        assert_int_equal(graph->tensors[graph->ops[a].out[0]].dims[1], 24);
        assert_int_equal(graph->tensors[graph->ops[a].out[1]].dims[0], 6);
        check_work(graph, "a", 0, 3, 3 * 2 * 2 * 24 * pairs, 3 * 4.0 * (400 + 240 + 60));
        check_work(graph, "a", 1, 3, 3 * 5 * 2 * 24 * pairs, -1);
        pst_graph_destroy(graph);
    }
}

/* What B reads and leaves, and the work, of rotation, norm of heads and gates: 10 tokens of 8, with
   2 + 1 heads of 2. */
TEST(parts_of_the_decoder)
{
    const struct pst_op turn = {
        .kind = PST_OP_ROTARY, .heads = 3, .head_dim = 2, .rope = {.theta = 10000}};
    const struct pst_op norm = {.kind = PST_OP_QKNORM, .heads = 2, .kv_heads = 1, .eps = 1e-6f};
    struct pst_graph_builder *b = new_builder(PST_BF16);
    uint32_t x = linear(b, "qkv", input(b, "x", PST_BF16, 10, 8, 0), 8, 8, PST_ACT_NONE);
    OWN(graph) * graph;
    struct pst_op_grad info;

    x = add_op(b, norm, "norm", x, PST_NONE, param(b, "q", 2, 0, 0, 0), param(b, "k", 2, 0, 0, 0));
    x = add_op(b, turn, "turn", x, PST_NONE, PST_NONE, PST_NONE);
    x = add_op(b, (struct pst_op){.kind = PST_OP_GLU, .act = PST_ACT_SILU}, "glu", x, PST_NONE,
               PST_NONE, PST_NONE);
    graph = finish(b, x, 10, 0);
    info = check_parts(graph, "norm",
                       (struct expected_parts){.has_b = true,
                                               .has_w = true,
                                               .b_reads_x = 1,
                                               .b_reads_p = 3,
                                               .b_reads_y = 2,
                                               .b_dx = 1,
                                               .n_z = 2});
    assert_true(info.z_elems[1] == 2 && info.z_dtype[0] == PST_F32);
    check_work(graph, "norm", 0, 1, 4 * 60, 2 * 160 + 4 * 30 + 4 * 4);
    pst_op_grad_info(graph, find_op(graph, "turn"), &info);
    assert_true(info.has_b && !info.has_w && info.b_reads_x == 0 && info.b_reads_y == 0 &&
                info.b_dx == 1);
    check_work(graph, "turn", 1, 1, 3 * 60, 2 * 160);
    pst_op_grad_info(graph, find_op(graph, "glu"), &info);
    assert_true(info.has_b && !info.has_w && info.b_reads_x == 1 && info.b_reads_y == 0);
    assert_int_equal(graph->tensors[graph->ops[find_op(graph, "glu")].out[0]].dims[1], 4);
    check_work(graph, "glu", 0, 1, 5 * 40, 160 + 80);
}

/* Experts of 6 columns and widths of 4, for 5 tokens of 6. */
static uint32_t add_experts(struct pst_graph_builder *b, uint32_t k, uint64_t weights,
                            uint64_t down)
{
    const uint64_t dims[2][3] = {{3, 6, 8}, {3, down, 6}};
    uint32_t in[2], param[2];
    const struct pst_op op = {.kind = PST_OP_EXPERTS,
                              .name = "o",
                              .act = PST_ACT_SILU,
                              .experts_per_token = k,
                              .in = in,
                              .n_in = 2,
                              .param = param,
                              .n_param = 2};

    in[0] = linear(b, "x", input(b, "t", PST_F32, 5, 2, 0), 2, 6, PST_ACT_NONE);
    in[1] = linear(b, "w", in[0], 6, weights, PST_ACT_NONE);
    in[1] =
        add_op(b, (struct pst_op){.kind = PST_OP_ROUTER, .experts_per_token = 1, .aux_loss = 0.5f},
               "r", in[1], PST_NONE, PST_NONE, PST_NONE);
    param[0] = pst_graph_param(b, "up", 3, dims[0], PST_INIT_NORMAL, 1, true);
    param[1] = pst_graph_param(b, "down", 3, dims[1], PST_INIT_NORMAL, 1, true);
    return pst_graph_add(b, &op);
}

TEST(refusals_of_experts)
{
    struct pst_op op = {.kind = PST_OP_ROUTER};
    struct pst_graph_builder *b;

    refuse_on("a token has 0 of 8 experts", 8, op);
    op.experts_per_token = 9;
    refuse_on("a token has 9 of 8 experts", 8, op);
    op.experts_per_token = 2;
    op.capacity = -1;
    refuse_on("must be 0 or more", 8, op);
    b = new_builder(PST_F32);
    refuse(b, add_experts(b, 4, 3, 4), "a token has 4 of 3 experts");
    b = new_builder(PST_F32);
    refuse(b, add_experts(b, 2, 4, 4), "weights have shape [5, 4], expected [5, 3]");
    b = new_builder(PST_F32);
    refuse(b, add_experts(b, 2, 3, 5), "parameter down has shape [3, 5, 6], expected [3, 4, 6]");
}

/* Every pass multiplies 2 x 6 x 8 and 2 x 4 x 6 for each of 5 x 2 pairs. */
TEST(parts_of_experts)
{
    struct pst_graph_builder *b = new_builder(PST_F32);
    OWN(graph) *graph = finish(b, add_experts(b, 2, 3, 4), 5, 0);
    const uint32_t o = find_op(graph, "o"), r = find_op(graph, "r");
    struct pst_op_grad info;

    pst_op_grad_info(graph, o, &info);
    assert_true(info.has_b && info.has_w && info.b_dx == 3 && info.b_reads_x == 2 &&
                info.b_reads_p == 3 && info.b_reads_y == 2 && info.w_reads_x == 3 &&
                info.w_reads_dy && info.n_z == 2 && info.z_elems[0] == 80 &&
                info.z_elems[1] == 40 && info.z_batched[0]);
    for (uint32_t pass = 0; pass < 3; pass++) {
        check_work(graph, "o", pass, 3, 3 * 10 * (2 * 48 + 2 * 24), -1);
    }
    check_work(graph, "o", 0, 1, 10 * (2 * 48 + 2 * 24), 4.0 * (30 + 15 + 30 + 80 + 144 + 72));
    pst_op_grad_info(graph, r, &info);
    assert_true(info.has_b && !info.has_w && info.b_reads_x == 1 && info.b_reads_y == 0);
}
