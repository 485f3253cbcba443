/* SPDX-License-Identifier: Apache-2.0
 *
 * Which initializers are parameters, and which are one. Files of PyTorch's newer exporter say it in
 * metadata: each parameter and buffer of the program by name, those that each operator read, those
 * that an initializer was folded from. Other files do not say; there an initializer is what its
 * name and use suggest, and one warning names the guesses, with the keys that override them.
 */
#include "onnx.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"

#define GRAPH_FIELD 16 /* metadata_props of messages, by number */
#define VALUE_FIELD 4

#define MOST_NAMED 12 /* initializers of a list in a warning */

/* --- names ----------------------------------------------------------------------------------- */

/* Names of a message, as many as are worth reading. */
struct guesses {
    struct pst_arena *arena;
    const char *text;
    uint32_t n;
};

static void add_guess(struct guesses *g, const char *guess)
{
    if (g->n < MOST_NAMED) {
        g->text = pst_arena_printf(g->arena, "%s%s\"%s\"", g->n == 0 ? "" : g->text,
                                   g->n == 0 ? "" : ", ", guess);
    } else if (g->n == MOST_NAMED) {
        g->text = pst_arena_printf(g->arena, "%s and others", g->text);
    }
    g->n++;
}

/* --- metadata --------------------------------------------------------------------------------- */

/* The value of a key in the metadata of a message (the field of that number), in the model's arena;
   NULL: none. Releases of onnx.proto before 1.16 do not have these fields; then entries are among
   the unknown fields, after their length. */
const char *onnx_metadata(struct onnx_model *model, const ProtobufCMessage *message,
                          uint32_t number, const char *key)
{
    const ProtobufCFieldDescriptor *row =
        protobuf_c_message_descriptor_get_field(message->descriptor, number);
    const char *fields = (const char *)message, *found = NULL;

    if (row != NULL && row->descriptor == &onnx__string_string_entry_proto__descriptor) {
        Onnx__StringStringEntryProto *const *entries =
            *(Onnx__StringStringEntryProto *const *const *)(const void *)(fields + row->offset);
        const size_t n = *(const size_t *)(const void *)(fields + row->quantifier_offset);

        for (size_t i = 0; i < n && found == NULL; i++) {
            found = entries[i]->key != NULL && strcmp(entries[i]->key, key) == 0 ? entries[i]->value
                                                                                 : NULL;
        }
    }
    for (unsigned i = 0; i < message->n_unknown_fields && found == NULL; i++) {
        const ProtobufCMessageUnknownField *field = &message->unknown_fields[i];
        Onnx__StringStringEntryProto *entry;
        size_t skip = 0;

        if (field->tag != number || field->wire_type != PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED) {
            continue;
        }
        while (skip < field->len && field->data[skip] >= 0x80) {
            skip++;
        }
        skip += skip < field->len;
        entry =
            onnx__string_string_entry_proto__unpack(NULL, field->len - skip, field->data + skip);
        if (entry != NULL && entry->key != NULL && entry->value != NULL &&
            strcmp(entry->key, key) == 0) {
            found = pst_arena_strdup(&model->arena, entry->value);
        }
        onnx__string_string_entry_proto__free_unpacked(entry, NULL);
    }
    return found;
}

/* The lines "placeholder: KIND target='name'" of the program's signature. */
static void read_signature(struct onnx_model *model)
{
    const char *at = onnx_metadata(model, &model->proto->graph->base, GRAPH_FIELD, ONNX_SIGNATURE);
    struct onnx_told *told;
    uint32_t n = 0;

    for (const char *line = at; line != NULL; line = strchr(line + 1, '\n')) {
        n++;
    }
    told = pst_arena_array(&model->arena, n, sizeof *told);
    while (at != NULL) {
        const char *end = strchr(at, '\n');
        const char *line = end == NULL
                               ? pst_arena_strdup(&model->arena, at)
                               : pst_arena_printf(&model->arena, "%.*s", (int)(end - at), at);
        const char *kind = strstr(line, ": "), *target = strstr(line, " target='");

        if (kind != NULL && target != NULL && kind < target) {
            target += strlen(" target='");
            told[model->n_told++] = (struct onnx_told){
                pst_arena_printf(&model->arena, "%.*s", (int)(kind - line), line),
                pst_arena_printf(&model->arena, "%.*s", (int)strcspn(target, "'"), target),
                strncmp(kind + 2, "PARAMETER", strlen("PARAMETER")) == 0};
        }
        at = end == NULL ? NULL : end + 1;
    }
    model->told = told;
}

