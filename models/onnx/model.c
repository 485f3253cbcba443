/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes values and nodes from names. Every name is defined once, and before it is read. Nodes that
 * no output depends on are removed. All nodes that cannot be read are reported in one message.
 */
#include "onnx.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"

#define OLDEST_OPSET 7
#define NEWEST_OPSET 27
#define MAX_SHOWN    64 /* different operators of a refusal */

struct op_row {
    const char *name;
    uint32_t since, least, most, outputs;
};

#define X(name, since, least, most, outputs) {#name, since, least, most, outputs},
static const struct op_row op_rows[ONNX_N_OPS] = {ONNX_OPS(X)};
#undef X

static bool is_default(const char *domain)
{
    return domain == NULL || domain[0] == '\0' || strcmp(domain, "ai.onnx") == 0;
}

static uint32_t find_op(const char *name)
{
    uint32_t op = 0;

    while (op < ONNX_N_OPS && strcmp(op_rows[op].name, name) != 0) {
        op++;
    }
    return op;
}

/* --- looking at a model ----------------------------------------------------------------------- */

const char *onnx_node_name(const struct onnx_model *model, const struct onnx_node *node,
                           char text[192])
{
    const char *name = node->proto->name;

    if ((name == NULL || name[0] == '\0') && node->n_out > 0 && node->out[0] != PST_NONE) {
        name = model->values[node->out[0]].name;
    }
    snprintf(text, 192, "%s \"%s\"", node->proto->op_type, name == NULL ? "" : name);
    return text;
}

struct onnx_value *onnx_in(const struct onnx_model *model, const struct onnx_node *node, uint32_t i)
{
    return i < node->n_in && node->in[i] != PST_NONE ? &model->values[node->in[i]] : NULL;
}

struct onnx_value *onnx_out(const struct onnx_model *model, const struct onnx_node *node,
                            uint32_t i)
{
    return i < node->n_out && node->out[i] != PST_NONE ? &model->values[node->out[i]] : NULL;
}

const struct onnx_node *onnx_maker(const struct onnx_model *model, const struct onnx_value *value)
{
    return value->node == PST_NONE ? NULL : &model->nodes[value->node];
}

const Onnx__AttributeProto *onnx_attribute(const struct onnx_node *node, const char *name)
{
    for (size_t i = 0; i < node->proto->n_attribute; i++) {
        const Onnx__AttributeProto *attribute = node->proto->attribute[i];

        if (attribute->name != NULL && strcmp(attribute->name, name) == 0) {
            return attribute;
        }
    }
    return NULL;
}

int64_t onnx_int(const struct onnx_node *node, const char *name, int64_t otherwise)
{
    const Onnx__AttributeProto *attribute = onnx_attribute(node, name);

    return attribute != NULL && attribute->has_i ? attribute->i : otherwise;
}

float onnx_float(const struct onnx_node *node, const char *name, float otherwise)
{
    const Onnx__AttributeProto *attribute = onnx_attribute(node, name);

    return attribute != NULL && attribute->has_f ? attribute->f : otherwise;
}

bool onnx_word_is(const struct onnx_node *node, const char *name, const char *word, bool otherwise)
{
    const Onnx__AttributeProto *attribute = onnx_attribute(node, name);

    return attribute != NULL && attribute->has_s
               ? attribute->s.len == strlen(word) &&
                     memcmp(attribute->s.data, word, attribute->s.len) == 0
               : otherwise;
}

const int64_t *onnx_ints(const struct onnx_node *node, const char *name, uint32_t *ret_n)
{
    const Onnx__AttributeProto *attribute = onnx_attribute(node, name);

    *ret_n = attribute == NULL ? 0 : (uint32_t)attribute->n_ints;
    return *ret_n == 0 ? NULL : attribute->ints;
}

/* --- words of the config ---------------------------------------------------------------------- */

const char *onnx_find_option(const char *list, const char *name, size_t *ret_n)
{
    const size_t n = strlen(name);
    const char *item;
    size_t length;

    while ((item = pst_list_next(&list, &length)) != NULL) {
        if (length > n && strncmp(item, name, n) == 0 && item[n] == '=') {
            *ret_n = length - n - 1;
            return item + n + 1;
        }
    }
    return NULL;
}

