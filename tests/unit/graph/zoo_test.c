/* SPDX-License-Identifier: Apache-2.0
 *
 * The models of the papers: parameters counted from the formulas (and, where authors published the
 * number itself, against that), structure, and that none of it takes memory for weights.
 */
#include <sys/resource.h>

#include "unit/graph/model_support.h"

static uint64_t parameters_of(const char *model, const char *settings)
{
    struct pst_graph *graph = make_model(model, settings, PST_F32);
    uint64_t n = count_parameters(graph);

    pst_graph_destroy(graph);
    return n;
}

/* 12 L h^2 + 13 L h in the blocks, the last norm, the tables of tokens and positions. */
static uint64_t gpt_formula(uint64_t layers, uint64_t h, uint64_t vocab, uint64_t context)
{
    return 12 * layers * h * h + 13 * layers * h + 2 * h + vocab * h + context * h;
}

/* Sizes of the papers, as exactly as they are known. */
TEST(gpts)
{
    static const struct {
        unsigned layers, dim, heads, context, vocab;
        uint64_t size, unit;
    } sizes[] = {
        /* PipeDream-2BW */
        {24, 1024, 16, 512, 50257, 35, 10000000},
        {24, 2048, 16, 512, 50257, 131, 10000000},
        {32, 2304, 32, 512, 50257, 216, 10000000},
        {32, 3072, 32, 512, 50257, 378, 10000000},
        {2240, 1024, 16, 512, 50257, 283, 100000000},
        /* zero bubbles, and controllable memory */
        {22, 2304, 24, 1024, 32000, 15, 100000000},
        {30, 4096, 32, 1024, 32000, 62, 100000000},
        {46, 5120, 40, 1024, 32000, 146, 100000000},
        {62, 6144, 48, 1024, 32000, 283, 100000000},
        {30, 5120, 40, 1024, 32000, 96, 100000000},
        {46, 6144, 48, 1024, 32000, 210, 100000000},
        {62, 7168, 64, 1024, 32000, 385, 100000000},
        {78, 10240, 80, 1024, 32000, 985, 100000000},
    };

    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char settings[160];
        uint64_t n;

        snprintf(settings, sizeof settings, "layers=%u dim=%u heads=%u context=%u vocab=%u",
                 sizes[i].layers, sizes[i].dim, sizes[i].heads, sizes[i].context, sizes[i].vocab);
        n = parameters_of("gpt", settings);
        assert_int_equal(
            n, gpt_formula(sizes[i].layers, sizes[i].dim, sizes[i].vocab, sizes[i].context));
        assert_int_equal((n + sizes[i].unit / 2) / sizes[i].unit, sizes[i].size);
    }
}

/* Sizes of the published config.json; totals as their safetensors files have them, a tied head
 * once.
 */
TEST(llamas)
{
    static const struct {
        unsigned layers, dim, heads, kv_heads, head_dim, ff, vocab;
        const char *more;
        uint64_t parameters;
    } sizes[] = {
        {32, 4096, 32, 32, 128, 11008, 32000, "", 6738415616}, /* Llama 2 */
        {40, 5120, 40, 40, 128, 13824, 32000, "", 13015864320},
        {80, 8192, 64, 8, 128, 28672, 32000, "", 68976648192},
        {16, 2048, 32, 8, 64, 8192, 128256, "tied=true", 1235814400}, /* Llama 3.2 and 3.1 */
        {28, 3072, 24, 8, 128, 8192, 128256, "tied=true", 3212749824},
        {32, 4096, 32, 8, 128, 14336, 128256, "", 8030261248},
        {80, 8192, 64, 8, 128, 28672, 128256, "", 70553706496},
        {32, 4096, 32, 8, 128, 14336, 32000, "window=4096", 7241732096},          /* Mistral */
        {24, 896, 14, 2, 64, 4864, 151936, "tied=true qkv_bias=true", 494032768}, /* Qwen2 */
        {28, 3584, 28, 4, 128, 18944, 152064, "qkv_bias=true", 7615616512},
        {28, 1024, 16, 8, 128, 3072, 151936, "tied=true qk_norm=true", 596049920}, /* Qwen3 */
        {36, 4096, 32, 8, 128, 12288, 151936, "qk_norm=true", 8190735360},
        {30, 576, 9, 3, 64, 1536, 49152, "tied=true", 134515008}, /* SmolLM */
        {32, 960, 15, 5, 64, 2560, 49152, "tied=true", 361821120},
    };

    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char settings[200];

        snprintf(settings, sizeof settings,
                 "layers=%u dim=%u heads=%u kv_heads=%u head_dim=%u ff=%u vocab=%u %s",
                 sizes[i].layers, sizes[i].dim, sizes[i].heads, sizes[i].kv_heads,
                 sizes[i].head_dim, sizes[i].ff, sizes[i].vocab, sizes[i].more);
        assert_int_equal(parameters_of("llama", settings), sizes[i].parameters);
    }
}