static const struct onnx_told *find_told(const struct onnx_model *model, const char *target,
                                         size_t n)
{
    for (uint32_t i = 0; i < model->n_told; i++) {
        if (strlen(model->told[i].target) == n && memcmp(model->told[i].target, target, n) == 0) {
            return &model->told[i];
        }
    }
    return NULL;
}

/* "name", or "name_3", which is how the exporter numbers results of one operator. */
static bool is_result_of(const char *name, size_t n, const char *op)
{
    const size_t length = strlen(op);

    return n >= length && memcmp(name, op, length) == 0 &&
           (n == length ||
            (name[length] == '_' && strspn(name + length + 1, "0123456789") + length + 1 >= n));
}

/* Only factors of products on the right read it: the exporter transposes weights for them. */
static bool is_factor(const struct onnx_model *model, const char *name)
{
    const Onnx__GraphProto *graph = model->proto->graph;

    for (size_t i = 0; i < graph->n_node; i++) {
        for (size_t k = 0; k < graph->node[i]->n_input; k++) {
            const char *op = graph->node[i]->op_type == NULL ? "" : graph->node[i]->op_type;

            if (strcmp(graph->node[i]->input[k], name) == 0 &&
                (k != 1 || (strcmp(op, "MatMul") != 0 && strcmp(op, "Gemm") != 0))) {
                return false;
            }
        }
    }
    return true;
}

/* Returns true if the name is that of a result of an operator that only moves numbers. */
static bool only_moves(const struct onnx_model *model, const struct onnx_value *value,
                       const char *name, size_t n)
{
    static const char *const ops[] = {"t",       "transpose", "permute",   "numpy_t",
                                      "view",    "reshape",   "unsqueeze", "squeeze",
                                      "flatten", "clone",     "alias",     "_unsafe_view"};

    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        if (is_result_of(name, n, ops[i])) {
            return true;
        }
    }
    return is_result_of(name, n, "val") && value->rank == 2 && is_factor(model, value->name);
}

/* An initializer that the exporter's optimizer has computed, by the list of what from. */
static pst_status read_folded(struct onnx_model *model, struct onnx_value *value, const char *from,
                              struct pst_error *err)
{
    const struct onnx_told *source = NULL;
    bool moved = only_moves(model, value, value->name, strlen(value->name));
    uint32_t n = 0;

    for (const char *at = strchr(from, '\''); at != NULL; at = strchr(at, '\'')) {
        const size_t length = strcspn(++at, "'");
        const struct onnx_told *told = find_told(model, at, length);

        if (told != NULL && told->parameter) {
            source = told;
            n++;
        }
        moved = moved && (told != NULL ? told->parameter : only_moves(model, value, at, length));
        at += length + (at[length] == '\'');
    }
    if (n == 0) {
        return PST_OK;
    }
    if (n > 1 || !moved) {
        return ONNX_BAD("input.unsupported",
                        "the exporter's optimizer has computed \"%s\" out of the parameter \"%s\", "
                        "which training would not reach; export with optimize=False",
                        value->name, source->target);
    }
    value->told = source;
    value->parameter = true;
    value->buffer = false;
    return PST_OK;
}

/* Names of PyTorch's modules, "layers.0.scale", and not those that its exporter makes. */
static bool is_module_name(const char *name)
{
    return name[0] != '/' && strchr(name, ':') == NULL && name[strspn(name, "0123456789")] != '\0';
}

bool onnx_is_from_torch(const struct onnx_model *model)
{
    return model->proto->producer_name != NULL &&
           strcmp(model->proto->producer_name, "pytorch") == 0;
}

