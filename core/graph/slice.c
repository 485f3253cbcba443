/* SPDX-License-Identifier: Apache-2.0
 *
 * Slices of sequences (Li et al.: "TeraPipe", ICML 2021; Sun et al.: "Seq1F1B", 2024): the graph of
 * one slice. Its operators work on rows of tokens, each by itself; causal attention alone reads the
 * rows of other slices, those before it, and embeddings and rotary positions count rows from the
 * sequence's first. The loss of a sequence is a mean over its targets that count, in whatever
 * slices; how many these are stands after the targets of each slice. Where the loss is the mean
 * over all targets of a step, sliced or not, their number stands there.
 */

#include <limits.h>
#include <string.h>

#include "graph/op_rules.h"

/* Returns why the operator cannot work slice by slice; NULL: it can. */
static const char *mixing_of(const struct pst_graph *graph, const struct pst_op *op)
{
    const uint32_t rows = pst_op_is_loss(op->kind) ? op->in[0] : op->out[0];

    return graph->tensors[rows].rank != 2 ? PST_MIXES_TOKENS : pst_op_mixing(graph, op, false);
}

static const struct pst_op *loss_of(const struct pst_graph *graph)
{
    return &graph->ops[graph->tensors[graph->loss].producer];
}

/* Which axis of a tensor is that of the tokens; PST_NONE: a loss has none. */
static uint32_t token_axis(const struct pst_graph *graph, const struct pst_tensor *tensor)
{
    return tensor->rank == 0 ? PST_NONE : pst_row_axis(graph, tensor);
}

static bool is_target(const struct pst_graph *graph, uint32_t tensor)
{
    const struct pst_op *loss = loss_of(graph);

    return loss->n_in > 1 && loss->in[1] == tensor;
}

static pst_status check_slices(const struct pst_graph *graph, uint32_t n, struct pst_error *err)
{
    const uint64_t tokens = graph->tensors[0].rank == 0 ? 0 : graph->tensors[0].dims[0];

    for (uint32_t i = 0; i < graph->n_ops; i++) {
        const struct pst_op *op = &graph->ops[i];
        const char *mixes = mixing_of(graph, op);

        if (mixes != NULL) {
            return pst_fail(err, PST_ERR_CONFIG, "config.value",
                            "model %s has no slices of sequences: %s %s %s; set slices = 1, or use "
                            "a model of causal attention, such as gpt or llama",
                            graph->name, pst_op_title(op), op->name, mixes);
        }
    }
    for (uint32_t i = 0; i < graph->n_tensors; i++) {
        const struct pst_tensor *tensor = &graph->tensors[i];
        const uint32_t axis = token_axis(graph, tensor);

        if (is_target(graph, i) && tensor->n_consumers > 1) {
            return pst_fail(err, PST_ERR_CONFIG, "config.value",
                            "model %s has no slices of sequences: targets %s are read by more than "
                            "the loss",
                            graph->name, tensor->name);
        }
        if (!tensor->batched ||
            (axis != PST_NONE && !is_target(graph, i) && tensor->dims[axis] != tokens)) {
            return pst_fail(err, PST_ERR_CONFIG, "config.value",
                            "model %s has no slices of sequences: tensor %s has no axis of its "
                            "%llu tokens",
                            graph->name, tensor->name, (unsigned long long)tokens);
        }
    }
    return tokens % n == 0 ? PST_OK
                           : pst_fail(err, PST_ERR_CONFIG, "config.value",
                                      "a sequence of %llu tokens has no %u slices of equal length",
                                      (unsigned long long)tokens, n);
}

/* Targets are one for each row of logits and, where there is one, the number after them. */
static void shape_targets(struct pst_graph *graph)
{
    const struct pst_op *loss = loss_of(graph);
    const struct pst_tensor *logits = &graph->tensors[loss->in[0]];
    struct pst_tensor *targets = &graph->tensors[loss->in[1]];

    targets->rank = logits->rank - 1;
    targets->elems = logits->elems / logits->dims[logits->rank - 1];
    memcpy(targets->dims, logits->dims, sizeof targets->dims);
    if (pst_graph_counts_over(graph) > 0) {
        targets->rank = 1;
        targets->dims[0] = ++targets->elems;
    }
    targets->bytes = targets->elems * pst_dtype_bytes(targets->dtype);
}

