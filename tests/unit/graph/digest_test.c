/* SPDX-License-Identifier: Apache-2.0
 *
 * Two graphs have the same digest if they are the same, and not otherwise.
 */
#include "unit/graph/graph_support.h"

TEST(same_model_same_digest)
{
    for (uint32_t i = 0; pst_model_builders[i] != NULL; i++) {
        if (pst_model_builders[i]->build != NULL) {
            continue; /* of a file */
        }
        struct pst_graph *a = make_model(pst_model_builders[i]->id, "", PST_F32);
        struct pst_graph *b = make_model(pst_model_builders[i]->id, "", PST_F32);

        assert_int_equal(a->digest, b->digest);
        pst_graph_destroy(a);
        pst_graph_destroy(b);
    }
}

TEST(settings_show)
{
    static const char *const settings[] = {
        "",          "layers=3",   "dim=132",     "heads=8",     "context=64",
        "vocab=257", "tied=false", "dropout=0.1", "dropout=0.2",
    };
    enum { N = sizeof settings / sizeof *settings };
    uint64_t digests[N + 1];

    for (uint32_t i = 0; i <= N; i++) {
        struct pst_graph *graph =
            make_model("gpt", i < N ? settings[i] : "", i < N ? PST_F32 : PST_BF16);

        digests[i] = graph->digest;
        for (uint32_t k = 0; k < i; k++) {
            assert_true(digests[i] != digests[k]);
        }
        pst_graph_destroy(graph);
    }
}

/* What cross-entropy adds counts; nothing added is the graph as it was. */
TEST(loss_terms_show)
{
    const float terms[][2] = {{0, 0}, {0.1f, 0}, {0, 0.1f}, {0.1f, 0.1f}};
    OWN(graph) *graph = make_model("mlp", "", PST_F32);
    uint64_t digests[4];

    for (uint32_t i = 0; i < 4; i++) {
        digests[i] = graph->digest;
        assert_int_equal(pst_graph_set_loss(graph, terms[i][0], terms[i][1], NULL), PST_OK);
        assert_true(i == 0 ? graph->digest == digests[0] : graph->digest != digests[i]);
        digests[i] = graph->digest;
        for (uint32_t k = 0; k < i; k++) {
            assert_true(digests[i] != digests[k]);
        }
    }
}

/* Which row of a table has no gradient counts. */
TEST(padding_shows)
{
    const struct pst_op ops[] = {{.kind = PST_OP_EMBEDDING},
                                 {.kind = PST_OP_EMBEDDING, .padding = 1},
                                 {.kind = PST_OP_EMBEDDING, .padding = 2}};
    uint64_t digests[3];

    for (uint32_t i = 0; i < 3; i++) {
        struct pst_graph_builder *b = new_builder(PST_F32);
        OWN(graph) * graph;
        struct pst_error err = {0};
        uint32_t y = add_op(b, ops[i], "e", input(b, "x", PST_I32, 5, 0, 0), PST_NONE,
                            param(b, "w", 7, 6, 0, 0), PST_NONE);

        y = add_op(b, (struct pst_op){.kind = PST_OP_CROSS_ENTROPY}, "loss", y,
                   input(b, "t", PST_I32, 5, 0, 0), PST_NONE, PST_NONE);
        assert_ok(pst_graph_finish(b, y, PST_NONE, &graph, &err), &err);
        digests[i] = graph->digest;
        pst_graph_builder_destroy(b);
    }
    assert_true(digests[1] != digests[0] && digests[2] != digests[0] && digests[1] != digests[2]);
}

/* A graph of every kind of thing that counts, for changing one of them at a time. */
struct variant {
    struct pst_op layernorm; /* eps */
    const char *input, *op, *weight;
    uint32_t field, init, layer, order;
    float scale, p;
    bool decay;
};

