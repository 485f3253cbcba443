/* SPDX-License-Identifier: Apache-2.0
 *
 * The planning view: edges, saved and output bytes, flags.
 */
#include "unit/graph/graph_support.h"

static const struct pst_node *node(const struct pst_graph *graph, const struct pst_graph_view *view,
                                   const char *name)
{
    return pst_graph_node(view, find_op(graph, name));
}

/* Every edge is listed once with its two ends, rows are where nodes say, ends go forward. */
static void check_rows(const struct pst_graph_view *view)
{
    uint32_t in = 0, out = 0;

    for (uint32_t i = 0; i < view->n_nodes; i++) {
        const struct pst_node *n = pst_graph_node(view, i);

        assert_int_equal(n->first_in, in);
        assert_int_equal(n->first_out, out);
        for (uint32_t k = 0; k < n->n_in; k++) {
            const struct pst_edge *edge = pst_graph_edge(view, view->in_edges[in + k]);

            assert_int_equal(edge->to, i);
            assert_true(edge->from < i);
            assert_int_equal(edge->bytes, pst_graph_node(view, edge->from)->output_bytes);
            assert_int_equal(edge->batched, 1);
        }
        for (uint32_t k = 0; k < n->n_out; k++) {
            assert_int_equal(pst_graph_edge(view, view->out_edges[out + k])->from, i);
        }
        in += n->n_in;
        out += n->n_out;
    }
    assert_int_equal(in, view->n_edges);
    assert_int_equal(out, view->n_edges);
}

static struct pst_graph_view *make_view(struct pst_graph *graph)
{
    struct pst_graph_view *view = NULL;

    pst_graph_make_view(graph, 4, &view);
    assert_int_equal(view->n_nodes, graph->n_ops);
    assert_int_equal(view->batch, 4);
    assert_int_equal(view->size, sizeof *view);
    check_rows(view);
    return view;
}

TEST(gpt_view)
{
    struct pst_graph *graph =
        make_model("gpt", "layers=2 dim=8 heads=2 context=6 vocab=11 dropout=0.1", PST_F32);
    struct pst_graph_view *view = make_view(graph);
    uint64_t row = 6 * 8 * 4; /* one [6, 8] tensor */

    /* a chain of n operators has n - 1 edges; every block has two skips */
    assert_int_equal(view->n_edges, graph->n_ops - 1 + 2 * 2);
    /* read: by ln_1's backward (the sum), by c_attn's W (ln's result), by attention */
    assert_int_equal(node(graph, view, "drop")->saved_bytes, row);
    assert_int_equal(node(graph, view, "wte")->saved_bytes, 0);
    assert_int_equal(node(graph, view, "h.0.ln_1")->saved_bytes, row + 2 * 6 * 4);
    assert_int_equal(node(graph, view, "h.0.attn.c_attn")->saved_bytes, 3 * row);
    assert_int_equal(node(graph, view, "h.0.attn")->saved_bytes, row + 2 * 6 * 4);
    assert_int_equal(node(graph, view, "h.0.attn.c_proj")->saved_bytes, 0);
    assert_int_equal(node(graph, view, "h.0.attn.add")->saved_bytes, row);
    /* gelu: its result for the W of c_proj, the values before it for its own B */
    assert_int_equal(node(graph, view, "h.0.mlp.c_fc")->saved_bytes, 2 * 4 * row);
    assert_int_equal(node(graph, view, "lm_head")->saved_bytes, 6 * 11 * 4);
    assert_int_equal(node(graph, view, "loss")->saved_bytes, 6 * 4);
    assert_int_equal(node(graph, view, "loss")->output_bytes, 4);
    assert_int_equal(node(graph, view, "h.0.attn.c_attn")->output_bytes, 3 * row);
    assert_int_equal(node(graph, view, "h.0.attn.c_attn")->param_bytes, (8 * 24 + 24) * 4);
    assert_int_equal(node(graph, view, "lm_head")->param_bytes, 8 * 11 * 4);
    assert_string_equal(node(graph, view, "lm_head")->op, "linear");
    assert_int_equal(node(graph, view, "h.1.attn")->layer, 2);
    pst_graph_destroy(graph);
}

TEST(flags)
{
    struct pst_graph *graph = make_model("gpt", "layers=1 dropout=0.1", PST_F32);
    struct pst_graph_view *view = make_view(graph);

    assert_int_equal(node(graph, view, "drop")->flags, PST_NODE_CHEAP | PST_NODE_RNG);
    assert_int_equal(node(graph, view, "h.0.mlp.add")->flags, PST_NODE_CHEAP | PST_NODE_RNG);
    assert_int_equal(node(graph, view, "h.0.ln_1")->flags, PST_NODE_CHEAP);
    assert_int_equal(node(graph, view, "h.0.attn")->flags, 0);
    assert_int_equal(node(graph, view, "h.0.mlp.c_fc")->flags, 0);
    pst_graph_destroy(graph);
    graph = make_model("resnet", "stages=1 blocks=1 image=8", PST_F32);
    view = make_view(graph);
    assert_int_equal(node(graph, view, "bn1")->flags, PST_NODE_CHEAP);
    assert_int_equal(node(graph, view, "layer1.0.add")->flags, PST_NODE_CHEAP);
    assert_int_equal(node(graph, view, "conv1")->flags, 0);
    pst_graph_destroy(graph);
}

TEST(branches_join)
{
    OWN(graph) *graph = make_model("mmt", "branches=4 layers=1", PST_BF16);
    struct pst_graph_view *view = make_view(graph);

    assert_int_equal(node(graph, view, "concat")->n_in, 4);
    for (uint32_t i = 0; i < 4; i++) {
        char name[32];

        snprintf(name, sizeof name, "branch.%u.wte", i);
        assert_int_equal(node(graph, view, name)->n_in, 0); /* data is no edge */
    }
    /* 4 branches: 10 nodes, 9 edges and 2 skips each; concat 4; join, ln, head, loss */
    assert_int_equal(view->n_edges, 4 * 11 + 4 + 4);
}

/* A tensor that one operator reads twice is one edge; batch norm's statistics count as they are. */
TEST(repeated_inputs_and_statistics)
{
    struct pst_graph_builder *b = new_builder(PST_F32);
    uint32_t h = conv(b, "conv", input(b, "x", PST_F32, 4, 4, 2), 2, 3, 3, 1, 1);
    struct pst_graph_view *view;
    OWN(graph) * graph;

    h = norm(b, PST_OP_BATCHNORM, "bn", h, 3, PST_ACT_NONE);
    graph = finish(b, plain(b, PST_OP_ADD, "add", h, h), 4, 4);
    view = make_view(graph);
    assert_int_equal(view->n_edges, 3);
    assert_int_equal(node(graph, view, "conv")->saved_bytes, 4 * 4 * 3 * 4);
    assert_int_equal(node(graph, view, "bn")->saved_bytes, 2 * 3 * 4);
    assert_int_equal(node(graph, view, "add")->saved_bytes, 4 * 4 * 3 * 4); /* by the loss */
}
