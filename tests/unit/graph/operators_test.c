/* SPDX-License-Identifier: Apache-2.0
 *
 * Buckets of distances, worked out by hand, and what shapes the newer operators refuse.
 */
#include "graph/distance.h"
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

static void refuse(struct pst_graph_builder *b, uint32_t tensor, const char *text)
{
    struct pst_graph *graph = NULL;
    struct pst_error err = {0};

    assert_int_equal(tensor, PST_NONE);
    if (pst_graph_finish(b, tensor, PST_NONE, &graph, &err) != PST_ERR_CONFIG ||
        strstr(err.message, text) == NULL) {
        fail_msg("\"%s\" is not in \"%s\"", text, err.message);
    }
    pst_graph_builder_destroy(b);
}

TEST(refusals)
{
    const struct pst_op causal = {.kind = PST_OP_ATTENTION, .heads = 2, .causal = true};
    const struct pst_op plain_op = {.kind = PST_OP_ATTENTION, .heads = 2};
    struct pst_op far = {.kind = PST_OP_ATTENTION, .heads = 2, .max_distance = 2};
    const struct pst_op bag = {.kind = PST_OP_EMBEDDING, .bag = PST_BAG_SUM};
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
    refuse(b, add_op(b, shift, "s", input(b, "x", PST_F32, 4, 6, 3), PST_NONE, PST_NONE, PST_NONE),
           "nothing is left");
    b = new_builder(PST_F32);
    refuse(b,
           plain(b, PST_OP_MSE, "loss", input(b, "x", PST_F32, 4, 0, 0),
                 linear(b, "fc", input(b, "y", PST_F32, 4, 0, 0), 4, 4, PST_ACT_NONE)),
           "are no data");
}
