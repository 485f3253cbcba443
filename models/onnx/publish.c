/* SPDX-License-Identifier: Apache-2.0
 *
 * The tensors that the module behind a file has, as its state_dict names and shapes them: those of
 * parameters and running statistics, whose values the graph has, and constants, whose values are in
 * the file. An initializer has its own name. Where the exporter has lost a name, the nodes that
 * read the initializer may still say it: they have the path of their module.
 */
#include "onnx.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

struct publisher {
    struct onnx_model *model;
    const struct onnx_origins *origins;
    struct pst_arena *arena;
    struct pst_initial_tensor *tensors;
    uint32_t n, room;
    struct pst_names taken;  /* names of tensors */
    struct pst_names listed; /* names that the file lists: parameters, buffers that are saved */
    const char **list;
    uint32_t n_listed;
    bool told;           /* there is such a list */
    const char **scopes; /* by node: the path of its module; "": unknown */
    bool *statistic;     /* by value */
};

/* --- names ------------------------------------------------------------------------------------ */

/* Exporters call what has no name in the module "/layer/Constant_output_0". */
static bool is_module_name(const char *name)
{
    return strpbrk(name, ":/#") == NULL && name[strspn(name, "0123456789")] != '\0';
}

/* "onnx::MatMul_12"; of older exporters "12". */
static bool is_nameless(const char *name)
{
    return strncmp(name, "onnx::", 6) == 0 || name[strspn(name, "0123456789")] == '\0';
}

static const char *last_part(const char *name)
{
    const char *dot = strrchr(name, '.');

    return dot == NULL ? name : dot + 1;
}

/* "['', 'layers.0', 'layers.0.fc', 'linear']": the last but one. */
static const char *scope_of_list(struct pst_arena *arena, const char *list)
{
    const char *end = list + strlen(list), *begin;

    while (end > list && strncmp(end, "', '", 4) != 0) {
        end--;
    }
    begin = end;
    while (begin > list && begin[-1] != '\'') {
        begin--;
    }
    return pst_arena_strndup(arena, begin, (size_t)(end - begin));
}

static bool has_module(const struct onnx_model *model, const char *path)
{
    const size_t n = strlen(path);
    bool found = false;

    for (uint32_t i = 0; i < model->n_values && !found; i++) {
        const struct onnx_value *value = &model->values[i];

        found =
            value->tensor != NULL && strncmp(value->name, path, n) == 0 && value->name[n] == '.';
    }
    return found;
}

/* "/layers.0/net/net.2/MatMul": the exporter writes a part of a Sequential with the name before it.
   A module that has a list of the same name looks alike, but for its parameters. */
static const char *scope_of_path(struct publisher *p, const char *path)
{
    const char *scope = "", *last = "";

    while (*path == '/') {
        const size_t n = strcspn(path + 1, "/"), before = strlen(last);
        const char *part = pst_arena_strndup(p->arena, path + 1, n), *outer = scope;

        path += 1 + n;
        if (*path == '\0') { /* the operator's own */
            return scope;
        }
        scope = pst_arena_printf(p->arena, "%s%s%s", outer, outer[0] == '\0' ? "" : ".", part);
        if (before > 0 && strncmp(part, last, before) == 0 && part[before] == '.' &&
            !has_module(p->model, scope)) {
            scope =
                pst_arena_printf(p->arena, "%.*s%s", (int)(strlen(outer) - before), outer, part);
        }
        last = part;
    }
    return "";
}

static void find_scopes(struct publisher *p)
{
    struct onnx_model *model = p->model;

    p->scopes = pst_arena_array(p->arena, model->n_nodes + 1, sizeof *p->scopes);
    for (uint32_t i = 0; i < model->n_nodes; i++) {
        const Onnx__NodeProto *proto = model->nodes[i].proto;
        const char *list = onnx_metadata(model, &proto->base, 9, ONNX_NAME_SCOPES);

        p->scopes[i] = list != NULL          ? scope_of_list(p->arena, list)
                       : proto->name != NULL ? scope_of_path(p, proto->name)
                                             : "";
    }
}

/* Names after "PARAMETER target=" and "BUFFER target=" of what PyTorch's newer exporter says of
   the module; buffers only where they are saved. */