/* --- reading ---------------------------------------------------------------------------------- */

static pst_status read_versions(struct onnx_model *model, struct pst_error *err)
{
    const Onnx__ModelProto *proto = model->proto;

    for (size_t i = 0; i < proto->n_opset_import; i++) {
        const Onnx__OperatorSetIdProto *set = proto->opset_import[i];

        if (is_default(set->domain)) {
            model->opset = set->version > 0 && set->version < 10000 ? (uint32_t)set->version : 0;
        }
    }
    if (model->opset < OLDEST_OPSET || model->opset > NEWEST_OPSET) {
        return ONNX_BAD("input.unsupported",
                        "the model is of operator set %u; %d to %d are read; export it anew, or "
                        "convert it (onnx.version_converter)",
                        model->opset, OLDEST_OPSET, NEWEST_OPSET);
    }
    if (proto->graph->n_sparse_initializer > 0) {
        return ONNX_BAD("input.unsupported", "the model has sparse initializers");
    }
    if (proto->n_training_info > 0) {
        pst_log(PST_LOG_WARN, "onnx", "%s: its training algorithm is left aside; [train] says how",
                model->path);
    }
    return PST_OK;
}

/* The names that a graph sees: its own, and those of the graph around it. Values of the second
   branch that is read are called "name#2" in the model. */
struct scope {
    const struct scope *around; /* NULL: this is the whole model */
    uint32_t number;
};

static const char *whole_name(struct onnx_model *model, const struct scope *scope, const char *name)
{
    return scope->around == NULL ? name
                                 : pst_arena_printf(&model->arena, "%s#%u", name, scope->number);
}

static uint32_t find_value(struct onnx_model *model, const struct scope *scope, const char *name)
{
    uint32_t value = PST_NONE;

    for (; scope != NULL && value == PST_NONE; scope = scope->around) {
        value = pst_names_find(&model->names, whole_name(model, scope, name));
    }
    return value;
}

/* A value of that name, which must be new. */
static pst_status add_value(struct onnx_model *model, const struct scope *scope, const char *name,
                            uint32_t *ret_value, struct pst_error *err)
{
    struct onnx_value *value = &model->values[model->n_values];

    if (name == NULL || name[0] == '\0' || !pst_text_is_plain(name)) {
        return ONNX_BAD("input.syntax", "a value has no name, or one that is no plain text");
    }
    value->name = whole_name(model, scope, name);
    value->node = PST_NONE;
    if (pst_names_add(&model->names, value->name, model->n_values) != PST_NONE) {
        return ONNX_BAD("input.syntax", "two values are called \"%s\"", name);
    }
    *ret_value = model->n_values++;
    return PST_OK;
}

static pst_status read_initializers(struct onnx_model *model, const struct scope *scope,
                                    const Onnx__GraphProto *graph, struct pst_error *err)
{
    for (size_t i = 0; i < graph->n_initializer; i++) {
        uint32_t index = 0;
        pst_status status = add_value(model, scope, graph->initializer[i]->name, &index, err);

        if (status == PST_OK) {
            model->values[index].tensor = graph->initializer[i];
            model->values[index].fixed = true;
            status = onnx_tensor_check(model, graph->initializer[i], &model->values[index], err);
        }
        if (status != PST_OK) {
            return status;
        }
    }
    return PST_OK;
}

/* Reads the inputs that samples fill: those without an initializer. */
static pst_status read_inputs(struct onnx_model *model, const struct scope *scope,
                              struct pst_error *err)
{
    const Onnx__GraphProto *graph = model->proto->graph;

    model->inputs = pst_arena_array(&model->arena, graph->n_input, sizeof *model->inputs);
    for (size_t i = 0; i < graph->n_input; i++) {
        const Onnx__ValueInfoProto *info = graph->input[i];
        uint32_t index;
        pst_status status;

        if (info->name != NULL && pst_names_find(&model->names, info->name) != PST_NONE) {
            continue;
        }
        status = add_value(model, scope, info->name, &index, err);
        if (status != PST_OK) {
            return status;
        }
        model->values[index].input = info;
        model->inputs[model->n_inputs++] = index;
    }
    return PST_OK;
}

