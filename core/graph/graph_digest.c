/* SPDX-License-Identifier: Apache-2.0
 *
 * The digest by which plans, checkpoints and ranks agree that they mean the same model. Every field
 * goes in as a 64-bit number, names with their length, so that no two graphs share a byte stream.
 */
#include "graph/custom.h"
#include "graph/op_rules.h"

#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

static void put(XXH3_state_t *state, uint64_t value)
{
    XXH3_64bits_update(state, &value, sizeof value);
}

static void put_float(XXH3_state_t *state, float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof bits);
    put(state, bits);
}

static void put_text(XXH3_state_t *state, const char *text)
{
    put(state, strlen(text));
    XXH3_64bits_update(state, text, strlen(text));
}

static void put_all(XXH3_state_t *state, const uint32_t *values, uint32_t n)
{
    put(state, n);
    for (uint32_t i = 0; i < n; i++) {
        put(state, values[i]);
    }
}

static void put_shape(XXH3_state_t *state, uint32_t rank, const uint64_t *dims)
{
    put(state, rank);
    for (uint32_t i = 0; i < rank; i++) {
        put(state, dims[i]);
    }
}

static void put_rope(XXH3_state_t *state, const struct pst_rope *rope)
{
    put(state, rope->scaling);
    put_float(state, rope->theta);
    put_float(state, rope->factor);
    put_float(state, rope->low_freq_factor);
    put_float(state, rope->high_freq_factor);
    put(state, rope->context);
}

static void put_form(XXH3_state_t *state, const struct pst_form *form)
{
    uint64_t elems = 1;

    put_shape(state, form->rank, form->dims);
    for (uint32_t i = 0; i < form->rank; i++) {
        put(state, form->from[i]);
        put(state, (uint64_t)form->start[i]);
        put(state, (uint64_t)form->step[i]);
        elems *= form->dims[i];
    }
    put_float(state, form->fill);
    put(state, form->dtype);
    if (form->data != NULL) {
        XXH3_64bits_update(state, form->data, elems * pst_dtype_bytes(form->dtype));
    }
}

/* Returns true if it has a field that built-in models do not use, so that their digests stay. */
static bool is_general(const struct pst_op *op)
{
    return op->kind >= PST_OP_PARAMETER || op->axis != 0 || op->pad_more[0] != 0 ||
           op->pad_more[1] != 0 || op->dilation[0] != 0 || op->dilation[1] != 0 ||
           op->groups != 0 || op->whole;
}

static void put_general(XXH3_state_t *state, const struct pst_op *op)
{
    put(state, op->map);
    put(state, op->reduce);
    put_float(state, op->constants[0]);
    put_float(state, op->constants[1]);
    put(state, op->axis);
    put(state, op->axes);
    put(state, op->swapped[0]);
    put(state, op->swapped[1]);
    put(state, op->logarithm);
    for (uint32_t i = 0; i < 2; i++) {
        put(state, (uint64_t)(int64_t)op->pad_more[i]);
        put(state, op->dilation[i]);
    }
    put(state, op->groups);
    put(state, op->whole);
    if (op->form != NULL) {
        put_form(state, op->form);
    }
}

/* A plugin of another version, or one that says something else, is another operator. */
static void put_custom(XXH3_state_t *state, const struct pst_custom *custom)
{
    const struct pst_operator_row *row = &custom->row;

    put_text(state, custom->id);
    put_text(state, custom->version);
    put_text(state, custom->attributes);
    put(state, row->b_reads_x);
    put(state, row->w_reads_x);
    put(state, (uint64_t)row->b_reads_p << 32 | row->b_reads_y);
    put(state, (uint64_t)row->w_reads_p << 32 | row->w_reads_y);
    put(state, row->w_reads_dy != 0);
    put(state, row->n_z);
    for (uint32_t i = 0; i < row->n_z; i++) {
        put(state, row->z[i].dtype);
        put_shape(state, row->z[i].rank, row->z[i].dims);
    }
    put(state, row->z_once);
    put(state, row->flags);
    for (uint32_t i = 0; i < 3; i++) {
        uint64_t bits;

        memcpy(&bits, &row->flops[i], sizeof bits);
        put(state, bits);
    }
}