static void set_slices(struct pst_graph *graph, uint32_t n)
{
    for (uint32_t i = 0; i < graph->n_tensors; i++) {
        struct pst_tensor *tensor = &graph->tensors[i];
        const uint32_t axis = token_axis(graph, tensor);

        if (axis != PST_NONE && !is_target(graph, i)) {
            const uint64_t rows = tensor->dims[axis] * graph->slices / n;

            tensor->elems = tensor->elems / tensor->dims[axis] * rows;
            tensor->bytes = tensor->elems * pst_dtype_bytes(tensor->dtype);
            tensor->dims[axis] = rows;
        }
    }
    for (uint32_t i = 0; i < graph->n_ops; i++) {
        if (pst_op_rules_of(graph->ops[i].kind)->past != NULL) {
            graph->ops[i].slices = n > 1 ? n : 0;
        }
    }
    graph->slices = n;
    shape_targets(graph);
    graph->digest = pst_graph_digest(graph);
}

pst_status pst_graph_slice(struct pst_graph *graph, uint32_t n, struct pst_error *err)
{
    pst_status status = n > 1 ? check_slices(graph, n, err) : PST_OK;

    if (n > 1 && status == PST_OK) {
        set_slices(graph, n);
    }
    return status;
}

void pst_graph_join(struct pst_graph *graph)
{
    if (pst_graph_counts_over(graph) > 0) {
        graph->token_batch = 0;
        set_slices(graph, 1);
    }
}

/* Returns true if only cross-entropy, or its operators for parts, read the targets. */
static bool is_read_as_classes(const struct pst_graph *graph, const struct pst_tensor *targets)
{
    bool only = true;

    for (uint32_t i = 0; i < targets->n_consumers; i++) {
        only = only && pst_op_rules_of(graph->ops[targets->consumers[i]].kind)->classes;
    }
    return only;
}

pst_status pst_graph_mean_tokens(struct pst_graph *graph, uint32_t batch, struct pst_error *err)
{
    const struct pst_op *loss = loss_of(graph);
    const struct pst_tensor *targets;

    if (batch == 0 || !pst_op_rules_of(loss->kind)->classes) {
        return PST_OK;
    }
    targets = &graph->tensors[loss->in[1]];
    if (targets->producer != PST_NONE || !is_read_as_classes(graph, targets)) {
        return pst_fail(err, PST_ERR_CONFIG, "config.value",
                        "model %s has no mean over tokens: targets %s are %s; set loss_over = "
                        "\"sample\"",
                        graph->name, targets->name,
                        targets->producer != PST_NONE ? "computed" : "read by more than the loss");
    }
    if (targets->elems > INT_MAX / batch) {
        return pst_fail(err, PST_ERR_CONFIG, "config.limit",
                        "a step of %u samples of %llu targets has more than %d targets", batch,
                        (unsigned long long)targets->elems, INT_MAX);
    }
    graph->token_batch = batch;
    shape_targets(graph);
    graph->digest = pst_graph_digest(graph);
    return PST_OK;
}

uint64_t pst_op_past_elems(const struct pst_graph *graph, uint32_t index)
{
    const struct pst_op *op = &graph->ops[index];
    const struct pst_op_case c = pst_op_case_of(graph, op);

    return op->slices > 1 ? pst_op_rules_of(op->kind)->past(&c) : 0;
}

bool pst_op_stays(const struct pst_graph *graph, uint32_t index)
{
    const struct pst_tensor *y = &graph->tensors[graph->ops[index].out[0]];
    bool stays = false;

    for (uint32_t k = 0; k < y->n_consumers; k++) {
        stays |= graph->ops[y->consumers[k]].slices > 1;
    }
    return stays;
}

uint64_t pst_op_past_bytes(const struct pst_graph *graph, uint32_t index)
{
    const bool wide = graph->tensors[graph->ops[index].out[0]].dtype == PST_F64;

    return pst_op_past_elems(graph, index) * (wide ? sizeof(double) : sizeof(float));
}
