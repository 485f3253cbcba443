/* SPDX-License-Identifier: Apache-2.0
 *
 * A costed graph (graph/costed.h) as a model: to be planned, proven and timed, not to be run. A
 * node becomes an operator of its sizes, what no node reads goes into a loss of no cost, and the
 * times stay in the costed graph, which the graph keeps.
 */
#include "block.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "models/costed/costed_file.h"

#define MOST_IN 64u /* that an operator reads */

struct costed_config {
    const char *file;
};

static const struct pst_param params[] = {
    PST_PARAM(struct costed_config, file, PST_PARAM_PATH, NULL, NULL,
              "The penstock-graph file (docs/formats.md)."),
};

/* Sizes are those of f32 elements: a vector of as many as hold the bytes. */
static uint64_t elements(double bytes)
{
    return (uint64_t)ceil(bytes / sizeof(float));
}

/* Bytes of a sample that others read of a node's result, at most. */
static double result_bytes(const struct pst_costed *costed, uint32_t v)
{
    const struct pst_node *node = pst_graph_node(&costed->view, v);
    double bytes = costed->nodes[v].output_bytes / costed->batch;

    for (uint32_t k = 0; k < node->n_out; k++) {
        bytes = fmax(bytes, costed->edge_bytes[costed->view.out_edges[node->first_out + k]]);
    }
    return bytes;
}

/* A result that is saved whole is taken to be what is saved first. */
static struct pst_form sizes_of(const struct pst_costed *costed, uint32_t v)
{
    const double result = result_bytes(costed, v), saved = costed->saved_bytes[v];
    const bool keeps = result > 0 && saved >= result;
    struct pst_form form = {.rank = 3};

    form.dims[PST_COSTED_RESULT] = result > 0 ? elements(result) : 1;
    form.dims[PST_COSTED_KEPT] = elements(keeps ? saved - result : saved);
    form.dims[PST_COSTED_KEEPS_RESULT] = keeps;
    return form;
}

static uint32_t add_node(struct pst_model *m, const struct pst_costed *costed, uint32_t v,
                         const uint32_t *results)
{
    const struct pst_node *node = pst_graph_node(&costed->view, v);
    const uint64_t weights = elements(costed->nodes[v].param_bytes);
    const struct pst_form form = sizes_of(costed, v);
    uint32_t in[MOST_IN], param = PST_NONE;

    for (uint32_t k = 0; k < node->n_in; k++) {
        in[k] = results[costed->edges[costed->view.in_edges[node->first_in + k]].from];
    }
    if (weights > 0) {
        param =
            pst_graph_param(m->graph, costed->nodes[v].name, 1, &weights, PST_INIT_ZERO, 0, false);
    }
    return pst_graph_add(m->graph, &(struct pst_op){.kind = PST_OP_COSTED,
                                                    .name = costed->nodes[v].name,
                                                    .in = in,
                                                    .n_in = node->n_in,
                                                    .param = &param,
                                                    .n_param = weights > 0,
                                                    .form = &form});
}

/* "loss", or the first of "loss:2", "loss:3", ... that no node is called. */
static void name_loss(const struct pst_costed *costed, char name[32])
{
    uint32_t v = 0;

    snprintf(name, 32, "loss");
    for (uint32_t i = 2; v < costed->n_nodes; v++) {
        if (strcmp(costed->nodes[v].name, name) == 0) {
            snprintf(name, 32, "loss:%u", i++);
            v = PST_NONE; /* from the first */
        }
    }
}

static pst_status check_reads(const char *file, const char *who, uint32_t n, struct pst_error *err)
{
    return n <= MOST_IN ? PST_OK
                        : pst_fail_at(err, PST_ERR_CONFIG, "input.limit", file, 0, 0,
                                      "%.200s reads the results of %u nodes; an operator of a plan "
                                      "reads at most %u",
                                      who, n, MOST_IN);
}

/* All that no node reads, into *ret_ends. */
static pst_status add_loss(struct pst_model *m, const struct pst_costed *costed, const char *file,
                           const uint32_t *results, struct pst_model_ends *ret_ends,
                           struct pst_error *err)
{
    uint32_t in[MOST_IN], n = 0;
    char name[32];
    pst_status status;

    for (uint32_t v = 0; v < costed->n_nodes; v++) {
        if (pst_graph_node(&costed->view, v)->n_out == 0) {
            in[n < MOST_IN ? n : 0] = results[v];
            n++;
        }
    }
    status = check_reads(file, "the loss", n, err);
    if (status == PST_OK) {
        name_loss(costed, name);
        ret_ends->logits = PST_NONE;
        ret_ends->loss = pst_graph_add(
            m->graph,
            &(struct pst_op){.kind = PST_OP_COSTED_LOSS, .name = name, .in = in, .n_in = n});
    }
    return status;
}

static pst_status build(struct pst_model *m, const void *config, struct pst_model_ends *ret_ends,
                        struct pst_error *err)
{
    const char *file = ((const struct costed_config *)config)->file;
    struct pst_arena arena = {0};
    const struct pst_costed *costed;
    uint32_t *results, *layers;
    pst_status status;

    if (pst_graph_dtype(m->graph) != PST_F32) {
        return pst_fail(err, PST_ERR_CONFIG, "config.value",
                        "the bytes of a costed graph count as they stand in its file; leave "
                        "run.dtype out");
    }
    status = pst_costed_read(file, &m->costed, err);
    if (status != PST_OK) {
        return status;
    }
    costed = m->costed;
    results = pst_arena_array(&arena, costed->n_nodes, sizeof *results);
    layers = pst_arena_array(&arena, costed->n_nodes, sizeof *layers);
    pst_costed_layers(costed, layers);
    for (uint32_t v = 0; status == PST_OK && v < costed->n_nodes; v++) {
        pst_graph_layer(m->graph, layers[v]);
        status =
            check_reads(file, costed->nodes[v].name, pst_graph_node(&costed->view, v)->n_in, err);
        if (status == PST_OK) {
            results[v] = add_node(m, costed, v, results);
        }
    }
    PST_TRY(status, add_loss(m, costed, file, results, ret_ends, err));
    pst_arena_finish(&arena);
    return status;
}

const struct pst_model_builder pst_model_costed = {
    .id = "costed",
    .summary = "a costed graph, of a PyTorch module or made by hand: to plan, not to train",
    .params = params,
    .n_params = sizeof params / sizeof *params,
    .config_size = sizeof(struct costed_config),
    .build = build,
};
