/* SPDX-License-Identifier: Apache-2.0
 *
 * Graphs whose operators are shared by unlike numbers of parts, against whole ones: what goes from
 * one number to another is whole on both sides, and its gradient, too.
 */
#include "base/text.h"
#include "random_parts.h"
#include "reference_machine.h"

/* Operators whose names match are shared by so many. */
struct degree {
    const char *patterns;
    uint8_t parts;
};

static uint16_t *degrees_of(const struct pst_graph *whole, const struct degree *rows)
{
    uint16_t *degree_of = pst_alloc(whole->n_ops, sizeof *degree_of);

    for (uint32_t v = 0; v < whole->n_ops; v++) {
        for (const struct degree *row = rows; row->patterns != NULL && degree_of[v] == 0; row++) {
            degree_of[v] = pst_list_matches(row->patterns, whole->ops[v].name) ? row->parts : 0;
        }
        assert_true(degree_of[v] > 0);
    }
    return degree_of;
}

static pst_status split(struct pst_graph *whole, const struct degree *rows, struct pst_division how,
                        struct pst_graph **ret_graph, struct pst_error *err)
{
    uint16_t *degree_of = degrees_of(whole, rows);
    pst_status status;

    how.degree_of = degree_of;
    status = pst_graph_split(whole, &how, ret_graph, err);
    free(degree_of);
    return status;
}

static void check_degrees(const char *model, const char *settings, const struct degree *rows,
                          bool sequence, uint32_t converts)
{
    struct pst_graph *graph = NULL;
    struct pst_error err = {0};
    uint32_t n;

    assert_ok(split(make_model(model, settings, PST_F64), rows,
                    (struct pst_division){.sequence = sequence}, &graph, &err),
              &err);
    for (uint32_t v = 0; v < graph->n_ops; v++) {
        assert_int_equal(pst_graph_parts(graph, v), graph->degree_of[graph->op_of[v]]);
    }
    n = compare_graphs(make_model(model, settings, PST_F64), graph, settings);
    if (n != converts) {
        fail_msg("%s %s: %u conversions, not %u", model, settings, n, converts);
    }
}

/* --- stages ------------------------------------------------------------------------------------*/

#define GPT   "layers=2 dim=16 heads=4 context=8 vocab=12"
#define LLAMA GPT " ff=24"

/* A block has two pairs of fan and sum, the head a fan and the meeting of its loss. Between blocks
   all is whole. */
TEST(blocks_of_unlike_degrees)
{
    check_degrees("llama", LLAMA,
                  (struct degree[]){{"layers.0.*", 2}, {"layers.1.*", 4}, {"*", 1}, {0}}, false, 8);
    check_degrees("llama", LLAMA,
                  (struct degree[]){{"layers.0.*", 4}, {"layers.1.*", 1}, {"*", 2}, {0}}, false, 6);
    check_degrees("llama", LLAMA,
                  (struct degree[]){{"embed_tokens", 1}, {"layers.0.*", 2}, {"*", 4}, {0}}, false,
                  10);
    check_degrees("gpt", GPT, (struct degree[]){{"h.0.*", 4}, {"h.1.*", 1}, {"*", 2}, {0}}, false,
                  7); /* the table that the head shares has a sum */
}

/* The table's rows are cut; a block gathers and scatters twice; the head gathers and meets. Rows of
   one degree are joined for the next, which cuts them again. */
TEST(rows_of_tokens)
{
    check_degrees("llama", LLAMA, (struct degree[]){{"embed_tokens,layers.0.*", 2}, {"*", 4}, {0}},
                  true, 13);
    check_degrees("llama", LLAMA, (struct degree[]){{"embed_tokens,layers.0.*", 4}, {"*", 2}, {0}},
                  true, 13);
    /* a block of one part in the middle: nothing to be cut, nor to be gathered */
    check_degrees(
        "llama", LLAMA,
        (struct degree[]){{"embed_tokens,layers.0.*", 4}, {"layers.1.*", 1}, {"*", 2}, {0}}, true,
        9);
}

static bool has_op(const struct pst_graph *graph, const char *name)
{
    return pst_names_find(&graph->op_names, name) != PST_NONE;
}

/* What all blocks of the decoder read of the encoder is fanned once by each degree. Of the 20
   conversions the encoder has 4, self-attention 2 in each block, cross-attention 2 and that fan,
   the feed-forward layers 2, the head 2. */
TEST(one_tensor_for_several)
{
    static const char t5[] = "layers=1 decoder_layers=2 dim=16 heads=4 head_dim=4 ff=24 context=5 "
                             "targets=4 vocab=12 buckets=8 max_distance=16 tied=false";
    static const struct degree rows[] = {
        {"encoder.*", 2}, {"decoder.embedding", 2}, {"decoder.1.cross*", 2}, {"*", 4}, {0}};
    struct pst_graph *graph = NULL;
    struct pst_error err = {0};

    assert_ok(split(make_model("t5", t5, PST_F64), rows, (struct pst_division){0}, &graph, &err),
              &err);
    assert_int_equal(graph->parts, 4);
    assert_true(has_op(graph, "encoder.norm:fan") && has_op(graph, "encoder.norm:fan.4"));
    pst_graph_destroy(graph);
    check_degrees("t5", t5, rows, false, 20);
}