pst_status onnx_read_kinds(struct onnx_model *model, struct pst_error *err)
{
    const Onnx__GraphProto *graph = model->proto->graph;
    pst_status status = PST_OK;

    read_signature(model);
    for (uint32_t i = 0; i < model->n_values; i++) {
        struct onnx_value *value = &model->values[i];

        value->told = find_told(model, value->name, strlen(value->name));
        value->parameter = value->told != NULL
                               ? value->told->parameter
                               : model->n_told == 0 && onnx_is_from_torch(model) &&
                                     value->rank == 0 && is_module_name(value->name);
        value->buffer = model->n_told > 0 && !value->parameter;
    }
    for (size_t i = 0; i < graph->n_value_info && status == PST_OK; i++) {
        const ProtobufCMessage *info = &graph->value_info[i]->base;
        const char *name = graph->value_info[i]->name;
        const uint32_t v = name == NULL ? PST_NONE : pst_names_find(&model->names, name);
        const char *kind = v == PST_NONE
                               ? NULL
                               : onnx_metadata(model, info, VALUE_FIELD,
                                               "pkg.torch.export.graph_signature.InputSpec.kind");
        const char *from =
            v == PST_NONE || kind != NULL || model->values[v].told != NULL ||
                    !onnx_is_real(model->values[v].type)
                ? NULL
                : onnx_metadata(model, info, VALUE_FIELD, "pkg.onnxscript.optimizer.folded_from");

        if (kind != NULL) {
            model->values[v].parameter = strcmp(kind, "PARAMETER") == 0;
            model->values[v].buffer =
                strcmp(kind, "BUFFER") == 0 || strcmp(kind, "CONSTANT_TENSOR") == 0;
        }
        if (from != NULL) {
            status = read_folded(model, &model->values[v], from, err);
        }
    }
    return status;
}

bool onnx_is_copy(const struct onnx_model *model, const Onnx__NodeProto *node)
{
    const uint32_t first = node->op_type == NULL || strcmp(node->op_type, "Identity") != 0 ||
                                   node->n_input != 1 || node->n_output != 1
                               ? PST_NONE
                               : pst_names_find(&model->names, node->input[0]);

    return first != PST_NONE && model->n_told == 0 && onnx_is_from_torch(model) &&
           model->values[first].tensor != NULL && onnx_is_real(model->values[first].type) &&
           node->output[0][0] != '/' &&
           node->output[0][strspn(node->output[0], "0123456789")] != '\0';
}

/* --- parameters that an exporter joined ------------------------------------------------------- */

#define WORD      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"
#define MOST_READ 32 /* initializers, parameters of one operator of the program */

/* One operator of PyTorch's program: nodes [first, end), what they read, what the program says. */
struct program_op {
    uint32_t n_reads, n_told;
    struct {
        const struct onnx_node *node;
        uint32_t input;
    } reads[MOST_READ];
    const struct onnx_told *told[MOST_READ];
};

/* Parameters and buffers in "%linear : [...] = call_function[...](args = (%x, %p_a_weight), ...)".
 */
static void read_args(const struct onnx_model *model, const char *text, struct program_op *op)
{
    const char *at = strstr(text, "(args = ");

    while (at != NULL && (at = strchr(at, '%')) != NULL) {
        const size_t n = strspn(++at, WORD);

        for (uint32_t i = 0; i < model->n_told && op->n_told < MOST_READ; i++) {
            if (strlen(model->told[i].placeholder) == n &&
                memcmp(model->told[i].placeholder, at, n) == 0) {
                op->told[op->n_told++] = &model->told[i];
            }
        }
    }
}

/* Reads that are where they belong need no more. */
static void drop_right(const struct onnx_model *model, struct program_op *op)
{
    for (uint32_t i = 0; i < op->n_reads; i++) {
        const struct onnx_value *x = onnx_in(model, op->reads[i].node, op->reads[i].input);

        for (uint32_t k = 0; k < op->n_told && x->told != NULL; k++) {
            if (op->told[k] == x->told) {
                memmove(&op->told[k], &op->told[k + 1], (--op->n_told - k) * sizeof *op->told);
                memmove(&op->reads[i], &op->reads[i + 1], (--op->n_reads - i) * sizeof *op->reads);
                i--;
                break;
            }
        }
    }
}

