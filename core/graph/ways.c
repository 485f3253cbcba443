/* SPDX-License-Identifier: Apache-2.0
 *
 * Megatron's pattern: a linear layer that reads what is whole is split by columns, one that reads
 * what is split by rows, and what stands between them works on its own columns or heads. Operators
 * are visited in their order; a choice that turns out not to go with a later one is forbidden, and
 * all begin again, with one possibility less.
 */
#include "graph/ways.h"

#include <string.h>

#include "base/philox.h"
#include "graph/op_rules.h"

/* Bytes of a matrix that is split although its result must be joined. */
enum { LARGE = 1 << 20 };

static const struct pst_tensor *tensor_of(const struct ways *ways, uint32_t tensor)
{
    return &ways->graph->tensors[tensor];
}

static uint64_t last_of(const struct pst_tensor *tensor)
{
    return tensor->rank == 0 ? 1 : tensor->dims[tensor->rank - 1];
}

static struct cut one_cut(uint64_t section)
{
    return (struct cut){.n = 1, .sections = {section}};
}

static bool is_divided(const struct ways *ways, const struct cut *cut)
{
    for (uint32_t i = 0; i < cut->n; i++) {
        if (cut->sections[i] % ways->parts != 0) {
            return false;
        }
    }
    return cut->n > 0;
}

static bool same_cut(const struct cut *a, const struct cut *b)
{
    return a->n == b->n && memcmp(a->sections, b->sections, a->n * sizeof *a->sections) == 0;
}

uint32_t pst_ways_asked(const struct ways *ways, const struct pst_op *op)
{
    return ways->asked == NULL ? PST_WAY_AUTO : ways->asked[op - ways->graph->ops];
}

/* A parameter that one operator alone uses may be split as it likes. */
static bool may_split(const struct ways *ways, uint32_t parameter)
{
    return parameter == PST_NONE || !ways->together[parameter];
}

static bool is_large(const struct pst_parameter *matrix)
{
    return matrix->elems * pst_dtype_bytes(matrix->dtype) >= LARGE;
}

/* --- vocabularies ------------------------------------------------------------------------------*/

/* All of its places, and as many more as make it divisible. */
static struct cut padded_cut(const struct ways *ways, uint64_t places)
{
    struct cut cut = one_cut(places);

    cut.padding = (ways->parts - places % ways->parts) % ways->parts;
    return cut;
}

/* Logits that cross-entropy alone reads are never joined. */
static bool are_logits(const struct ways *ways, uint32_t tensor)
{
    const struct pst_tensor *of = tensor_of(ways, tensor);
    const struct pst_op *reader = &ways->graph->ops[of->n_consumers > 0 ? of->consumers[0] : 0];

    return tensor == ways->graph->logits && of->n_consumers == 1 && last_of(of) <= UINT32_MAX &&
           reader->kind == PST_OP_CROSS_ENTROPY && pst_ways_ours(ways, of->consumers[0]) &&
           pst_ways_asked(ways, reader) != PST_WAY_WHOLE;
}

static bool is_used_by(const struct ways *ways, const struct pst_parameter *parameter,
                       uint32_t kind)
{
    bool used = false;

    for (uint32_t u = 0; u < parameter->n_users; u++) {
        used = used || ways->graph->ops[parameter->users[u]].kind == kind;
    }
    return used;
}

/* Returns true if the head shares its matrix with a table, or the matrix is large. Such a head is
   split by classes even if its input is split. */
static bool is_head(const struct ways *ways, const struct pst_op *op)
{
    const struct pst_parameter *matrix = &ways->graph->params[op->param[0]];

    return are_logits(ways, op->out[0]) &&
           (is_large(matrix) || is_used_by(ways, matrix, PST_OP_EMBEDDING));
}