/* Operators of one part divide nothing, so their attention is not told of. */
TEST(whole_attention)
{
    static const struct degree rows[] = {{"layers.0.*", 8}, {"layers.1.*", 1}, {"*", 2}, {0}};
    struct pst_graph *graph = NULL;
    struct pst_error err = {0};
    const struct pst_op *op = NULL;

    assert_ok(
        split(make_model("llama", LLAMA, PST_F64), rows, (struct pst_division){0}, &graph, &err),
        &err);
    assert_int_equal(pst_graph_whole_attention(graph, &op), 1);
    assert_string_equal(op->name, "layers.0.self_attn");
    pst_graph_destroy(graph);
}

/* --- what they are -----------------------------------------------------------------------------*/

static uint64_t digest_of(const struct degree *rows)
{
    struct pst_graph *graph = NULL;
    struct pst_error err = {0};
    uint64_t digest;

    assert_ok(
        split(make_model("llama", LLAMA, PST_F32), rows, (struct pst_division){0}, &graph, &err),
        &err);
    digest = graph->digest;
    pst_graph_destroy(graph);
    return digest;
}

/* The same operators on other parts are another graph; equal degrees are one degree. */
TEST(digests)
{
    struct pst_graph *graph = NULL;
    struct pst_error err = {0};

    assert_ok(pst_graph_split(make_model("llama", LLAMA, PST_F32),
                              &(struct pst_division){.parts = 2}, &graph, &err),
              &err);
    assert_true(digest_of((struct degree[]){{"*", 2}, {0}}) == graph->digest);
    assert_true(digest_of((struct degree[]){{"embed_tokens", 1}, {"*", 2}, {0}}) != graph->digest);
    pst_graph_destroy(graph);
}

static void expect_refused(const char *model, const char *settings, const struct degree *rows,
                           struct pst_division how, const char *key, const char *message)
{
    struct pst_graph *whole = make_model(model, settings, PST_F32), *graph = NULL;
    struct pst_error err = {0};
    struct pst_division_fault fault = {0};

    how.ret_fault = &fault;
    assert_int_equal(split(whole, rows, how, &graph, &err), PST_ERR_CONFIG);
    assert_string_equal(err.kind, "config.value");
    assert_string_equal(fault.key, key);
    if (strstr(err.message, message) == NULL) {
        fail_msg("%s, not %s", err.message, message);
    }
    pst_graph_destroy(whole);
}

TEST(what_is_refused)
{
    static const struct degree blocks[] = {{"layers.0.*", 2}, {"layers.1.*", 4}, {"*", 1}, {0}};
    static const uint8_t asked[64];

    expect_refused("llama", LLAMA, (struct degree[]){{"layers.0.*", 2}, {"*", 3}, {0}},
                   (struct pst_division){0}, "tensor",
                   "embed_tokens has parallel.tensor = 3, and layers.0.input_layernorm, which "
                   "reads it, 2: one of them must be a multiple of the other");
    expect_refused("gpt", GPT, (struct degree[]){{"wte", 2}, {"*", 4}, {0}},
                   (struct pst_division){0}, "tensor",
                   "wte.weight is used by wte and lm_head with parallel.tensor = 2 and 4");
    expect_refused("llama", LLAMA, (struct degree[]){{"embed_tokens", 2}, {"*", 4}, {0}},
                   (struct pst_division){0}, "tensor",
                   "parallel.tensor = 2 divides no operator that it is meant for, of which "
                   "embed_tokens is the first");
    expect_refused("llama", LLAMA, blocks, (struct pst_division){.ways = PST_WAYS_ROWS}, "ways",
                   "parallel.ways = \"rows\" needs one parallel.tensor for all stages");
    expect_refused("llama", LLAMA, blocks, (struct pst_division){.ways = PST_WAYS_ULYSSES}, "ways",
                   "parallel.ways = \"ulysses\" needs one parallel.tensor for all stages");
    expect_refused("llama", LLAMA, blocks, (struct pst_division){.asked = asked}, "way",
                   "[[parallel.way]] needs one parallel.tensor for all stages");
    /* two divide the 6 tokens of a sample, four do not */
    expect_refused("llama", "layers=2 dim=16 heads=4 context=6 vocab=12 ff=24", blocks,
                   (struct pst_division){.sequence = true}, "sequence",
                   "on tokens whose number 4 divides");
}

