/* SPDX-License-Identifier: Apache-2.0
 *
 * The builder behind <penstock/build.h>. Nothing that a call brings is believed: counts, names,
 * numbers are checked here, what operators want of each other by the graph.
 */
#include "models/plugin/model.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "base/util.h"
#include "graph/op_rules.h"
#include "host/search.h"

enum { NAME_ROOM = 256, MAX_IN = 64, MAX_PARAM = 2, MAX_PARAMETERS = 1 << 20 };

#define MAX_CONSTANT ((uint64_t)1 << 26)

enum what { INPUT, PARAMETER, OP, CUSTOM, WHATS };

struct pst_model_call {
    uint32_t what, layer;
    const char *name; /* in full, whatever the declaration says */
    union {
        struct pst_input_decl input;
        struct pst_parameter_decl parameter;
        struct pst_op_decl op;
        struct pst_custom_decl custom;
    } as;
};

struct draft {
    struct pst_builder face; /* first: what a plugin sees */
    struct pst_graph_builder *graph;
    const struct pst_operators *operators; /* that the job names; NULL: none */
    struct pst_model_calls *calls;         /* kept here; NULL: they are made again */
    char scope[NAME_ROOM];
    uint32_t layer, n_parameters, n_x, n_targets;
    uint32_t loss, logits;
    bool not_by_model; /* the failure is not the model's fault */
    pst_status status; /* the first failure, with its error */
    struct pst_error error;
};