static bool has_table(const struct ways *ways, const struct pst_op *op)
{
    const struct pst_parameter *table = &ways->graph->params[op->param[0]];

    return op->bag == PST_BAG_NONE && may_split(ways, op->param[0]) &&
           table->dims[0] <= UINT32_MAX &&
           (is_large(table) || is_used_by(ways, table, PST_OP_LINEAR) ||
            pst_ways_asked(ways, op) == PST_WAY_VOCAB);
}

/* --- what readers want -------------------------------------------------------------------------*/

static struct cut wanted_cut(const struct ways *ways, uint32_t tensor);

/* Queries, and keys and values; packed in one tensor or in two. */
static struct cut heads_cut(const struct ways *ways, const struct pst_op *op, uint32_t input)
{
    const uint64_t width = last_of(tensor_of(ways, op->out[0]));
    const uint32_t kv_heads = pst_op_kv_heads(op);
    const uint64_t keys = width / op->heads * kv_heads;

    if (op->heads % ways->parts != 0 || kv_heads % ways->parts != 0 ||
        !may_split(ways, op->param[0])) {
        return (struct cut){0};
    }
    return op->n_in == 1 ? (struct cut){.n = 3, .sections = {width, keys, keys}}
           : input == 0  ? one_cut(width)
                         : (struct cut){.n = 2, .sections = {keys, keys}};
}

/* Do the heads of a rotation or norm lie so? */
static bool has_heads(const struct ways *ways, const struct pst_op *op, const struct cut *cut)
{
    const bool turns = op->kind == PST_OP_ROTARY;
    const uint64_t depth = turns ? op->head_dim : ways->graph->params[op->param[0]].dims[0];
    uint64_t left = depth * (turns ? op->heads : op->heads + pst_op_kv_heads(op));

    for (uint32_t i = 0; i < cut->n && left > 0; i++) {
        if (cut->sections[i] % (depth * ways->parts) != 0 || cut->sections[i] > left) {
            return false;
        }
        left -= cut->sections[i];
    }
    return cut->n > 0 && left == 0;
}

/* How a reader would have this input split; n 0: whole. */
static struct cut wanted_by(const struct ways *ways, uint32_t reader, uint32_t tensor)
{
    const struct pst_op *op = &ways->graph->ops[reader];
    const struct cut one = one_cut(last_of(tensor_of(ways, tensor)));
    const uint32_t asked = pst_ways_asked(ways, op);
    struct cut after;

    if (asked == PST_WAY_WHOLE || asked == PST_WAY_ROWS || asked == PST_WAY_COLUMN ||
        !pst_ways_ours(ways, reader)) {
        return (struct cut){0};
    }
    switch (op->kind) {
    case PST_OP_ATTENTION:
        return op->n_in == 2 && op->in[0] == op->in[1]
                   ? (struct cut){0}
                   : heads_cut(ways, op, op->in[0] == tensor ? 0 : 1);
    case PST_OP_ROTARY:
    case PST_OP_QKNORM:
        after = wanted_cut(ways, op->out[0]);
        return has_heads(ways, op, &after) ? after : (struct cut){0};
    case PST_OP_GLU:
        return (struct cut){.n = 2, .sections = {one.sections[0] / 2, one.sections[0] / 2}};
    case PST_OP_DROPOUT: /* random numbers are drawn four at a time */
        after = wanted_cut(ways, op->out[0]);
        return after.n == 1 && after.sections[0] / ways->parts % PST_PHILOX_WORDS == 0
                   ? after
                   : (struct cut){0};
    case PST_OP_ACT:
        return wanted_cut(ways, op->out[0]);
    case PST_OP_LINEAR:
        return op->act == PST_ACT_NONE && may_split(ways, op->param[0]) && !is_head(ways, op)
                   ? one
                   : (struct cut){0};
    default:
        return (struct cut){0};
    }
}

/* The cut that all its readers want. */
static struct cut wanted_cut(const struct ways *ways, uint32_t tensor)
{
    const struct pst_tensor *of = tensor_of(ways, tensor);
    struct cut cut = {0};