/* Mixtral 8x7B, Qwen3 30B-A3B: sizes of config.json, totals of the safetensors files. */
TEST(experts)
{
    struct pst_graph *graph;
    struct pst_error err;

    assert_int_equal(parameters_of("llama", "layers=32 dim=4096 heads=32 kv_heads=8 ff=14336 "
                                            "vocab=32000 experts=8 experts_per_token=2"),
                     46702792704);
    assert_int_equal(parameters_of("llama", "layers=48 dim=2048 heads=32 kv_heads=4 head_dim=128 "
                                            "ff=768 vocab=151936 experts=128 experts_per_token=8 "
                                            "qk_norm=true"),
                     30532122624);
    graph = make_model("llama", "layers=2 dim=24 heads=6 ff=40 context=10 experts=5", PST_F32);
    assert_int_equal(graph->ops[find_op(graph, "layers.1.mlp.experts")].n_in, 2);
    check_dims(find_output(graph, "layers.1.mlp.router", 0), 2, 10, 5, 0);
    check_dims(find_output(graph, "layers.1.mlp.experts", 0), 2, 10, 24, 0);
    pst_graph_destroy(graph);
    assert_int_equal(try_model("llama", "experts=3 experts_per_token=4", PST_F32, &graph, &err),
                     PST_ERR_CONFIG);
    assert_non_null(strstr(err.message, "there are 3 experts"));
}

TEST(llama_shapes)
{
    struct pst_graph *graph = make_model("llama",
                                         "layers=2 dim=24 heads=6 kv_heads=2 head_dim=8 ff=40 "
                                         "context=10 vocab=50 qk_norm=true qkv_bias=true",
                                         PST_F32);
    const struct pst_op *attention = &graph->ops[find_op(graph, "layers.1.self_attn")];
    struct pst_error err;

    /* embedding, 2 x (norm, qkv, norm of both, rotary, attention, o, add, norm, gate and up,
       swiglu, down, add), norm, head, loss */
    assert_int_equal(graph->n_ops, 1 + 2 * 12 + 3);
    check_dims(find_output(graph, "layers.0.self_attn.rotary", 0), 2, 10, (6 + 2 * 2) * 8, 0);
    check_dims(find_output(graph, "layers.0.self_attn", 0), 2, 10, 6 * 8, 0);
    check_dims(find_output(graph, "layers.1.mlp.swiglu", 0), 2, 10, 40, 0);
    assert_int_equal(attention->kv_heads, 2);
    assert_true(attention->causal);
    assert_int_equal(find_param(graph, "layers.1.self_attn.k_norm.weight")->elems, 8);
    assert_int_equal(find_param(graph, "layers.1.self_attn.qkv.bias")->elems, 80);
    assert_int_equal(find_param(graph, "embed_tokens.weight")->n_users, 1);
    pst_graph_destroy(graph);
    assert_int_equal(try_model("llama", "heads=6 kv_heads=4 dim=24", PST_F32, &graph, &err),
                     PST_ERR_CONFIG);
    assert_non_null(strstr(err.message, "does not divide heads = 6"));
    assert_int_equal(try_model("llama", "heads=8 dim=24", PST_F32, &graph, &err), PST_ERR_CONFIG);
    assert_non_null(strstr(err.message, "even"));
    assert_int_equal(try_model("llama", "heads=5 dim=24", PST_F32, &graph, &err), PST_ERR_CONFIG);
    assert_non_null(strstr(err.message, "does not divide dim"));
    assert_int_equal(
        try_model("llama", "rope_scaling=llama3 rope_low_freq_factor=4", PST_F32, &graph, &err),
        PST_ERR_CONFIG);
    assert_non_null(strstr(err.message, "above rope_low_freq_factor = 4"));
}

/* The published totals without the classifier of sentence pairs. */
TEST(berts)
{
    assert_int_equal(parameters_of("bert", "layers=12 dim=768 heads=12 context=512 vocab=30522"),
                     109514298);
    assert_int_equal(parameters_of("bert", "layers=24 dim=1024 heads=16 context=512 vocab=30522"),
                     335174458);
}

