/* SPDX-License-Identifier: Apache-2.0
 *
 * A recommendation model in the manner of Naumov et al. ("Deep learning recommendation model for
 * personalization and recommendation systems", arXiv 1906.00091): stacks of linear layers over
 * dense features beside tables of embeddings over bags of tokens, all joined by linear layers. As
 * GraphPipe measures it (Jeon et al., ASPLOS 2025): dense and sparse branches take turns, nothing
 * has a bias; 7 and 7 branches there, 4 layers of width 4096, tables of a million rows of 64, bags
 * of 100. What is learned is a class (clicked or not).
 */
#include "block.h"

#include <math.h>
#include <stdio.h>

#define MOST_BRANCHES 30

struct dlrm_config {
    int64_t dense, sparse, features, layers, width, entries, vector, bag_size, top_layers, classes;
    uint32_t bag; /* enum: concat | sum */
};

static const struct pst_param params[] = {
    PST_PARAM(struct dlrm_config, dense, PST_PARAM_INT, "2", "1..30",
              "Branches over dense features."),
    PST_PARAM(struct dlrm_config, sparse, PST_PARAM_INT, "2", "0..30",
              "Branches that are one table of embeddings each."),
    PST_PARAM(struct dlrm_config, features, PST_PARAM_INT, "32", "1..16777216",
              "Width of a dense branch's input."),
    PST_PARAM(struct dlrm_config, layers, PST_PARAM_INT, "2", "1..1024",
              "Linear layers of a dense branch."),
    PST_PARAM(struct dlrm_config, width, PST_PARAM_INT, "64", "1..1048576",
              "Width of all linear layers."),
    PST_PARAM(struct dlrm_config, entries, PST_PARAM_INT, "128", "1..2147483647",
              "Rows of a table."),
    PST_PARAM(struct dlrm_config, vector, PST_PARAM_INT, "8", "1..1048576", "Width of a row."),
    PST_PARAM(struct dlrm_config, bag_size, PST_PARAM_INT, "4", "1..1048576",
              "Rows that a sample looks up in a table."),
    PST_PARAM(struct dlrm_config, bag, PST_PARAM_ENUM, "concat", "concat|sum",
              "What becomes of a bag's rows: they lie side by side, or are added."),
    PST_PARAM(struct dlrm_config, top_layers, PST_PARAM_INT, "2", "1..1024",
              "Linear layers behind the join."),
    PST_PARAM(struct dlrm_config, classes, PST_PARAM_INT, "2", "1..16777216", "Number of classes."),
};

static uint32_t add_dense(struct pst_graph_builder *builder, const struct dlrm_config *c,
                          uint32_t branch)
{
    char name[PST_NAME_SIZE];
    uint64_t features = (uint64_t)c->features;
    uint32_t x;

    snprintf(name, sizeof name, "x.dense.%u", branch);
    x = pst_graph_input(builder, name, PST_FIELD_X, pst_graph_dtype(builder), 1, &features);
    snprintf(name, sizeof name, "dense.%u", branch);
    return pst_add_relu_stack(builder, name, x, features, (uint64_t)c->width, (uint32_t)c->layers);
}

static uint32_t add_sparse(struct pst_graph_builder *builder, const struct dlrm_config *c,
                           uint32_t branch)
{
    char name[PST_NAME_SIZE];
    uint64_t size = (uint64_t)c->bag_size;
    uint64_t dims[2] = {(uint64_t)c->entries, (uint64_t)c->vector};
    uint32_t x, table;
    struct pst_op op = {.kind = PST_OP_EMBEDDING,
                        .name = name,
                        .n_in = 1,
                        .in = &x,
                        .n_param = 1,
                        .param = &table,
                        .bag = c->bag == 0 ? PST_BAG_CONCAT : PST_BAG_SUM};

    snprintf(name, sizeof name, "x.sparse.%u", branch);
    x = pst_graph_input(builder, name, PST_FIELD_X, PST_I32, 1, &size);
    snprintf(name, sizeof name, "sparse.%u.weight", branch);
    table = pst_graph_param(builder, name, 2, dims, PST_INIT_UNIFORM,
                            sqrtf(1.0f / (float)c->entries), false);
    snprintf(name, sizeof name, "sparse.%u", branch);
    return pst_graph_add(builder, &op);
}

/* Dense and sparse branches in turns, each a layer of its own; returns their number. */
static uint32_t add_branches(struct pst_graph_builder *builder, const struct dlrm_config *c,
                             uint32_t *ret_results)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < MOST_BRANCHES; i++) {
        pst_graph_layer(builder, n);
        if (i < (uint32_t)c->dense) {
            ret_results[n++] = add_dense(builder, c, i);
        }
        pst_graph_layer(builder, n);
        if (i < (uint32_t)c->sparse) {
            ret_results[n++] = add_sparse(builder, c, i);
        }
    }
    return n;
}

static pst_status build(const void *config, uint32_t dtype, struct pst_graph **ret_graph,
                        struct pst_error *err)
{
    const struct dlrm_config *c = config;
    uint64_t row = (uint64_t)c->vector * (c->bag == 0 ? (uint64_t)c->bag_size : 1);
    uint64_t width = (uint64_t)c->width;
    uint64_t joined = (uint64_t)c->dense * width + (uint64_t)c->sparse * row;
    uint32_t results[2 * MOST_BRANCHES], x, targets, loss;
    struct pst_op concat = {.kind = PST_OP_CONCAT, .name = "concat", .in = results};
    struct pst_graph_builder *builder = NULL;
    pst_status status = pst_graph_builder_create("dlrm", dtype, &builder, err);

    if (status != PST_OK) {
        return status;
    }
    concat.n_in = add_branches(builder, c, results);
    targets = pst_graph_input(builder, "label", PST_FIELD_TARGET, PST_I32, 0, NULL);
    pst_graph_layer(builder, concat.n_in);
    x = pst_graph_add(builder, &concat);
    x = pst_add_relu_stack(builder, "top", x, joined, width, (uint32_t)c->top_layers);
    x = pst_add_linear(builder, "head", x, width, (uint64_t)c->classes, sqrtf(1.0f / (float)width),
                       false);
    loss = pst_add_cross_entropy(builder, x, targets);
    status = pst_graph_finish(builder, loss, x, ret_graph, err);
    pst_graph_builder_destroy(builder);
    return status;
}

const struct pst_model_builder pst_model_dlrm = {
    .id = "dlrm",
    .summary = "recommendation model: dense branches beside tables of embeddings",
    .params = params,
    .n_params = sizeof params / sizeof *params,
    .config_size = sizeof(struct dlrm_config),
    .build = build,
};