static uint32_t fail(struct draft *d, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static uint32_t fail(struct draft *d, const char *format, ...)
{
    char text[1024];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    pst_text_make_plain(text); /* it may quote the plugin */
    d->status = pst_fail(&d->error, PST_ERR_BUG, "plugin.contract", "%s", text);
    return PST_NONE;
}

/* Keeps the error of the graph, which has failed. */
static uint32_t take_failure(struct draft *d)
{
    d->status = pst_graph_failure(d->graph, &d->error);
    return PST_NONE;
}

/* --- what calls bring ------------------------------------------------------------------------- */

/* Is it all that of a name, with the scope in front? Else fails. */
static bool join(struct draft *d, const char *what, const char *scope, const char *name,
                 char text[NAME_ROOM])
{
    int n;

    if (name == NULL) {
        fail(d, "%s has no name", what);
        return false;
    }
    n = snprintf(text, NAME_ROOM, "%s%s%s", scope, scope[0] != '\0' && name[0] != '\0' ? "." : "",
                 name);
    if (n < 0 || n >= NAME_ROOM) {
        fail(d, "%s: a name of %d bytes, %d at most: %.60s...", what, n, NAME_ROOM - 1, text);
    } else if (text[0] == '\0') {
        fail(d, "%s has an empty name", what);
    } else if (!pst_text_is_plain(text)) {
        fail(d, "%s: its name has a control character or is not UTF-8: %s", what, text);
    }
    return d->status == PST_OK;
}

/* A declaration of that size, which is longer than what older plugins know of it. */
static bool take_decl(struct draft *d, const char *what, const void *decl, void *ret_decl,
                      size_t size)
{
    uint32_t given;

    memset(ret_decl, 0, size);
    if (d->status != PST_OK) {
        return false;
    }
    if (decl == NULL) {
        fail(d, "%s is NULL", what);
        return false;
    }
    memcpy(&given, decl, sizeof given);
    memcpy(ret_decl, decl, given < size ? given : size);
    return true;
}

static bool take_dims(struct draft *d, const char *what, const char *name, uint32_t rank,
                      const uint64_t *dims)
{
    if (rank > PST_MAX_RANK || (rank > 0 && dims == NULL)) {
        fail(d, "%s %s: %u axes%s; at most %d are possible", what, name, rank,
             dims == NULL ? " and no dims" : "", PST_MAX_RANK);
        return false;
    }
    return true;
}

static struct pst_model_call *keep_call(struct draft *d, uint32_t what, const char *name)
{
    struct pst_model_calls *calls = d->calls;
    struct pst_model_call *call;

    pst_grow(&calls->calls, &calls->room, calls->n, sizeof *calls->calls);
    call = &calls->calls[calls->n++];
    memset(call, 0, sizeof *call);
    call->what = what;
    call->layer = d->layer;
    call->name = pst_arena_strdup(&calls->arena, name);
    return call;
}

static const void *keep(struct draft *d, const void *items, size_t n, size_t size)
{
    return pst_arena_copy(&d->calls->arena, items, n, size);
}

/* --- inputs and parameters -------------------------------------------------------------------- */

static uint32_t add_input(struct draft *d, const struct pst_input_decl *decl)
{
    struct pst_input_decl input;
    char name[NAME_ROOM];
    uint32_t tensor;

    if (!take_decl(d, "an input", decl, &input, sizeof input) ||
        !join(d, "an input", "", input.name, name) ||
        !take_dims(d, "input", name, input.rank, input.dims)) {
        return PST_NONE;
    }
    if (input.field < PST_FIELD_X || input.field > PST_FIELD_SHIFTED) {
        return fail(d, "input %s: there is no field %u", name, input.field);
    }
    tensor = pst_graph_input(d->graph, name, input.field, input.dtype, input.rank, input.dims);
    if (tensor == PST_NONE) {
        return take_failure(d);
    }
    d->n_x += input.field == PST_FIELD_X;
    d->n_targets += input.field == PST_FIELD_TARGET || input.field == PST_FIELD_MASKED;
    if (d->calls != NULL) {
        struct pst_model_call *call = keep_call(d, INPUT, name);

        call->as.input = input;
        call->as.input.name = call->name;
        call->as.input.dims = keep(d, input.dims, input.rank, sizeof *input.dims);
    }
    return tensor;
}

static uint32_t add_parameter(struct draft *d, const char *scope,
                              const struct pst_parameter_decl *decl)
{
    struct pst_parameter_decl p;
    char name[NAME_ROOM];
    uint32_t parameter;

    if (!take_decl(d, "a parameter", decl, &p, sizeof p) ||
        !join(d, "a parameter", scope, p.name, name) ||
        !take_dims(d, "parameter", name, p.rank, p.dims)) {
        return PST_NONE;
    }
    if (p.init > PST_INIT_CONSTANT || !isfinite(p.value)) {
        return fail(d, "parameter %s: the initial value %g of kind %u is invalid", name,
                    (double)p.value, p.init);
    }
    if (d->n_parameters == MAX_PARAMETERS) {
        return fail(d, "more than %d parameters", MAX_PARAMETERS);
    }
    parameter = pst_graph_param(d->graph, name, p.rank, p.dims, p.init, p.value, p.decay != 0);
    if (parameter == PST_NONE) {
        return take_failure(d);
    }
    d->n_parameters++;
    if (d->calls != NULL) {
        struct pst_model_call *call = keep_call(d, PARAMETER, name);

        call->as.parameter = p;
        call->as.parameter.name = call->name;
        call->as.parameter.dims = keep(d, p.dims, p.rank, sizeof *p.dims);
    }
    return parameter;
}

/* --- operators -------------------------------------------------------------------------------- */

/* Which of the arrays of a form (PST_FORM_*) a kind has; 0: it has none, or does not exist. */
static uint32_t form_of(uint32_t kind)
{
    const struct pst_op_rules *rules = pst_op_rules_of(kind);

    return rules == NULL ? 0 : rules->form;
}

static uint64_t elements(const struct pst_op_decl *decl)
{
    uint64_t n = 1;

    for (uint32_t i = 0; i < decl->rank; i++) {
        n = decl->dims[i] == 0 || decl->dims[i] > MAX_CONSTANT / n ? UINT64_MAX : n * decl->dims[i];
        if (n == UINT64_MAX) {
            return n;
        }
    }
    return n;
}

/* Checks and fills the form of an operator whose kind has one. */
static bool take_form(struct draft *d, const char *name, const struct pst_op_decl *decl,
                      struct pst_form *ret_form)
{
    struct pst_form form = {.rank = decl->rank, .fill = decl->fill, .dtype = decl->dtype};
    const bool places = (form_of(decl->kind) & PST_FORM_PLACES) != 0;
    const bool data = (form_of(decl->kind) & PST_FORM_DATA) != 0;

    if (!take_dims(d, pst_op_kind_name(decl->kind), name, decl->rank, decl->dims)) {
        return false;
    }
    if (places && decl->rank > 0 &&
        (decl->from == NULL || decl->start == NULL || decl->step == NULL)) {
        fail(d, "%s %s: from, start or step is NULL", pst_op_kind_name(decl->kind), name);
        return false;
    }
    if (data && (decl->data == NULL || elements(decl) > MAX_CONSTANT)) {
        fail(d, "%s %s: it has no data, or an axis of 0, or more than 2^26 elements",
             pst_op_kind_name(decl->kind), name);
        return false;
    }
    for (uint32_t i = 0; i < decl->rank; i++) {
        form.dims[i] = decl->dims[i];
        if (places) {
            form.from[i] = decl->from[i];
            form.start[i] = decl->start[i];
            form.step[i] = decl->step[i];
        }
    }
    form.data = data ? decl->data : NULL;
    *ret_form = form;
    return true;
}

static bool are_finite(const struct pst_op_decl *o)
{
    const float numbers[] = {o->scale,
                             o->rope.theta,
                             o->rope.factor,
                             o->rope.low_freq_factor,
                             o->rope.high_freq_factor,
                             o->capacity,
                             o->aux_loss,
                             o->p,
                             o->eps,
                             o->momentum};
    bool finite = true;

    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        finite = finite && isfinite(numbers[i]);
    }
    return finite;
}

