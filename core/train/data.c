/* SPDX-License-Identifier: Apache-2.0
 *
 * What samples of a graph are made of, and samples from the reader of the job's data. Whether
 * processes that read their data themselves have the same tells a digest.
 */
#include "train/data_impl.h"

#include <stdlib.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/memory.h"
#include "base/philox.h"

#define UNLIMITED   UINT64_MAX
#define STREAM_MASK 0x6D61736Bu

/* Of 2^32: one token in 0.15; of those 0.1 and 0.1. */
#define HIDE_WORD 644245094u
#define ANY_WORD  429496730u
#define KEEP_WORD 858993459u

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

/* Exactly one tensor of targets, at least one of X. */
static pst_status find_inputs(const struct pst_graph *graph, struct pst_sample_shape *shape,
                              struct pst_error *err)
{
    for (uint32_t i = 0; i < graph->n_inputs; i++) {
        const struct pst_tensor *tensor = &graph->tensors[i];
        bool target = tensor->field == PST_FIELD_TARGET || tensor->field == PST_FIELD_MASKED;

        if (target && shape->target != NULL) {
            return pst_fail(err, PST_ERR_UNSUPPORTED, "config.value",
                            "model %s has more than one target tensor (%s, %s)", graph->name,
                            shape->target->name, tensor->name);
        }
        if (target) {
            shape->target = tensor;
        } else if (tensor->field == PST_FIELD_X && shape->x == NULL) {
            shape->x = tensor;
        } else if (tensor->field == PST_FIELD_SHIFTED) {
            shape->shifted = tensor;
        }
        shape->vocabs[i] = tensor->dtype == PST_I32 ? vocab_of(graph, i) : 0;
    }
    if (shape->x == NULL || shape->target == NULL) {
        return pst_fail(err, PST_ERR_UNSUPPORTED, "config.value", "model %s has no %s tensor",
                        graph->name, shape->x == NULL ? "input" : "target");
    }
    return PST_OK;
}

/* Tensors that are made from others must have their shape. */
static pst_status check_derived(const struct pst_graph *graph, const struct pst_sample_shape *shape,
                                struct pst_error *err)
{
    for (uint32_t i = 0; i < shape->n_inputs; i++) {
        const struct pst_tensor *tensor = &shape->inputs[i], *like = NULL;

        if (tensor->field == PST_FIELD_MASKED || tensor->field == PST_FIELD_SEGMENT) {
            like = shape->x;
        } else if (tensor->field == PST_FIELD_SHIFTED) {
            like = shape->target;
        }
        if (like != NULL &&
            (tensor->dtype != PST_I32 || like->dtype != PST_I32 || tensor->elems != like->elems)) {
            return pst_fail(err, PST_ERR_UNSUPPORTED, "config.value",
                            "model %s: tensor %s is not like %s, from which it is made",
                            graph->name, tensor->name, like->name);
        }
    }
    return PST_OK;
}

pst_status pst_sample_shape_of(const struct pst_graph *graph, struct pst_sample_shape *ret_shape,
                               struct pst_error *err)
{
    struct pst_sample_shape shape = {.n_inputs = graph->n_inputs, .inputs = graph->tensors};
    const struct pst_tensor *logits;
    pst_status st = find_inputs(graph, &shape, err);

    if (st == PST_OK) {
        st = check_derived(graph, &shape, err);
    }
    if (st != PST_OK) {
        return st;
    }
    logits = &graph->tensors[graph->logits];
    if (shape.target->dtype == PST_I32 && logits->rank == 0) {
        return pst_fail(err, PST_ERR_UNSUPPORTED, "config.value",
                        "model %s wants classes and has no axis for them", graph->name);
    }
    shape.rows = shape.target->elems;
    shape.classes = shape.target->dtype == PST_I32 ? logits->dims[logits->rank - 1] : 0;
    shape.vocab = shape.vocabs[pst_sample_input(&shape, shape.x)];
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
    struct pst_data *data = pst_alloc(1, sizeof *data);
    pst_status st;