static void list_names(struct publisher *p)
{
    const char *text = onnx_metadata(p->model, &p->model->proto->graph->base, 16, ONNX_SIGNATURE);
    const char *at = text;
    uint32_t n = 0;

    p->told = text != NULL;
    while (at != NULL && (at = strstr(at, " target='")) != NULL) {
        at++;
        n++;
    }
    pst_names_init(&p->listed, p->arena, n);
    p->list = pst_arena_array(p->arena, n + 1, sizeof *p->list);
    for (at = text; at != NULL && (at = strstr(at, " target='")) != NULL; at++) {
        const char *name = at + strlen(" target='"), *line = at;
        const size_t length = strcspn(name, "'");
        bool parameter, buffer;

        while (line > text && line[-1] != ' ' && line[-1] != '\n') {
            line--;
        }
        parameter = strncmp(line, "PARAMETER ", 10) == 0;
        buffer = strncmp(line, "BUFFER ", 7) == 0 &&
                 strncmp(name + length, "' persistent=True", 17) == 0;
        if (parameter || buffer) {
            p->list[p->n_listed] = pst_arena_strndup(p->arena, name, length);
            pst_names_add(&p->listed, p->list[p->n_listed], p->n_listed);
            p->n_listed++;
        }
    }
}

/* --- whose values ----------------------------------------------------------------------------- */

/* The initializer that a node reads, maybe through what changes no value. */
static const struct onnx_value *source_of(const struct onnx_model *model,
                                          const struct onnx_value *value)
{
    const struct onnx_node *maker;

    while (value != NULL && (maker = onnx_maker(model, value)) != NULL &&
           (maker->op == ONNX_Identity || maker->op == ONNX_Transpose)) {
        value = onnx_in(model, maker, 0);
    }
    return value == NULL || value->tensor == NULL ? NULL : value;
}

static const struct onnx_origin *parameter_of(const struct publisher *p, uint32_t value)
{
    for (uint32_t i = 0; i < p->origins->n; i++) {
        if (p->origins->origins[i].variance == PST_NONE &&
            p->origins->origins[i].param.base == value) {
            return &p->origins->origins[i];
        }
    }
    return NULL;
}

/* swapped: the file has the axes of a matrix the other way round than the module. */
static void fill_form(const struct publisher *p, const struct onnx_value *value, bool swapped,
                      struct pst_initial_tensor *tensor)
{
    const struct onnx_model *model = p->model;
    const uint32_t v = (uint32_t)(value - model->values);
    const bool tied = model->tied != NULL && model->tied[v] != PST_NONE;
    const struct onnx_origin *origin = parameter_of(p, tied ? model->tied[v] : v);

    tensor->of_file = value->name;
    tensor->value = v;
    tensor->state = PST_NONE;
    tensor->kind = onnx_is_real(value->type)  ? PST_TENSOR_REAL
                   : value->type == ONNX_BOOL ? PST_TENSOR_TRUTH
                                              : PST_TENSOR_INTEGER;
    tensor->rank = value->rank;
    memcpy(tensor->dims, value->dims, value->rank * sizeof *value->dims);
    if (swapped) {
        tensor->dims[0] = value->dims[1];
        tensor->dims[1] = value->dims[0];
    }
    if (origin != NULL) {
        swapped = swapped != (tied && model->tied_swapped[v]);
        tensor->own = origin->name;
        tensor->layout = origin->param.turned             ? PST_LAYOUT_TURNED
                         : origin->param.image || swapped ? PST_LAYOUT_TORCH
                                                          : PST_LAYOUT_SAME;
        tensor->first = value->rank == 0 || value->dims[0] == 0
                            ? 0
                            : origin->param.first * (onnx_elems(value) / value->dims[0]);
    } else {
        tensor->layout = swapped ? PST_LAYOUT_TORCH : PST_LAYOUT_SAME;
    }
}

static struct pst_initial_tensor *add(struct publisher *p, const char *name,
                                      const struct onnx_value *value, bool swapped)
{
    struct pst_initial_tensor *tensor = &p->tensors[p->n];

    if (p->n == p->room || pst_names_add(&p->taken, name, p->n) != PST_NONE) {
        return NULL;
    }
    *tensor = (struct pst_initial_tensor){.name = name};
    fill_form(p, value, swapped, tensor);
    p->n++;
    return tensor;
}