static struct pst_op op_of(const struct pst_op_decl *o, const char *name,
                           const struct pst_form *form)
{
    struct pst_op op = {.kind = o->kind,
                        .name = name,
                        .n_in = o->n_in,
                        .n_param = o->n_param,
                        .in = o->in,
                        .param = o->param,
                        .act = o->act,
                        .transposed = o->transposed != 0,
                        .causal = o->causal != 0,
                        .heads = o->heads,
                        .kv_heads = o->kv_heads,
                        .window = o->window,
                        .head_dim = o->head_dim,
                        .rope = o->rope,
                        .experts_per_token = o->experts_per_token,
                        .normalize = o->normalize != 0,
                        .capacity = o->capacity,
                        .aux_loss = o->aux_loss,
                        .max_distance = o->max_distance,
                        .scale = o->scale,
                        .bag = o->bag,
                        .groups = o->groups,
                        .whole = o->whole != 0,
                        .p = o->p,
                        .eps = o->eps,
                        .momentum = o->momentum,
                        .map = o->map,
                        .reduce = o->reduce,
                        .axis = o->axis,
                        .axes = o->axes,
                        .logarithm = o->logarithm != 0,
                        .form = form};

    for (uint32_t i = 0; i < 2; i++) {
        op.kernel[i] = o->kernel[i];
        op.stride[i] = o->stride[i];
        op.pad[i] = o->pad[i];
        op.pad_more[i] = o->pad_more[i];
        op.dilation[i] = o->dilation[i];
        op.constants[i] = o->constants[i];
        op.swapped[i] = o->swapped[i] != 0;
    }
    return op;
}

static void keep_op(struct draft *d, const char *name, const struct pst_op_decl *o)
{
    struct pst_model_call *call = keep_call(d, OP, name);
    struct pst_op_decl *kept = &call->as.op;
    const uint32_t form = form_of(o->kind);

    *kept = *o;
    kept->name = call->name;
    kept->in = keep(d, o->in, o->n_in, sizeof *o->in);
    kept->param = keep(d, o->param, o->n_param, sizeof *o->param);
    kept->dims = keep(d, o->dims, kept->rank, sizeof *o->dims);
    if ((form & PST_FORM_PLACES) != 0) {
        kept->from = keep(d, o->from, o->rank, sizeof *o->from);
        kept->start = keep(d, o->start, o->rank, sizeof *o->start);
        kept->step = keep(d, o->step, o->rank, sizeof *o->step);
    }
    if ((form & PST_FORM_DATA) != 0) {
        kept->data = keep(d, o->data, elements(o), sizeof(float));
    }
}