static uint32_t find_value_of(const struct onnx_model *model, const struct onnx_told *told,
                              const Onnx__TensorProto *tensor)
{
    for (uint32_t v = 0; v < model->n_values; v++) {
        if (model->values[v].told == told &&
            (tensor == NULL || model->values[v].tensor == tensor)) {
            return v;
        }
    }
    return PST_NONE;
}

/* That read is of that parameter, which gets an initializer of its own. */
static pst_status part(struct onnx_model *model, const struct onnx_node *node, uint32_t input,
                       const struct onnx_told *told, struct pst_error *err)
{
    const uint32_t x = node->in[input];
    const bool free = pst_names_find(&model->names, told->target) == PST_NONE;
    uint32_t twin = find_value_of(model, told, model->values[x].tensor);
    pst_status status = PST_OK;

    if (twin == PST_NONE) {
        status = onnx_add_twin(
            model, x,
            free ? told->target
                 : pst_arena_printf(&model->arena, "%s of %s", told->target, model->values[x].name),
            &twin, err);
    }
    if (status == PST_OK) {
        model->values[twin].told = told;
        model->values[twin].parameter = told->parameter;
        model->values[twin].buffer = !told->parameter;
        node->in[input] = twin;
    }
    return status;
}

/* The nodes from `first` on that one operator became. */
static uint32_t read_program_op(struct onnx_model *model, uint32_t first, struct program_op *op)
{
    const char *text = onnx_program_text(model, &model->nodes[first]);
    uint32_t i = first;

    for (; i < model->n_nodes && op->n_reads < MOST_READ; i++) {
        const struct onnx_node *node = &model->nodes[i];
        const char *other = i == first ? text : onnx_program_text(model, node);

        if (i > first && (text == NULL || other == NULL || strcmp(text, other) != 0)) {
            break;
        }
        for (uint32_t k = 0; k < node->n_in && text != NULL && op->n_reads < MOST_READ; k++) {
            const struct onnx_value *x = onnx_in(model, node, k);

            if (x != NULL && x->tensor != NULL && onnx_is_real(x->type)) {
                op->reads[op->n_reads].node = node;
                op->reads[op->n_reads++].input = k;
            }
        }
    }
    if (text != NULL) {
        read_args(model, text, op);
        drop_right(model, op);
    }
    return i > first ? i : first + 1;
}

static bool is_zero_row(const struct onnx_model *model, const struct onnx_value *table,
                        uint64_t row)
{
    const uint64_t n = table->rank == 2 && row < table->dims[0] ? table->dims[1] : 0;
    double *numbers = pst_alloc(n + 1, sizeof *numbers);
    bool zero =
        n > 0 && onnx_tensor_reals(model, table->tensor, row * n, n, numbers, NULL) == PST_OK;

    for (uint64_t i = 0; i < n; i++) {
        zero = zero && numbers[i] == 0;
    }
    free(numbers);
    return zero;
}

static pst_status check_embedding(struct onnx_model *model, const struct onnx_node *node,
                                  struct pst_error *err)
{
    char name[192];

    return node->op == ONNX_Gather && onnx_scales_by_frequency(model, node)
               ? ONNX_BAD("input.unsupported",
                          "%s: gradients that are scaled by how often a token occurs "
                          "(scale_grad_by_freq) are not supported",
                          onnx_node_name(model, node, name))
               : PST_OK;
}

/* A node reads a result of the program that no node makes: the optimizer has left out an operator.
 */
