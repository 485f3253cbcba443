/* SPDX-License-Identifier: Apache-2.0
 *
 * The graph of a model: from the outputs back, what each node that is needed becomes; then forward,
 * the operators.
 */
#include "emit.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"

void emit_fail(struct onnx_emitter *e, const char *why)
{
    char name[192];

    if (e->status == PST_OK) {
        e->status = pst_fail_at(&e->error, PST_ERR_CONFIG, "input.unsupported", e->model->path, 0,
                                0, "%s: %s", onnx_node_name(e->model, e->node, name), why);
    }
}

/* --- shapes ----------------------------------------------------------------------------------- */

struct shape emit_behind(const struct onnx_value *value, uint32_t n)
{
    struct shape shape = {.rank = value->rank - n};

    memcpy(shape.dims, value->dims + n, shape.rank * sizeof *shape.dims);
    return shape;
}

struct shape emit_stripped(const struct onnx_value *value, uint32_t most)
{
    uint32_t n = 0;

    while (n < value->rank && n < most && value->dims[n] == 1) {
        n++;
    }
    return emit_behind(value, n);
}

struct shape emit_rows(const struct onnx_value *value)
{
    return emit_stripped(value, value->rank == 0 ? 0 : value->rank - 1);
}

struct shape emit_image_shape(const struct onnx_value *value)
{
    return (struct shape){3, {value->dims[2], value->dims[3], value->dims[1]}};
}

static bool same_shape(struct shape a, struct shape b)
{
    return a.rank == b.rank && memcmp(a.dims, b.dims, a.rank * sizeof *a.dims) == 0;
}

/* --- operators and parameters ----------------------------------------------------------------- */

/* The length of a name up to and with its first number, which the names of a layer share. */
static size_t layer_length(const char *name)
{
    size_t n = strcspn(name, "0123456789");

    return name[n] == '\0' ? 0 : n + strspn(name + n, "0123456789");
}

static void enter_layer(struct onnx_emitter *e, const char *name)
{
    const size_t n = layer_length(name);

    if (e->layer == NULL || n != e->layer_length || strncmp(e->layer, name, n) != 0) {
        e->n_layers += e->layer != NULL;
        e->layer = name;
        e->layer_length = n;
        pst_graph_layer(e->m->graph, e->n_layers);
    }
}

/* "suffix" of the node's name, and a number where that is taken. */
static const char *new_name(struct onnx_emitter *e, const char *suffix)
{
    struct pst_arena *arena = &e->model->arena;
    const char *base = e->node == NULL ? "" : e->node->proto->name;
    const char *name;

    if (e->node != NULL && (base == NULL || base[0] == '\0')) {
        base = e->model->values[e->node->out[0]].name;
    }
    name = pst_arena_printf(arena, "%s%s%s", base[0] == '/' ? base + 1 : base,
                            base[0] == '\0' || suffix[0] == '\0' ? "" : ".", suffix);
    for (uint32_t i = 2; pst_names_find(&e->names, name) != PST_NONE; i++) {
        name = pst_arena_printf(arena, "%s%s%s.%u", base[0] == '/' ? base + 1 : base,
                                base[0] == '\0' || suffix[0] == '\0' ? "" : ".", suffix, i);
    }
    return name;
}

uint32_t emit_op(struct onnx_emitter *e, const char *suffix, struct pst_op op, const uint32_t *in,
                 uint32_t n_in, const uint32_t *param, uint32_t n_param)
{
    struct pst_error error;
    uint32_t result;

    op.name = e->op_name = new_name(e, suffix);
    op.in = in;
    op.n_in = n_in;
    op.param = param;
    op.n_param = n_param;
    pst_names_add(&e->names, op.name, 0);
    result = pst_graph_add(e->m->graph, &op);
    if (result == PST_NONE && pst_graph_failure(e->m->graph, &error) != PST_OK) {
        emit_fail(e, error.message);
    }
    return result;
}

static void keep_origin(struct onnx_emitter *e, struct onnx_origin origin)
{
    e->origins->origins[e->origins->n++] = origin;
}