static bool check_counts(struct draft *d, const char *title, const char *name, uint32_t n_in,
                         const uint32_t *in, uint32_t n_param, const uint32_t *param)
{
    if (n_in > MAX_IN || n_param > MAX_PARAM) {
        fail(d, "%s %s: %u inputs and %u parameters; at most %d and %d are possible", title, name,
             n_in, n_param, MAX_IN, MAX_PARAM);
    } else if ((n_in > 0 && in == NULL) || (n_param > 0 && param == NULL)) {
        fail(d, "%s %s: its inputs or parameters are NULL", title, name);
    }
    return d->status == PST_OK;
}

/* Returns the first of the arrays of a form that is given and that the kind does not read; NULL:
   none is. */
static const char *stray_form(const struct pst_op_decl *o)
{
    const uint32_t form = form_of(o->kind);
    const bool dims = (form & PST_FORM_DIMS) != 0, places = (form & PST_FORM_PLACES) != 0;
    const bool data = (form & PST_FORM_DATA) != 0;

    return !dims && o->rank != 0                              ? "rank"
           : !dims && o->dims != NULL                         ? "dims"
           : !places && o->from != NULL                       ? "from"
           : !places && (o->start != NULL || o->step != NULL) ? "start or step"
           : !places && o->fill != 0                          ? "fill"
           : !data && o->dtype != 0                           ? "dtype"
           : !data && o->data != NULL                         ? "data"
                                                              : NULL;
}

/* Counts, kind and numbers; of a call of the plugin itself, also that nothing stands where it is
   not read. */
static bool check_op(struct draft *d, const char *name, const struct pst_op_decl *op)
{
    if (op->kind >= PST_OP_CALLS) {
        fail(d, "%s: this host has no operator of kind %u", name, op->kind);
    } else if (!check_counts(d, pst_op_kind_name(op->kind), name, op->n_in, op->in, op->n_param,
                             op->param)) {
        return false;
    } else if (!are_finite(op)) {
        fail(d, "%s %s: one of its numbers is not finite", pst_op_kind_name(op->kind), name);
    } else if (d->calls != NULL && stray_form(op) != NULL) {
        fail(d, "%s: %s does not read `%s`; leave it 0", name, pst_op_kind_name(op->kind),
             stray_form(op));
    } else if (pst_op_is_loss(op->kind) && d->loss != PST_NONE) {
        fail(d, "%s %s: a second loss; a model has one", pst_op_kind_name(op->kind), name);
    }
    return d->status == PST_OK;
}

/* To the graph; a failure names the operands. */
static uint32_t add_to_graph(struct draft *d, const struct pst_op *op, const char *title)
{
    char operands[2048];
    const uint32_t result = pst_graph_add(d->graph, op);

    if (result == PST_NONE) {
        take_failure(d);
        pst_graph_operands(d->graph, op, operands, sizeof operands);
        pst_error_detail(&d->error, "operands of %s: %s\n", op->name,
                         operands[0] == '\0' ? "there are none" : operands);
        d->not_by_model = op->custom != NULL && op->custom->is_to_blame;
        if (!d->not_by_model) {
            pst_error_prefix(&d->error, "%s", title);
        }
    }
    return result;
}

static uint32_t add_op(struct draft *d, const char *scope, const struct pst_op_decl *decl)
{
    struct pst_op_decl o;
    struct pst_form form;
    struct pst_op op;
    char name[NAME_ROOM];
    uint32_t result;

    if (!take_decl(d, "an operator", decl, &o, sizeof o) ||
        !join(d, "an operator", scope, o.name, name) || !check_op(d, name, &o) ||
        (form_of(o.kind) != 0 && !take_form(d, name, &o, &form))) {
        return PST_NONE;
    }
    op = op_of(&o, name, form_of(o.kind) != 0 ? &form : NULL);
    result = add_to_graph(d, &op, pst_op_kind_name(o.kind));
    if (result == PST_NONE) {
        return PST_NONE;
    }
    if (pst_op_is_loss(o.kind)) {
        d->loss = result;
        d->logits = o.in[0];
    }
    if (d->calls != NULL) {
        keep_op(d, name, &o);
    }
    return result;
}

/* --- operators of plugins --------------------------------------------------------------------- */

