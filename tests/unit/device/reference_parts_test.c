/* SPDX-License-Identifier: Apache-2.0
 *
 * Graphs of parts against whole ones, by the machine that runs both.
 */
#include "base/text.h"
#include "random_parts.h"
#include "reference_machine.h"

/* Graphs with these, so that none is missed. */
static struct {
    uint32_t tables, heads, tied, padded, scattered, grouped;
} met;

static void note_vocabulary(const struct pst_graph *graph)
{
    const struct pst_op *loss = &graph->ops[graph->tensors[graph->loss].producer];

    met.heads += loss->kind == PST_OP_CE_JOIN;
    for (uint32_t v = 0; v < graph->n_ops; v++) {
        const struct pst_op *op = &graph->ops[v];

        met.grouped += op->kind == PST_OP_CONCAT; /* before an exchange */
        if (op->kind == PST_OP_EMBEDDING && op->classes > 0) {
            const struct pst_op *next = &graph->ops[v + 1];

            met.tables++;
            met.tied += graph->params[op->param[0]].n_users > 1;
            met.padded += graph->params[op->param[0]].box.padding > 0;
            met.scattered += next->convert == PST_CONVERT_SCATTER;
        }
    }
}

static float smoothing, z_loss;

static struct pst_graph *make_whole(const char *model, const char *settings)
{
    struct pst_graph *graph = make_model(model, settings, PST_F64);
    struct pst_error err = {0};

    assert_ok(pst_graph_set_loss(graph, smoothing, z_loss, &err), &err);
    return graph;
}

static void check_split(const char *model, const char *settings, const struct pst_division *how,
                        uint32_t converts)
{
    struct pst_graph *graph = NULL;
    struct pst_error err = {0};
    uint32_t n;

    assert_ok(pst_graph_split(make_whole(model, settings), how, &graph, &err), &err);
    n = compare_graphs(make_whole(model, settings), graph, settings);
    if (n != converts) {
        fail_msg("%s %s: %u conversions, not %u", model, settings, n, converts);
    }
}

static void check(const char *model, const char *settings, uint32_t parts, uint32_t converts)
{
    check_split(model, settings, &(struct pst_division){.parts = parts}, converts);
}

static void check_tokens(const char *model, const char *settings, uint32_t parts, uint32_t converts)
{
    check_split(model, settings, &(struct pst_division){.parts = parts, .sequence = true},
                converts);
}

/* A block has two pairs of fan and sum; the head has a fan and the meeting of its loss; a table
   that is tied to it has a sum. */
TEST(gpt)
{
    check("gpt", "layers=2 dim=16 heads=4 context=6 vocab=12", 2, 11);
    check("gpt", "layers=2 dim=16 heads=4 context=6 vocab=12 dropout=0.3", 4, 11);
}

TEST(llama)
{
    check("llama", "layers=2 dim=16 heads=4 kv_heads=2 ff=24 context=6 vocab=12 qkv_bias=true", 2,
          10);
    check("llama", "layers=1 dim=48 heads=8 kv_heads=8 ff=32 context=5 vocab=12 window=3", 8, 6);
}

/* Two key heads have no four parts: their layers are joined where they are large, else whole. */
TEST(attention_that_is_whole)
{
    check("llama", "layers=1 dim=16 heads=4 kv_heads=2 ff=24 context=6 vocab=12", 4, 4);
    check("llama", "layers=1 dim=256 heads=4 kv_heads=2 ff=24 context=3 vocab=12", 4, 6);
    check("llama", "layers=1 dim=16 heads=4 ff=24 context=6 vocab=12 qk_norm=true", 2, 6);
}

/* A table of 1 MiB is split though nothing is tied to it. */
TEST(large_table)
{
    check("gpt", "layers=1 dim=32 heads=4 context=3 vocab=4096 tied=false", 2, 7);
    check("gpt", "layers=1 dim=32 heads=4 context=3 vocab=4095 tied=false", 2, 6);
}

