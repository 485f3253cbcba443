/* SPDX-License-Identifier: Apache-2.0
 *
 * CANDLE-Uno, which predicts how tumour cells answer to drugs: each feature vector has an encoder
 * of its own, and linear layers over all of them end in one number. As GraphPipe measures it (Jeon
 * et al., ASPLOS 2025): encoders and top of width 4096, no bias; the widths of the inputs are those
 * of the CANDLE benchmark. Variant branches: any number of equal encoders, by which that paper
 * shows how the gain grows with the number of branches.
 */
#include "block.h"

#include <math.h>
#include <stdio.h>

#define MOST_RESULTS 64

struct candle_config {
    uint32_t variant; /* enum: uno | branches */
    int64_t drugs, branches, layers, top_layers, width;
    int64_t rnaseq, descriptors, fingerprints, features;
};

static const struct pst_param params[] = {
    PST_PARAM(struct candle_config, variant, PST_PARAM_ENUM, "uno", "uno|branches",
              "uno: two doses as they are, a cell line and some drugs; branches: equal encoders."),
    PST_PARAM(struct candle_config, drugs, PST_PARAM_INT, "3", "1..16",
              "uno: drugs, each with descriptors and fingerprints."),
    PST_PARAM(struct candle_config, branches, PST_PARAM_INT, "7", "1..60",
              "branches: number of encoders."),
    PST_PARAM(struct candle_config, layers, PST_PARAM_INT, "2", "1..1024",
              "Linear layers of an encoder."),
    PST_PARAM(struct candle_config, top_layers, PST_PARAM_INT, "2", "1..1024",
              "Linear layers behind the join; one to the result follows."),
    PST_PARAM(struct candle_config, width, PST_PARAM_INT, "64", "1..1048576",
              "Width of all linear layers."),
    PST_PARAM(struct candle_config, rnaseq, PST_PARAM_INT, "24", "1..16777216",
              "uno: features of a cell line."),
    PST_PARAM(struct candle_config, descriptors, PST_PARAM_INT, "48", "1..16777216",
              "uno: descriptors of a drug."),
    PST_PARAM(struct candle_config, fingerprints, PST_PARAM_INT, "32", "1..16777216",
              "uno: fingerprints of a drug."),
    PST_PARAM(struct candle_config, features, PST_PARAM_INT, "32", "1..16777216",
              "branches: features of each encoder."),
};

/* What is joined at the end. */
struct join {
    uint32_t n, results[MOST_RESULTS];
    uint64_t width;
};

static uint32_t add_features(struct pst_graph_builder *builder, const char *name, int64_t width)
{
    char text[PST_NAME_SIZE];
    uint64_t dims[1] = {(uint64_t)width};

    return pst_graph_input(builder, pst_join_name(text, "x", name), PST_FIELD_X,
                           pst_graph_dtype(builder), 1, dims);
}

static void add_encoder(struct pst_graph_builder *builder, const struct candle_config *c,
                        const char *name, int64_t features, struct join *join)
{
    uint32_t x = add_features(builder, name, features);

    pst_graph_layer(builder, join->n);
    join->results[join->n++] = pst_add_relu_stack(builder, name, x, (uint64_t)features,
                                                  (uint64_t)c->width, (uint32_t)c->layers);
    join->width += (uint64_t)c->width;
}

static void add_uno(struct pst_graph_builder *builder, const struct candle_config *c,
                    struct join *join)
{
    char name[64];

    join->results[join->n++] = add_features(builder, "dose1", 1);
    join->results[join->n++] = add_features(builder, "dose2", 1);
    join->width += 2;
    add_encoder(builder, c, "cell.rnaseq", c->rnaseq, join);
    for (uint32_t i = 1; i <= (uint32_t)c->drugs; i++) {
        snprintf(name, sizeof name, "drug%u.descriptors", i);
        add_encoder(builder, c, name, c->descriptors, join);
        snprintf(name, sizeof name, "drug%u.fingerprints", i);
        add_encoder(builder, c, name, c->fingerprints, join);
    }
}

static void add_branches(struct pst_graph_builder *builder, const struct candle_config *c,
                         struct join *join)
{
    char name[64];

    for (uint32_t i = 0; i < (uint32_t)c->branches; i++) {
        snprintf(name, sizeof name, "branch.%u", i);
        add_encoder(builder, c, name, c->features, join);
    }
}

static pst_status build(const void *config, uint32_t dtype, struct pst_graph **ret_graph,
                        struct pst_error *err)
{
    const struct candle_config *c = config;
    uint64_t width = (uint64_t)c->width, one = 1;
    struct join join = {0};
    struct pst_op concat = {.kind = PST_OP_CONCAT, .name = "concat", .in = join.results};
    uint32_t x, target, loss;
    struct pst_graph_builder *builder = NULL;
    pst_status status = pst_graph_builder_create("candle-uno", dtype, &builder, err);

    if (status != PST_OK) {
        return status;
    }
    if (c->variant == 0) {
        add_uno(builder, c, &join);
    } else {
        add_branches(builder, c, &join);
    }
    target = pst_graph_input(builder, "growth", PST_FIELD_TARGET, dtype, 1, &one);
    pst_graph_layer(builder, join.n);
    concat.n_in = join.n;
    x = pst_graph_add(builder, &concat);
    x = pst_add_relu_stack(builder, "top", x, join.width, width, (uint32_t)c->top_layers);
    x = pst_add_linear(builder, "head", x, width, 1, sqrtf(1.0f / (float)width), false);
    loss = pst_add_mse(builder, x, target);
    status = pst_graph_finish(builder, loss, x, ret_graph, err);
    pst_graph_builder_destroy(builder);
    return status;
}

const struct pst_model_builder pst_model_candle = {
    .id = "candle-uno",
    .summary = "CANDLE-Uno: encoders of cell and drug features, joined to one number",
    .params = params,
    .n_params = sizeof params / sizeof *params,
    .config_size = sizeof(struct candle_config),
    .build = build,
};