TEST(bert_shapes)
{
    struct pst_graph *graph =
        make_model("bert", "layers=2 dim=24 heads=3 context=10 vocab=50", PST_F32);
    const struct pst_parameter *table = find_param(graph, "embeddings.words.weight");

    /* words, segments, add, norm; 2 x (qkv, attention, output, add, norm, fc + gelu, output, add,
       norm); transform + gelu, norm, decoder, loss */
    assert_int_equal(graph->n_ops, 4 + 2 * 9 + 4);
    assert_int_equal(graph->n_inputs, 3);
    assert_int_equal(graph->tensors[1].field, PST_FIELD_SEGMENT);
    assert_int_equal(graph->tensors[2].field, PST_FIELD_MASKED);
    assert_false(graph->ops[find_op(graph, "encoder.1.attention")].causal);
    assert_int_equal(table->n_users, 2);
    assert_int_equal(table->users[1], find_op(graph, "head.decoder"));
    check_dims(find_output(graph, "head.decoder", 0), 2, 10, 50, 0);
    assert_float_equal(graph->ops[find_op(graph, "encoder.0.norm")].eps, 1e-12f, 1e-15f);
    pst_graph_destroy(graph);
}

/* 4 branches of 8 layers: 12.6 million a layer, 403 million in the blocks. */
TEST(mmt_of_graphpipe)
{
    const uint64_t h = 1024, layer = 12 * h * h + 13 * h;

    assert_int_equal((layer + 50000) / 100000, 126);
    assert_int_equal((32 * layer + 500000) / 1000000, 403);
    /* tables of tokens and positions per branch; join, last norm, head */
    assert_int_equal(
        parameters_of("mmt", "branches=4 layers=8 dim=1024 heads=16 context=256 vocab=256"),
        32 * layer + 4 * 2 * 256 * h + 4 * h * h + h + 2 * h + 256 * h);
}

/* As its public code has it: 12 h^2 a layer, features for every branch. */
TEST(bare_mmt)
{
    struct pst_graph *graph = make_model(
        "mmt", "blocks=bare branches=4 layers=8 dim=64 heads=4 context=8 vocab=5", PST_F32);

    assert_int_equal(count_parameters(graph), 32 * 12 * 64 * 64 + 4 * 64 * 64 + 5 * 64);
    /* 3 of the paper's operators a layer, of which attention is 3 here; join: concat, linear, head
     */
    assert_int_equal(graph->n_ops, 4 * 8 * 5 + 3 + 1);
    assert_int_equal(graph->n_inputs, 5);
    check_dims(&graph->tensors[3], 2, 8, 64, 0);
    check_dims(find_output(graph, "branch.3.h.7.mlp.c_proj", 0), 2, 8, 64, 0);
    pst_graph_destroy(graph);
}

#define DLRM                                                                                       \
    "dense=7 sparse=7 features=4096 layers=4 width=4096 entries=1000000 vector=64 "                \
    "bag_size=100 top_layers=4 "

TEST(dlrm_of_graphpipe)
{
    const uint64_t w = 4096, dense = 7 * 4 * w * w, tables = 7ull * 1000000 * 64;

    assert_int_equal((dense + 500000) / 1000000, 470);
    assert_int_equal(tables, 448000000);
    assert_int_equal(parameters_of("dlrm", DLRM "bag=concat"),
                     dense + tables + (7 * w + 7 * 6400) * w + 3 * w * w + 2 * w);
    assert_int_equal(parameters_of("dlrm", DLRM "bag=sum"),
                     dense + tables + (7 * w + 7 * 64) * w + 3 * w * w + 2 * w);
}

TEST(dlrm_shapes)
{
    struct pst_graph *graph = make_model("dlrm", DLRM, PST_F32);

    /* 4 layers with their relu and a table in turns, join, top, head, loss */
    assert_int_equal(graph->n_ops, 7 * 4 + 7 + 1 + 4 + 2);
    assert_int_equal(graph->n_inputs, 15);
    assert_int_equal(find_op(graph, "dense.0.0"), 0);
    assert_int_equal(find_op(graph, "sparse.0"), 4);
    assert_int_equal(find_op(graph, "dense.1.0"), 5);
    check_dims(find_output(graph, "sparse.6", 0), 1, 6400, 0, 0);
    check_dims(find_output(graph, "concat", 0), 1, 7 * 4096 + 7 * 6400, 0, 0);
    assert_int_equal(graph->ops[find_op(graph, "dense.6.3")].act, PST_ACT_RELU);
    assert_int_equal(graph->ops[find_op(graph, "dense.6.3")].param[1], PST_NONE);
    pst_graph_destroy(graph);
    graph = make_model("dlrm", DLRM "bag=sum", PST_F32);
    check_dims(find_output(graph, "sparse.6", 0), 1, 64, 0, 0);
    pst_graph_destroy(graph);
}

