/* SPDX-License-Identifier: Apache-2.0
 *
 * Operators that cannot have the ways that were asked for are refused by name.
 */
#include "graph/split.h"
#include "graph_support.h"

enum { TOKENS = 8, WIDTH = 16, HEADS = 2 };

/* Only one of the two inputs of attention is its alone: a sum reads the queries, too. So heads are
   not exchanged, and neither are those of the rotation before the other input. */
TEST(queries_that_others_read)
{
    struct pst_graph_builder *b = new_builder(PST_F32);
    const uint32_t x = input(b, "x", PST_F32, TOKENS, WIDTH, 0);
    const uint32_t n = norm(b, PST_OP_LAYERNORM, "norm", x, WIDTH, PST_ACT_NONE);
    const uint32_t queries = linear(b, "queries", n, WIDTH, WIDTH, PST_ACT_NONE);
    const uint32_t keys = linear(b, "keys", n, WIDTH, 2 * WIDTH, PST_ACT_NONE);
    const uint32_t turned = add_op(b,
                                   (struct pst_op){.kind = PST_OP_ROTARY,
                                                   .heads = HEADS,
                                                   .head_dim = WIDTH / HEADS,
                                                   .rope = {.theta = 10000}},
                                   "turned", keys, PST_NONE, PST_NONE, PST_NONE);
    const uint32_t seen = add_op(b, (struct pst_op){.kind = PST_OP_ATTENTION, .heads = HEADS},
                                 "seen", queries, turned, PST_NONE, PST_NONE);
    const uint32_t sum = plain(b, PST_OP_ADD, "sum", queries, seen);
    struct pst_graph *whole = finish(b, linear(b, "head", sum, WIDTH, 11, PST_ACT_NONE), TOKENS, 0);
    struct pst_graph *graph = NULL;
    struct pst_error err = {0};

    assert_int_equal(pst_graph_split(whole,
                                     &(struct pst_division){.parts = 2, .ways = PST_WAYS_ULYSSES},
                                     &graph, &err),
                     PST_ERR_CONFIG);
    assert_non_null(strstr(err.message, "seen: parallel.ways = \"ulysses\" divides attention by "
                                        "heads, but what it reads has other readers"));
    assert_ok(pst_graph_split(whole, &(struct pst_division){.parts = 2, .ways = PST_WAYS_ROWS},
                              &graph, &err),
              &err);
    pst_graph_destroy(graph);
}