/* One more node, which reads what one graph sees and makes what another one sees. */
static pst_status add_node(struct onnx_model *model, const Onnx__NodeProto *proto,
                           const struct scope *from, const struct scope *to, struct pst_error *err)
{
    struct onnx_node *node = &model->nodes[model->n_nodes];
    pst_status status = PST_OK;
    char text[192];

    node->proto = proto;
    node->op = ONNX_N_OPS;
    if (proto->op_type == NULL || !pst_text_is_plain(proto->op_type) ||
        (proto->name != NULL && !pst_text_is_plain(proto->name)) ||
        (proto->domain != NULL && !pst_text_is_plain(proto->domain))) {
        return ONNX_BAD("input.syntax", "node %u has no operator, or a name that is no plain text",
                        model->n_nodes);
    }
    if (is_default(proto->domain)) {
        node->op = find_op(proto->op_type);
    }
    node->in = pst_arena_array(&model->arena, proto->n_input, sizeof *node->in);
    node->out = pst_arena_array(&model->arena, proto->n_output, sizeof *node->out);
    for (size_t i = 0; i < proto->n_input; i++) {
        const char *name = proto->input[i];

        node->in[i] = name[0] == '\0' ? PST_NONE : find_value(model, from, name);
        node->n_in++;
        if (name[0] != '\0' && node->in[i] == PST_NONE) {
            return ONNX_BAD("input.syntax", "%s reads \"%s\", which nothing before it makes",
                            onnx_node_name(model, node, text), name);
        }
    }
    for (size_t i = 0; i < proto->n_output && status == PST_OK; i++) {
        node->out[i] = PST_NONE;
        node->n_out++;
        if (proto->output[i][0] != '\0') {
            status = add_value(model, to, proto->output[i], &node->out[i], err);
        }
        if (status == PST_OK && node->out[i] != PST_NONE) {
            model->values[node->out[i]].node = model->n_nodes;
            model->values[node->out[i]].output = (uint32_t)i;
        }
    }
    model->n_nodes++;
    return status;
}

static pst_status read_outputs(struct onnx_model *model, struct pst_error *err)
{
    const Onnx__GraphProto *graph = model->proto->graph;

    model->outputs = pst_arena_array(&model->arena, graph->n_output, sizeof *model->outputs);
    for (size_t i = 0; i < graph->n_output; i++) {
        const char *name = graph->output[i]->name == NULL ? "" : graph->output[i]->name;

        model->outputs[i] = pst_names_find(&model->names, name);
        if (model->outputs[i] == PST_NONE) {
            return ONNX_BAD("input.syntax", "output \"%s\": nothing makes it", name);
        }
        model->n_outputs++;
    }
    if (model->n_outputs == 0) {
        return ONNX_BAD("input.syntax", "the model has no output");
    }
    return PST_OK;
}

/* Room for more values and nodes. */
static pst_status reserve(struct onnx_model *model, size_t n_values, size_t n_nodes,
                          struct pst_error *err)
{
    struct pst_arena *arena = &model->arena;

    n_values += model->n_values;
    n_nodes += model->n_nodes;
    if (n_values > UINT32_MAX / 8 || n_nodes > UINT32_MAX / 8) {
        return ONNX_BAD("input.limit", "the model has %zu values", n_values);
    }
    if (n_values >= model->room_values) {
        struct onnx_value *values = model->values;

        model->room_values = (uint32_t)(2 * n_values + 1);
        model->values = pst_arena_array(arena, model->room_values, sizeof *values);
        pst_names_init(&model->names, arena, model->room_values);
        for (uint32_t i = 0; i < model->n_values; i++) {
            model->values[i] = values[i];
            pst_names_add(&model->names, values[i].name, i);
        }
    }
    if (n_nodes > model->room_nodes) {
        struct onnx_node *nodes = model->nodes;

        model->room_nodes = (uint32_t)(2 * n_nodes);
        model->nodes = pst_arena_array(arena, model->room_nodes, sizeof *nodes);
        for (uint32_t i = 0; i < model->n_nodes; i++) {
            model->nodes[i] = nodes[i];
        }
    }
    return PST_OK;
}