static void keep_custom(struct draft *d, const char *name, const struct pst_custom_decl *c)
{
    struct pst_model_call *call = keep_call(d, CUSTOM, name);
    struct pst_custom_decl *kept = &call->as.custom;

    *kept = *c;
    kept->name = call->name;
    kept->plugin = pst_arena_strdup(&d->calls->arena, c->plugin);
    kept->attributes = pst_arena_strdup(&d->calls->arena, c->attributes);
    kept->in = keep(d, c->in, c->n_in, sizeof *c->in);
    kept->param = keep(d, c->param, c->n_param, sizeof *c->param);
}

static bool check_custom(struct draft *d, const char *name, struct pst_custom_decl *c)
{
    c->attributes = c->attributes == NULL ? "" : c->attributes;
    if (c->plugin == NULL || !pst_search_is_id(c->plugin)) {
        fail(d, "custom %s: it names no plugin, or something that is not an id", name);
    } else if (!pst_text_is_plain(c->attributes)) {
        fail(d, "custom %s: its attributes have a control character or are not UTF-8", name);
    } else {
        check_counts(d, c->plugin, name, c->n_in, c->in, c->n_param, c->param);
    }
    return d->status == PST_OK;
}

static uint32_t add_custom(struct draft *d, const char *scope, const struct pst_custom_decl *decl)
{
    struct pst_op op = {.kind = PST_OP_CUSTOM};
    struct pst_custom_decl c;
    char name[NAME_ROOM];
    uint32_t result;
    bool unnamed;

    if (!take_decl(d, "an operator", decl, &c, sizeof c) ||
        !join(d, "an operator", scope, c.name, name) || !check_custom(d, name, &c)) {
        return PST_NONE;
    }
    op.name = name;
    op.n_in = c.n_in;
    op.in = c.in;
    op.n_param = c.n_param;
    op.param = c.param;
    d->status =
        pst_operators_make(d->operators, c.plugin, c.attributes, &op.custom, &unnamed, &d->error);
    if (d->status != PST_OK) {
        d->not_by_model = unnamed || d->status != PST_ERR_CONFIG;
        return PST_NONE;
    }
    result = add_to_graph(d, &op, c.plugin);
    if (result != PST_NONE && d->calls != NULL) {
        keep_custom(d, name, &c);
    }
    return result;
}

/* --- the plugin's side ------------------------------------------------------------------------ */

static struct draft *draft_of(struct pst_builder *builder)
{
    return builder->impl;
}

static void face_scope(struct pst_builder *builder, const char *name)
{
    struct draft *d = draft_of(builder);
    char text[NAME_ROOM];

    if (d->status == PST_OK && name != NULL && name[0] != '\0' &&
        !join(d, "a scope", "", name, text)) {
        return;
    }
    snprintf(d->scope, sizeof d->scope, "%s", name == NULL ? "" : name);
}

static void face_layer(struct pst_builder *builder)
{
    struct draft *d = draft_of(builder);

    d->layer += d->layer < PST_NONE - 1;
    pst_graph_layer(d->graph, d->layer);
}

static uint32_t face_input(struct pst_builder *builder, const struct pst_input_decl *input)
{
    return add_input(draft_of(builder), input);
}

static uint32_t face_parameter(struct pst_builder *builder,
                               const struct pst_parameter_decl *parameter)
{
    return add_parameter(draft_of(builder), draft_of(builder)->scope, parameter);
}

static uint32_t face_op(struct pst_builder *builder, const struct pst_op_decl *op)
{
    return add_op(draft_of(builder), draft_of(builder)->scope, op);
}

static uint32_t face_custom(struct pst_builder *builder, const struct pst_custom_decl *custom)
{
    return add_custom(draft_of(builder), draft_of(builder)->scope, custom);
}

static uint32_t face_shape(struct pst_builder *builder, uint32_t tensor, uint64_t *ret_dims)
{
    const struct draft *d = draft_of(builder);
    uint32_t rank;

    return d->status == PST_OK && pst_graph_shape(d->graph, tensor, &rank, ret_dims) ? rank
                                                                                     : PST_NONE;
}

/* --- whole models ------------------------------------------------------------------------------*/

