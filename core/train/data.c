/* SPDX-License-Identifier: Apache-2.0 */
#include "train/data_impl.h"

#include <stdlib.h>

#define UNLIMITED UINT64_MAX

/* The smallest embedding table that reads x: token values must stay below its rows. */
static uint64_t vocab_of(const struct pst_graph *graph, uint32_t x)
{
    uint64_t vocab = UINT32_MAX;

    for (uint32_t i = 0; i < graph->n_ops; i++) {
        const struct pst_op *op = &graph->ops[i];

        if (op->kind == PST_OP_EMBEDDING && op->in[0] == x &&
            graph->params[op->param[0]].dims[0] < vocab) {
            vocab = graph->params[op->param[0]].dims[0];
        }
    }
    return vocab;
}

static pst_status find_input(const struct pst_graph *graph, uint32_t field, const char *what,
                             uint32_t *ret_tensor, struct pst_error *err)
{
    uint32_t found = PST_NONE;

    for (uint32_t i = 0; i < graph->n_tensors; i++) {
        if (graph->tensors[i].role == PST_ROLE_INPUT && graph->tensors[i].field == field) {
            if (found != PST_NONE) {
                return pst_fail(err, PST_ERR_UNSUPPORTED, "config.value",
                                "model %s has more than one %s tensor (%s, %s)", graph->name, what,
                                graph->tensors[found].name, graph->tensors[i].name);
            }
            found = i;
        }
    }
    if (found == PST_NONE) {
        return pst_fail(err, PST_ERR_UNSUPPORTED, "config.value", "model %s has no %s tensor",
                        graph->name, what);
    }
    *ret_tensor = found;
    return PST_OK;
}

pst_status pst_sample_shape_of(const struct pst_graph *graph, struct pst_sample_shape *ret_shape,
                               struct pst_error *err)
{
    struct pst_sample_shape shape = {0};
    const struct pst_tensor *logits;
    uint32_t x = PST_NONE, target = PST_NONE;
    pst_status st = find_input(graph, PST_FIELD_X, "input", &x, err);

    if (st == PST_OK) {
        st = find_input(graph, PST_FIELD_TARGET, "target", &target, err);
    }
    if (st != PST_OK) {
        return st;
    }
    shape.x = &graph->tensors[x];
    shape.target = &graph->tensors[target];
    logits = &graph->tensors[graph->logits];
    if (shape.target->dtype != PST_I32 || logits->rank == 0) {
        return pst_fail(err, PST_ERR_UNSUPPORTED, "config.value",
                        "model %s wants targets that are not classes", graph->name);
    }
    shape.rows = shape.target->elems;
    shape.classes = logits->dims[logits->rank - 1];
    shape.vocab = shape.x->dtype == PST_I32 ? vocab_of(graph, x) : 0;
    *ret_shape = shape;
    return PST_OK;
}

/* Can the model write text, where that is asked for? It must be trained on text and never look
   ahead. */
static pst_status check_sample(const struct pst_job *job, const struct pst_graph *graph,
                               struct pst_error *err)
{
    bool causal = true;

    for (uint32_t i = 0; i < graph->n_ops; i++) {
        causal = causal && (graph->ops[i].kind != PST_OP_ATTENTION || graph->ops[i].causal);
    }
    if (job->train.sample > 0 && (job->data.kind != PST_DATA_TEXT || !causal)) {
        return pst_fail(err, PST_ERR_CONFIG, "config.value",
                        "train.sample: text can be generated with data.kind = \"text\" and a "
                        "causal model such as gpt; set train.sample = 0");
    }
    return PST_OK;
}

pst_status pst_data_create(const struct pst_job *job, const struct pst_graph *graph,
                           struct pst_data **ret_data, struct pst_error *err)
{
    struct pst_data *data = calloc(1, sizeof *data);
    pst_status st;

    if (data == NULL) {
        return pst_fail_nomem(err);
    }
    data->kind = job->data.kind;
    data->seed = (uint64_t)job->data.seed;
    st = pst_sample_shape_of(graph, &data->shape, err);
    if (st == PST_OK) {
        st = check_sample(job, graph, err);
        if (st != PST_OK) {
            pst_config_place(job->config, "train", "sample", err);
        }
    }
    if (st == PST_OK && data->kind == PST_DATA_TEXT) {
        st = pst_data_open_text(job, data, err);
    }
    if (st != PST_OK) {
        pst_data_destroy(data);
        return st;
    }
    *ret_data = data;
    return PST_OK;
}

void pst_data_destroy(struct pst_data *data)
{
    if (data != NULL) {
        free(data->storage[0]);
        free(data->storage[1]);
        free(data);
    }
}

const struct pst_sample_shape *pst_data_shape(const struct pst_data *data)
{
    return &data->shape;
}

uint64_t pst_data_samples(const struct pst_data *data, uint32_t split)
{
    return data->kind == PST_DATA_TEXT ? data->text[split].n_windows : UNLIMITED;
}

void pst_data_read(const struct pst_data *data, uint32_t split, uint64_t first, uint32_t n,
                   void *ret_x, int32_t *ret_targets)
{
    const struct pst_sample_shape *shape = &data->shape;

    for (uint32_t i = 0; i < n; i++) {
        void *x = (char *)ret_x + (uint64_t)i * shape->x->bytes;
        int32_t *targets = ret_targets + (uint64_t)i * shape->rows;

        if (data->kind == PST_DATA_TEXT) {
            pst_text_read(data, split, first + i, x, targets);
        } else {
            pst_synthetic_read(data, split, first + i, x, targets);
        }
    }
}