pst_status onnx_add_twin(struct onnx_model *model, uint32_t of, const char *name,
                         uint32_t *ret_value, struct pst_error *err)
{
    const struct scope whole = {0};
    pst_status status = reserve(model, 1, 0, err);

    PST_TRY(status, add_value(model, &whole, name, ret_value, err));
    if (status == PST_OK) {
        struct onnx_value *twin = &model->values[*ret_value], *first = &model->values[of];
        const char *own = twin->name;

        *twin = *first;
        twin->name = own;
        twin->twin = first->name;
    }
    return status;
}

static pst_status read_nodes(struct onnx_model *model, const struct scope *scope,
                             const Onnx__GraphProto *graph, struct pst_error *err);

/* Replaces an If by its branch, whose results become those of the If. */
static pst_status read_branch(struct onnx_model *model, const struct scope *scope,
                              const Onnx__NodeProto *proto, const Onnx__GraphProto *branch,
                              struct pst_error *err)
{
    const struct scope inside = {.around = scope, .number = model->choices->number};
    pst_status status;

    if (branch->n_input > 0 || branch->n_output != proto->n_output) {
        return ONNX_BAD("input.syntax", "If \"%s\": a branch has %zu inputs and %zu outputs",
                        proto->output[0], branch->n_input, branch->n_output);
    }
    status = reserve(model, branch->n_initializer, 0, err);
    PST_TRY(status, read_initializers(model, &inside, branch, err));
    PST_TRY(status, read_nodes(model, &inside, branch, err));
    PST_TRY(status, reserve(model, proto->n_output, proto->n_output, err));
    for (size_t i = 0; i < proto->n_output && status == PST_OK; i++) {
        Onnx__NodeProto *same = pst_arena_alloc(&model->arena, sizeof *same, 0);
        static char identity[] = "Identity";

        *same = (Onnx__NodeProto)ONNX__NODE_PROTO__INIT;
        same->op_type = identity;
        same->n_input = same->n_output = 1;
        same->input = &branch->output[i]->name;
        same->output = &proto->output[i];
        if (branch->output[i]->name == NULL) {
            return ONNX_BAD("input.syntax", "If \"%s\": an output of a branch has no name",
                            proto->output[0]);
        }
        if (proto->output[i][0] != '\0') {
            status = add_node(model, same, &inside, scope, err);
        }
    }
    return status;
}

/* An If whose condition does not depend on samples becomes its branch. *ret_branch NULL: the node
   is not such an If. */
static pst_status find_branch(struct onnx_model *model, const struct scope *scope,
                              const Onnx__NodeProto *proto, const Onnx__GraphProto **ret_branch,
                              struct pst_error *err)
{
    const struct onnx_node node = {.proto = proto};
    const Onnx__AttributeProto *attribute;
    const struct onnx_value *value;
    uint32_t condition;
    pst_status status;

    *ret_branch = NULL;
    if (proto->op_type == NULL || strcmp(proto->op_type, "If") != 0 || !is_default(proto->domain) ||
        proto->n_input != 1 || proto->n_output == 0) {
        return PST_OK;
    }
    condition = find_value(model, scope, proto->input[0]);
    if (condition == PST_NONE) {
        return PST_OK;
    }
    status = onnx_infer_more(model, err);
    value = &model->values[condition];
    if (status != PST_OK || value->data == NULL || value->type != ONNX_BOOL ||
        onnx_elems(value) != 1) {
        return status;
    }
    attribute =
        onnx_attribute(&node, onnx_integer(value->data, 0) != 0 ? "then_branch" : "else_branch");
    *ret_branch = attribute == NULL ? NULL : attribute->g;
    if (*ret_branch != NULL) {
        struct onnx_choice *choice = pst_arena_alloc(&model->arena, sizeof *choice, 0);

        *choice =
            (struct onnx_choice){.next = model->choices,
                                 .number = model->choices == NULL ? 1 : model->choices->number + 1,
                                 .condition = condition,
                                 .name = proto->output[0],
                                 .taken = onnx_integer(value->data, 0) != 0};
        model->choices = choice;
    }
    return PST_OK;
}