static pst_status begin(struct draft *d, const char *id, const struct pst_operators *operators,
                        uint32_t dtype, struct pst_model_calls *calls, struct pst_error *err)
{
    memset(d, 0, sizeof *d);
    d->face = (struct pst_builder){.size = sizeof d->face,
                                   .dtype = dtype,
                                   .impl = d,
                                   .scope = face_scope,
                                   .layer = face_layer,
                                   .input = face_input,
                                   .parameter = face_parameter,
                                   .op = face_op,
                                   .shape = face_shape,
                                   .custom = face_custom};
    d->operators = operators;
    d->calls = calls;
    d->loss = d->logits = PST_NONE;
    return pst_graph_builder_create(id, dtype, &d->graph, err);
}

/* The plugin's fault, whatever the graph calls it; unless an operator is to blame, or the job. */
static pst_status blame(const struct draft *d, const char *id, struct pst_error *err)
{
    if (d->not_by_model) {
        return d->status;
    }
    if (err != NULL) {
        pst_error_prefix(err, "model \"%s\" broke its contract in build()", id);
        snprintf(err->kind, sizeof err->kind, "plugin.contract");
        err->status = PST_ERR_BUG;
        err->exit_code = 0;
    }
    return PST_ERR_BUG;
}

/* Has it what every model has? */
static void check_whole(struct draft *d)
{
    if (d->status != PST_OK) {
        return;
    }
    if (d->loss == PST_NONE) {
        fail(d, "it has no loss");
    } else if (d->n_parameters == 0) {
        fail(d, "it has no parameters");
    } else if (d->n_x == 0 || d->n_targets != 1) {
        fail(d,
             "it has %u inputs of samples (PST_FIELD_X) and %u of targets; it must have at least "
             "one of samples and exactly one of targets",
             d->n_x, d->n_targets);
    }
}

pst_status pst_model_ask(struct pst_instance *model, const struct pst_operators *operators,
                         uint32_t dtype, struct pst_model_calls *ret_calls, struct pst_error *err)
{
    const struct pst_model_interface *f = model->plugin->get_interface(PST_MODEL);
    const char *id = model->plugin->id;
    struct draft *d = pst_alloc(1, sizeof *d);
    pst_status status = begin(d, id, operators, dtype, ret_calls, err);

    if (status == PST_OK) {
        d->face.size += model->wider;
        pst_instance_enter(model, PST_CRUMB_BUILD);
        status = f->build(model->self, &d->face);
        pst_instance_leave(model);
        status = status == PST_OK || d->status != PST_OK
                     ? PST_OK
                     : pst_instance_fail(model, status, "build", err);
        if (status == PST_OK) {
            check_whole(d);
            if (d->status != PST_OK && err != NULL) {
                *err = d->error;
            }
            status = d->status == PST_OK ? PST_OK : blame(d, id, err);
        }
    }
    pst_graph_builder_destroy(d->graph);
    free(d);
    return status;
}

static void call_again(struct draft *d, const struct pst_model_call *call)
{
    pst_graph_layer(d->graph, call->layer);
    switch (call->what) {
    case INPUT:
        add_input(d, &call->as.input);
        return;
    case PARAMETER:
        add_parameter(d, "", &call->as.parameter);
        return;
    case CUSTOM:
        add_custom(d, "", &call->as.custom);
        return;
    default:
        add_op(d, "", &call->as.op);
    }
}

pst_status pst_model_graph(const struct pst_model_calls *calls,
                           const struct pst_operators *operators, const char *id, uint32_t dtype,
                           struct pst_graph **ret_graph, struct pst_error *err)
{
    struct draft *d = pst_alloc(1, sizeof *d);
    pst_status status = begin(d, id, operators, dtype, NULL, err);

    if (status == PST_OK) {
        for (uint32_t i = 0; i < calls->n && d->status == PST_OK; i++) {
            call_again(d, &calls->calls[i]);
        }
        check_whole(d);
        if (d->status != PST_OK && err != NULL) {
            *err = d->error;
        }
        status = d->status;
        if (status == PST_OK) {
            status = pst_graph_finish(d->graph, d->loss, d->logits, ret_graph, err);
        }
        status = status == PST_OK ? status : blame(d, id, err);
    }
    pst_graph_builder_destroy(d->graph);
    free(d);
    return status;
}