/* The number of what a file fills with one; false: it has an initializer. */
static bool fill_of(const struct onnx_model *model, uint32_t base, float *ret_number)
{
    const struct onnx_value *value = &model->values[base];

    if (value->tensor != NULL || value->data == NULL) {
        return false;
    }
    *ret_number = (float)onnx_real(value->data, 0);
    return true;
}

uint32_t emit_param(struct onnx_emitter *e, const struct onnx_param *param, bool decay)
{
    const char *name = e->model->values[param->base].name;
    const uint32_t *order = (const uint32_t[]){2, 3, 1, 0};
    struct known_param *known = &e->params[e->n_params];
    uint64_t dims[ONNX_RANK];
    float number = 0;
    bool filled;

    enter_layer(e, name);
    for (uint32_t i = 0; i < e->n_params; i++) {
        if (e->params[i].param.base == param->base) {
            const struct onnx_param *p = &e->params[i].param;

            if (p->image != param->image || p->turned != param->turned ||
                p->first != param->first || p->rank != param->rank ||
                memcmp(p->dims, param->dims, p->rank * sizeof *p->dims) != 0) {
                emit_fail(e, "it reads a parameter in another form than an operator before it");
            }
            return e->params[i].index;
        }
    }
    for (uint32_t i = 0; i < param->rank; i++) {
        dims[i] = param->dims[param->image ? order[i] : i];
    }
    filled = fill_of(e->model, param->base, &number);
    known->param = *param;
    known->index = pst_graph_param(e->m->graph, name, param->rank, dims,
                                   filled ? PST_INIT_CONSTANT : PST_INIT_ZERO, number, decay);
    keep_origin(e, (struct onnx_origin){name, *param, PST_NONE});
    e->n_params++;
    return known->index;
}

/* --- tensors of values ------------------------------------------------------------------------ */

uint32_t emit_reshape(struct onnx_emitter *e, uint32_t tensor, struct shape from, struct shape to)
{
    struct pst_form form = {.rank = to.rank};

    if (same_shape(from, to)) {
        return tensor;
    }
    memcpy(form.dims, to.dims, sizeof form.dims);
    return emit_op(e, "view", (struct pst_op){.kind = PST_OP_RESHAPE, .form = &form}, &tensor, 1,
                   NULL, 0);
}

uint32_t emit_permute(struct onnx_emitter *e, uint32_t x, struct shape from, const uint32_t *order)
{
    struct pst_form form = {.rank = from.rank};
    bool moved = false;
    uint32_t last = 0;

    for (uint32_t i = 0; i < from.rank; i++) {
        form.dims[i] = from.dims[order[i]];
        form.from[i] = order[i];
        form.step[i] = 1;
        if (form.dims[i] != 1) { /* axes of length 1 may go anywhere */
            moved = moved || order[i] < last;
            last = order[i];
        }
    }
    if (!moved) {
        struct shape to = {.rank = from.rank};

        memcpy(to.dims, form.dims, sizeof to.dims);
        return emit_reshape(e, x, from, to);
    }
    return emit_op(e, "transpose", (struct pst_op){.kind = PST_OP_STRIDED, .form = &form}, &x, 1,
                   NULL, 0);
}

uint32_t emit_constant(struct onnx_emitter *e, const struct onnx_value *value,
                       const struct onnx_data *data, struct shape shape)
{
    const bool integer = !onnx_is_real(value->type) && value->type != ONNX_BOOL;
    const uint64_t n = onnx_elems(value);
    struct pst_form form = {.rank = shape.rank, .dtype = integer ? PST_I32 : PST_F32};
    uint32_t result;
    float *numbers;

    if (data == NULL || n == 0) {
        emit_fail(e, "one of its inputs has no elements, or numbers that take more than 1 GiB");
        return PST_NONE;
    }
    numbers = pst_alloc(n, sizeof *numbers);
    for (uint64_t i = 0; i < n; i++) {
        if (integer) {
            const int64_t number = onnx_integer(data, i);

            ((int32_t *)numbers)[i] = number > INT32_MAX   ? INT32_MAX
                                      : number < INT32_MIN ? INT32_MIN
                                                           : (int32_t)number;
        } else {
            numbers[i] = (float)onnx_real(data, i);
        }
    }
    memcpy(form.dims, shape.dims, sizeof form.dims);
    form.data = numbers;
    result = emit_op(e, "constant", (struct pst_op){.kind = PST_OP_CONSTANT, .form = &form}, NULL,
                     0, NULL, 0);
    free(numbers);
    return result;
}