    for (uint32_t i = 0; i < of->n_consumers; i++) {
        const struct cut next = wanted_by(ways, of->consumers[i], tensor);

        if (!is_divided(ways, &next) || (i > 0 && !same_cut(&cut, &next))) {
            return (struct cut){0};
        }
        cut = next;
    }
    return tensor == ways->graph->logits ? (struct cut){0} : cut;
}

/* --- rows of tokens ----------------------------------------------------------------------------*/

static bool are_alike(const struct ways *ways, const struct pst_op *op)
{
    const struct pst_tensor *result = tensor_of(ways, op->out[0]);

    for (uint32_t i = 0; i < op->n_in; i++) {
        const struct pst_tensor *x = tensor_of(ways, op->in[i]);

        if (x->rank != result->rank || memcmp(x->dims, result->dims, sizeof x->dims[0] * x->rank)) {
            return false;
        }
    }
    return op->n_in > 0;
}

bool pst_ways_by_row(const struct ways *ways, const struct pst_op *op)
{
    const bool rows = ways->rows || pst_ways_asked(ways, op) == PST_WAY_ROWS;

    if (tensor_of(ways, op->out[0])->rank != 2 || !tensor_of(ways, op->out[0])->batched) {
        return false;
    }
    switch (op->kind) {
    case PST_OP_LAYERNORM:
    case PST_OP_RMSNORM:
    case PST_OP_ADD:
    case PST_OP_DROPOUT:
        return true;
    case PST_OP_LINEAR: /* the vocabulary is divided */
        return rows && !are_logits(ways, op->out[0]);
    case PST_OP_GLU:
        return rows;
    case PST_OP_ACT:
    case PST_OP_MAP:
        return rows && are_alike(ways, op);
    default:
        return false;
    }
}

/* Works row by row on sequences, without heads or columns. */
static bool has_tokens(const struct ways *ways, const struct pst_op *op)
{
    const struct pst_tensor *result = tensor_of(ways, op->out[0]);
    const uint32_t asked = pst_ways_asked(ways, op);

    return (asked == PST_WAY_AUTO ? ways->sequence : asked == PST_WAY_ROWS) &&
           pst_ways_ours(ways, (uint32_t)(op - ways->graph->ops)) && pst_ways_by_row(ways, op) &&
           result->dims[0] % ways->parts == 0 &&
           (op->p == 0 || result->elems / ways->parts % PST_PHILOX_WORDS == 0);
}

static bool is_read_by_tokens(const struct ways *ways, uint32_t tensor)
{
    const struct pst_tensor *of = tensor_of(ways, tensor);

    for (uint32_t i = 0; i < of->n_consumers; i++) {
        if (!has_tokens(ways, &ways->graph->ops[of->consumers[i]])) {
            return false;
        }
    }
    return of->n_consumers > 0;
}

/* --- choice ------------------------------------------------------------------------------------*/

static enum way way_of_linear(const struct ways *ways, uint32_t v, struct cut *ret_cut)
{
    const struct pst_op *op = &ways->graph->ops[v];
    const struct cut *x = &ways->cuts[op->in[0]];
    const struct cut one = one_cut(last_of(tensor_of(ways, op->out[0])));
    const bool by_columns = pst_ways_asked(ways, op) == PST_WAY_COLUMN;
    struct cut cut;

    *ret_cut = (struct cut){0};
    if (!may_split(ways, op->param[0]) || !may_split(ways, op->param[1])) {
        return WAY_WHOLE;
    }
    if (x->n == 1 && op->act == PST_ACT_NONE && !is_head(ways, op) && !by_columns) {
        ret_cut->tokens = is_read_by_tokens(ways, op->out[0]);
        return WAY_ROW;
    }
    if (are_logits(ways, op->out[0])) {
        *ret_cut = padded_cut(ways, one.sections[0]);
        return WAY_COLUMN;
    }
    cut = ways->plain[v] ? one : wanted_cut(ways, op->out[0]);
    if (cut.n == 0 && (by_columns || is_large(&ways->graph->params[op->param[0]]))) {
        cut = one;
    }
    if (!is_divided(ways, &cut)) {
        return WAY_WHOLE;
    }
    *ret_cut = cut;
    return WAY_COLUMN;
}