static uint64_t digest_of(const struct variant *v)
{
    struct pst_graph_builder *b = new_builder(PST_F32);
    uint64_t dims[2] = {3, 3}, width = 3;
    uint32_t x, w, in[2];
    struct pst_graph *graph;
    uint64_t digest;

    pst_graph_layer(b, v->layer);
    x = pst_graph_input(b, v->input, v->field, PST_F32, 1, &width);
    w = pst_graph_param(b, v->weight, 2, dims, v->init, v->scale, v->decay);
    x = add_op(b, (struct pst_op){.kind = PST_OP_LINEAR}, v->op, x, PST_NONE, w, PST_NONE);
    w = add_op(b, v->layernorm, "ln", x, PST_NONE, param(b, "g", 3, 0, 0, 0),
               param(b, "b", 3, 0, 0, 0));
    in[v->order] = x;
    in[1 - v->order] = w;
    x = add_op(b, (struct pst_op){.kind = PST_OP_ADD, .p = v->p}, "add", in[0], in[1], PST_NONE,
               PST_NONE);
    graph = finish(b, x, 0, 0);
    digest = graph->digest;
    pst_graph_destroy(graph);
    return digest;
}

TEST(every_part_counts)
{
    const struct variant base = {.layernorm = {.kind = PST_OP_LAYERNORM, .eps = 1e-5f},
                                 .input = "x",
                                 .op = "fc",
                                 .weight = "w",
                                 .field = PST_FIELD_X,
                                 .init = PST_INIT_NORMAL,
                                 .scale = 0.1f,
                                 .decay = true};
    struct variant v[11];
    uint64_t digests[11];

    for (uint32_t i = 0; i < 11; i++) {
        v[i] = base;
    }
    v[1].layernorm.eps = 1e-6f;
    v[2].input = "y";
    v[3].op = "fd";
    v[4].weight = "u";
    v[5].field = PST_FIELD_TARGET;
    v[6].init = PST_INIT_UNIFORM;
    v[7].layer = 1;
    v[8].order = 1;
    v[9].p = 0.5f;
    v[10].decay = false;
    for (uint32_t i = 0; i < 11; i++) {
        digests[i] = digest_of(&v[i]);
        for (uint32_t k = 0; k < i; k++) {
            assert_true(digests[i] != digests[k]);
        }
    }
    assert_int_equal(digest_of(&base), digests[0]);
}

/* Attributes that no shape shows. */
TEST(attributes_of_the_decoder_count)
{
    const struct pst_op attention = {.kind = PST_OP_ATTENTION, .heads = 2, .causal = true};
    const struct pst_op rotary = {.kind = PST_OP_ROTARY,
                                  .heads = 2,
                                  .head_dim = 8,
                                  .rope = {PST_ROPE_LLAMA3, 10000, 8, 1, 4, 64}};
    const struct pst_op router = {.kind = PST_OP_ROUTER, .experts_per_token = 2};
    struct pst_op ops[] = {attention, attention, attention, rotary, rotary, rotary, rotary, rotary,
                           rotary,    rotary,    rotary,    router, router, router, router, router};
    enum { N = sizeof ops / sizeof *ops };
    uint64_t digests[N];

    ops[1].window = 3;
    ops[2].heads = 6, ops[2].kv_heads = 3;
    ops[4].heads = 1;
    ops[5].head_dim = 4;
    ops[6].rope.theta = 500;
    ops[7].rope.factor = 4;
    ops[8].rope.low_freq_factor = 2;
    ops[9].rope.high_freq_factor = 8;
    ops[10].rope.context = 128;
    ops[12].experts_per_token = 3;
    ops[13].normalize = true;
    ops[14].capacity = 1;
    ops[15].aux_loss = 0.01f;
    for (uint32_t i = 0; i < N; i++) {
        struct pst_graph_builder *b = new_builder(PST_F32);
        uint32_t x = linear(b, "fc", input(b, "x", PST_F32, 5, 3, 0), 3, 24, PST_ACT_NONE);
        OWN(graph) * graph;

        x = add_op(b, ops[i], "op", x, PST_NONE, PST_NONE, PST_NONE);
        graph = finish(b, x, 5, 0);
        digests[i] = graph->digest;
        for (uint32_t k = 0; k < i; k++) {
            assert_true(digests[i] != digests[k]);
        }
    }
}