/* The value's tensor as it first comes: an initializer or known numbers become one here. */
static struct made *find(struct onnx_emitter *e, const struct onnx_value *value)
{
    struct made *made = &e->made[value - e->model->values];
    struct onnx_param param;
    bool swapped;

    if (made->tensor != PST_NONE || e->status != PST_OK) {
        return made;
    }
    if (value->learned && onnx_parameter(e->model, value, &param, &swapped) && !swapped) {
        const uint32_t index = emit_param(e, &param, param.rank > 1);

        made->shape.rank = param.rank;
        memcpy(made->shape.dims, param.dims, sizeof param.dims);
        made->tensor =
            emit_op(e, "parameter", (struct pst_op){.kind = PST_OP_PARAMETER}, NULL, 0, &index, 1);
    } else if (value->fixed && !value->learned) {
        made->shape = emit_stripped(value, value->rank);
        made->tensor =
            emit_constant(e, value, onnx_known(e->model, (struct onnx_value *)value), made->shape);
    } else {
        emit_fail(e, "one of its inputs is not there");
    }
    return made;
}

bool emit_is_image(const struct onnx_emitter *e, const struct onnx_value *value)
{
    return e->made[value - e->model->values].image;
}

uint32_t emit_get(struct onnx_emitter *e, const struct onnx_value *value, struct shape shape)
{
    static const uint32_t order[3] = {2, 0, 1};
    struct made *made = find(e, value);

    if (made->image) { /* once and for all: nobody asks for it both ways often */
        made->tensor = emit_permute(e, made->tensor, made->shape, order);
        made->shape = emit_behind(value, 1);
        made->image = false;
    }
    return e->status == PST_OK ? emit_reshape(e, made->tensor, made->shape, shape) : PST_NONE;
}

uint32_t emit_image(struct onnx_emitter *e, const struct onnx_value *value)
{
    static const uint32_t order[3] = {1, 2, 0};
    struct onnx_value four = *value;
    uint32_t tensor;

    if (emit_is_image(e, value)) {
        return e->made[value - e->model->values].tensor;
    }
    if (value->rank < 4) { /* one that is broadcast */
        four.rank = 4;
        for (uint32_t i = 0; i < 4; i++) {
            const uint32_t missing = 4 - value->rank;

            four.dims[i] = i < missing ? 1 : value->dims[i - missing];
        }
    }
    if (four.dims[0] != 1) {
        emit_fail(e, "it works on several images of a sample");
        return PST_NONE;
    }
    tensor = emit_get(e, value, emit_behind(&four, 1));
    return e->status == PST_OK ? emit_permute(e, tensor, emit_behind(&four, 1), order) : PST_NONE;
}

void emit_put(struct onnx_emitter *e, uint32_t i, uint32_t tensor, struct shape shape)
{
    if (e->node->out[i] != PST_NONE) {
        e->made[e->node->out[i]] = (struct made){tensor, shape, false};
    }
}

void emit_put_image(struct onnx_emitter *e, uint32_t i, uint32_t tensor)
{
    const struct onnx_value *y = onnx_out(e->model, e->node, i);

    if (y != NULL) {
        e->made[e->node->out[i]] = (struct made){tensor, emit_image_shape(y), true};
    }
}

bool emit_apart(struct onnx_emitter *e, const struct onnx_value *value, uint32_t axis)
{
    if (e->axis[value - e->model->values] != axis || (value->fixed && !value->learned)) {
        return true;
    }
    emit_fail(e, "it works along the axis of the batch: what one sample gives would depend on the "
                 "others");
    return false;
}