/* --- lost names ------------------------------------------------------------------------------- */

/* The bias that is added to what a node makes; NULL: none. */
static const char *bias_after(const struct publisher *p, uint32_t i)
{
    const struct onnx_model *model = p->model;

    for (uint32_t k = i + 1; k < model->n_nodes; k++) {
        const struct onnx_node *node = &model->nodes[k];

        for (uint32_t side = 0; side < 2 && node->op == ONNX_Add; side++) {
            const struct onnx_value *other = onnx_in(model, node, 1 - side);

            if (node->in[side] == model->nodes[i].out[0] && other != NULL &&
                other->tensor != NULL && strstr(last_part(other->name), "bias") != NULL) {
                return other->name;
            }
        }
    }
    return NULL;
}

/* Returns true if the module of that path has one matrix and only looks up rows of it or multiplies
   by it, as Linear and Embedding do. */
static bool is_layer(const struct publisher *p, const char *scope)
{
    static const bool allowed[ONNX_N_OPS] = {
        [ONNX_MatMul] = true,    [ONNX_Gemm] = true, [ONNX_Gather] = true,
        [ONNX_Transpose] = true, [ONNX_Add] = true,  [ONNX_Identity] = true,
        [ONNX_Constant] = true};
    const struct onnx_value *matrix = NULL;

    for (uint32_t i = 0; i < p->model->n_nodes; i++) {
        const struct onnx_node *node = &p->model->nodes[i];
        const bool product = node->op == ONNX_MatMul || node->op == ONNX_Gemm;
        const struct onnx_value *read =
            product || node->op == ONNX_Gather
                ? source_of(p->model, onnx_in(p->model, node, product ? 1 : 0))
                : NULL;

        if (strcmp(p->scopes[i], scope) == 0 &&
            (!allowed[node->op] || (read != NULL && matrix != NULL && read != matrix))) {
            return false;
        }
        matrix = strcmp(p->scopes[i], scope) == 0 && read != NULL ? read : matrix;
    }
    return scope[0] != '\0' && matrix != NULL;
}

/* Returns true if a product is of a linear layer; only then its matrix is known as transposed. */
static bool is_linear(const struct publisher *p, uint32_t i)
{
    const char *list =
        onnx_metadata(p->model, &p->model->nodes[i].proto->base, 9, ONNX_NAME_SCOPES);

    return p->told ? list != NULL && strstr(list, ", 'linear") != NULL : is_layer(p, p->scopes[i]);
}

/* A matrix that a product reads and that the exporter has transposed: the name of the bias beside
   it, or of its module. NULL: nothing says it. */
static const char *lost_name(const struct publisher *p, const struct onnx_value *value)
{
    const struct onnx_model *model = p->model;
    const char *name = NULL;

    for (uint32_t i = 0; i < model->n_nodes && name == NULL && value->rank == 2; i++) {
        const struct onnx_node *node = &model->nodes[i];
        const char *bias;

        if (node->op != ONNX_MatMul || onnx_in(model, node, 1) != value) {
            continue;
        }
        bias = bias_after(p, i);
        if (bias != NULL && is_module_name(bias)) {
            const size_t n = (size_t)(strstr(last_part(bias), "bias") - bias);

            name = pst_arena_printf(p->arena, "%.*sweight%s", (int)n, bias, bias + n + 4);
        } else if (is_linear(p, i)) {
            name = pst_arena_printf(p->arena, "%s.weight", p->scopes[i]);
        }
    }
    return name != NULL && pst_names_find(&model->names, name) == PST_NONE &&
                   (!p->told || pst_names_find(&p->listed, name) != PST_NONE)
               ? name
               : NULL;
}

/* --- all -------------------------------------------------------------------------------------- */

/* A product reads it as its second factor. */
static bool is_factor(const struct onnx_model *model, const struct onnx_value *value)
{
    for (uint32_t i = 0; i < model->n_nodes; i++) {
        if (model->nodes[i].op == ONNX_MatMul && onnx_in(model, &model->nodes[i], 1) == value) {
            return true;
        }
    }
    return false;
}

