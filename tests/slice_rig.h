/* SPDX-License-Identifier: Apache-2.0
 *
 * A graph with all that slices of sequences change: positions, attention over what came before, a
 * loss over targets of the whole sequence.
 */
#ifndef TESTS_SLICE_RIG_H
#define TESTS_SLICE_RIG_H

#include "models/builder.h"
#include "test.h"

enum { TOKENS = 24, VOCAB = 7, HEADS = 4, KV_HEADS = 2, DEPTH = 6 };
enum { WIDTH = (HEADS + 2 * KV_HEADS) * DEPTH, COLUMNS = HEADS * DEPTH };
enum { EMBEDDING, ROTARY, ATTENTION, LOSS, N_OPS };

static inline uint32_t add_to_chain(struct pst_graph_builder *b, const char *name, uint32_t in,
                                    struct pst_op op)
{
    op.name = name;
    op.in = &in;
    op.n_in = 1;
    return pst_graph_add(b, &op);
}

/* Embedding with positions, rotary positions, causal attention, a loss. The caller's. */
static inline struct pst_graph *make_sliced(uint32_t dtype, uint32_t window, uint32_t slices)
{
    const uint64_t tokens = TOKENS, tables[2][2] = {{VOCAB, WIDTH}, {TOKENS, WIDTH}};
    struct pst_graph_builder *b = NULL;
    struct pst_graph *graph = NULL;
    struct pst_error err = {0};
    uint32_t in[2], param[2], x;

    assert_int_equal(pst_graph_builder_create("slices", dtype, &b, &err), PST_OK);
    x = pst_graph_input(b, "tokens", PST_FIELD_X, PST_I32, 1, &tokens);
    in[1] = pst_graph_input(b, "targets", PST_FIELD_TARGET, PST_I32, 1, &tokens);
    param[0] = pst_graph_param(b, "wte", 2, tables[0], PST_INIT_NORMAL, 1, false);
    param[1] = pst_graph_param(b, "wpe", 2, tables[1], PST_INIT_NORMAL, 1, false);
    x = add_to_chain(b, "embedding", x,
                     (struct pst_op){.kind = PST_OP_EMBEDDING, .n_param = 2, .param = param});
    x = add_to_chain(b, "rotary", x,
                     (struct pst_op){.kind = PST_OP_ROTARY,
                                     .heads = HEADS + KV_HEADS,
                                     .head_dim = DEPTH,
                                     .rope = {.theta = 100.0f}});
    in[0] = add_to_chain(b, "attention", x,
                         (struct pst_op){.kind = PST_OP_ATTENTION,
                                         .heads = HEADS,
                                         .kv_heads = KV_HEADS,
                                         .causal = true,
                                         .window = window});
    x = pst_graph_add(
        b, &(struct pst_op){.kind = PST_OP_CROSS_ENTROPY, .name = "loss", .n_in = 2, .in = in});
    assert_ok(pst_graph_finish(b, x, in[0], &graph, &err), &err);
    pst_graph_builder_destroy(b);
    assert_ok(pst_graph_slice(graph, slices, &err), &err);
    return graph;
}

#endif