/* --- inputs and the loss ---------------------------------------------------------------------- */

static uint32_t field_of(const struct onnx_emitter *e, const struct onnx_value *value)
{
    size_t n = 0;
    const char *word = onnx_find_option(e->model->config->inputs, value->name, &n);

    return n == 7 && strncmp(word, "shifted", n) == 0   ? PST_FIELD_SHIFTED
           : n == 7 && strncmp(word, "segment", n) == 0 ? PST_FIELD_SEGMENT
                                                        : PST_FIELD_X;
}

static void add_input(struct onnx_emitter *e, uint32_t v)
{
    const struct onnx_value *value = &e->model->values[v];
    const bool real = onnx_is_real(value->type), image = real && value->rank == 4;
    const struct shape shape = image ? emit_image_shape(value) : emit_behind(value, 1);

    e->made[v].shape = shape;
    e->made[v].image = image;
    e->made[v].tensor = pst_graph_input(e->m->graph, value->name, field_of(e, value),
                                        real ? pst_graph_dtype(e->m->graph) : (uint32_t)PST_I32,
                                        shape.rank, shape.dims);
    if (image) {
        pst_graph_planar(e->m->graph, e->made[v].tensor);
    }
}

static struct onnx_value *skip_identities(struct onnx_model *model, struct onnx_value *value)
{
    const struct onnx_node *node = onnx_maker(model, value);

    while (node != NULL && node->op == ONNX_Identity) {
        value = onnx_in(model, node, 0);
        node = onnx_maker(model, value);
    }
    return value;
}

/* Returns true if a softmax is over the classes alone. Before set 13 it is over all axes from one
   on. */
static bool is_over_classes(const struct onnx_model *model, const struct onnx_node *node)
{
    const struct onnx_value *y = onnx_out(model, node, 0);
    const bool old = model->opset < 13;
    const uint32_t axis = onnx_axis(onnx_int(node, "axis", old ? 1 : -1), y->rank);
    const uint32_t classes = y->rank == 4 ? 1 : y->rank - 1;

    if (y->type == 0 || axis == 0 || axis >= y->rank) {
        return false;
    }
    for (uint32_t i = axis; i < y->rank && old; i++) {
        if (i != classes && y->dims[i] != 1) {
            return false;
        }
    }
    return old ? axis <= classes : axis == classes;
}

/* The value that the loss is taken of. One softmax of the classes at the end, its logarithm, or one
   sigmoid is the loss's own. */
static struct onnx_value *find_logits(struct onnx_model *model, const struct onnx_value *output,
                                      uint32_t loss)
{
    struct onnx_value *end = skip_identities(model, &model->values[output - model->values]);
    const struct onnx_node *node = onnx_maker(model, end);
    bool own = loss == ONNX_LOSS_BCE && node != NULL && node->op == ONNX_Sigmoid;

    if (loss == ONNX_LOSS_CROSS_ENTROPY && node != NULL) {
        const bool whole = node->op == ONNX_LogSoftmax;

        if (node->op == ONNX_Log) {
            node = onnx_maker(model, skip_identities(model, onnx_in(model, node, 0)));
        }
        own = node != NULL && (whole || node->op == ONNX_Softmax) && is_over_classes(model, node);
    }
    return own ? skip_identities(model, onnx_in(model, node, 0)) : end;
}

static pst_status find_output(struct onnx_model *model, uint32_t *ret_output, struct pst_error *err)
{
    const char *name = model->config->output;

    if (name[0] == '\0') {
        *ret_output = model->outputs[0];
        return PST_OK;
    }
    for (uint32_t i = 0; i < model->n_outputs; i++) {
        if (strcmp(model->values[model->outputs[i]].name, name) == 0) {
            *ret_output = model->outputs[i];
            return PST_OK;
        }
    }
    return pst_fail(err, PST_ERR_CONFIG, "config.value",
                    "\"output\" in [model]: the model has no output \"%s\"; its first is \"%s\"",
                    name, model->values[model->outputs[0]].name);
}