void pst_model_calls_finish(struct pst_model_calls *calls)
{
    free(calls->calls);
    pst_arena_finish(&calls->arena);
    memset(calls, 0, sizeof *calls);
}

/* --- there and back ----------------------------------------------------------------------------*/

static void pass_dims(struct pst_wire *w, uint32_t *rank, const uint64_t **dims)
{
    w->failed |= *rank > PST_MAX_RANK;
    *rank = w->failed ? 0 : *rank;
    *dims = pst_wire_array(w, *dims, *rank, sizeof **dims);
}

/* Pointers that came with the bytes are another process's. */
static void pass_op(struct pst_wire *w, struct pst_op_decl *o)
{
    const uint32_t form = form_of(o->kind);
    uint32_t n;

    if (w->reads) {
        o->in = o->param = o->from = NULL;
        o->start = o->step = NULL;
        o->dims = NULL;
        o->data = NULL;
    }
    pst_wire_uints(w, &o->in, &o->n_in);
    pst_wire_uints(w, &o->param, &o->n_param);
    pass_dims(w, &o->rank, &o->dims);
    if ((form & PST_FORM_PLACES) != 0 && !w->failed) {
        o->from = pst_wire_array(w, o->from, o->rank, sizeof *o->from);
        o->start = pst_wire_array(w, o->start, o->rank, sizeof *o->start);
        o->step = pst_wire_array(w, o->step, o->rank, sizeof *o->step);
    }
    if ((form & PST_FORM_DATA) != 0 && !w->failed) {
        n = w->reads || elements(o) > MAX_CONSTANT ? 0 : (uint32_t)elements(o);
        pst_wire_count(w, &n, sizeof(float));
        w->failed |= w->reads && n != elements(o);
        o->data = pst_wire_array(w, o->data, w->failed ? 0 : n, sizeof(float));
    }
}

static void pass_custom(struct pst_wire *w, struct pst_custom_decl *c)
{
    if (w->reads) {
        c->in = c->param = NULL;
    }
    pst_wire_text(w, &c->plugin);
    pst_wire_text(w, &c->attributes);
    pst_wire_uints(w, &c->in, &c->n_in);
    pst_wire_uints(w, &c->param, &c->n_param);
}

static void pass_call(struct pst_wire *w, struct pst_model_call *call)
{
    pst_wire_uint(w, &call->what);
    pst_wire_uint(w, &call->layer);
    pst_wire_text(w, &call->name);
    w->failed |= call->what >= WHATS;
    if (w->failed) {
        return;
    }
    pst_wire_bytes(w, &call->as, sizeof call->as);
    if (call->what == OP) {
        pass_op(w, &call->as.op);
        call->as.op.size = sizeof call->as.op;
        call->as.op.name = call->name;
    } else if (call->what == CUSTOM) {
        pass_custom(w, &call->as.custom);
        call->as.custom.size = sizeof call->as.custom;
        call->as.custom.name = call->name;
    } else if (call->what == INPUT) {
        pass_dims(w, &call->as.input.rank, &call->as.input.dims);
        call->as.input.size = sizeof call->as.input;
        call->as.input.name = call->name;
    } else {
        pass_dims(w, &call->as.parameter.rank, &call->as.parameter.dims);
        call->as.parameter.size = sizeof call->as.parameter;
        call->as.parameter.name = call->name;
    }
}

void pst_model_calls_pass(struct pst_wire *w, struct pst_model_calls *calls)
{
    if (w->reads) {
        w->arena = &calls->arena;
    }
    pst_wire_count(w, &calls->n, sizeof(uint64_t));
    for (uint32_t i = 0; i < calls->n && !w->failed; i++) {
        if (w->reads) {
            pst_grow(&calls->calls, &calls->room, i, sizeof *calls->calls);
            memset(&calls->calls[i], 0, sizeof calls->calls[i]);
        }
        pass_call(w, &calls->calls[i]);
    }
    calls->n = w->failed ? 0 : calls->n;
}