static bool lacks_operator(struct onnx_model *model, const struct onnx_node *node)
{
    const char *signature =
        onnx_metadata(model, &model->proto->graph->base, GRAPH_FIELD, ONNX_SIGNATURE);
    const char *text = onnx_program_text(model, node);
    const char *at = text == NULL ? NULL : strstr(text, "(args = ");

    while (at != NULL && (at = strchr(at, '%')) != NULL) {
        const size_t n = strspn(++at, WORD);
        const char *name = pst_arena_printf(&model->arena, "%.*s", (int)n, at);
        const char *line = pst_arena_printf(&model->arena, "\n%s: ", name);

        if (strncmp(name, "getitem", 7) != 0 && strncmp(name, "sym_", 4) != 0 &&
            pst_names_find(&model->names, name) == PST_NONE && strstr(signature, line) == NULL) {
            return true;
        }
    }
    return false;
}

/* No node stands for an operator that makes an output of the program: the optimizer has left it
 * out.
 */
static bool lacks_end(struct onnx_model *model)
{
    const char *signature =
        onnx_metadata(model, &model->proto->graph->base, GRAPH_FIELD, ONNX_SIGNATURE);
    const char *at = signature;

    while (at != NULL && (at = strstr(at, ": USER_OUTPUT")) != NULL) {
        const char *name = at++;
        bool made = false;

        while (name > signature && name[-1] != '\n') {
            name--;
        }
        for (uint32_t i = 0; i < model->n_nodes && !made; i++) {
            const char *text = onnx_program_text(model, &model->nodes[i]);
            const size_t n = (size_t)(at - 1 - name);

            made = text == NULL ||
                   (text[0] == '%' && strncmp(text + 1, name, n) == 0 && text[1 + n] == ' ');
        }
        if (!made) {
            return true;
        }
    }
    return false;
}

/* Parameters that no initializer stands for. They may be unused, unless operators are missing. */
static void find_lost(struct onnx_model *model, struct guesses *lost)
{
    bool lacking = false;

    for (uint32_t i = 0; i < model->n_told; i++) {
        if (model->told[i].parameter && find_value_of(model, &model->told[i], NULL) == PST_NONE) {
            add_guess(lost, model->told[i].target);
        }
    }
    for (uint32_t i = 0; i < model->n_nodes && lost->n > 0 && !lacking; i++) {
        lacking = lacks_operator(model, &model->nodes[i]);
    }
    lost->n = lacking || (lost->n > 0 && lacks_end(model)) ? lost->n : 0;
}

pst_status onnx_part_joined(struct onnx_model *model, struct pst_error *err)
{
    struct guesses lost = {&model->arena, "", 0};
    pst_status status = PST_OK;

    for (uint32_t i = 0; i < model->n_nodes && model->n_told > 0 && status == PST_OK;) {
        struct program_op op = {0};
        uint32_t n = 0;

        status = check_embedding(model, &model->nodes[i], err);
        i = read_program_op(model, i, &op);
        for (uint32_t k = 0; k < op.n_reads; k++) { /* constants of the exporter's own apart */
            const struct onnx_value *x = onnx_in(model, op.reads[k].node, op.reads[k].input);

            if (op.n_reads == op.n_told || x->told != NULL) {
                op.reads[n++] = op.reads[k];
            }
        }
        for (uint32_t k = 0; k < op.n_told && status == PST_OK; k++) {
            if (n == op.n_told) {
                status = part(model, op.reads[k].node, op.reads[k].input, op.told[k], err);
            } else if (op.told[k]->parameter &&
                       find_value_of(model, op.told[k], NULL) == PST_NONE) {
                add_guess(&lost, op.told[k]->target);
            }
        }
    }
    if (lost.n == 0) {
        find_lost(model, &lost);
    }
    if (status == PST_OK && lost.n > 0) {
        return ONNX_BAD("input.unsupported",
                        "the exporter's optimizer has left out parameters that do nothing yet, or "
                        "joined them with others: %s; export with optimize=False",
                        lost.text);
    }
    return status;
}

/* --- ties ------------------------------------------------------------------------------------- */

#define PROBES 64

/* Numbers of a matrix at places that follow from its shape; a matrix the other way round has the
   same. All alike: it says nothing. */
