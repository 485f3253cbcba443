/* SPDX-License-Identifier: Apache-2.0
 *
 * Files of ONNX byte by byte: the smallest model there is, and what damages it.
 */
#include "onnx/config.h"

#include "unit/graph/model_support.h"

#include "support.h"

/* ir 8, operator set 17: y[N, 2] = MatMul(x[N, 2], w), w the identity in raw_data. */
static const uint8_t product[] = {
    0x08, 0x08, 0x12, 0x08, 0x70, 0x65, 0x6e, 0x73, 0x74, 0x6f, 0x63, 0x6b, 0x3a, 0x63, 0x0a,
    0x15, 0x0a, 0x01, 0x78, 0x0a, 0x01, 0x77, 0x12, 0x01, 0x79, 0x1a, 0x02, 0x6d, 0x6d, 0x22,
    0x06, 0x4d, 0x61, 0x74, 0x4d, 0x75, 0x6c, 0x12, 0x01, 0x67, 0x2a, 0x1b, 0x08, 0x02, 0x08,
    0x02, 0x10, 0x01, 0x42, 0x01, 0x77, 0x4a, 0x10, 0x00, 0x00, 0x80, 0x3f, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x80, 0x3f, 0x5a, 0x14, 0x0a, 0x01, 0x78, 0x12,
    0x0f, 0x0a, 0x0d, 0x08, 0x01, 0x12, 0x09, 0x0a, 0x03, 0x12, 0x01, 0x4e, 0x0a, 0x02, 0x08,
    0x02, 0x62, 0x14, 0x0a, 0x01, 0x79, 0x12, 0x0f, 0x0a, 0x0d, 0x08, 0x01, 0x12, 0x09, 0x0a,
    0x03, 0x12, 0x01, 0x4e, 0x0a, 0x02, 0x08, 0x02, 0x42, 0x02, 0x10, 0x11};

#define GRAPH 13 /* where the length of the graph is */
#define DIMS  43 /* where the dimensions of w are, one by one */

static pst_status build(const uint8_t *bytes, size_t n, struct pst_graph **ret_graph,
                        struct pst_error *err)
{
    const struct onnx_config config = {.file = support_path("model.onnx"),
                                       .dims = memmem(bytes, n, "seq", 3) == NULL ? "" : "seq=4",
                                       .inputs = "",
                                       .output = "",
                                       .frozen = "",
                                       .trained = "",
                                       .tie = "auto"};
    FILE *file = fopen(config.file, "wb");
    pst_status status;

    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, n, file), n);
    assert_int_equal(fclose(file), 0);
    memset(err, 0, sizeof *err);
    status = pst_model_build(&pst_model_onnx, &config, PST_F32, ret_graph, err);
    if (strcmp(err->kind, "machine.missing") == 0) {
        skip();
    }
    return status;
}

static void expect_product(const uint8_t *bytes, size_t n)
{
    OWN(graph) *graph = NULL;
    struct pst_error err;
    float values[4];
    bool found;

    assert_ok(build(bytes, n, &graph, &err), &err);
    assert_int_equal(graph->n_ops, 2);
    assert_int_equal(graph->ops[0].kind, PST_OP_LINEAR);
    assert_false(graph->ops[0].transposed);
    assert_int_equal(graph->n_params, 1);
    assert_string_equal(graph->params[0].name, "w");
    assert_int_equal(graph->tensors[graph->logits].rank, 1);
    assert_ok(graph->initial.load(graph->initial.context, "w", PST_NONE, 4, values, &found, &err),
              &err);
    assert_true(found);
    assert_memory_equal(values, ((const float[]){1, 0, 0, 1}), sizeof values);
}

TEST(smallest_model)
{
    expect_product(product, sizeof product);
}

/* Dimensions may come packed, in one field. */
TEST(packed_dimensions)
{
    uint8_t bytes[sizeof product];

    memcpy(bytes, product, sizeof product);
    memcpy(bytes + DIMS - 1, ((const uint8_t[]){0x0a, 0x02, 0x02, 0x02}), 4);
    expect_product(bytes, sizeof bytes);
}

static void load(const struct pst_graph *graph, const char *name, uint32_t state, float values[2])
{
    struct pst_error err;
    bool found = false;

    assert_ok(graph->initial.load(graph->initial.context, name, state, 2, values, &found, &err),
              &err);
    assert_true(found);
}

/* The file's batch norm "n" has initializer b as shift and as running mean, s as gain and variance;
   fusion with relu leaves it its name. */
TEST(running_statistics)
{
    static char bytes[1 << 12];
    FILE *file = fopen(PENSTOCK_SOURCE_DIR "/tests/fuzz/corpus/onnx_model/image", "rb");
    OWN(graph) *graph = NULL;
    float expected[2], values[2];
    struct pst_error err;
    size_t n;

    assert_non_null(file);
    n = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    assert_ok(build((const uint8_t *)bytes, n, &graph, &err), &err);
    assert_int_not_equal(pst_names_find(&graph->op_names, "n"), PST_NONE);
    load(graph, "b", PST_NONE, expected);
    load(graph, "n", 0, values);
    assert_memory_equal(values, expected, sizeof values);
    assert_true(values[0] != 0);
    load(graph, "n", 1, values);
    assert_memory_equal(values, ((const float[]){1, 1}), sizeof values);
}

