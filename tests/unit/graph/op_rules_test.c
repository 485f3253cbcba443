/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of operators: rows are in the order of the kinds (ops.h), whole, and agree with
 * themselves.
 */
#include "test.h"

#include "graph/op_rules.h"
#include "graph/split.h"

/* In the order of enum pst_op_kind, then the two of costed graphs, those of plugins and of
 * conversions. */
static const char names[] =
    " embedding linear layernorm attention add dropout act cross-entropy conv2d batchnorm"
    " maxpool2d avgpool concat mse rmsnorm avgpool2d shift2d rotary glu qknorm router experts"
    " parameter constant map reduce softmax matmul reshape strided binary-cross-entropy gather"
    " costed costed-loss custom convert cross-entropy-part cross-entropy-join";

TEST(rows_are_in_the_order_of_kinds)
{
    char found[sizeof names + 64] = "";

    for (uint32_t kind = 0; kind < PST_OP_KINDS; kind++) {
        pst_text_append(found, sizeof found, " %s", pst_op_kind_name(kind));
    }
    assert_string_equal(found, names);
    assert_null(pst_op_rules_of(PST_OP_KINDS));
    assert_string_equal(pst_op_kind_name(PST_OP_KINDS), "?");
    assert_false(pst_op_is_loss(PST_OP_KINDS));
}

/* A wrong one would only make plans slower: products, tables and losses are not worth replaying. */
TEST(costly_kinds)
{
    char found[256] = "";

    for (uint32_t kind = 0; kind < PST_OP_KINDS; kind++) {
        if (pst_op_rules_of(kind)->costly) {
            pst_text_append(found, sizeof found, " %s", pst_op_kind_name(kind));
        }
    }
    assert_string_equal(found, " embedding linear attention conv2d experts matmul costed custom"
                               " convert");
}

/* Bits of operands that a kind with n of them does not have. */
static uint64_t beyond(uint64_t mask, uint32_t n)
{
    return n < 64 ? mask >> n : 0;
}

TEST(rows_are_whole)
{
    for (uint32_t kind = 0; kind < PST_OP_KINDS; kind++) {
        const struct pst_op_rules *rules = pst_op_rules_of(kind);

        assert_non_null(rules->infer);
        assert_true(rules->kind.min_in <= rules->kind.max_in && rules->kind.max_in <= PST_MAX_IN);
        assert_true(rules->kind.n_param <= PST_MAX_PARAM);
        assert_int_equal(beyond(rules->kind.required, rules->kind.n_param), 0);
        assert_int_equal(beyond(rules->passes.b_reads_p, rules->kind.n_param), 0);
        assert_int_equal(beyond(rules->passes.b_reads_x, rules->kind.max_in), 0);
        assert_int_equal(beyond(rules->passes.w_reads_x, rules->kind.max_in), 0);
        /* Attributes and earlier rows matter only where rows are apart. */
        assert_true(rules->by_row || (rules->mixes == NULL && rules->past == NULL));
        assert_true(rules->loss || rules->apart || !rules->classes);
        assert_true(rules->products == NULL || rules->elementwise == NULL);
    }
}

/* There are 3 parts, and an exchange needs a block for each of them. */
TEST(shapes_of_conversions)
{
    static const struct {
        enum pst_convert convert;
        uint64_t rows, expected; /* 0: refused */
    } cases[] = {{PST_CONVERT_FAN, 5, 5},      {PST_CONVERT_SUM, 5, 5},
                 {PST_CONVERT_JOIN, 5, 15},    {PST_CONVERT_GATHER, 5, 15},
                 {PST_CONVERT_CUT, 6, 2},      {PST_CONVERT_CUT, 5, 0},
                 {PST_CONVERT_SCATTER, 6, 2},  {PST_CONVERT_SCATTER, 5, 0},
                 {PST_CONVERT_EXCHANGE, 6, 6}, {PST_CONVERT_EXCHANGE, 5, 0}};
    const uint32_t in = 0;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct pst_tensor x = {.dtype = PST_BF16, .rank = 2, .dims = {cases[i].rows, 7}};
        const struct pst_op op = {.kind = PST_OP_CONVERT,
                                  .name = "conversion",
                                  .convert = cases[i].convert,
                                  .parts = 3,
                                  .in = (uint32_t *)(uintptr_t)&in,
                                  .n_in = 1};
        struct pst_shapes shapes = {0};
        const struct pst_op_case c = {
            .op = &op, .tensors = &x, .dtype = PST_F32, .shapes = &shapes};
        struct pst_error err = {0};
        const bool fits = pst_op_rules_of(PST_OP_CONVERT)->infer(&c, &err);

        assert_int_equal(fits, cases[i].expected > 0);
        if (fits) {
            assert_int_equal(shapes.out[0].rank, 2);
            assert_int_equal(shapes.out[0].dims[0], cases[i].expected);
            assert_int_equal(shapes.out[0].dims[1], 7);
            assert_int_equal(shapes.out[0].dtype, PST_BF16);
        } else {
            assert_string_equal(err.kind, "model.shape");
            assert_non_null(strstr(err.message, "3 parts do not divide the first axis"));
        }
    }
}
