/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the inputs and targets of a graph's samples, and reads samples of the job's data. Each
 * process reads the data itself; a digest shows if all have the same.
 */
#include "data/data_impl.h"

#include <stdlib.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/memory.h"
#include "base/philox.h"
#include "base/saturate.h"

#define STREAM_MASK 0x6D61736Bu

/* Of an i32 input that only operators of plugins read: nobody says what its values may be. */
#define NO_RANGE UINT32_MAX

/* As parts of 2^32: 0.15 of the tokens are hidden; of these 0.1 become any token, 0.1 stay. */
#define HIDE_WORD 644245094u
#define ANY_WORD  429496730u
#define KEEP_WORD 858993459u

/* Returns true if a tensor is x, maybe in another order or shape. */
static bool is_view_of(const struct pst_graph *graph, uint32_t tensor, uint32_t x)
{
    while (tensor != x && graph->tensors[tensor].producer != PST_NONE) {
        const struct pst_op *op = &graph->ops[graph->tensors[tensor].producer];

        if (op->kind != PST_OP_RESHAPE && op->kind != PST_OP_STRIDED) {
            return false;
        }
        tensor = op->in[0];
    }
    return tensor == x;
}

/* The shortest table or axis whose places x names: token values must stay below its length. */
static uint64_t vocab_of(const struct pst_graph *graph, uint32_t x)
{
    uint64_t vocab = NO_RANGE;

    for (uint32_t i = 0; i < graph->n_ops; i++) {
        const struct pst_op *op = &graph->ops[i];
        const bool table = op->kind == PST_OP_EMBEDDING, gather = op->kind == PST_OP_GATHER;

        if ((table || gather) && is_view_of(graph, op->in[gather ? 1 : 0], x)) {
            const struct pst_tensor *from = &graph->tensors[op->in[0]];
            const uint64_t size =
                table ? graph->params[op->param[0]].dims[0] : from->dims[from->rank - 1 - op->axis];

            vocab = size < vocab ? size : vocab;
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

/* But for the number that stands after the targets (graph/slice.c). */
static uint64_t elems_of(const struct pst_graph *graph, const struct pst_sample_shape *shape,
                         const struct pst_tensor *tensor)
{
    return tensor->elems - (pst_graph_counts_over(graph) > 0 && tensor == shape->target);
}

/* From slices, and targets with a number after them, to the sequences that readers read. */
static void make_whole(struct pst_data *data, const struct pst_graph *graph)
{
    struct pst_sample_shape *shape = &data->shape;
    const struct pst_tensor *slices = shape->inputs;
    const struct pst_op *loss = &graph->ops[graph->tensors[graph->loss].producer];
    const struct pst_tensor *logits = &graph->tensors[loss->in[0]];

    data->slices = graph->slices;
    data->counted = pst_graph_counts_over(graph) > 0;
    data->over_tokens = graph->token_batch > 0;
    if (!data->counted) {
        return;
    }
    data->inputs = pst_alloc(shape->n_inputs, sizeof *data->inputs);
    for (uint32_t i = 0; i < shape->n_inputs; i++) {
        struct pst_tensor *whole = &data->inputs[i];

        *whole = slices[i];
        if (&slices[i] == shape->target) { /* one for each row of logits */
            whole->rank = logits->rank - 1;
            memcpy(whole->dims, logits->dims, sizeof whole->dims);
        }
        whole->dims[0] *= graph->slices;
        whole->elems = elems_of(graph, shape, &slices[i]) * graph->slices;
        whole->bytes = whole->elems * pst_dtype_bytes(whole->dtype);
    }
    shape->x = &data->inputs[shape->x - slices];
    shape->target = &data->inputs[shape->target - slices];
    shape->shifted = shape->shifted == NULL ? NULL : &data->inputs[shape->shifted - slices];
    shape->rows *= graph->slices;
    shape->inputs = data->inputs;
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
        if (like != NULL && (tensor->dtype != PST_I32 || like->dtype != PST_I32 ||
                             elems_of(graph, shape, tensor) != elems_of(graph, shape, like))) {
            return pst_fail(err, PST_ERR_UNSUPPORTED, "config.value",
                            "model %s: tensor %s must have the type and size of %s", graph->name,
                            tensor->name, like->name);
        }
    }
    return PST_OK;
}

pst_status pst_sample_shape_of(const struct pst_graph *of_part, struct pst_sample_shape *ret_shape,
                               struct pst_error *err)
{
    const struct pst_graph *graph = pst_graph_model(of_part); /* tables and logits are all there */
    struct pst_sample_shape shape = {.n_inputs = graph->n_inputs, .inputs = graph->tensors};
    const struct pst_tensor *logits;
    pst_status status = find_inputs(graph, &shape, err);

    PST_TRY(status, check_derived(graph, &shape, err));
    if (status != PST_OK) {
        return status;
    }
    logits = &graph->tensors[graph->logits];
    if (shape.target->dtype == PST_I32 && logits->rank == 0) {
        return pst_fail(err, PST_ERR_UNSUPPORTED, "config.value",
                        "model %s needs classes, but has no axis for them", graph->name);
    }
    shape.rows = elems_of(graph, &shape, shape.target);
    shape.classes = shape.target->dtype == PST_I32 ? logits->dims[logits->rank - 1] : 0;
    shape.vocab = shape.vocabs[pst_sample_input(&shape, shape.x)];
    *ret_shape = shape;
    return PST_OK;
}

struct pst_sample_unit pst_sample_unit_of(const struct pst_graph *graph)
{
    struct pst_sample_shape shape;
    struct pst_error unused;

    if (pst_sample_shape_of(graph, &shape, &unused) == PST_OK && shape.rows > 1 &&
        shape.classes > 0 && shape.vocab > 0) {
        return (struct pst_sample_unit){"tok", shape.rows * graph->slices};
    }
    return (struct pst_sample_unit){"samples", 1};
}

/* Can the model write text, where that is asked for? It must be trained on text and never look
   ahead. */
static pst_status check_sample(const struct pst_job *job, const struct pst_data *data,
                               const struct pst_graph *graph, struct pst_error *err)
{
    const struct pst_op *ahead = pst_graph_looks_ahead(graph);

    if (job->training->loop.sample == 0) {
        return PST_OK;
    }
    if (ahead != NULL && ahead->custom != NULL) {
        return pst_fail(err, PST_ERR_CONFIG, "config.value",
                        "train.sample: operator %s of plugin %s may use what comes later in a "
                        "text; its row does not state PST_OPERATOR_CAUSAL for the rows of the "
                        "text; set train.sample = 0",
                        ahead->name, pst_op_title(ahead));
    }
    if ((!pst_data_is_text(data) && data->tokenizer == NULL) || ahead != NULL) {
        return pst_fail(err, PST_ERR_CONFIG, "config.value",
                        "train.sample: text can be generated with data.kind = \"text\", or with "
                        "data.tokenizer, and a causal model such as gpt; set train.sample = 0");
    }
    return PST_OK;
}

static pst_status check_ignored(const struct pst_job *job, const struct pst_data *data,
                                struct pst_error *err)
{
    if (data->ignored != -1 && data->shape.classes == 0) {
        return pst_config_place(job->config, "train", "ignore_index",
                                pst_fail(err, PST_ERR_CONFIG, "config.value",
                                         "train.ignore_index is a class, but the targets of this "
                                         "model are numbers; leave it out"),
                                err);
    }
    return PST_OK;
}

/* Plugins, tokens, and what hides tokens make values that the model can take: they must know them.
 */
static pst_status check_ranges(const struct pst_job *job, const struct pst_data *data,
                               struct pst_error *err)
{
    const struct pst_sample_shape *shape = &data->shape;

    for (uint32_t i = 0; i < shape->n_inputs; i++) {
        if (shape->inputs[i].field == PST_FIELD_X && shape->vocabs[i] == NO_RANGE) {
            return pst_config_place(
                job->config, "data", "kind",
                pst_fail(err, PST_ERR_CONFIG, "config.value",
                         "data.kind = \"%s\" must know which values input %s may have, but only "
                         "operators of plugins read it; use data of records, such as npy, or a "
                         "model in which an embedding reads it, too",
                         job->training->data.kind, shape->inputs[i].name),
                err);
        }
    }
    return PST_OK;
}

pst_status pst_data_create(const struct pst_job *job, const struct pst_graph *graph,
                           struct pst_data **ret_data, struct pst_error *err)
{
    struct pst_data *data = pst_alloc(1, sizeof *data);
    pst_status status;

    data->kind = pst_data_kind_of(job->training->data.kind);
    data->seed = (uint64_t)job->training->data.seed;
    data->ignored = (int32_t)job->training->loop.ignore_index;
    data->microbatch = (uint32_t)job->train.microbatch;
    status = pst_sample_shape_of(graph, &data->shape, err);
    if (status == PST_OK) {
        make_whole(data, graph);
        status = check_ignored(job, data, err);
    }
    if (status == PST_OK && (data->kind->tokens || data->kind->open_store == NULL ||
                             data->shape.target->field == PST_FIELD_MASKED)) {
        status = check_ranges(job, data, err);
    }
    if (status == PST_OK && data->kind->prepare != NULL) {
        status = data->kind->prepare(job, data, err);
    }
    PST_TRY(status, pst_config_place(job->config, "train", "sample",
                                     check_sample(job, data, graph, err), err));
    PST_TRY(status, data->kind->open(job, data, err));
    if (status != PST_OK) {
        pst_data_destroy(data);
        return status;
    }
    *ret_data = data;
    return PST_OK;
}

void pst_data_destroy(struct pst_data *data)
{
    if (data != NULL) {
        data->kind->close(data);
        free(data->inputs);
        free(data);
    }
}

uint64_t pst_data_sequences(const struct pst_data *data, uint32_t split)
{
    return data->sequences[split];
}

uint64_t pst_data_samples(const struct pst_data *data, uint32_t split)
{
    return pst_sat_mul(data->sequences[split], data->slices);
}

const struct pst_tokenizer *pst_data_tokenizer(const struct pst_data *data)
{
    return data->tokenizer;
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

/* A target that is no token has 0 in its place, as in transformers' T5. */
static void shift_targets(const int32_t *targets, uint64_t n, uint64_t vocab, int32_t *ret_shifted)
{
    for (uint64_t t = 0; t < n; t++) {
        const int32_t before = t == 0 ? 0 : targets[t - 1];

        ret_shifted[t] = before < 0 || (uint64_t)before >= vocab ? 0 : before;
    }
}

/* Targets of the class that is to count nothing are none. */
static void ignore_targets(const struct pst_data *data, int32_t *targets)
{
    for (uint64_t i = 0; data->ignored != -1 && i < data->shape.target->elems; i++) {
        targets[i] = targets[i] == data->ignored ? -1 : targets[i];
    }
}

/* Makes what follows from the tokens and targets that a reader has made. Hides 15 % of the tokens
   of X where targets are PST_FIELD_MASKED and the data has no labels: the token becomes the last of
   the vocabulary in 8 of 10 cases, any token in one, and stays in one (Devlin et al.: "BERT", NAACL
   2019, section 3.1). Fills segments and shifted targets; the last before targets are ignored, for
   a class that counts nothing in the loss is still read. */
static void derive_inputs(const struct pst_data *data, uint32_t split, uint64_t index,
                          void *const *inputs)
{
    const struct pst_sample_shape *shape = &data->shape;
    int32_t *targets = inputs[pst_sample_input(shape, shape->target)];

    if (shape->target->field == PST_FIELD_MASKED && !pst_data_has_labels(data)) {
        hide_tokens(data, split, index, inputs[pst_sample_input(shape, shape->x)], targets);
    }
    for (uint32_t i = 0; i < shape->n_inputs; i++) {
        int32_t *values = inputs[i];

        switch (shape->inputs[i].field) {
        case PST_FIELD_SEGMENT:
            for (uint64_t t = 0; t < shape->inputs[i].elems; t++) {
                values[t] = t >= (shape->inputs[i].elems + 1) / 2;
            }
            break;
        case PST_FIELD_SHIFTED:
            shift_targets(targets, shape->rows, shape->vocabs[i], values);
            break;
        default:
            break;
        }
    }
    ignore_targets(data, targets);
}

static pst_status read_sequences(const struct pst_data *data, uint32_t split, uint64_t first,
                                 uint32_t n, void *const *ret_inputs, struct pst_error *err)
{
    const struct pst_sample_shape *shape = &data->shape;
    pst_status status = data->kind->read(data, split, first, n, ret_inputs, err);

    for (uint32_t i = 0; status == PST_OK && i < n; i++) {
        void *inputs[PST_MAX_INPUTS];

        for (uint32_t k = 0; k < shape->n_inputs; k++) {
            inputs[k] = (char *)ret_inputs[k] + (uint64_t)i * shape->inputs[k].bytes;
        }
        derive_inputs(data, split, first + i, inputs);
    }
    return status;
}

static int32_t count_targets(const struct pst_data *data, const int32_t *targets)
{
    int32_t counted = 0;

    for (uint64_t t = 0; t < data->shape.rows; t++) {
        counted += targets[t] >= 0;
    }
    return counted;
}

/* Slice i of the r-th of a micro-batch's sequences is sample r of the i-th of its micro-batches of
   slices. Behind the targets of each stands `counted`. */
static void deal_slices(const struct pst_data *data, uint32_t n, uint32_t sequence, int32_t counted,
                        void *const *whole, void *const *ret_inputs)
{
    const uint32_t b = data->microbatch;
    const uint64_t first = (uint64_t)(sequence / b) * b * n + sequence % b;
    const uint32_t target = pst_sample_input(&data->shape, data->shape.target);

    for (uint32_t k = 0; k < data->shape.n_inputs; k++) {
        const uint64_t bytes = data->inputs[k].bytes / n;
        const uint64_t stride = bytes + (k == target ? sizeof counted : 0);

        for (uint32_t i = 0; i < n; i++) {
            char *slice = (char *)ret_inputs[k] + (first + (uint64_t)i * b) * stride;

            memcpy(slice, (const char *)whole[k] + i * bytes, bytes);
            memcpy(slice + bytes, &counted, stride - bytes);
        }
    }
}

/* Behind the targets of all samples. */
static void put_count(const struct pst_data *data, uint32_t slices, uint32_t n_samples,
                      int32_t counted, void *const *ret_inputs)
{
    const uint32_t target = pst_sample_input(&data->shape, data->shape.target);
    const uint64_t rows = data->shape.rows / slices;
    int32_t *targets = ret_inputs[target];

    for (uint32_t i = 0; i < n_samples; i++) {
        targets[i * (rows + 1) + rows] = counted;
    }
}

/* Sequences in so many slices each, with a number after the targets. */
static pst_status read_counted(const struct pst_data *data, uint32_t slices, uint32_t split,
                               uint64_t first, uint32_t n, void *const *ret_inputs,
                               struct pst_error *err)
{
    const uint32_t target = pst_sample_input(&data->shape, data->shape.target);
    void *whole[PST_MAX_INPUTS];
    int32_t total = 0;
    pst_status status = PST_OK;

    for (uint32_t k = 0; k < data->shape.n_inputs; k++) {
        whole[k] = pst_alloc(1, data->inputs[k].bytes);
    }
    for (uint32_t i = 0; status == PST_OK && i < n; i++) {
        int32_t counted = 0;

        status = read_sequences(data, split, first + i, 1, whole, err);
        counted = status == PST_OK ? count_targets(data, whole[target]) : 0;
        total += counted;
        deal_slices(data, slices, i, counted, whole, ret_inputs);
    }
    if (data->over_tokens) {
        put_count(data, slices, n * slices, total, ret_inputs);
    }
    for (uint32_t k = 0; k < data->shape.n_inputs; k++) {
        free(whole[k]);
    }
    return status;
}

pst_status pst_data_read_whole(const struct pst_data *data, uint32_t split, uint64_t first,
                               uint32_t n, void *const *ret_inputs, struct pst_error *err)
{
    return data->over_tokens ? read_counted(data, 1, split, first, n, ret_inputs, err)
                             : read_sequences(data, split, first, n, ret_inputs, err);
}

pst_status pst_data_read(const struct pst_data *data, uint32_t split, uint64_t first, uint32_t n,
                         void *const *ret_inputs, struct pst_error *err)
{
    const uint32_t slices = data->slices;

    return data->counted
               ? read_counted(data, slices, split, first / slices, n / slices, ret_inputs, err)
               : read_sequences(data, split, first, n, ret_inputs, err);
}

/* The digest is of whole sequences, however they are cut. */
pst_status pst_data_digest(const struct pst_data *data, const struct pst_sample_shape *shape,
                           uint32_t n, void *const *inputs, uint64_t *ret_digest,
                           struct pst_error *err)
{
    uint64_t digest = data->reader + pst_data_sequences(data, PST_SPLIT_TRAIN);
    pst_status status = read_sequences(data, PST_SPLIT_TRAIN, 0, n / data->slices, inputs, err);

    if (status != PST_OK) {
        return status;
    }
    digest = digest * 31 + pst_data_sequences(data, PST_SPLIT_VALID);
    for (uint32_t i = 0; i < shape->n_inputs; i++) {
        digest =
            XXH3_64bits_withSeed(inputs[i], n / data->slices * data->shape.inputs[i].bytes, digest);
    }
    *ret_digest = digest;
    return PST_OK;
}