struct cut pst_ways_exchanged(const struct ways *ways, uint32_t tensor)
{
    return wanted_cut(ways, tensor);
}

/* How an operator with heads has its input. */
static struct cut input_cut(const struct ways *ways, uint32_t tensor)
{
    const struct cut *cut = &ways->cuts[tensor];

    if (!ways->exchange || !cut->tokens) {
        return *cut;
    }
    return ways->plain[tensor_of(ways, tensor)->producer] ? (struct cut){0}
                                                          : pst_ways_exchanged(ways, tensor);
}

static enum way way_of_heads(const struct ways *ways, const struct pst_op *op, struct cut *ret_cut)
{
    for (uint32_t i = 0; i < op->n_in; i++) {
        const struct cut has = input_cut(ways, op->in[i]);
        const struct cut want = op->kind == PST_OP_ATTENTION ? heads_cut(ways, op, i) : has;

        if (!is_divided(ways, &want) || !same_cut(&want, &has) ||
            (op->kind != PST_OP_ATTENTION && !has_heads(ways, op, &want))) {
            return WAY_WHOLE;
        }
    }
    *ret_cut = op->kind != PST_OP_ATTENTION ? input_cut(ways, op->in[0])
                                            : one_cut(last_of(tensor_of(ways, op->out[0])));
    return WAY_HEADS;
}

/* Positions are added to the sum, to that of all tokens. */
static enum way way_of_embedding(const struct ways *ways, const struct pst_op *op,
                                 struct cut *ret_cut)
{
    ret_cut->tokens =
        has_table(ways, op) && op->param[1] == PST_NONE && is_read_by_tokens(ways, op->out[0]);
    return has_table(ways, op) ? WAY_TABLE : WAY_WHOLE;
}

/* Each part has columns of all experts. */
static enum way way_of_experts(const struct ways *ways, const struct pst_op *op,
                               struct cut *ret_cut)
{
    const uint64_t width = ways->graph->params[op->param[1]].dims[1];

    if (width % ways->parts != 0 || !may_split(ways, op->param[0]) ||
        !may_split(ways, op->param[1])) {
        return WAY_WHOLE;
    }
    ret_cut->tokens = is_read_by_tokens(ways, op->out[0]);
    return WAY_EXPERTS;
}

/* Under `rows` only vocabularies are divided otherwise, and heads, where they are exchanged. */
static bool has_no_columns(const struct ways *ways, const struct pst_op *op)
{
    switch (op->kind) {
    case PST_OP_EMBEDDING:
    case PST_OP_CROSS_ENTROPY:
        return false;
    case PST_OP_LINEAR:
        return ways->rows && !are_logits(ways, op->out[0]);
    case PST_OP_ATTENTION:
    case PST_OP_ROTARY:
    case PST_OP_QKNORM:
        return ways->rows && !ways->exchange;
    default:
        return ways->rows;
    }
}

static enum way choose_way(const struct ways *ways, uint32_t v, struct cut *ret_cut)
{
    const struct pst_op *op = &ways->graph->ops[v];
    const struct cut *x = op->n_in > 0 ? &ways->cuts[op->in[0]] : NULL;
    const uint32_t asked = pst_ways_asked(ways, op);