static bool probe(const struct onnx_model *model, const struct onnx_value *value, bool swapped,
                  double *ret_numbers)
{
    const uint64_t rows = value->dims[swapped ? 1 : 0], columns = value->dims[swapped ? 0 : 1];
    bool different = false;

    for (uint64_t i = 0; i < PROBES; i++) {
        const uint64_t row = i * 2654435761u % rows, column = i * 40503u % columns;

        if (onnx_tensor_reals(model, value->tensor,
                              swapped ? column * rows + row : row * columns + column, 1,
                              &ret_numbers[i], NULL) != PST_OK) {
            return false;
        }
        different = different || ret_numbers[i] != ret_numbers[0];
    }
    return different;
}

static pst_status all_equal(const struct onnx_model *model, const struct onnx_value *a,
                            const struct onnx_value *b, bool swapped, bool *ret_equal,
                            struct pst_error *err)
{
    const uint64_t n = onnx_elems(a), rows = a->dims[0], columns = a->dims[1];
    double *left = pst_alloc(n, sizeof *left), *right = pst_alloc(n, sizeof *right);
    pst_status status = onnx_tensor_reals(model, a->tensor, 0, n, left, err);

    PST_TRY(status, onnx_tensor_reals(model, b->tensor, 0, n, right, err));
    *ret_equal = status == PST_OK;
    for (uint64_t i = 0; i < n && *ret_equal; i++) {
        *ret_equal = left[i] == right[swapped ? i % columns * rows + i / columns : i];
    }
    free(left);
    free(right);
    return status;
}

/* Makes a and b one parameter, with all that each was tied to before. */
static void tie(struct onnx_model *model, uint32_t a, uint32_t b, bool swapped)
{
    const char *left = model->values[a].name, *right = model->values[b].name;

    if (model->tied[a] != PST_NONE) {
        swapped = swapped != model->tied_swapped[a];
        a = model->tied[a];
    }
    if (model->tied[b] != PST_NONE) {
        swapped = swapped != model->tied_swapped[b];
        b = model->tied[b];
    }
    for (uint32_t v = 0; v < model->n_values && a != b; v++) {
        if (v == b || model->tied[v] == b) {
            model->tied_swapped[v] = swapped != (v != b && model->tied_swapped[v]);
            model->tied[v] = a;
        }
    }
    pst_log(PST_LOG_INFO, "onnx", "\"%s\" and \"%s\" are one parameter%s", left, right,
            swapped ? ", one of them transposed" : "");
}

static bool may_tie(const struct onnx_value *a, const struct onnx_value *b, bool swapped)
{
    return swapped ? a->rank == 2 && b->rank == 2 && a->dims[0] == b->dims[1] &&
                         a->dims[1] == b->dims[0]
                   : a->rank == b->rank && memcmp(a->dims, b->dims, a->rank * sizeof *a->dims) == 0;
}

/* By value: somebody looks up rows of it. */
static bool *find_tables(struct onnx_model *model)
{
    bool *tables = pst_arena_array(&model->arena, model->n_values, sizeof *tables);

    for (uint32_t i = 0; i < model->n_nodes; i++) {
        const struct onnx_node *node = &model->nodes[i];

        if (node->op == ONNX_Gather) {
            tables[onnx_skip(model, onnx_in(model, node, 0)) - model->values] = true;
        }
    }
    return tables;
}

static bool is_matrix(const struct onnx_model *model, uint32_t v)
{
    const struct onnx_value *value = &model->values[v];

    return value->tensor != NULL && value->learned && value->rank == 2 &&
           model->tied[v] == PST_NONE && value->twin == NULL;
}

/* Matrices of equal numbers, one transposed, or one a table and the other none: exporters that fold
   constants write those of one parameter so, and those of two that begin alike. Others that are
   equal are copies: PyTorch's TransformerEncoder begins with equal layers. */