static pst_status read_nodes(struct onnx_model *model, const struct scope *scope,
                             const Onnx__GraphProto *graph, struct pst_error *err)
{
    pst_status status = PST_OK;

    for (size_t i = 0; i < graph->n_node && status == PST_OK; i++) {
        const Onnx__GraphProto *branch;
        Onnx__NodeProto **nodes;
        size_t n_values = 0;
        uint32_t n;

        if (scope->around == NULL && onnx_is_copy(model, graph->node[i])) {
            uint32_t first = pst_names_find(&model->names, graph->node[i]->input[0]), twin;

            status = onnx_add_twin(model, first, graph->node[i]->output[0], &twin, err);
            continue;
        }
        onnx_expand(model, graph->node[i], &nodes, &n);
        for (uint32_t k = 0; k < n; k++) {
            n_values += nodes[k]->n_output;
        }
        status = reserve(model, n_values, n, err);
        PST_TRY(status, find_branch(model, scope, nodes[0], &branch, err));
        if (status == PST_OK && branch != NULL) {
            status = read_branch(model, scope, nodes[0], branch, err);
            continue;
        }
        for (uint32_t k = 0; k < n && status == PST_OK; k++) {
            status = add_node(model, nodes[k], scope, scope, err);
        }
    }
    return status;
}

static pst_status read_graph(struct onnx_model *model, struct pst_error *err)
{
    const Onnx__GraphProto *graph = model->proto->graph;
    const struct scope whole = {0};
    pst_status status = reserve(model, graph->n_initializer + graph->n_input, graph->n_node, err);

    PST_TRY(status, read_initializers(model, &whole, graph, err));
    PST_TRY(status, onnx_read_kinds(model, err));
    PST_TRY(status, read_inputs(model, &whole, err));
    PST_TRY(status, read_nodes(model, &whole, graph, err));
    PST_TRY(status, onnx_part_joined(model, err));
    return status == PST_OK ? read_outputs(model, err) : status;
}

/* --- what is left out, and what cannot be read ------------------------------------------------ */

/* Marks the values that sub-graphs of a node read, so that messages name all nodes that cannot be
   read. Messages, and so sub-graphs, have a maximum depth. */
static void need_captured(const struct onnx_model *model, const Onnx__NodeProto *node, bool *needed)
{
    for (size_t i = 0; i < node->n_attribute; i++) {
        const Onnx__GraphProto *graph = node->attribute[i]->g;

        for (size_t k = 0; graph != NULL && k < graph->n_node; k++) {
            const Onnx__NodeProto *inside = graph->node[k];

            for (size_t m = 0; m < inside->n_input; m++) {
                const uint32_t value = pst_names_find(&model->names, inside->input[m]);

                if (value != PST_NONE) {
                    needed[value] = true;
                }
            }
            need_captured(model, inside, needed);
        }
    }
}

/* Removes the nodes that no output depends on. */
static void prune(struct onnx_model *model)
{
    bool *needed = pst_alloc(model->n_values + 1, sizeof *needed);
    uint32_t n = 0;

    for (uint32_t i = 0; i < model->n_outputs; i++) {
        needed[model->outputs[i]] = true;
    }
    for (const struct onnx_choice *choice = model->choices; choice != NULL; choice = choice->next) {
        needed[choice->condition] = true;
    }
    for (uint32_t i = model->n_nodes; i-- > 0;) {
        const struct onnx_node *node = &model->nodes[i];
        bool any = false;

        for (uint32_t k = 0; k < node->n_out; k++) {
            any = any || (node->out[k] != PST_NONE && needed[node->out[k]]);
        }
        for (uint32_t k = 0; k < node->n_in && any; k++) {
            if (node->in[k] != PST_NONE) {
                needed[node->in[k]] = true;
            }
        }
        if (any) {
            need_captured(model, node->proto, needed);
        } else {
            model->nodes[i].proto = NULL;
        }
    }
    for (uint32_t i = 0; i < model->n_nodes; i++) {
        if (model->nodes[i].proto != NULL) {
            model->nodes[n] = model->nodes[i];
            for (uint32_t k = 0; k < model->nodes[n].n_out; k++) {
                if (model->nodes[n].out[k] != PST_NONE) {
                    model->values[model->nodes[n].out[k]].node = n;
                }
            }
            n++;
        }
    }
    model->n_nodes = n;
    free(needed);
}