#define UNO "rnaseq=942 descriptors=5270 fingerprints=2048 layers=4 width=4096 "

TEST(candle_of_graphpipe)
{
    const uint64_t w = 4096, top = w * w + w;
    struct pst_graph *graph = make_model("candle-uno", UNO, PST_F32);

    assert_int_equal(count_parameters(graph),
                     (942 + 3 * (5270 + 2048)) * w + 7 * 3 * w * w + (7 * w + 2) * w + top);
    assert_int_equal(graph->n_ops, 7 * 4 + 1 + 2 + 2);
    assert_int_equal(graph->n_inputs, 2 + 7 + 1);
    assert_int_equal(graph->ops[find_op(graph, "concat")].n_in, 9);
    assert_int_equal(graph->tensors[graph->ops[find_op(graph, "concat")].in[0]].role,
                     PST_ROLE_INPUT);
    assert_int_equal(graph->ops[graph->tensors[graph->loss].producer].kind, PST_OP_MSE);
    pst_graph_destroy(graph);
    /* 2 drugs and top of 4 + 1 layers behind encoders of 8: 40 + 1 + 4 + 1 without the inputs */
    graph = make_model("candle-uno", UNO "drugs=2 layers=8 top_layers=4", PST_F32);
    assert_int_equal(graph->n_ops, 40 + 1 + 4 + 1 + 1);
    pst_graph_destroy(graph);
    assert_int_equal(parameters_of("candle-uno",
                                   "variant=branches branches=16 features=4096 layers=4 "
                                   "width=4096"),
                     16 * 4 * w * w + 16 * w * w + top);
}

TEST(resnet152_has_its_published_size)
{
    assert_int_equal(parameters_of("resnet", "depth=152 image=224 width=64 classes=1000"),
                     60192808);
}

/* Published: 60.5, 222.9, 737.7 million, 2.85 and 11.3 billion; by transformers of
   version 1.1: 77.0, 247.6, 783.2 million. */
TEST(t5s)
{
    static const struct {
        unsigned layers, dim, heads, head_dim, ff;
        uint64_t parameters;
        const char *more;
    } sizes[] = {{6, 512, 8, 64, 2048, 60506624, ""},
                 {12, 768, 12, 64, 3072, 222903552, ""},
                 {24, 1024, 16, 64, 4096, 737668096, ""},
                 {24, 1024, 32, 128, 16384, 2851598336, ""},
                 {24, 1024, 128, 128, 65536, 11307321344, ""},
                 {8, 512, 6, 64, 1024, 76961152, " gated=true tied=false"},
                 {12, 768, 12, 64, 2048, 247577856, " gated=true tied=false"},
                 {24, 1024, 16, 64, 2816, 783150080, " gated=true tied=false"}};

    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char settings[200];

        snprintf(settings, sizeof settings,
                 "layers=%u decoder_layers=%u dim=%u heads=%u head_dim=%u ff=%u vocab=32128%s",
                 sizes[i].layers, sizes[i].layers, sizes[i].dim, sizes[i].heads, sizes[i].head_dim,
                 sizes[i].ff, sizes[i].more);
        assert_int_equal(parameters_of("t5", settings), sizes[i].parameters);
    }
}