/* The shape that the loss reads: classes are the last axis. */
static struct shape logits_shape(const struct onnx_value *logits, bool image)
{
    struct shape shape = image ? emit_image_shape(logits) : emit_stripped(logits, 1);

    /* Classes of a whole image of one pixel are those of a sample. */
    if (image && shape.dims[0] == 1 && shape.dims[1] == 1) {
        shape = (struct shape){1, {shape.dims[2]}};
    }
    return shape;
}

static struct pst_model_ends add_loss(struct onnx_emitter *e, const struct onnx_value *logits,
                                      uint32_t loss)
{
    const bool classes = loss == ONNX_LOSS_CROSS_ENTROPY;
    const bool image = logits->rank == 4 && classes;
    const struct shape shape = logits_shape(logits, image);
    uint32_t x = image ? emit_reshape(e, emit_image(e, logits), emit_image_shape(logits), shape)
                       : emit_get(e, logits, shape);
    const uint32_t targets =
        pst_graph_input(e->m->graph, "targets",
                        e->model->config->targets != 0 ? PST_FIELD_MASKED : PST_FIELD_TARGET,
                        classes ? (uint32_t)PST_I32 : pst_graph_dtype(e->m->graph),
                        shape.rank - (classes ? 1 : 0), shape.dims);

    return pst_add_loss(e->m,
                        classes                 ? PST_OP_CROSS_ENTROPY
                        : loss == ONNX_LOSS_MSE ? PST_OP_MSE
                                                : PST_OP_BCE,
                        x, targets);
}

/* --- all -------------------------------------------------------------------------------------- */

struct plan {
    struct onnx_model *model;
    struct onnx_match **matches; /* by node; NULL: not needed, or nothing in a graph */
    bool *needed;                /* by value */
};

/* From the output back: what each needed node becomes. */
static void plan_nodes(struct plan *plan, bool *refused)
{
    struct onnx_model *model = plan->model;
    struct onnx_match match;

    for (uint32_t i = model->n_nodes; i-- > 0;) {
        const struct onnx_node *node = &model->nodes[i];
        bool any = false;

        for (uint32_t k = 0; k < node->n_out; k++) {
            const struct onnx_value *y = onnx_out(model, node, k);

            any = any || (y != NULL && plan->needed[node->out[k]] && (!y->fixed || y->learned));
        }
        refused[i] = any && !onnx_match(model, node, &match);
        if (refused[i]) { /* what leads to it is looked at as well, to tell all at once */
            for (uint32_t k = 0; k < node->n_in; k++) {
                if (node->in[k] != PST_NONE) {
                    plan->needed[node->in[k]] = true;
                }
            }
        }
        if (!any || refused[i]) {
            continue;
        }
        plan->matches[i] = pst_arena_alloc(&model->arena, sizeof match, 0);
        *plan->matches[i] = match;
        for (uint32_t k = 0; k < match.n_in; k++) {
            const struct onnx_value *x = &model->values[match.in[k]];
            struct onnx_param param;
            bool swapped;

            /* A parameter stands for itself. */
            plan->needed[match.in[k]] =
                plan->needed[match.in[k]] ||
                !(x->learned && onnx_parameter(model, x, &param, &swapped) && !swapped);
        }
    }
}

static const char *refusal(const struct onnx_model *model, const struct onnx_node *node,
                           const void *refused)
{
    return ((const bool *)refused)[node - model->nodes]
               ? "on what samples change, or in this form, it is not supported"
               : NULL;
}

static struct pst_model_ends write_graph(struct onnx_emitter *e, const struct plan *plan,
                                         const struct onnx_value *logits, uint32_t loss)
{
    struct onnx_model *model = e->model;

    for (uint32_t i = 0; i < model->n_inputs; i++) {
        if (plan->needed[model->inputs[i]] && !model->values[model->inputs[i]].fixed) {
            add_input(e, model->inputs[i]);
        }
    }
    for (uint32_t i = 0; i < model->n_nodes && e->status == PST_OK; i++) {
        if (plan->matches[i] != NULL) {
            e->node = &model->nodes[i];
            plan->matches[i]->emit(e, plan->matches[i]);
        }
    }
    if (e->status != PST_OK) {
        return (struct pst_model_ends){PST_NONE, PST_NONE};
    }
    return add_loss(e, logits, loss);
}