static void find_equal(struct onnx_model *model, struct guesses *g)
{
    double numbers[PROBES], others[PROBES];
    const bool *tables = find_tables(model);

    for (uint32_t b = 0; b < model->n_values; b++) {
        const struct onnx_value *right = &model->values[b];

        if (!is_matrix(model, b) || onnx_elems(right) < 16 ||
            !probe(model, right, false, numbers)) {
            continue;
        }
        for (uint32_t k = 0; k < 2 * b; k++) {
            const struct onnx_value *left = &model->values[k / 2];
            const bool swapped = k % 2 != 0;
            bool equal = false;

            if (is_matrix(model, k / 2) && may_tie(left, right, swapped) &&
                (swapped || tables[k / 2] != tables[b]) && probe(model, left, swapped, others) &&
                memcmp(numbers, others, sizeof others) == 0 &&
                all_equal(model, left, right, swapped, &equal, NULL) == PST_OK && equal) {
                add_guess(g, pst_arena_printf(g->arena, "%s=%s", left->name, right->name));
                break;
            }
        }
    }
}

/* Initializers that the exporter made of one parameter. */
static pst_status tie_told(struct onnx_model *model, struct pst_error *err)
{
    for (uint32_t b = 0; b < model->n_values; b++) {
        const struct onnx_value *right = &model->values[b];
        const uint32_t a = right->told == NULL ? PST_NONE : find_value_of(model, right->told, NULL);
        const struct onnx_value *left = a == PST_NONE ? NULL : &model->values[a];
        bool equal = false;

        if (left == NULL || a == b || !right->parameter) {
            continue;
        }
        for (uint32_t k = 0; k < 2 && !equal && left->rank == 2 && right->rank == 2; k++) {
            pst_status status = may_tie(left, right, k == 0)
                                    ? all_equal(model, left, right, k == 0, &equal, err)
                                    : PST_OK;

            if (status != PST_OK) {
                return status;
            }
            if (equal) {
                tie(model, a, b, k == 0);
            }
        }
        if (!equal) {
            return ONNX_BAD("input.unsupported",
                            "\"%s\" and \"%s\" are one parameter in two forms; export with "
                            "optimize=False",
                            left->name, right->name);
        }
    }
    return PST_OK;
}

static uint32_t named(const struct onnx_model *model, const char *name, size_t n)
{
    char *copy = pst_strndup(name, n);
    uint32_t value = pst_names_find(&model->names, copy);

    free(copy);
    return value;
}

/* Pairs "a=b". */
static pst_status tie_pairs(struct onnx_model *model, struct pst_error *err)
{
    const char *list = model->config->tie, *pair;
    size_t n;

    while ((pair = pst_list_next(&list, &n)) != NULL) {
        const size_t first = strcspn(pair, "=");
        const uint32_t a = named(model, pair, first);
        const uint32_t b = first < n ? named(model, pair + first + 1, n - first - 1) : PST_NONE;
        const struct onnx_value *left = a == PST_NONE ? NULL : &model->values[a];
        const struct onnx_value *right = b == PST_NONE ? NULL : &model->values[b];

        if (left == NULL || right == NULL || a == b || left->tensor == NULL ||
            right->tensor == NULL ||
            (!may_tie(left, right, false) && !may_tie(left, right, true))) {
            return pst_fail(err, PST_ERR_CONFIG, "config.value",
                            "\"tie\" in [model] is \"auto\", \"off\" or a list of \"a=b\" of "
                            "initializers of one shape; \"%.*s\" is none",
                            (int)n, pair);
        }
        tie(model, a, b, !may_tie(left, right, false));
    }
    return PST_OK;
}

pst_status onnx_find_ties(struct onnx_model *model, struct pst_error *err)
{
    const char *tie = model->config->tie;
    pst_status status = PST_OK;

    model->tied = pst_arena_array(&model->arena, model->n_values, sizeof *model->tied);
    model->tied_swapped =
        pst_arena_array(&model->arena, model->n_values, sizeof *model->tied_swapped);
    for (uint32_t i = 0; i < model->n_values; i++) {
        model->tied[i] = PST_NONE;
    }
    if (strcmp(tie, "off") != 0) {
        status = tie_told(model, err);
    }
    return status != PST_OK || strcmp(tie, "off") == 0 || strcmp(tie, "auto") == 0
               ? status
               : tie_pairs(model, err);
}