/* The encoder's result goes to every layer of the decoder. */
TEST(t5_shapes)
{
    struct pst_graph *graph =
        make_model("t5",
                   "layers=2 decoder_layers=3 dim=24 heads=3 head_dim=4 ff=40 context=10 targets=7 "
                   "vocab=50",
                   PST_F32);
    const struct pst_tensor *memory = find_output(graph, "encoder.norm", 0);
    const struct pst_op *cross = &graph->ops[find_op(graph, "decoder.2.cross")];
    const struct pst_parameter *table = find_param(graph, "shared.weight");

    /* embedding, 2 x (norm, qkv, attention, o, add, norm, wi + relu, wo, add), norm; embedding,
       3 x (as many and norm, q, kv, attention, o, add), norm; head, loss */
    assert_int_equal(graph->n_ops, 1 + 2 * 9 + 1 + 1 + 3 * 15 + 1 + 2);
    assert_int_equal(memory->n_consumers, 3);
    for (uint32_t i = 0; i < 3; i++) {
        char name[32];

        snprintf(name, sizeof name, "decoder.%u.cross.kv", i);
        assert_int_equal(memory->consumers[i], find_op(graph, name));
    }
    check_dims(find_output(graph, "decoder.0.cross.kv", 0), 2, 10, 24, 0);
    check_dims(find_output(graph, "decoder.0.cross", 0), 2, 7, 12, 0);
    assert_int_equal(cross->param[0], PST_NONE);
    assert_false(cross->causal);
    assert_true(graph->ops[find_op(graph, "decoder.1.attention")].causal);
    assert_false(graph->ops[find_op(graph, "encoder.1.attention")].causal);
    assert_int_equal(table->n_users, 3);
    assert_int_equal(find_param(graph, "decoder.distances.weight")->n_users, 3);
    assert_int_equal(find_param(graph, "encoder.distances.weight")->n_users, 2);
    pst_graph_destroy(graph);
}

/* Published by GPipe: 82, 318, 542 million and 1.05 billion; by torchgpipe: 81.5, 319, 543 million,
   1.06 and 1.84 billion. */
TEST(amoebanets)
{
    static const struct {
        unsigned layers, filters;
        uint64_t tenths_of_millions, unit;
    } sizes[] = {{18, 208, 815, 100000},
                 {18, 416, 319, 1000000},
                 {18, 544, 543, 1000000},
                 {36, 544, 106, 10000000},
                 {72, 512, 184, 10000000}};

    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char settings[80];

        snprintf(settings, sizeof settings, "layers=%u filters=%u image=224 classes=1000",
                 sizes[i].layers, sizes[i].filters);
        assert_int_equal((parameters_of("amoebanet", settings) + sizes[i].unit / 2) / sizes[i].unit,
                         sizes[i].tenths_of_millions);
    }
}

TEST(amoebanet_shapes)
{
    struct pst_graph *graph =
        make_model("amoebanet", "layers=3 filters=208 image=224 classes=1000", PST_F32);
    struct pst_error err;

    /* 112 behind the stem, then halved by cells 0, 1, 3 and 5 */
    check_dims(find_output(graph, "stem.conv", 0), 3, 112, 112, 52);
    check_dims(find_output(graph, "cell.0.join", 0), 3, 56, 56, 3 * 104);
    check_dims(find_output(graph, "cell.1.join", 0), 3, 28, 28, 3 * 208);
    check_dims(find_output(graph, "cell.2.join", 0), 3, 28, 28, 4 * 208);
    check_dims(find_output(graph, "cell.3.join", 0), 3, 14, 14, 3 * 416);
    check_dims(find_output(graph, "cell.6.join", 0), 3, 7, 7, 4 * 832);
    check_dims(find_output(graph, "cell.2.op3.1x7.conv", 0), 3, 28, 28, 52);
    /* a skip over a cell: cell 0 is read by cells 1 and 2 */
    assert_true(find_output(graph, "cell.0.join", 0)->n_consumers >= 2);
    check_dims(find_output(graph, "cell.2.reduce2.join", 0), 3, 28, 28, 208);
    assert_int_equal(graph->ops[find_op(graph, "cell.2.op8.mean")].kind, PST_OP_AVGPOOL2D);
    pst_graph_destroy(graph);
    assert_int_equal(try_model("amoebanet", "layers=4", PST_F32, &graph, &err), PST_ERR_CONFIG);
    assert_non_null(strstr(err.message, "multiple of 3"));
}

/* 98.5 billion parameters are 394 GB of weights. */
TEST(size_costs_nothing)
{
    struct pst_graph *graph = make_model(
        "gpt", "layers=78 dim=10240 heads=80 context=1024 vocab=32000 tied=false", PST_BF16);
    struct rusage usage;

    assert_int_equal(count_parameters(graph),
                     gpt_formula(78, 10240, 32000, 1024) + 32000ull * 10240);
    pst_graph_destroy(graph);
    assert_int_equal(getrusage(RUSAGE_SELF, &usage), 0);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    assert_true(usage.ru_maxrss < 256 * 1024); /* KiB; of everything in this program */
#endif
}