static void begin(struct onnx_emitter *e)
{
    struct pst_arena *arena = &e->model->arena;

    e->made = pst_arena_array(arena, e->model->n_values, sizeof *e->made);
    for (uint32_t i = 0; i < e->model->n_values; i++) {
        e->made[i].tensor = PST_NONE;
    }
    e->params = pst_arena_array(arena, e->model->n_values, sizeof *e->params);
    e->origins->origins =
        pst_arena_array(arena, 2 * (size_t)e->model->n_values, sizeof *e->origins->origins);
    /* A node becomes a few operators; local response normalisation by far the most. */
    pst_names_init(&e->names, arena, 64 * (e->model->n_nodes + 16));
    pst_names_add(&e->names, "loss", 0);
}

static void warn_of_guesses(const struct onnx_emitter *e)
{
    uint32_t *params = pst_arena_array(&e->model->arena, e->n_params, sizeof *params);

    for (uint32_t i = 0; i < e->n_params; i++) {
        params[i] = e->params[i].param.base;
    }
    onnx_warn_of_guesses(e->model, params, e->n_params);
}

pst_status onnx_emit(struct onnx_model *model, struct pst_model *m, struct pst_model_ends *ret_ends,
                     struct onnx_origins *ret_origins, struct pst_error *err)
{
    struct onnx_emitter e = {.model = model, .m = m, .origins = ret_origins};
    struct plan plan = {.model = model};
    uint32_t output = PST_NONE, loss = model->config->loss;
    struct onnx_value *logits;
    bool *refused;
    pst_status status = find_output(model, &output, err);

    PST_TRY(status, onnx_infer(model, 1, err));
    if (status != PST_OK) {
        return status;
    }
    loss = loss == ONNX_LOSS_AUTO ? (uint32_t)ONNX_LOSS_CROSS_ENTROPY : loss;
    logits = find_logits(model, &model->values[output], loss);
    e.axis = pst_arena_array(&model->arena, model->n_values, sizeof *e.axis);
    status = onnx_find_samples(model, (uint32_t)(logits - model->values), e.axis, err);
    PST_TRY(status, onnx_find_ties(model, err));
    if (status != PST_OK) {
        return status;
    }
    if (logits->fixed || logits->rank == 0 || e.axis[logits - model->values] != 0) {
        return ONNX_BAD("input.unsupported",
                        "output \"%s\" does not have the batch as its first axis%s",
                        model->values[output].name,
                        logits->rank == 0 ? "; export the model without its loss, which \"loss\" "
                                            "in [train] adds"
                                          : "");
    }
    if (loss == ONNX_LOSS_CROSS_ENTROPY && onnx_elems(logits) == 1) {
        return pst_fail(err, PST_ERR_CONFIG, "config.value",
                        "output \"%s\" of the model is one number, and a cross-entropy is of "
                        "classes; set \"loss\" in [train] to \"mse\" or \"bce\"",
                        model->values[output].name);
    }
    plan.matches = pst_arena_array(&model->arena, model->n_nodes, sizeof *plan.matches);
    plan.needed = pst_arena_array(&model->arena, model->n_values, sizeof *plan.needed);
    refused = pst_arena_array(&model->arena, model->n_nodes, sizeof *refused);
    plan.needed[logits - model->values] = true;
    plan_nodes(&plan, refused);
    status = onnx_refuse(model, refusal, refused, err);
    if (status != PST_OK) {
        return status;
    }
    e.needed = plan.needed;
    begin(&e);
    *ret_ends = write_graph(&e, &plan, logits, loss);
    if (e.status != PST_OK && err != NULL) {
        *err = e.error;
    }
    if (e.status == PST_OK) {
        warn_of_guesses(&e);
    }
    return e.status;
}