    *ret_cut = (struct cut){0};
    if (asked == PST_WAY_WHOLE || !pst_ways_ours(ways, v)) {
        return WAY_WHOLE;
    }
    if (asked == PST_WAY_ROWS || has_no_columns(ways, op)) {
        ret_cut->tokens = has_tokens(ways, op);
        return ret_cut->tokens ? WAY_TOKENS : WAY_WHOLE;
    }
    switch (op->kind) {
    case PST_OP_LINEAR:
        return way_of_linear(ways, v, ret_cut);
    case PST_OP_EMBEDDING:
        return way_of_embedding(ways, op, ret_cut);
    case PST_OP_CROSS_ENTROPY:
        return x->n > 0 && are_logits(ways, op->in[0]) ? WAY_CLASSES : WAY_WHOLE;
    case PST_OP_ATTENTION:
    case PST_OP_ROTARY:
    case PST_OP_QKNORM:
        return way_of_heads(ways, op, ret_cut);
    case PST_OP_EXPERTS:
        return way_of_experts(ways, op, ret_cut);
    case PST_OP_GLU:
        if (x->n == 2 && x->sections[0] == x->sections[1]) {
            *ret_cut = one_cut(x->sections[0]);
        }
        return ret_cut->n > 0 ? WAY_ALIKE : WAY_WHOLE;
    case PST_OP_DROPOUT:
        if (x->n != 1 || x->sections[0] / ways->parts % PST_PHILOX_WORDS != 0) {
            ret_cut->tokens = has_tokens(ways, op);
            return ret_cut->tokens ? WAY_TOKENS : WAY_WHOLE;
        }
        *ret_cut = *x;
        return WAY_ALIKE;
    case PST_OP_ACT:
        *ret_cut = x->n > 0 ? *x : (struct cut){0};
        return x->n > 0 ? WAY_ALIKE : WAY_WHOLE;
    default:
        ret_cut->tokens = has_tokens(ways, op);
        return ret_cut->tokens ? WAY_TOKENS : WAY_WHOLE;
    }
}

/* The operator that split a tensor. */
static uint32_t splitter_of(const struct ways *ways, uint32_t tensor)
{
    uint32_t v = tensor_of(ways, tensor)->producer;

    while (ways->way[v] == WAY_HEADS || ways->way[v] == WAY_ALIKE) {
        v = tensor_of(ways, ways->graph->ops[v].in[0])->producer;
    }
    return v;
}

/* Sections are not joined: what reads all of a tensor that has several gets it in one. Returns
   false if that forbids what was chosen before. */
static bool allow_reads(struct ways *ways, uint32_t v)
{
    const struct pst_op *op = &ways->graph->ops[v];
    bool fine = true;

    for (uint32_t i = 0; i < op->n_in; i++) {
        const uint32_t n = ways->cuts[op->in[i]].n;

        if (n > 1 && ways->way[v] != WAY_ROW && ways->way[v] != WAY_HEADS &&
            ways->way[v] != WAY_ALIKE) {
            ways->plain[splitter_of(ways, op->in[i])] = true;
            fine = false;
        }
    }
    return fine;
}

static bool same_box(const struct pst_box *a, const struct pst_box *b)
{
    return a->parts == b->parts && a->axis == b->axis && a->n_sections == b->n_sections &&
           a->padding == b->padding &&
           memcmp(a->sections, b->sections, a->n_sections * sizeof *a->sections) == 0;
}

static struct pst_box parameter_box(const struct ways *ways, uint32_t v, uint32_t slot)
{
    const struct pst_op *op = &ways->graph->ops[v];
    const bool row = ways->way[v] == WAY_ROW;
    const struct cut *cut = &ways->cuts[row ? op->in[0] : op->out[0]];
    struct pst_box box = {.parts = ways->parts, .n_sections = cut->n};

