/* SPDX-License-Identifier: Apache-2.0
 *
 * Inference over a whole model: inputs get the shapes that the config and a batch give them, then
 * node follows node; what hangs on no sample is computed on the way.
 */
#include "infer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The number that `dims` in [model] gives an axis; 0: none. */
static uint64_t bound(const struct onnx_model *model, const char *name)
{
    size_t n;
    const char *word = onnx_find_option(model->config->dims, name, &n);
    const long long value = word == NULL ? 0 : strtoll(word, NULL, 10);

    return value > 0 ? (uint64_t)value : 0;
}

/* An input that `inputs` in [model] gives a number is no input. */
static pst_status fill_input(struct onnx_model *model, struct onnx_value *value,
                             struct pst_error *err)
{
    size_t n;
    const char *word = onnx_find_option(model->config->inputs, value->name, &n);
    char *end;
    double number = word == NULL ? 0 : strtod(word, &end);
    struct onnx_data *data;

    if (word != NULL && (end != word + n || n == 0) &&
        !(n == 7 && (strncmp(word, "shifted", n) == 0 || strncmp(word, "segment", n) == 0))) {
        return pst_fail(err, PST_ERR_CONFIG, "config.value",
                        "\"inputs\" in [model]: \"%s\" is a number, segment or shifted, not "
                        "\"%.*s\"",
                        value->name, (int)n, word);
    }
    if (word == NULL || end != word + n) {
        return PST_OK;
    }
    data = onnx_data_new(model, value, true);
    if (data == NULL) {
        return ONNX_BAD("input.limit", "input \"%s\" is too large", value->name);
    }
    if (data->real) {
        data->f[0] = number;
    } else if (fabs(number) <= 0x1p53 && number == floor(number) &&
               (value->type != ONNX_BOOL || number == 0 || number == 1)) {
        data->i[0] = (int64_t)number;
    } else {
        return pst_fail(err, PST_ERR_CONFIG, "config.value",
                        "\"inputs\" in [model]: \"%s\" takes %s, not \"%.*s\"", value->name,
                        value->type == ONNX_BOOL ? "0 or 1" : "integers", (int)n, word);
    }
    value->data = data;
    value->fixed = true;
    return PST_OK;
}

static pst_status bind_input(struct onnx_model *model, struct onnx_value *value,
                             struct pst_error *err)
{
    const Onnx__TypeProto *type = value->input->type;
    const Onnx__TypeProto__Tensor *tensor = type == NULL ? NULL : type->tensor_type;

    if (tensor == NULL || !tensor->has_elem_type || tensor->shape == NULL ||
        tensor->shape->n_dim == 0 || tensor->shape->n_dim > ONNX_RANK) {
        return ONNX_BAD("input.unsupported",
                        "input \"%s\" must be a tensor with 1 to %d axes, of which the first is "
                        "the batch",
                        value->name, ONNX_RANK);
    }
    value->type = (uint32_t)tensor->elem_type;
    value->rank = (uint32_t)tensor->shape->n_dim;
    for (uint32_t i = 0; i < value->rank; i++) {
        const Onnx__TensorShapeProto__Dimension *dim = tensor->shape->dim[i];
        const bool number = dim->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
        const char *word = number || dim->dim_param == NULL ? "" : dim->dim_param;
        const uint64_t said =
            number && dim->dim_value > 0 ? (uint64_t)dim->dim_value : bound(model, word);

        if (i == 0) {
            model->fixed_batch = number ? said : model->fixed_batch;
        } else if (said == 0 || said > MAX_ELEMS) {
            return pst_fail(err, PST_ERR_CONFIG, "config.value",
                            "\"dims\" in [model]: axis %u of input \"%s\" of the model is called "
                            "\"%s\" and has no length; say it: dims = [\"%s=128\"]",
                            i, value->name, word, word[0] == '\0' ? "NAME" : word);
        }
        value->dims[i] = i == 0 ? model->batch : said;
    }
    return fill_input(model, value, err);
}

/* Parameters are only looked into when asked. Where a file does not say so, single numbers are
   none. */
static void bind_initializer(struct onnx_model *model, struct onnx_value *value)
{
    value->fixed = true;
    value->learned = onnx_is_real(value->type) &&
                     !pst_list_matches(model->config->frozen, value->name) &&
                     (value->parameter || (value->rank > 0 && !value->buffer) ||
                      pst_list_matches(model->config->trained, value->name));
    if (!value->learned) {
        onnx_known(model, value);
    }
}

/* Files whose weights are left out fill each with a number, in the shape of an initializer. PyTorch
   writes no such files. */
static bool fills_weights(const struct onnx_model *model, const struct onnx_node *node)
{
    const struct onnx_value *y = onnx_out(model, node, 0);

    return node->op == ONNX_ConstantOfShape && onnx_in(model, node, 0)->tensor != NULL &&
           !pst_list_matches(model->config->frozen, y->name) &&
           ((model->n_told == 0 && !onnx_is_from_torch(model)) ||
            pst_list_matches(model->config->trained, y->name));
}