static void put_op(XXH3_state_t *state, const struct pst_op *op)
{
    put(state, op->kind);
    put_text(state, op->name);
    put(state, op->layer);
    put_all(state, op->in, op->n_in);
    put_all(state, op->out, op->n_out);
    put_all(state, op->param, op->n_param);
    put_shape(state, op->n_state, op->state_elems);
    put(state, op->act);
    put(state, op->transposed);
    put(state, op->causal);
    put(state, op->heads);
    put(state, op->kv_heads);
    put(state, op->window);
    put(state, op->head_dim);
    put_rope(state, &op->rope);
    put(state, op->experts_per_token);
    put(state, op->normalize);
    put_float(state, op->capacity);
    put_float(state, op->aux_loss);
    put(state, op->max_distance);
    put_float(state, op->scale);
    put(state, op->bag);
    if (op->padding != 0) { /* models without keep their digest */
        put_text(state, "padding");
        put(state, op->padding);
    }
    put_all(state, op->kernel, 2);
    put_all(state, op->stride, 2);
    put_all(state, op->pad, 2);
    put_float(state, op->p);
    if (op->smoothing != 0 || op->z_loss != 0) { /* models without keep their digest */
        put_float(state, op->smoothing);
        put_float(state, op->z_loss);
    }
    put_float(state, op->eps);
    put_float(state, op->momentum);
    put(state, op->salt);
    if (is_general(op)) {
        put_general(state, op);
    }
    if (op->custom != NULL) {
        put_custom(state, op->custom);
    }
    if (op->kind == PST_OP_CONVERT || op->parts != 0 || op->partial != 0) {
        put(state, op->convert);
        put(state, op->parts);
        put(state, op->row);
        put(state, op->partial);
        put(state, op->classes);
    }
}

static void put_tensor(XXH3_state_t *state, const struct pst_tensor *tensor)
{
    put_text(state, tensor->name);
    put(state, tensor->role);
    put(state, tensor->dtype);
    put(state, tensor->field);
    put_shape(state, tensor->rank, tensor->dims);
    put(state, tensor->batched);
}

static void put_parameter(XXH3_state_t *state, const struct pst_parameter *param)
{
    put_text(state, param->name);
    put_shape(state, param->rank, param->dims);
    put(state, param->dtype);
    put(state, param->init);
    put_float(state, param->init_scale);
    put(state, param->decay);
    if (param->box.parts > 1) {
        put(state, param->box.parts);
        put(state, param->box.axis);
        put_shape(state, param->box.n_sections, param->box.sections);
        put(state, param->box.padding);
    }
    if (param->muon != 0) { /* it has other state and wants room */
        put_float(state, param->muon);
    }
}

uint64_t pst_graph_digest(const struct pst_graph *graph)
{
    XXH3_state_t state;

    XXH3_INITSTATE(&state);
    XXH3_64bits_reset(&state);
    put_text(&state, graph->name);
    put(&state, graph->n_ops);
    for (uint32_t i = 0; i < graph->n_ops; i++) {
        put_op(&state, &graph->ops[i]);
    }
    put(&state, graph->n_tensors);
    for (uint32_t i = 0; i < graph->n_tensors; i++) {
        put_tensor(&state, &graph->tensors[i]);
    }
    put(&state, graph->n_params);
    for (uint32_t i = 0; i < graph->n_params; i++) {
        put_parameter(&state, &graph->params[i]);
    }
    put(&state, graph->loss);
    put(&state, graph->logits);
    if (graph->slices > 1) {
        put(&state, graph->slices);
    }
    if (graph->token_batch > 0) {
        put_text(&state, "loss over tokens");
        put(&state, graph->token_batch);
    }
    if (graph->degree_of != NULL) { /* graphs of one degree keep their digest */
        put_text(&state, "degrees");
        for (uint32_t i = 0; i < graph->n_ops; i++) {
            put(&state, pst_graph_parts(graph, i));
        }
    }
    return XXH3_64bits_digest(&state);
}

pst_status pst_graph_set_loss(struct pst_graph *graph, float smoothing, float z_loss,
                              struct pst_error *err)
{
    struct pst_op *op = &graph->ops[graph->tensors[graph->loss].producer];

    if (smoothing == 0 && z_loss == 0) {
        return PST_OK;
    }
    if (!pst_op_rules_of(op->kind)->classes) {
        return pst_fail(err, PST_ERR_CONFIG, "config.value",
                        "label smoothing and z-loss are for cross-entropy; the loss of model %s is "
                        "%s",
                        graph->name, pst_op_kind_name(op->kind));
    }
    op->smoothing = smoothing;
    op->z_loss = z_loss;
    graph->digest = pst_graph_digest(graph);
    return PST_OK;
}

void pst_graph_set_muon(struct pst_graph *graph, const float *factors)
{
    for (uint32_t i = 0; i < graph->n_params; i++) {
        graph->params[i].muon = factors[i];
    }
    graph->digest = pst_graph_digest(graph);
}