    memcpy(box.sections, cut->sections, sizeof box.sections);
    if (op->kind == PST_OP_ATTENTION && ways->way[v] == WAY_HEADS) {
        return (struct pst_box){ways->parts, 1, 1, {op->heads}, 0};
    }
    if (ways->way[v] == WAY_TABLE && slot == 0) {
        const struct cut rows = padded_cut(ways, ways->graph->params[op->param[0]].dims[0]);

        return (struct pst_box){ways->parts, 0, 1, {rows.sections[0]}, rows.padding};
    }
    if (ways->way[v] == WAY_EXPERTS) { /* [experts, C, gate|up], [experts, F, C] */
        const uint64_t width = ways->graph->params[op->param[1]].dims[1];

        return slot == 0 ? (struct pst_box){ways->parts, 2, 2, {width, width}, 0}
                         : (struct pst_box){ways->parts, 1, 1, {width}, 0};
    }
    if (op->kind != PST_OP_LINEAR || ways->way[v] == WAY_WHOLE || ways->way[v] == WAY_TOKENS ||
        (row && slot == 1)) {
        return (struct pst_box){0};
    }
    box.padding = cut->padding;
    box.axis = slot == 0 && op->transposed == row ? 1 : 0;
    return box;
}

struct pst_box pst_ways_box(const struct ways *ways, uint32_t parameter)
{
    const struct pst_parameter *of = &ways->graph->params[parameter];

    return parameter_box(ways, of->users[0], of->user_slots[0]);
}

/* All uses of a parameter have it split alike, or it is whole. */
static bool agree_on(struct ways *ways, uint32_t parameter)
{
    const struct pst_parameter *of = &ways->graph->params[parameter];
    const struct pst_box first = pst_ways_box(ways, parameter);

    for (uint32_t u = 1; u < of->n_users; u++) {
        const struct pst_box other = parameter_box(ways, of->users[u], of->user_slots[u]);

        if (!same_box(&first, &other)) {
            ways->together[parameter] = true;
            return false;
        }
    }
    return true;
}

static bool choose_all(struct ways *ways)
{
    bool fine = true;

    for (uint32_t v = 0; v < ways->graph->n_ops; v++) {
        struct cut cut;

        ways->way[v] = choose_way(ways, v, &cut);
        ways->cuts[ways->graph->ops[v].out[0]] = cut;
    }
    for (uint32_t v = 0; v < ways->graph->n_ops; v++) {
        fine = allow_reads(ways, v) && fine;
    }
    for (uint32_t p = 0; p < ways->graph->n_params; p++) {
        fine = agree_on(ways, p) && fine;
    }
    return fine;
}

void pst_ways_choose(struct ways *ways)
{
    uint32_t left = ways->graph->n_ops + ways->graph->n_params;

    while (!choose_all(ways)) {
        PST_ASSERT(left-- > 0); /* each round forbids something that was allowed */
    }
}

uint32_t pst_ways_name(const struct ways *ways, uint32_t v)
{
    static const uint8_t names[] = {[WAY_WHOLE] = PST_WAY_WHOLE,    [WAY_COLUMN] = PST_WAY_COLUMN,
                                    [WAY_ROW] = PST_WAY_ROW,        [WAY_HEADS] = PST_WAY_HEADS,
                                    [WAY_ALIKE] = PST_WAY_COLUMNS,  [WAY_TOKENS] = PST_WAY_ROWS,
                                    [WAY_TABLE] = PST_WAY_VOCAB,    [WAY_CLASSES] = PST_WAY_VOCAB,
                                    [WAY_EXPERTS] = PST_WAY_COLUMNS};

    return names[ways->way[v]];
}

bool pst_ways_attends(const struct pst_op *op)
{
    return op->kind == PST_OP_ATTENTION;
}

uint32_t pst_graph_whole_attention(const struct pst_graph *graph, const struct pst_op **ret_op)
{
    uint32_t n = 0;

    for (uint32_t v = 0; v < graph->n_ops && graph->parts > 1; v++) {
        const struct pst_op *op = &graph->ops[v];

        if (pst_ways_attends(op) && pst_graph_parts(graph, v) > 1 &&
            op->heads == graph->whole->ops[graph->op_of[v]].heads) {
            *ret_op = n++ == 0 ? op : *ret_op;
        }
    }
    return n;
}
