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
    PST_PARAM(
        struct candle_config, variant, PST_PARAM_ENUM, "uno", "uno|branches",
        "uno: encoders of a cell line and of drugs beside two doses; branches: equal encoders."),
    PST_PARAM(struct candle_config, drugs, PST_PARAM_INT, "3", "1..16",
              "uno: number of drugs, each with descriptors and fingerprints."),
    PST_PARAM(struct candle_config, branches, PST_PARAM_INT, "7", "1..60",
              "branches: number of encoders."),
    PST_PARAM(struct candle_config, layers, PST_PARAM_INT, "2", "1..1024",
              "Linear layers of an encoder."),
    PST_PARAM(struct candle_config, top_layers, PST_PARAM_INT, "2", "1..1024",
              "Linear layers after the encoders are joined; an output layer follows."),
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

/* The results that are joined at the end, and their width. */
struct join {
    uint32_t n, results[MOST_RESULTS];
    int64_t width;
};

static uint32_t add_features(struct pst_model *m, const char *name, int64_t width)
{
    char text[PST_NAME_SIZE];

    snprintf(text, sizeof text, "x.%s", name);
    return pst_add_input(m, text, PST_FIELD_X, pst_graph_dtype(m->graph), width);
}

static void add_encoder(struct pst_model *m, const struct candle_config *c, const char *name,
                        int64_t features, struct join *join)
{
    uint32_t x = add_features(m, name, features);

    pst_graph_layer(m->graph, join->n);
    join->results[join->n++] = pst_add_relu_stack(m, name, x, features, c->width, c->layers);
    join->width += c->width;
}

static void add_uno(struct pst_model *m, const struct candle_config *c, struct join *join)
{
    char name[64];

    join->results[join->n++] = add_features(m, "dose1", 1);
    join->results[join->n++] = add_features(m, "dose2", 1);
    join->width += 2;
    add_encoder(m, c, "cell.rnaseq", c->rnaseq, join);
    for (uint32_t i = 1; i <= (uint32_t)c->drugs; i++) {
        snprintf(name, sizeof name, "drug%u.descriptors", i);
        add_encoder(m, c, name, c->descriptors, join);
        snprintf(name, sizeof name, "drug%u.fingerprints", i);
        add_encoder(m, c, name, c->fingerprints, join);
    }
}

static void add_branches(struct pst_model *m, const struct candle_config *c, struct join *join)
{
    char name[64];

    for (uint32_t i = 0; i < (uint32_t)c->branches; i++) {
        snprintf(name, sizeof name, "branch.%u", i);
        add_encoder(m, c, name, c->features, join);
    }
}

static struct pst_model_ends add(struct pst_model *m, const void *config)
{
    const struct candle_config *c = config;
    struct join join = {0};
    uint32_t x, target;

    (c->variant == 0 ? add_uno : add_branches)(m, c, &join);
    target = pst_add_input(m, "growth", PST_FIELD_TARGET, pst_graph_dtype(m->graph), 1);
    pst_graph_layer(m->graph, join.n);
    x = pst_add_concat(m, "concat", join.results, join.n);
    x = pst_add_relu_stack(m, "top", x, join.width, c->width, c->top_layers);
    x = pst_add_linear(m, "head", x, c->width, 1, sqrtf(1.0f / (float)c->width), false);
    return pst_add_loss(m, PST_OP_MSE, x, target);
}

PST_MODEL_BUILDER(candle, "candle-uno",
                  "CANDLE-Uno: encoders of cell and drug features, joined to predict one number",
                  struct candle_config, NULL);