/* Heads must be divisible by the degree of their own operator. */
TEST(megatron)
{
    static const struct degree rows[] = {{"layers.0.*", 2}, {"layers.1.*", 8}, {"*", 1}, {0}};
    struct pst_graph *whole = make_model("llama", LLAMA, PST_F32);
    struct pst_division how = {.ways = PST_WAYS_MEGATRON};
    uint16_t *degree_of = degrees_of(whole, rows);
    struct pst_error err = {0};

    how.degree_of = degree_of;
    assert_int_equal(pst_graph_check_ways(whole, &how, &err), PST_ERR_CONFIG);
    assert_non_null(strstr(err.message, "layers.1.self_attn: ways = \"megatron\" cannot divide 4 "
                                        "heads by 8"));
    for (uint32_t v = 0; v < whole->n_ops; v++) {
        degree_of[v] = degree_of[v] == 8 ? 4 : degree_of[v];
    }
    assert_ok(pst_graph_check_ways(whole, &how, &err), &err);
    free(degree_of);
    pst_graph_destroy(whole);
}

/* --- random graphs -----------------------------------------------------------------------------*/

/* Runs of operators, or each for itself. Operators that share a parameter may share their degree,
   whatever stands between them. */
static void draw_degrees(const struct pst_graph *whole, uint64_t seed, uint16_t *degree_of)
{
    static const uint8_t sets[][3] = {{1, 2, 1}, {2, 4, 2}, {4, 1, 4},
                                      {1, 2, 4}, {2, 8, 2}, {1, 3, 3}};
    const uint8_t *some = sets[next_random(&seed) % 6];
    const uint64_t apart = next_random(&seed) % 4 == 0 ? 1 : 2 + next_random(&seed) % 8;
    const bool together = next_random(&seed) % 8 > 0;

    for (uint32_t v = 0; v < whole->n_ops; v++) {
        const uint8_t drawn = some[next_random(&seed) % 3];

        degree_of[v] = v > 0 && next_random(&seed) % apart > 0 ? degree_of[v - 1] : drawn;
    }
    for (uint32_t p = 0; p < whole->n_params && together; p++) {
        for (uint32_t u = 1; u < whole->params[p].n_users; u++) {
            degree_of[whole->params[p].users[u]] = degree_of[whole->params[p].users[0]];
        }
    }
}

/* What stands where degrees meet, so that nothing of it is missed. */
static struct {
    uint32_t edges, joined, fanned, cut, tables, heads;
} met;

static void note_edges(const struct pst_graph *graph)
{
    for (uint32_t v = 0; v < graph->n_ops; v++) {
        const struct pst_op *op = &graph->ops[v];

        met.tables += op->kind == PST_OP_EMBEDDING && op->classes > 0;
        met.heads += op->kind == PST_OP_CE_JOIN;
        for (uint32_t i = 0; i < op->n_in; i++) {
            const uint32_t maker = graph->tensors[op->in[i]].producer;
            const bool unlike =
                maker != PST_NONE && pst_graph_parts(graph, maker) != pst_graph_parts(graph, v);

            met.edges += unlike;
            met.joined += unlike && strstr(graph->ops[maker].name, ":join") != NULL;
            met.fanned += unlike && op->convert == PST_CONVERT_FAN && op->kind == PST_OP_CONVERT;
            met.cut += unlike && op->convert == PST_CONVERT_CUT;
        }
    }
}

TEST(random_graphs)
{
    const char *asked = getenv("PENSTOCK_PARTS_GRAPHS");
    const uint32_t rounds = asked != NULL ? (uint32_t)strtoul(asked, NULL, 10) : 2000;
    uint32_t n_split = 0;

    for (uint32_t round = 0; round < rounds; round++) {
        struct pst_graph *graph = NULL, *whole = draw_graph(round + 1);
        uint16_t *degree_of = pst_alloc(whole->n_ops, sizeof *degree_of);
        struct pst_error err = {0};
        const struct pst_division how = {.degree_of = degree_of, .sequence = round % 2};
        uint32_t most = 1;
        char name[32];

        draw_degrees(whole, round + 1, degree_of);
        for (uint32_t v = 0; v < whole->n_ops; v++) {
            most = degree_of[v] > most ? degree_of[v] : most;
        }
        if (most == 1 || pst_graph_split(whole, &how, &graph, &err) != PST_OK) {
            assert_true(most == 1 || strcmp(err.kind, "config.value") == 0);
            pst_graph_destroy(whole);
            free(degree_of);
            continue;
        }
        free(degree_of);
        n_split++;
        note_edges(graph);
        snprintf(name, sizeof name, "seed %u", round + 1);
        compare_graphs(draw_graph(round + 1), graph, name);
    }
    print_message("%u of %u split; %u edges, %u joined before, %u fanned, %u cut; %u tables, %u "
                  "heads\n",
                  n_split, rounds, met.edges, met.joined, met.fanned, met.cut, met.tables,
                  met.heads);
    assert_true(n_split > rounds / 4 && met.edges > 2 * n_split);
    assert_true(met.joined > n_split / 5 && met.fanned > n_split / 8 && met.cut > n_split / 5);
    assert_true(met.tables > n_split / 20 && met.heads > n_split / 4);
}
