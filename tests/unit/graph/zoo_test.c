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

/* Sizes that authors published, each in units as exact as the source: GPTs as the papers name them;
   Llamas by their config.json and safetensors files, a tied head once; BERT without the classifier
   of sentence pairs; T5 by its paper (60.5, 222.9, 737.7 million, 2.85 and 11.3 billion) and by
   transformers of version 1.1; AmoebaNet by torchgpipe (GPipe: 82, 318, 542 million, 1.05 billion);
   ResNets by torchvision. */
TEST(published_sizes)
{
    static const struct {
        const char *model, *settings;
        uint64_t size, unit;
    } sizes[] = {
#define GPT(layers, dim, heads, rest)                                                              \
    "gpt", "layers=" #layers " dim=" #dim " heads=" #heads " " rest
#define SHORT "context=512 vocab=50257"
#define LONG  "context=1024 vocab=32000"
        {"gpt", "layers=12 dim=768 heads=12 context=1024 vocab=50257", 124439808, 1},
        {"gpt", "layers=12 dim=768 heads=12 context=1024 vocab=50257 tied=false",
         124439808 + 50257 * 768, 1},
        {GPT(24, 1024, 16, SHORT), 35, 10000000}, /* PipeDream-2BW */
        {GPT(24, 2048, 16, SHORT), 131, 10000000},
        {GPT(32, 2304, 32, SHORT), 216, 10000000},
        {GPT(32, 3072, 32, SHORT), 378, 10000000},
        {GPT(2240, 1024, 16, SHORT), 283, 100000000},
        {GPT(22, 2304, 24, LONG), 15, 100000000}, /* zero bubbles, and controllable memory */
        {GPT(30, 4096, 32, LONG), 62, 100000000},
        {GPT(46, 5120, 40, LONG), 146, 100000000},
        {GPT(62, 6144, 48, LONG), 283, 100000000},
        {GPT(30, 5120, 40, LONG), 96, 100000000},
        {GPT(46, 6144, 48, LONG), 210, 100000000},
        {GPT(62, 7168, 64, LONG), 385, 100000000},
        {GPT(78, 10240, 80, LONG), 985, 100000000},
#define LLAMA(layers, dim, heads, kv_heads, head_dim, ff, vocab, more)                             \
    "llama", "layers=" #layers " dim=" #dim " heads=" #heads " kv_heads=" #kv_heads                \
             " head_dim=" #head_dim " ff=" #ff " vocab=" #vocab " " more
        {LLAMA(32, 4096, 32, 32, 128, 11008, 32000, ""), 6738415616, 1}, /* Llama 2 */
        {LLAMA(40, 5120, 40, 40, 128, 13824, 32000, ""), 13015864320, 1},
        {LLAMA(80, 8192, 64, 8, 128, 28672, 32000, ""), 68976648192, 1},
        {LLAMA(16, 2048, 32, 8, 64, 8192, 128256, "tied=true"), 1235814400, 1}, /* 3.2 and 3.1 */
        {LLAMA(28, 3072, 24, 8, 128, 8192, 128256, "tied=true"), 3212749824, 1},
        {LLAMA(32, 4096, 32, 8, 128, 14336, 128256, ""), 8030261248, 1},
        {LLAMA(80, 8192, 64, 8, 128, 28672, 128256, ""), 70553706496, 1},
        {LLAMA(32, 4096, 32, 8, 128, 14336, 32000, "window=4096"), 7241732096, 1}, /* Mistral */
        {LLAMA(24, 896, 14, 2, 64, 4864, 151936, "tied=true qkv_bias=true"), 494032768, 1},
        {LLAMA(28, 3584, 28, 4, 128, 18944, 152064, "qkv_bias=true"), 7615616512, 1}, /* Qwen2 */
        {LLAMA(28, 1024, 16, 8, 128, 3072, 151936, "tied=true qk_norm=true"), 596049920, 1},
        {LLAMA(36, 4096, 32, 8, 128, 12288, 151936, "qk_norm=true"), 8190735360, 1}, /* Qwen3 */
        {LLAMA(30, 576, 9, 3, 64, 1536, 49152, "tied=true"), 134515008, 1},          /* SmolLM */
        {LLAMA(32, 960, 15, 5, 64, 2560, 49152, "tied=true"), 361821120, 1},
        {LLAMA(32, 4096, 32, 8, 128, 14336, 32000, "experts=8 experts_per_token=2"), 46702792704,
         1}, /* Mixtral 8x7B */
        {LLAMA(48, 2048, 32, 4, 128, 768, 151936, "experts=128 experts_per_token=8 qk_norm=true"),
         30532122624, 1}, /* Qwen3 30B-A3B */
        {"bert", "layers=12 dim=768 heads=12 context=512 vocab=30522", 109514298, 1},
        {"bert", "layers=24 dim=1024 heads=16 context=512 vocab=30522", 335174458, 1},
#define T5(layers, dim, heads, head_dim, ff, more)                                                 \
    "t5", "layers=" #layers " decoder_layers=" #layers " dim=" #dim " heads=" #heads               \
          " head_dim=" #head_dim " ff=" #ff " vocab=32128" more
        {T5(6, 512, 8, 64, 2048, ""), 60506624, 1},
        {T5(12, 768, 12, 64, 3072, ""), 222903552, 1},
        {T5(24, 1024, 16, 64, 4096, ""), 737668096, 1},
        {T5(24, 1024, 32, 128, 16384, ""), 2851598336, 1},
        {T5(24, 1024, 128, 128, 65536, ""), 11307321344, 1},
        {T5(8, 512, 6, 64, 1024, " gated=true tied=false"), 76961152, 1},
        {T5(12, 768, 12, 64, 2048, " gated=true tied=false"), 247577856, 1},
        {T5(24, 1024, 16, 64, 2816, " gated=true tied=false"), 783150080, 1},
        {"amoebanet", "layers=18 filters=208 image=224 classes=1000", 815, 100000},
        {"amoebanet", "layers=18 filters=416 image=224 classes=1000", 319, 1000000},
        {"amoebanet", "layers=18 filters=544 image=224 classes=1000", 543, 1000000},
        {"amoebanet", "layers=36 filters=544 image=224 classes=1000", 106, 10000000},
        {"amoebanet", "layers=72 filters=512 image=224 classes=1000", 184, 10000000},
        {"resnet", "depth=18 image=224 width=64 classes=1000", 11689512, 1},
        {"resnet", "depth=34 image=224 width=64 classes=1000", 21797672, 1},
        {"resnet", "depth=50 image=224 width=64 classes=1000", 25557032, 1},
        {"resnet", "depth=101 image=224 width=64 classes=1000", 44549160, 1},
        {"resnet", "depth=152 image=224 width=64 classes=1000", 60192808, 1},
    };

    unsigned n_formula = 0;

    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        uint64_t n = parameters_of(sizes[i].model, sizes[i].settings);
        unsigned layers, dim, context, vocab;

        if ((n + sizes[i].unit / 2) / sizes[i].unit != sizes[i].size) {
            fail_msg("%s, %s: %llu parameters", sizes[i].model, sizes[i].settings,
                     (unsigned long long)n);
        }
        /* Sources round the sizes of large GPTs; the formula does not. */
        if (sizes[i].unit > 1 &&
            sscanf(sizes[i].settings, "layers=%u dim=%u heads=%*u context=%u vocab=%u", &layers,
                   &dim, &context, &vocab) == 4) {
            assert_int_equal(n, gpt_formula(layers, dim, vocab, context));
            n_formula++;
        }
    }
    assert_int_equal(n_formula, 13);
}

TEST(expert_shapes)
{
    struct pst_error err;
    struct pst_graph *graph =
        make_model("llama", "layers=2 dim=24 heads=6 ff=40 context=10 experts=5", PST_F32);
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
    OWN(graph) *graph = make_model(
        "mmt", "blocks=bare branches=4 layers=8 dim=64 heads=4 context=8 vocab=5", PST_F32);

    assert_int_equal(count_parameters(graph), 32 * 12 * 64 * 64 + 4 * 64 * 64 + 5 * 64);
    /* 3 of the paper's operators a layer, of which attention is 3 here; join: concat, linear, head
     */
    assert_int_equal(graph->n_ops, 4 * 8 * 5 + 3 + 1);
    assert_int_equal(graph->n_inputs, 5);
    check_dims(&graph->tensors[3], 2, 8, 64, 0);
    check_dims(find_output(graph, "branch.3.h.7.mlp.c_proj", 0), 2, 8, 64, 0);
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
