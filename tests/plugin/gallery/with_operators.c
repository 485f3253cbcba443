/* SPDX-License-Identifier: Apache-2.0
 *
 * A model of linear layers with an operator of a plugin after each: by `operator`, or built from
 * operators of the host where that is the same function, `operator = ""`.
 */
#include "gallery.h"

struct config {
    int64_t layers, width, rows, vocab;
    const char *operator_id, *attributes, *look;
    uint32_t table;
    bool slope, shift, loose;
};

static const struct pst_param params[] = {
    PST_PARAM(struct config, layers, PST_PARAM_INT, "3", "1..64", "Layers."),
    PST_PARAM(struct config, width, PST_PARAM_INT, "16", "1..1024", "Width of rows."),
    PST_PARAM(struct config, rows, PST_PARAM_INT, "4", "1..1024", "Rows of a sample."),
    PST_PARAM(struct config, vocab, PST_PARAM_INT, "0", "0..65536",
              "Rows are tokens, of which the next is predicted; 0: they are numbers."),
    PST_PARAM(struct config, operator_id, PST_PARAM_STRING, "my-plugin", NULL, "The operator."),
    PST_PARAM(struct config, attributes, PST_PARAM_STRING, "", NULL, "Its attributes."),
    PST_PARAM(
        struct config, table, PST_PARAM_ENUM, "embedding", "embedding|lookup|both",
        "What finds rows of tokens: the host's operator, lookup of the gallery, or their sum."),
    PST_PARAM(struct config, look, PST_PARAM_STRING, "", NULL, "Attributes of lookup."),
    PST_PARAM(struct config, slope, PST_PARAM_BOOL, "true", NULL,
              "Whether it is a PReLU of one input; else the recurrence of two."),
    PST_PARAM(struct config, shift, PST_PARAM_BOOL, "false", NULL,
              "Whether the operator has a second parameter."),
    PST_PARAM(struct config, loose, PST_PARAM_BOOL, "false", NULL,
              "Whether the operator reads a tensor that there is not."),
};

PST_INSTANCE(with_operators, struct config)

static uint32_t map_of(struct pst_builder *b, const char *name, uint32_t map, uint32_t n,
                       const uint32_t *in, float s, float t)
{
    struct pst_op_decl op = pst_nn_decl(PST_OP_MAP, name, n, in, 0, NULL);

    op.map = map;
    op.constants[0] = s;
    op.constants[1] = t;
    return b->op(b, &op);
}

static uint32_t slopes(struct pst_builder *b, const char *name, uint64_t width)
{
    const struct pst_parameter_decl p = {.size = sizeof p,
                                         .init = PST_INIT_CONSTANT,
                                         .name = name,
                                         .rank = 1,
                                         .dims = &width,
                                         .value = 0.25f};

    return b->parameter(b, &p);
}

/* The same as the template's PReLU, from operators of the host: x where x >= 0, slope x elsewhere.
 */
static uint32_t built_prelu(struct pst_builder *b, uint32_t x, uint32_t slope)
{
    struct pst_op_decl op = pst_nn_decl(PST_OP_PARAMETER, "act.p", 0, NULL, 1, &slope);
    const uint32_t factor[2] = {x, b->op(b, &op)};
    uint32_t choice[3];

    choice[0] = map_of(b, "act.sign", PST_MAP_CLIP, 1, &x, 0, 1e30f); /* 0 where x is negative */
    choice[1] = x;
    choice[2] = map_of(b, "act.scaled", PST_MAP_MUL, 2, factor, 0, 0);
    return map_of(b, "act", PST_MAP_SELECT, 3, choice, 0, 0);
}

static uint32_t add_operator(struct pst_builder *b, const struct config *c, uint32_t x)
{
    uint32_t in[2] = {c->loose ? 1000 : x, x}, p[2] = {PST_NONE, PST_NONE};

    if (!c->slope) {
        in[0] = map_of(b, "gate", PST_MAP_SIGMOID, 1, &x, 0, 0);
        return pst_nn_custom(b, c->operator_id, "scan", 2, in, 0, NULL, c->attributes);
    }
    p[0] = slopes(b, "act.slope", (uint64_t)c->width);
    if (c->shift) {
        p[1] = slopes(b, "act.shift", (uint64_t)c->width);
    }
    return c->operator_id[0] == '\0'
               ? built_prelu(b, x, p[0])
               : pst_nn_custom(b, c->operator_id, "act", 1, in, 1u + c->shift, p, c->attributes);
}

enum table { EMBEDDING, LOOKUP, BOTH };

static uint32_t find_rows(struct pst_builder *b, const struct config *c, uint32_t tokens)
{
    const uint64_t dims[2] = {(uint64_t)c->vocab, (uint64_t)c->width};
    uint32_t table, rows[2];

    if (c->table != LOOKUP) {
        rows[0] = pst_nn_embedding(b, "embedding", tokens, dims[0], dims[1], 0.3f, &table);
    }
    if (c->table != EMBEDDING) {
        table = pst_nn_parameter(b, "lookup", "table", 2, dims, PST_INIT_NORMAL, 0.3f);
        rows[1] = pst_nn_custom(b, "lookup", "lookup", 1, &tokens, 1, &table, c->look);
    }
    return c->table == BOTH ? map_of(b, "rows", PST_MAP_ADD, 2, rows, 0, 0)
                            : rows[c->table == LOOKUP];
}

/* Rows of numbers: those of tokens, or the input as it is. */
static uint32_t add_rows(struct pst_builder *b, const struct config *c)
{
    const uint64_t dims[2] = {(uint64_t)c->rows, (uint64_t)c->width};
    const bool text = c->vocab > 0;
    const uint32_t x =
        pst_nn_input(b, "x", PST_FIELD_X, text ? PST_I32 : b->dtype, 2u - text, dims);

    return text ? find_rows(b, c, x) : x;
}

static pst_status build(void *self_, struct pst_builder *b)
{
    const struct config *c = ((const struct with_operators *)self_)->config;
    const uint64_t rows = (uint64_t)c->rows;
    const bool text = c->vocab > 0;
    uint32_t x = add_rows(b, c), targets;

    targets = pst_nn_input(b, "targets", PST_FIELD_TARGET, PST_I32, text, &rows);
    for (uint32_t i = 0; i < (uint32_t)c->layers; i++) {
        pst_nn_scope(b, "layers.%u", i);
        x = pst_nn_linear(b, "fc", x, (uint64_t)c->width, 0.3f, true);
        x = add_operator(b, c, x);
        b->layer(b);
    }
    b->scope(b, "");
    if (!text) {
        x = b->op(b, &(struct pst_op_decl){.size = sizeof(struct pst_op_decl),
                                           .kind = PST_OP_AVGPOOL,
                                           .name = "pool",
                                           .n_in = 1,
                                           .in = &x});
    }
    x = pst_nn_linear(b, "head", x, text ? (uint64_t)c->vocab : 10, 0.3f, true);
    pst_nn_loss(b, PST_OP_CROSS_ENTROPY, x, targets);
    return PST_OK;
}

PST_INTERFACE(PST_MODEL, struct pst_model_interface, .build = build)

GALLERY_PLUGIN("model", "with-operators", "1.0", "Linear layers with operators of plugins.",
               PST_PLUGIN_PARAMS(params, struct config), NULL)