/* An initializer that the file says to be a parameter of another name: a twin, or what the
   exporter's optimizer has made by moving the parameter's numbers. A matrix of products is the
   transposed one; how other shapes were moved, nothing says. */
static void publish_told(struct publisher *p, const struct onnx_value *value)
{
    const char *own = value->twin != NULL ? value->twin : value->name;
    const bool moved = pst_names_find(&p->listed, own) == PST_NONE && value->rank > 1;
    const bool swapped = moved && value->rank == 2 && is_factor(p->model, value);
    struct pst_initial_tensor *tensor = add(p, value->told->target, value, swapped);

    if (tensor != NULL && moved) {
        tensor->remark = swapped ? PST_TENSOR_GUESSED : PST_TENSOR_NAMELESS;
    }
}

static void publish_initializer(struct publisher *p, const struct onnx_value *value)
{
    struct pst_initial_tensor *tensor = NULL;
    const uint32_t v = (uint32_t)(value - p->model->values);
    const bool tied = p->model->tied != NULL && p->model->tied[v] != PST_NONE;
    const bool listed = pst_names_find(&p->listed, value->name) != PST_NONE;
    const bool lost = p->told ? !listed : is_nameless(value->name);
    const bool learned = parameter_of(p, tied ? p->model->tied[v] : v) != NULL;
    const char *found = learned && lost ? lost_name(p, value) : NULL;

    if (found != NULL && (tensor = add(p, found, value, true)) != NULL) {
        tensor->remark = PST_TENSOR_GUESSED;
    } else if (learned || (p->told ? listed : is_module_name(value->name))) {
        tensor = add(p, value->name, value, false);
        if (tensor != NULL && lost) {
            tensor->remark = PST_TENSOR_NAMELESS;
        }
    }
}

/* Exporters keep one of several equal initializers: an Identity has the name of another. */
static void publish_copy(struct publisher *p, const struct onnx_node *node)
{
    const struct onnx_value *value = source_of(p->model, onnx_in(p->model, node, 0));
    const struct onnx_value *y = onnx_out(p->model, node, 0);

    if (node->op == ONNX_Identity && value != NULL && y != NULL && is_module_name(value->name) &&
        !p->statistic[value - p->model->values] && !p->statistic[y - p->model->values] &&
        (p->told ? pst_names_find(&p->listed, y->name) != PST_NONE : is_module_name(y->name))) {
        add(p, y->name, value, false);
    }
}

/* Is this the path of the module that has the tensor of that name, called again? The older exporter
   writes "layer_1/fc_1" then, as it does of other modules, which have initializers of their own. */
static bool is_called_again(const struct publisher *p, const char *scope, const char *tensor)
{
    const char *end = last_part(tensor), *at = scope;
    bool again = false;

    while (tensor < end && *at != '\0') {
        const size_t n = strcspn(tensor, "."), whole = strcspn(at, ".");
        const size_t suffix = whole > n && at[n] == '_' ? 1 + strspn(at + n + 1, "0123456789") : 0;

        if (strncmp(at, tensor, n) != 0 || whole != n + suffix || suffix == 1) {
            return false;
        }
        at += whole;
        if (suffix > 0 &&
            has_module(p->model, pst_arena_strndup(p->arena, scope, (size_t)(at - scope)))) {
            return false;
        }
        again |= suffix > 0;
        at += *at == '.';
        tensor += n + 1;
    }
    return again && tensor == end && *at == '\0';
}

static bool has_name(const struct publisher *p, const struct onnx_value *value, const char *scope)
{
    bool found = false;

    for (uint32_t i = 0; i < p->n && !found; i++) {
        found = &p->model->values[p->tensors[i].value] == value &&
                is_called_again(p, scope, p->tensors[i].name);
    }
    return found;
}

