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