    data->kind = job->data.kind;
    data->seed = (uint64_t)job->data.seed;
    st = pst_sample_shape_of(graph, &data->shape, err);
    if (st == PST_OK) {
        st = pst_config_place(job->config, "train", "sample", check_sample(job, graph, err), err);
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

uint64_t pst_data_samples(const struct pst_data *data, uint32_t split)
{
    return data->kind == PST_DATA_TEXT ? data->text[split].n_windows : UNLIMITED;
}

/* The hidden tokens as targets; at least one, so that every sample has a loss. */
static void hide_tokens(const struct pst_data *data, uint32_t split, uint64_t index,
                        int32_t *tokens, int32_t *targets)
{
    const struct pst_sample_shape *shape = &data->shape;
    uint64_t key = data->seed ^ (uint64_t)STREAM_MASK << 32 ^ (uint64_t)split << 63;
    uint64_t forced = pst_philox(key, index, UINT64_MAX).v[0] % shape->rows;

    for (uint64_t t = 0; t < shape->rows; t++) {
        struct pst_philox bits = pst_philox(key, index, t);

        targets[t] = -1;
        if (bits.v[0] >= HIDE_WORD && t != forced) {
            continue;
        }
        targets[t] = tokens[t];
        if (bits.v[1] < ANY_WORD) {
            tokens[t] = (int32_t)(bits.v[2] % shape->vocab);
        } else if (bits.v[1] >= KEEP_WORD) {
            tokens[t] = (int32_t)(shape->vocab - 1);
        }
    }
}

static void shift(const int32_t *targets, uint64_t n, int32_t *ret_shifted)
{
    for (uint64_t t = 0; t < n; t++) {
        ret_shifted[t] = t == 0 ? 0 : targets[t - 1];
    }
}

/* What follows from tokens and targets that a reader has made. Hides 15 % of the tokens of X where
   targets are PST_FIELD_MASKED: the token becomes the last of the vocabulary in 8 of 10 cases, any
   token in one, and stays in one (Devlin et al.: "BERT", NAACL 2019, section 3.1); fills segments
   and shifted targets. */
static void derive_inputs(const struct pst_data *data, uint32_t split, uint64_t index,
                          void *const *inputs)
{
    const struct pst_sample_shape *shape = &data->shape;
    int32_t *targets = inputs[pst_sample_input(shape, shape->target)];

    for (uint32_t i = 0; i < shape->n_inputs; i++) {
        int32_t *values = inputs[i];

        switch (shape->inputs[i].field) {
        case PST_FIELD_MASKED:
            hide_tokens(data, split, index, inputs[pst_sample_input(shape, shape->x)], values);
            break;
        case PST_FIELD_SEGMENT:
            for (uint64_t t = 0; t < shape->inputs[i].elems; t++) {
                values[t] = t >= (shape->inputs[i].elems + 1) / 2;
            }
            break;
        case PST_FIELD_SHIFTED:
            shift(targets, shape->rows, values);
            break;
        default:
            break;
        }
    }
}

void pst_data_read(const struct pst_data *data, uint32_t split, uint64_t first, uint32_t n,
                   void *const *ret_inputs)
{
    const struct pst_sample_shape *shape = &data->shape;
    void *inputs[PST_MAX_INPUTS];

    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t k = 0; k < shape->n_inputs; k++) {
            inputs[k] = (char *)ret_inputs[k] + (uint64_t)i * shape->inputs[k].bytes;
        }
        if (data->kind == PST_DATA_TEXT) {
            pst_text_read(data, split, first + i, inputs[pst_sample_input(shape, shape->x)],
                          inputs[pst_sample_input(shape, shape->target)]);
        } else {
            pst_synthetic_read(data, split, first + i, inputs);
        }
        derive_inputs(data, split, first + i, inputs);
    }
}

uint64_t pst_data_digest(const struct pst_data *data, const struct pst_sample_shape *shape,
                         uint32_t n, void *const *inputs)
{
    uint64_t digest = pst_data_samples(data, PST_SPLIT_TRAIN);

    digest = digest * 31 + pst_data_samples(data, PST_SPLIT_VALID);
    pst_data_read(data, PST_SPLIT_TRAIN, 0, n, inputs);
    for (uint32_t i = 0; i < shape->n_inputs; i++) {
        digest = XXH3_64bits_withSeed(inputs[i], n * shape->inputs[i].bytes, digest);
    }
    return digest;
}