/* The module that reads an initializer of another may have it as its own: a tie. */
static void publish_tie(struct publisher *p, uint32_t i)
{
    const struct onnx_node *node = &p->model->nodes[i];

    for (uint32_t k = 0; k < node->n_in && p->scopes[i][0] != '\0'; k++) {
        const struct onnx_value *read = onnx_in(p->model, node, k);
        const struct onnx_value *value = source_of(p->model, read);
        struct pst_initial_tensor *tensor;
        const char *name;
        bool moved;

        if (value == NULL || !is_module_name(value->name) ||
            p->statistic[value - p->model->values]) {
            continue;
        }
        moved = p->told && value->told != NULL && value->told->parameter && value->rank == 2 &&
                pst_names_find(&p->listed, value->name) == PST_NONE && is_factor(p->model, value);
        name = pst_arena_printf(p->arena, "%s.%s", p->scopes[i],
                                last_part(moved ? value->told->target : value->name));
        if (p->told ? pst_names_find(&p->listed, name) == PST_NONE
                    : (read->tensor == NULL && onnx_maker(p->model, read)->op == ONNX_Identity) ||
                          has_name(p, value, p->scopes[i])) {
            continue;
        }
        if (pst_names_find(&p->taken, name) == PST_NONE &&
            (p->told || ((value->rank == 2 || strcmp(last_part(value->name), "bias") == 0) &&
                         is_layer(p, p->scopes[i])))) {
            tensor = add(p, name, value, moved);
            if (tensor != NULL && (moved || !p->told)) {
                tensor->remark = PST_TENSOR_GUESSED;
            }
        }
    }
}

/* The parameter that several modules share, by that last part of its name; NULL: there is none, or
   more than one. */
static const struct onnx_value *shared_value(const struct publisher *p, const char *part)
{
    const struct onnx_value *shared = NULL;

    for (uint32_t i = 0; i < p->n; i++) {
        for (uint32_t k = 0; k < i; k++) {
            const struct pst_initial_tensor *a = &p->tensors[i], *b = &p->tensors[k];
            const struct onnx_value *value = &p->model->values[a->value];

            if (a->value == b->value && a->own != NULL && strcmp(last_part(a->name), part) == 0 &&
                value != shared) {
                if (shared != NULL) {
                    return NULL;
                }
                shared = value;
            }
        }
    }
    return shared;
}

/* A listed parameter that nobody reads may be one that a module within its own has, too: BERT's
   head has the bias of its decoder. Or it is the one that others share, as T5's table is. */
static void publish_outer(struct publisher *p, const char *name)
{
    const size_t n = (size_t)(last_part(name) - name);
    const struct onnx_value *inner = NULL;
    struct pst_initial_tensor *tensor;
    uint32_t count = 0;

    for (uint32_t i = 0; i < p->n && n > 0; i++) {
        const struct pst_initial_tensor *other = &p->tensors[i];

        if (other->own != NULL && other->state == PST_NONE && strncmp(other->name, name, n) == 0 &&
            strchr(other->name + n, '.') != NULL &&
            strcmp(strchr(other->name + n, '.') + 1, last_part(name)) == 0) {
            inner = &p->model->values[other->value];
            count++;
        }
    }
    inner = count == 1 ? inner : shared_value(p, last_part(name));
    tensor = inner != NULL ? add(p, name, inner, false) : NULL;
    if (tensor != NULL) {
        tensor->remark = PST_TENSOR_GUESSED;
    }
}

/* Running statistics of the operator that an origin is of. */
static void publish_state(struct publisher *p, const struct onnx_origin *origin, uint32_t state)
{
    const struct onnx_model *model = p->model;
    const struct onnx_value *value =
        &model->values[state == 0 ? origin->param.base : origin->variance];
    const char *name = value->name, *scope = "";
    struct pst_initial_tensor *tensor;

    for (uint32_t i = 0; i < model->n_nodes; i++) {
        const struct onnx_node *node = &model->nodes[i];

        if (node->op == ONNX_BatchNormalization &&
            onnx_in(model, node, state == 0 ? 3 : 4) == value) {
            scope = p->scopes[i];
            if (pst_names_find(&p->taken, name) == PST_NONE) {
                break;
            }
            name = pst_arena_printf(p->arena, "%s.%s", scope,
                                    state == 0 ? "running_mean" : "running_var");
        }
    }
    tensor = add(p, name, value, false);
    if (tensor != NULL) {
        tensor->own = origin->name;
        tensor->state = state;
        tensor->remark = is_module_name(name) ? PST_TENSOR_NAMED : PST_TENSOR_NAMELESS;
    }
}

