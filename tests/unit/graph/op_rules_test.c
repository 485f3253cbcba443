/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of operators: rows are in the order of the kinds (ops.h), whole, and agree with
 * themselves.
 */
#include "test.h"

#include "graph/op_rules.h"

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