/* Parts that have some padding, and parts that have nothing else. */
TEST(padded_vocabulary)
{
    static const struct {
        float smoothing, z_loss;
    } losses[] = {{0, 0}, {0.1f, 0}, {0, 0.01f}, {0.2f, 0.001f}};

    for (size_t i = 0; i < sizeof losses / sizeof losses[0]; i++) {
        smoothing = losses[i].smoothing;
        z_loss = losses[i].z_loss;
        check("gpt", "layers=1 dim=16 heads=4 context=6 vocab=13", 2, 7);
        check("gpt", "layers=1 dim=16 heads=4 context=6 vocab=5", 4, 7);
        check("gpt", "layers=1 dim=32 heads=8 context=6 vocab=9 tied=false", 8, 6);
        check("llama", "layers=1 dim=16 heads=4 ff=24 context=6 vocab=7 tied=true", 4, 7);
        check_tokens("gpt", "layers=1 dim=16 heads=4 context=8 vocab=13", 4, 8);
        check_tokens("llama", "layers=1 dim=16 heads=4 ff=24 context=6 vocab=7 tied=true", 2, 7);
    }
    smoothing = z_loss = 0;
    /* One row a sample; layers of five have no two parts. */
    check("mlp", "inputs=3 hidden=5 layers=1 classes=3", 2, 2);
    check("mlp", "inputs=3 hidden=6 layers=1 classes=3", 2, 1); /* the head has rows */
}

/* Each part has columns of all experts, which read fanned rows and weights; the router is whole. */
TEST(experts)
{
    static const char model[] = "layers=1 dim=16 heads=4 ff=16 context=6 vocab=12";
    char settings[256];

    snprintf(settings, sizeof settings, "%s experts=4", model);
    check("llama", settings, 2, 7);
    check_tokens("llama", settings, 2, 9);
    snprintf(settings, sizeof settings, "%s experts=5 experts_per_token=3 capacity=1.25", model);
    check("llama", settings, 4, 7);
    snprintf(settings, sizeof settings, "%s experts=3 experts_per_token=1 aux_loss=0.1", model);
    check_tokens("llama", settings, 2, 9);
}

/* Three do not divide 16 columns. */
TEST(experts_that_are_whole)
{
    check("llama", "layers=1 dim=12 heads=3 ff=16 context=6 vocab=12 experts=4", 3, 4);
}

/* t5: two pairs a layer of the encoder, three of the decoder; what the encoder says is fanned once
   for all. */
TEST(other_models)
{
    check("bert", "layers=1 dim=16 heads=4 context=6 vocab=12", 2, 7);
    check("t5",
          "layers=2 decoder_layers=2 dim=16 heads=4 head_dim=4 ff=24 context=5 targets=4 "
          "vocab=12 buckets=8 max_distance=16",
          2, 25);
    check("mmt", "layers=1 dim=16 heads=4 context=5 vocab=12", 2, 10);
}

/* Embeddings are cut, a block gathers and scatters twice, the head gathers. bert has two sums of
   embeddings, and a layer before its head that is whole, between a join and a cut. */
TEST(rows_of_tokens)
{
    check_tokens("gpt", "layers=2 dim=16 heads=4 context=6 vocab=12", 2, 12);
    check_tokens("gpt", "layers=2 dim=16 heads=4 context=8 vocab=12 dropout=0.3", 4, 12);
    check_tokens("llama",
                 "layers=2 dim=16 heads=4 kv_heads=2 ff=24 context=6 vocab=12 qk_norm=true", 2, 11);
    check_tokens("bert", "layers=1 dim=16 heads=4 context=6 vocab=12 dropout=0.1", 2, 11);
    check_tokens("t5",
                 "layers=2 decoder_layers=2 dim=16 heads=4 head_dim=4 ff=32 context=4 "
                 "targets=8 vocab=12 buckets=8 max_distance=16 dropout=0.2",
                 4, 25);
}

static void check_rows(const char *model, const char *settings, uint32_t parts, uint32_t converts)
{
    check_split(model, settings, &(struct pst_division){.parts = parts, .ways = PST_WAYS_ROWS},
                converts);
}

/* A table has a sum and a cut, or a cut alone where it is whole; a block joins what attention,
   experts and their router read, and cuts what they make; the head has a gather and the meeting of
   its loss. */
TEST(rows_everywhere)
{
    check_rows("gpt", "layers=2 dim=16 heads=4 context=6 vocab=12", 2, 8);
    check_rows("gpt", "layers=2 dim=16 heads=4 context=8 vocab=13 dropout=0.3", 4, 8);
    check_rows("llama", "layers=2 dim=16 heads=3 head_dim=4 ff=22 context=8 vocab=12 qk_norm=true",
               4, 7);
    check_rows("llama", "layers=1 dim=16 heads=4 ff=16 context=6 vocab=12 experts=4", 2, 8);
}

/* Two exchanges in a block in place of a join and a cut. Queries of groups go beside keys and
   values, in the same exchange. */