static void mark_statistics(struct publisher *p)
{
    p->statistic = pst_arena_array(p->arena, p->model->n_values + 1, sizeof *p->statistic);
    for (uint32_t i = 0; i < p->origins->n; i++) {
        const struct onnx_origin *origin = &p->origins->origins[i];
        const uint32_t both[2] = {origin->param.base, origin->variance};

        for (uint32_t k = 0; k < 2 && origin->variance != PST_NONE; k++) {
            const struct onnx_value *source = source_of(p->model, &p->model->values[both[k]]);

            p->statistic[both[k]] = true;
            if (source != NULL) {
                p->statistic[source - p->model->values] = true;
            }
        }
    }
}

/* Names that the file lists and that nothing above has found: no output hangs on them. */
static void note_absent(struct publisher *p, struct pst_published_file *file)
{
    file->absent = pst_arena_array(p->arena, p->n_listed + 1, sizeof *file->absent);
    for (uint32_t i = 0; i < p->n_listed; i++) {
        if (pst_names_find(&p->taken, p->list[i]) == PST_NONE &&
            strcmp(last_part(p->list[i]), "num_batches_tracked") != 0) {
            file->absent[file->n_absent++] = p->list[i];
        }
    }
}

static void mark_needed(struct publisher *p)
{
    bool *read = pst_alloc(p->model->n_values + 1, sizeof *read);

    for (uint32_t i = 0; i < p->model->n_nodes; i++) {
        for (uint32_t k = 0; k < p->model->nodes[i].n_in; k++) {
            const struct onnx_value *value = onnx_in(p->model, &p->model->nodes[i], k);

            if (value != NULL) {
                read[value - p->model->values] = true;
            }
        }
    }
    for (uint32_t i = 0; i < p->n; i++) {
        p->tensors[i].needed = read[p->tensors[i].value];
    }
    free(read);
}

void onnx_publish(struct onnx_model *model, const struct onnx_origins *origins,
                  struct pst_published_file *ret_file)
{
    struct publisher p = {.model = model, .origins = origins, .arena = &model->arena};

    list_names(&p);
    find_scopes(&p);
    mark_statistics(&p);
    p.room = 2 * model->n_values + 2 * origins->n + p.n_listed;
    p.tensors = pst_arena_array(p.arena, p.room + 1, sizeof *p.tensors);
    pst_names_init(&p.taken, p.arena, p.room);
    for (uint32_t i = 0; i < model->n_values; i++) {
        const struct onnx_value *value = &model->values[i];

        if (value->tensor != NULL && !p.statistic[i]) {
            const bool renamed =
                p.told && value->told != NULL && value->told->parameter &&
                (value->twin != NULL || pst_names_find(&p.listed, value->name) == PST_NONE);

            (renamed ? publish_told : publish_initializer)(&p, value);
        }
    }
    for (uint32_t i = 0; i < origins->n; i++) {
        const struct onnx_origin *origin = &origins->origins[i];
        const struct onnx_value *base = &model->values[origin->param.base];

        for (uint32_t state = 0; state < 2 && origin->variance != PST_NONE; state++) {
            publish_state(&p, origin, state);
        }
        if (origin->variance == PST_NONE && base->tensor == NULL) { /* filled by a node */
            add(&p, base->name, base, false);
        }
    }
    for (uint32_t i = 0; i < model->n_nodes; i++) {
        publish_copy(&p, &model->nodes[i]);
    }
    for (uint32_t i = 0; i < model->n_nodes; i++) {
        publish_tie(&p, i);
    }
    for (uint32_t i = 0; i < p.n_listed; i++) {
        if (pst_names_find(&p.taken, p.list[i]) == PST_NONE) {
            publish_outer(&p, p.list[i]);
        }
    }
    mark_needed(&p);
    *ret_file =
        (struct pst_published_file){.path = model->path, .tensors = p.tensors, .n_tensors = p.n};
    note_absent(&p, ret_file);
}