/* --- what the file does not say ----------------------------------------------------------------
 */

/* Returns true if the name alone shows a parameter of a PyTorch module, or its transpose. */
static bool is_plainly_trained(const struct onnx_value *value)
{
    const char *last = strrchr(value->name, '.');

    last = last == NULL ? value->name : last;
    return value->rank > 0 && (strstr(last, "weight") != NULL || strstr(last, "bias") != NULL ||
                               strncmp(value->name, "onnx::MatMul_", 13) == 0);
}

static const char *list_of(const struct guesses *g, const char *what, const char *key)
{
    return g->n == 0 ? "" : pst_arena_printf(g->arena, "%s%s%s;", what, g->text, key);
}

/* The only row of a table that is 0, as that of a padding_idx is; as many as there are rows: none.
 */
static uint64_t find_zero_row(const struct onnx_model *model, const struct onnx_value *table)
{
    const uint64_t n = table->tensor != NULL && table->rank == 2 ? table->dims[0] : 0;
    uint64_t found = n;

    for (uint64_t row = 0; row < n; row++) {
        if (is_zero_row(model, table, row)) {
            if (found < n) {
                return n;
            }
            found = row;
        }
    }
    return found;
}

static void guess_padding(struct onnx_model *model, const uint32_t *params, uint32_t n_params,
                          struct guesses *g)
{
    const bool *tables = find_tables(model);

    for (uint32_t i = 0; i < n_params; i++) {
        const struct onnx_value *value = &model->values[params[i]];
        const uint64_t row =
            tables[params[i]] && !pst_list_matches(model->config->trained, value->name)
                ? find_zero_row(model, value)
                : value->dims[0];

        if (row < value->dims[0]) {
            add_guess(g,
                      pst_arena_printf(g->arena, "%s[%llu]", value->name, (unsigned long long)row));
        }
    }
}

void onnx_warn_of_guesses(struct onnx_model *model, const uint32_t *params, uint32_t n_params)
{
    struct pst_arena *arena = &model->arena;
    struct guesses trained = {arena, "", 0}, left = trained, equal = trained, made = trained;
    struct guesses padding = trained;
    const struct onnx_config *config = model->config;

    if (model->n_told > 0) {
        return;
    }
    for (uint32_t i = 0; i < n_params; i++) {
        const struct onnx_value *value = &model->values[params[i]];

        if (!is_plainly_trained(value) && !pst_list_matches(config->trained, value->name)) {
            add_guess(value->tensor == NULL || is_module_name(value->name) ? &trained : &made,
                      value->name);
        }
        if (value->twin != NULL && strcmp(config->tie, "auto") == 0) {
            add_guess(&equal, pst_arena_printf(arena, "%s=%s", value->twin, value->name));
        }
    }
    for (uint32_t i = 0; i < model->n_values; i++) {
        const struct onnx_value *value = &model->values[i];

        if (value->tensor != NULL && value->rank == 0 && onnx_is_real(value->type) &&
            !value->learned && !value->buffer && is_module_name(value->name) &&
            !pst_list_matches(config->frozen, value->name)) {
            add_guess(&left, value->name);
        }
    }
    if (strcmp(config->tie, "auto") == 0) {
        find_equal(model, &equal);
    }
    guess_padding(model, params, n_params, &padding);
    if (trained.n + left.n + equal.n + made.n + padding.n > 0) {
        pst_log_once(
            PST_LOG_WARN, "onnx",
            pst_arena_printf(arena, "%s does not say what is a parameter; guesses:%s%s%s%s%s",
                             model->path,
                             list_of(&trained, " trained: ", " (model.frozen lists what is not)"),
                             list_of(&made, " trained although the exporter has computed it: ",
                                     " (export with do_constant_folding=False)"),
                             list_of(&left, " constant: ", " (model.trained lists what is not)"),
                             list_of(&padding, " trained rows of zeros, which may be padding_idx: ",
                                     " (model.trained lists the tables; dynamo=True says it)"),
                             list_of(&equal, " two parameters that begin alike: ",
                                     " (model.tie lists those that are one)")));
    }
}