static pst_status infer_node(struct onnx_model *model, const struct onnx_node *node,
                             struct pst_error *err)
{
    const struct rule rule = {.model = model,
                              .node = node,
                              .x = onnx_in(model, node, 0),
                              .y = onnx_out(model, node, 0),
                              .err = err};
    bool fixed = true, known = true, learned = fills_weights(model, node);
    pst_status status;

    for (uint32_t i = 0; i < node->n_in; i++) {
        const struct onnx_value *x = onnx_in(model, node, i);

        if (x != NULL && node->op != ONNX_SequenceAt && onnx_maker(model, x) != NULL &&
            onnx_maker(model, x)->op == ONNX_SplitToSequence) {
            return infer_bad(&rule, "of a sequence only parts are read");
        }
        if (x != NULL && x->type == 0) {
            return infer_bad(&rule, "one of its inputs is a result that is not read");
        }
        /* CastLike uses only the type of its second input. */
        fixed = fixed && (x == NULL || x->fixed || (node->op == ONNX_CastLike && i == 1));
        known = known && (x == NULL || (x->data != NULL && !x->learned) ||
                          (node->op == ONNX_CastLike && i == 1));
        learned = learned || (x != NULL && x->learned && (i == 0 || node->op != ONNX_CastLike));
    }
    for (uint32_t i = 0; i < node->n_out; i++) {
        struct onnx_value *y = onnx_out(model, node, i);

        if (y != NULL) {
            y->fixed = fixed;
        }
    }
    status = infer_node_shape(&rule);
    for (uint32_t i = 0; i < node->n_out && learned; i++) {
        struct onnx_value *y = onnx_out(model, node, i);

        if (y != NULL) {
            y->learned = fixed && onnx_is_real(y->type);
        }
    }
    if (status == PST_OK && rule.y->rank > 0 && onnx_elems(rule.y) > MAX_ELEMS) {
        return infer_bad(&rule, "the result is too large");
    }
    if (status == PST_OK && rule.y->data == NULL && onnx_folds(node->op) && known) {
        status = onnx_fold(model, node, err);
    } else if (status == PST_OK && fixed && !onnx_is_real(rule.y->type)) {
        onnx_known(model, rule.y);
    }
    return status;
}

pst_status onnx_infer_more(struct onnx_model *model, struct pst_error *err)
{
    model->batch = 1;
    for (; model->n_bound < model->n_values; model->n_bound++) {
        struct onnx_value *value = &model->values[model->n_bound];
        pst_status status = PST_OK;

        if (value->tensor != NULL) {
            bind_initializer(model, value);
        } else if (value->input != NULL) {
            status = bind_input(model, value, err);
        }
        if (status != PST_OK) {
            return status;
        }
    }
    for (; model->n_inferred < model->n_nodes; model->n_inferred++) {
        const struct onnx_node *node = &model->nodes[model->n_inferred];

        if (onnx_readable(model, node) && infer_node(model, node, NULL) != PST_OK) {
            for (uint32_t i = 0; i < node->n_out; i++) {
                if (node->out[i] != PST_NONE) {
                    model->values[node->out[i]].type = 0;
                    model->values[node->out[i]].data = NULL;
                }
            }
        }
    }
    return PST_OK;
}

/* Fails if a condition of If is not what it was at a batch of one. */
static pst_status check_choices(const struct onnx_model *model, struct pst_error *err)
{
    for (const struct onnx_choice *choice = model->choices; choice != NULL; choice = choice->next) {
        const struct onnx_data *data = model->values[choice->condition].data;

        if (data == NULL || (onnx_integer(data, 0) != 0) != choice->taken) {
            return ONNX_BAD("input.unsupported",
                            "If \"%s\": its condition hangs on the size of the batch; export the "
                            "module without it",
                            choice->name);
        }
    }
    return PST_OK;
}

pst_status onnx_infer(struct onnx_model *model, uint64_t batch, struct pst_error *err)
{
    pst_status status = PST_OK;

    model->batch = batch;
    model->held = 0;
    model->full = false;
    pst_arena_finish(&model->numbers);
    for (uint32_t i = 0; i < model->n_values; i++) {
        struct onnx_value *value = &model->values[i];

        value->data = NULL;
        if (value->tensor != NULL) {
            bind_initializer(model, value);
        } else {
            value->type = value->rank = 0;
            value->fixed = value->learned = false;
        }
        if (value->input != NULL) {
            status = bind_input(model, value, err);
        }
        if (status != PST_OK) {
            return status;
        }
    }
    for (uint32_t i = 0; i < model->n_nodes && status == PST_OK; i++) {
        status = infer_node(model, &model->nodes[i], err);
    }
    return status == PST_OK ? check_choices(model, err) : status;
}