static void expect_refused(const uint8_t *bytes, size_t n, const char *kind, const char *text)
{
    struct pst_graph *graph = NULL;
    struct pst_error err;

    assert_int_equal(build(bytes, n, &graph, &err), PST_ERR_CONFIG);
    assert_string_equal(err.kind, kind);
    if (strstr(err.message, text) == NULL) {
        fail_msg("\"%s\" lacks \"%s\"", err.message, text);
    }
}

TEST(cut_anywhere)
{
    for (size_t n = 1; n < sizeof product; n++) {
        struct pst_graph *graph = NULL;
        struct pst_error err;

        assert_int_not_equal(build(product, n, &graph, &err), PST_OK);
        assert_true(err.message[0] != '\0');
    }
}

TEST(damage_has_its_place)
{
    uint8_t bytes[sizeof product];

    memcpy(bytes, product, sizeof product);
    bytes[2] = 0x13; /* a group */
    expect_refused(bytes, sizeof bytes, "input.syntax", "byte 2: a field of wire type 3");
    memcpy(bytes, product, sizeof product);
    bytes[14] = 0x7f; /* the node is longer than the graph */
    bytes[15] = 0x7f;
    expect_refused(bytes, sizeof bytes, "input.syntax", "byte ");
    memcpy(bytes, product, sizeof product);
    bytes[18] = 0; /* a name */
    expect_refused(bytes, sizeof bytes, "input.syntax", "byte 18: a text");
    memcpy(bytes, product, sizeof product);
    bytes[DIMS] = 3; /* of w: six elements by its shape */
    expect_refused(bytes, sizeof bytes, "input.syntax", "\"w\" has 6 elements");
    memcpy(bytes, product, sizeof product);
    bytes[sizeof bytes - 1] = 0x63;
    expect_refused(bytes, sizeof bytes, "input.unsupported", "operator set 99");
}

/* Graphs in attributes of nodes of graphs: refused before anything is unpacked. */
TEST(nesting_is_bounded)
{
    static uint8_t bytes[4096];
    size_t at = sizeof bytes;
    static const uint8_t fields[3] = {0x32, 0x2a, 0x0a}; /* g of attribute of node of graph */

    for (uint32_t i = 0; i < 201; i++) {
        const size_t n = sizeof bytes - at;
        uint8_t head[3] = {fields[i % 3]};
        size_t used = 1;

        head[used++] = n < 128 ? (uint8_t)n : (uint8_t)(n & 0x7f) | 0x80;
        if (n >= 128) {
            head[used++] = (uint8_t)(n >> 7);
        }
        at -= used;
        memcpy(bytes + at, head, used);
    }
    /* The last is a node of the graph: field 7 of the model. */
    at -= 3;
    bytes[at] = 0x3a;
    bytes[at + 1] = (uint8_t)((sizeof bytes - at - 3) & 0x7f) | 0x80;
    bytes[at + 2] = (uint8_t)((sizeof bytes - at - 3) >> 7);
    expect_refused(bytes + at, sizeof bytes - at, "input.limit", "nested");
}

TEST_GROUP(support_begin, support_end)

/* What PyTorch's exporter calls a buffer is not trained. */
TEST(buffer)
{
    static const char kind[] = "pkg.torch.export.graph_signature.InputSpec.kind";
    const char *const words[] = {"PARAMETER", "BUFFER"};

    for (uint32_t i = 0; i < 2; i++) {
        const uint8_t entry = (uint8_t)(4 + strlen(kind) + strlen(words[i]));
        OWN(graph) *graph = NULL;
        uint8_t bytes[2 * sizeof product];
        const uint32_t length = product[GRAPH] + 7u + entry;
        size_t n = GRAPH;
        struct pst_error err;

        memcpy(bytes, product, n);
        bytes[n++] = (uint8_t)(length | 0x80);
        bytes[n++] = (uint8_t)(length >> 7);
        memcpy(bytes + n, product + GRAPH + 1, product[GRAPH]);
        n += product[GRAPH];
        /* graph.value_info: name "w", metadata_props */
        n += (size_t)sprintf((char *)bytes + n, "%c%c%c%cw%c%c%c%c%s%c%c%s", 0x6a, entry + 5, 0x0a,
                             1, 0x22, entry, 0x0a, (int)strlen(kind), kind, 0x12,
                             (int)strlen(words[i]), words[i]);
        memcpy(bytes + n, product + GRAPH + 1 + product[GRAPH], 4);
        assert_ok(build(bytes, n + 4, &graph, &err), &err);
        assert_int_equal(graph->n_params, 1 - i);
    }
}
