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
              "Branches that are one embedding table each."),
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
              "How a bag's rows are combined: concatenated or added."),
    PST_PARAM(struct dlrm_config, top_layers, PST_PARAM_INT, "2", "1..1024",
              "Linear layers after the branches are joined."),
    PST_PARAM(struct dlrm_config, classes, PST_PARAM_INT, "2", "1..16777216", "Number of classes."),
};

static uint32_t add_dense(struct pst_model *m, const struct dlrm_config *c, uint32_t branch)
{
    char name[32];
    uint32_t x;

    snprintf(name, sizeof name, "x.dense.%u", branch);
    x = pst_add_input(m, name, PST_FIELD_X, pst_graph_dtype(m->graph), c->features);
    return pst_add_relu_stack(m, name + 2, x, c->features, c->width, c->layers);
}

static uint32_t add_sparse(struct pst_model *m, const struct dlrm_config *c, uint32_t branch)
{
    char name[32];
    uint32_t x, table;

    snprintf(name, sizeof name, "x.sparse.%u", branch);
    x = pst_add_input(m, name, PST_FIELD_X, PST_I32, c->bag_size);
    pst_enter(m, "%s", name + 2);
    table = pst_add_matrix(m, "weight", c->entries, c->vector, PST_INIT_UNIFORM,
                           sqrtf(1.0f / (float)c->entries), false);
    x = pst_add_op(m, "",
                   &(struct pst_op){.kind = PST_OP_EMBEDDING,
                                    .n_in = 1,
                                    .in = &x,
                                    .n_param = 1,
                                    .param = &table,
                                    .bag = c->bag == 0 ? PST_BAG_CONCAT : PST_BAG_SUM});
    pst_leave(m, 0);
    return x;
}

/* Dense and sparse branches in turns, each a layer of its own; returns their number. */
static uint32_t add_branches(struct pst_model *m, const struct dlrm_config *c,
                             uint32_t *ret_results)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < MOST_BRANCHES; i++) {
        pst_graph_layer(m->graph, n);
        if (i < (uint32_t)c->dense) {
            ret_results[n++] = add_dense(m, c, i);
        }
        pst_graph_layer(m->graph, n);
        if (i < (uint32_t)c->sparse) {
            ret_results[n++] = add_sparse(m, c, i);
        }
    }
    return n;
}

static struct pst_model_ends add(struct pst_model *m, const void *config)
{
    const struct dlrm_config *c = config;
    int64_t row = c->vector * (c->bag == 0 ? c->bag_size : 1), width = c->width;
    int64_t joined = c->dense * width + c->sparse * row;
    uint32_t results[2 * MOST_BRANCHES], n = add_branches(m, c, results), x, targets;

    targets = pst_graph_input(m->graph, "label", PST_FIELD_TARGET, PST_I32, 0, NULL);
    pst_graph_layer(m->graph, n);
    x = pst_add_concat(m, "concat", results, n);
    x = pst_add_relu_stack(m, "top", x, joined, width, c->top_layers);
    x = pst_add_linear(m, "head", x, width, c->classes, sqrtf(1.0f / (float)width), false);
    return pst_add_loss(m, PST_OP_CROSS_ENTROPY, x, targets);
}

PST_MODEL_BUILDER(dlrm, "dlrm", "recommendation model: dense branches beside embedding tables",
                  struct dlrm_config, NULL);