/* Returns the reason why a node cannot be read; NULL: it can. */
static const char *refusal(const struct onnx_model *model, const struct onnx_node *node,
                           const void *context)
{
    const char *op = node->proto->op_type;

    (void)context;
    for (size_t i = 0; i < model->proto->n_functions; i++) {
        const char *name = model->proto->functions[i]->name;

        if (name != NULL && strcmp(name, op) == 0) {
            return "a function of the file; export without functions";
        }
    }
    for (size_t i = 0; i < node->proto->n_attribute; i++) {
        if (node->proto->attribute[i]->g != NULL || node->proto->attribute[i]->n_graphs > 0) {
            return strcmp(op, "If") == 0 ? "its condition is not known when the file is read"
                                         : "it holds a sub-graph";
        }
    }
    if (node->op == ONNX_N_OPS) {
        return "no such operator is read";
    }
    return model->opset < op_rows[node->op].since ? "its form is too old" : NULL;
}

struct refused {
    const struct onnx_node *first;
    const char *why;
    uint32_t count;
};

static bool same_op(const struct onnx_node *a, const struct onnx_node *b)
{
    const char *left = a->proto->domain, *right = b->proto->domain;

    return strcmp(a->proto->op_type, b->proto->op_type) == 0 &&
           strcmp(left == NULL ? "" : left, right == NULL ? "" : right) == 0;
}

static pst_status tell(const struct onnx_model *model, const struct refused *refused, uint32_t n,
                       struct pst_error *err)
{
    char text[192];

    ONNX_BAD("input.unsupported",
             "%u kind%s of operator cannot be read, the first is %s (%s); docs/onnx.md lists what "
             "can",
             n, n == 1 ? "" : "s", onnx_node_name(model, refused[0].first, text), refused[0].why);
    for (uint32_t i = 0; i < n && i < MAX_SHOWN; i++) {
        const char *domain = refused[i].first->proto->domain;

        pst_error_detail(err, "  %s%s%s, operator set %u: %u time%s, first %s: %s\n",
                         domain == NULL ? "" : domain,
                         domain == NULL || domain[0] == '\0' ? "" : ".",
                         refused[i].first->proto->op_type, model->opset, refused[i].count,
                         refused[i].count == 1 ? "" : "s",
                         onnx_node_name(model, refused[i].first, text), refused[i].why);
    }
    return PST_ERR_CONFIG;
}

pst_status onnx_refuse(const struct onnx_model *model,
                       const char *(*why)(const struct onnx_model *model,
                                          const struct onnx_node *node, const void *context),
                       const void *context, struct pst_error *err)
{
    struct refused refused[MAX_SHOWN];
    uint32_t n = 0;

    for (uint32_t i = 0; i < model->n_nodes; i++) {
        const char *reason = why(model, &model->nodes[i], context);
        uint32_t k = 0;

        if (reason == NULL) {
            continue;
        }
        while (k < n && !same_op(refused[k].first, &model->nodes[i])) {
            k++;
        }
        if (k == n && n < MAX_SHOWN) {
            refused[n++] = (struct refused){&model->nodes[i], reason, 0};
        }
        refused[k < MAX_SHOWN ? k : 0].count += k < MAX_SHOWN;
    }
    return n == 0 ? PST_OK : tell(model, refused, n, err);
}

/* Numbers of operands. A missing required one is a gap, too. */
static bool has_operands(const struct onnx_node *node)
{
    const struct op_row *row = &op_rows[node->op];
    bool ok = node->n_in >= row->least && node->n_in <= row->most && node->n_out >= 1 &&
              node->n_out <= row->outputs && node->out[0] != PST_NONE;

    for (uint32_t k = 0; k < row->least && ok; k++) {
        ok = node->in[k] != PST_NONE;
    }
    return ok;
}

static pst_status check_operands(const struct onnx_model *model, struct pst_error *err)
{
    char text[192];

    for (uint32_t i = 0; i < model->n_nodes; i++) {
        const struct onnx_node *node = &model->nodes[i];

        if (!has_operands(node)) {
            return ONNX_BAD("input.syntax", "%s has %u inputs and %u outputs, or lacks one",
                            onnx_node_name(model, node, text), node->n_in, node->n_out);
        }
    }
    return PST_OK;
}