TEST(exchanges)
{
    struct pst_division how = {.parts = 2, .ways = PST_WAYS_ULYSSES};

    check_split("gpt", "layers=2 dim=16 heads=4 context=6 vocab=12", &how, 8);
    check_split("llama", "layers=2 dim=16 heads=4 ff=22 context=8 vocab=12 qk_norm=true", &how, 7);
    check_split("llama", "layers=2 dim=16 heads=8 kv_heads=2 ff=22 context=8 vocab=12 qk_norm=true",
                &how, 7);
    check_split("llama", "layers=1 dim=32 heads=4 kv_heads=2 ff=22 context=6 vocab=12 window=3",
                &how, 5);
    how.parts = 4;
    check_split("gpt", "layers=2 dim=16 heads=4 context=8 vocab=13 dropout=0.3", &how, 8);
    check_split("llama", "layers=1 dim=32 heads=12 kv_heads=4 head_dim=2 ff=22 context=8 vocab=12",
                &how, 5);
}

static void check_asked(const char *settings, const char *patterns, enum pst_way way, bool sequence,
                        uint32_t converts)
{
    struct pst_graph *whole = make_whole("gpt", settings);
    struct pst_division how = {.parts = 2, .sequence = sequence};
    uint8_t *asked = pst_alloc(whole->n_ops, sizeof *asked);

    for (uint32_t v = 0; v < whole->n_ops; v++) {
        asked[v] = pst_list_matches(patterns, whole->ops[v].name) ? way : PST_WAY_AUTO;
    }
    pst_graph_destroy(whole);
    how.asked = asked;
    check_split("gpt", settings, &how, converts);
    free(asked);
}

/* Of 11 conversions whole layers lose a pair a block, a whole block two, and a whole loss those of
   the vocabulary, as head and table share a matrix. Rows are cut and joined where there are no
   others, and need nothing where there are. Columns that nobody reads by rows are joined. */
TEST(ways_by_name)
{
    static const char gpt[] = "layers=2 dim=16 heads=4 context=6 vocab=12";

    check_asked(gpt, "h.*.mlp.*", PST_WAY_WHOLE, false, 7);
    check_asked(gpt, "h.1.*", PST_WAY_WHOLE, false, 7);
    check_asked(gpt, "loss", PST_WAY_WHOLE, false, 8);
    check_asked(gpt, "h.0.mlp.c_proj", PST_WAY_COLUMN, false, 11);
    check_asked(gpt, "h.0.mlp.c_*", PST_WAY_ROWS, false, 11);
    check_asked(gpt, "h.*.mlp.*", PST_WAY_ROWS, true, 8);
}

/* GPT-2's vocabulary on eight parts: 6,283 columns each, of which the last part has 7 too many. A
   row of 1,024 is told the others in 16 bytes. */
TEST(known_sizes)
{
    struct pst_graph *graph = NULL;
    const struct pst_parameter *table;
    const struct pst_tensor *numbers;
    struct pst_error err = {0};

    assert_ok(pst_graph_split(
                  make_model("gpt", "layers=1 dim=64 heads=8 context=1024 vocab=50257", PST_BF16),
                  &(struct pst_division){.parts = 8}, &graph, &err),
              &err);
    table = &graph->params[pst_names_find(&graph->param_names, "wte.weight")];
    assert_true(table->dims[0] == 6283 && table->dims[1] == 64 && table->box.padding == 7);
    assert_int_equal(pst_box_whole(table), 50257 * 64);
    assert_int_equal(graph->tensors[graph->logits].bytes, 12867584);
    numbers = &graph->tensors[graph->ops[pst_names_find(&graph->op_names, "loss:parts")].out[0]];
    assert_int_equal(numbers->bytes, 131072);
    pst_graph_destroy(graph);
}

TEST(what_cannot_be_split)
{
    struct pst_graph *whole =
        make_model("candle-uno",
                   "variant=branches branches=2 features=3 width=5 layers=1 top_layers=1", PST_F32);
    struct pst_graph *graph = NULL;
    struct pst_error err = {0};

    assert_int_equal(pst_graph_split(whole, &(struct pst_division){.parts = 2}, &graph, &err),
                     PST_ERR_CONFIG);
    assert_string_equal(err.kind, "config.value");
    assert_non_null(
        strstr(err.message, "parallel.tensor = 2 divides no operator of model candle-uno"));
    pst_graph_destroy(whole);
}