bool onnx_readable(const struct onnx_model *model, const struct onnx_node *node)
{
    return refusal(model, node, NULL) == NULL && has_operands(node);
}

/* --- names of the config ---------------------------------------------------------------------- */

static bool is_input(const struct onnx_model *model, const char *name)
{
    for (uint32_t i = 0; i < model->n_inputs; i++) {
        if (strcmp(model->values[model->inputs[i]].name, name) == 0) {
            return true;
        }
    }
    return false;
}

static bool is_axis(const struct onnx_model *model, const char *name)
{
    for (uint32_t i = 0; i < model->n_inputs; i++) {
        const Onnx__TypeProto *type = model->values[model->inputs[i]].input->type;
        const Onnx__TensorShapeProto *shape =
            type == NULL || type->tensor_type == NULL ? NULL : type->tensor_type->shape;

        for (size_t k = 0; shape != NULL && k < shape->n_dim; k++) {
            if (shape->dim[k]->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM &&
                strcmp(shape->dim[k]->dim_param, name) == 0) {
                return true;
            }
        }
    }
    return false;
}

static bool is_initializer(const struct onnx_model *model, const char *pattern)
{
    for (uint32_t i = 0; i < model->n_values; i++) {
        const struct onnx_node *node = onnx_maker(model, &model->values[i]);
        const bool filled = node != NULL && node->op == ONNX_ConstantOfShape &&
                            onnx_in(model, node, 0)->tensor != NULL;

        if ((filled || model->values[i].tensor != NULL) &&
            pst_list_matches(pattern, model->values[i].name)) {
            return true;
        }
    }
    return false;
}

/* Checks that every name in the config exists in the file. */
static pst_status check_names(const struct onnx_model *model, struct pst_error *err)
{
    const struct {
        const char *key, *list, *what;
        bool (*is_there)(const struct onnx_model *model, const char *name);
    } lists[] = {{"dims", model->config->dims, "axis of an input is called", is_axis},
                 {"inputs", model->config->inputs, "input is called", is_input},
                 {"frozen", model->config->frozen, "initializer is called", is_initializer},
                 {"trained", model->config->trained, "initializer is called", is_initializer}};
    bool found = true;

    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        const char *list = lists[i].list, *item;
        size_t length;

        while ((item = pst_list_next(&list, &length)) != NULL) {
            const size_t n = length;
            char *name = pst_strndup(item, length);

            if (i < 2) {
                length = strcspn(name, "=");
                name[length] = '\0';
            }
            found = lists[i].is_there(model, name);
            free(name);
            if (i == 0 &&
                (n <= length + 1 || strspn(item + length + 1, "0123456789") < n - length - 1)) {
                return pst_fail(err, PST_ERR_CONFIG, "config.value",
                                "\"dims\" in [model]: \"%.*s\" says no length in digits, as "
                                "\"%.*s=128\" does",
                                (int)n, item, (int)length, item);
            }
            if (!found) {
                return pst_fail(err, PST_ERR_CONFIG, "config.value",
                                "\"%s\" in [model]: no %s \"%.*s\" in %s", lists[i].key,
                                lists[i].what, (int)length, item, model->path);
            }
        }
    }
    return PST_OK;
}

pst_status onnx_model_open(const struct onnx_config *config, struct onnx_model *ret_model,
                           struct pst_error *err)
{
    struct onnx_model *model = ret_model;
    pst_status status;

    *model = (struct onnx_model){.config = config};
    model->path = pst_arena_strdup(&model->arena, config->file);
    model->external = onnx_external_open(config->file);
    status = onnx_file_read(config->file, &model->proto, err);
    PST_TRY(status, read_versions(model, err));
    PST_TRY(status, read_graph(model, err));
    PST_TRY(status, check_names(model, err));
    if (status == PST_OK) {
        prune(model);
        status = onnx_refuse(model, refusal, NULL, err);
    }
    return status == PST_OK ? check_operands(model, err) : status;
}

void onnx_model_close(struct onnx_model *model)
{
    if (model->proto != NULL) {
        onnx__model_proto__free_unpacked(model->proto, NULL);
    }
    onnx_external_close(model->external);
    pst_arena_finish(&model->numbers);
    pst_arena_finish(&model->arena);
}