/* --- random graphs -----------------------------------------------------------------------------*/

TEST(random_graphs)
{
    const char *asked = getenv("PENSTOCK_PARTS_GRAPHS");
    const uint32_t rounds = asked != NULL ? (uint32_t)strtoul(asked, NULL, 10) : 2000;
    static const uint32_t degrees[] = {2, 3, 4, 8};
    static const uint32_t ways[] = {PST_WAYS_AUTO, PST_WAYS_ROWS, PST_WAYS_AUTO, PST_WAYS_ULYSSES};
    uint32_t n_split = 0, converts = 0;

    memset(&met, 0, sizeof met);
    for (uint32_t round = 0; round < rounds; round++) {
        struct pst_graph *graph = NULL, *whole = draw_graph(round + 1);
        struct pst_error err = {0};
        const struct pst_division how = {
            .parts = degrees[round % 4], .sequence = round / 4 % 2, .ways = ways[round / 8 % 4]};
        char name[32];

        snprintf(name, sizeof name, "seed %u", round + 1);
        if (pst_graph_split(whole, &how, &graph, &err) != PST_OK) {
            assert_string_equal(err.kind, "config.value");
            pst_graph_destroy(whole);
            continue;
        }
        n_split++;
        note_vocabulary(graph);
        converts += compare_graphs(draw_graph(round + 1), graph, name);
    }
    print_message(
        "%u of %u split, %u conversions; %u heads, %u tables, %u padded, %u scattered, %u "
        "grouped\n",
        n_split, rounds, converts, met.heads, met.tables, met.padded, met.scattered, met.grouped);
    assert_true(n_split > rounds / 3 && converts > 2 * n_split);
    assert_true(met.heads > n_split / 5 && met.tables > n_split / 20 && met.tied == met.tables);
    assert_true(met.padded > met.tables / 5 && met.scattered > met.tables / 20);
    assert_true(met.grouped > n_split / 500);
}

/* Any operator may be asked for whole; those that work row by row for rows, linear ones for
   columns, too. */
static void draw_ways(const struct pst_graph *whole, uint64_t seed, uint8_t *asked)
{
    for (uint32_t v = 0; v < whole->n_ops; v++) {
        const uint32_t kind = whole->ops[v].kind;
        const bool linear = kind == PST_OP_LINEAR && whole->ops[v].out[0] != whole->logits;
        const bool by_row = linear || kind == PST_OP_LAYERNORM || kind == PST_OP_ADD ||
                            kind == PST_OP_GLU || kind == PST_OP_ACT;
        const uint64_t drawn = next_random(&seed) % 8;

        asked[v] = drawn == 0             ? PST_WAY_WHOLE
                   : drawn == 1 && by_row ? PST_WAY_ROWS
                   : drawn == 2 && linear ? PST_WAY_COLUMN
                                          : PST_WAY_AUTO;
    }
}

TEST(random_ways)
{
    const char *rounds_asked = getenv("PENSTOCK_PARTS_GRAPHS");
    const uint32_t rounds = rounds_asked != NULL ? (uint32_t)strtoul(rounds_asked, NULL, 10) : 1000;
    static const uint32_t ways[] = {PST_WAYS_AUTO, PST_WAYS_ROWS, PST_WAYS_ULYSSES};
    uint32_t n_split = 0, n_named = 0;

    for (uint32_t round = 0; round < rounds; round++) {
        struct pst_graph *graph = NULL, *whole = draw_graph(round + 1);
        uint8_t *asked = pst_alloc(whole->n_ops, sizeof *asked);
        struct pst_error err = {0};
        const struct pst_division how = {.parts = 2u << round % 2,
                                         .sequence = round / 2 % 2,
                                         .ways = ways[round / 4 % 3],
                                         .asked = asked};
        char name[32];
        pst_status status;

        draw_ways(whole, round + 1, asked);
        status = pst_graph_split(whole, &how, &graph, &err);
        free(asked);
        if (status != PST_OK) {
            assert_string_equal(err.kind, "config.value");
            pst_graph_destroy(whole);
            continue;
        }
        n_split++;
        n_named += graph->n_by_name > 0;
        snprintf(name, sizeof name, "seed %u", round + 1);
        compare_graphs(draw_graph(round + 1), graph, name);
    }
    print_message("%u of %u split, %u with operators by name\n", n_split, rounds, n_named);
    assert_true(n_split > rounds / 3 && n_named > n_split / 2);
}
