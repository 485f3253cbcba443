/* SPDX-License-Identifier: Apache-2.0
 *
 * The graph of a part: the operators of the whole model in their order, each with its part of what
 * its way divides, and before or after it the conversions that it is the first to need:
 *
 *   whole x, read by columns      x - x:fan - op
 *   result by rows                op - op:sum (- op:add with the bias, which counts once)
 *   split x, read whole           x - x:join (- x:apart - x:order - x:joined, along the last axis)
 *   split logits, cross-entropy   x - op:part - op:parts - op (x, too)
 *
 * and with rows of tokens, where the sum is cut and what columns read is put together:
 *
 *   tokens x, read by columns     x - x:gather - op
 *   result by rows                op - op:scatter (- op:add)
 *   tokens x, read whole          x - x:join
 *   whole x, read as tokens       x - x:cut
 */
#include "graph/split.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/util.h"
#include "graph/draft.h"
#include "graph/op_rules.h"
#include "graph/ways.h"

enum { AS_WHOLE, AS_FANNED, AS_SPLIT, AS_TOKENS, LAYOUTS };

/* Operators of one degree, and their tensors. */
struct share {
    struct ways ways;
    uint32_t (*at)[LAYOUTS]; /* [tensor of the whole] in the draft; PST_NONE: not yet made */
};

struct splitter {
    const struct pst_graph *whole;
    const struct pst_division *how;
    struct share *shares; /* one for each degree */
    uint32_t n_shares;
    const struct ways *ways; /* of the operator that is being made, as `at` */
    uint32_t (*at)[LAYOUTS];
    struct pst_arena arena;
    struct pst_graph_builder *builder;
    uint32_t *op_of; /* [operator of the draft] */
    uint32_t op;     /* of the whole, whose part is being made */
};

static const struct share *share_of(const struct splitter *s, uint32_t v)
{
    uint32_t i = 0;

    while (s->shares[i].ways.parts != pst_division_degree(s->how, v)) {
        i++;
    }
    return &s->shares[i];
}

/* Operators that are added from here on have the degree of v, and serve it. */
static void enter_run(struct splitter *s, uint32_t v)
{
    s->op = v;
    s->ways = &share_of(s, v)->ways;
    s->at = share_of(s, v)->at;
}

/* --- operators of the draft --------------------------------------------------------------------*/

static uint32_t add_op(struct splitter *s, const struct pst_op *op)
{
    const uint32_t result = pst_graph_add(s->builder, op);

    if (result != PST_NONE) {
        s->op_of[s->builder->n_ops - 1] = s->op;
        ((struct pst_op *)&s->builder->ops[s->builder->n_ops - 1])->salt = op->salt;
    }
    return result;
}

/* x PST_NONE: so is the result. */
static uint32_t add_convert(struct splitter *s, const char *name, const char *suffix,
                            enum pst_convert convert, uint32_t x)
{
    const struct pst_op op = {.kind = PST_OP_CONVERT,
                              .name = pst_arena_printf(&s->arena, "%s:%s", name, suffix),
                              .in = &x,
                              .n_in = 1,
                              .convert = convert,
                              .parts = s->ways->parts};

    return x == PST_NONE ? x : add_op(s, &op);
}

static uint32_t add_form(struct splitter *s, const char *name, const char *suffix, uint32_t kind,
                         const struct pst_form *form, uint32_t x)
{
    const struct pst_op op = {.kind = kind,
                              .name = pst_arena_printf(&s->arena, "%s:%s", name, suffix),
                              .in = &x,
                              .n_in = 1,
                              .form = form};

    return x == PST_NONE ? x : add_op(s, &op);
}

/* Parts along the last axis were joined along the first: [parts n, ..., c] -> [n, ..., parts c]. */
static uint32_t order_parts(struct splitter *s, const char *name, uint32_t joined)
{
    const struct pst_tensor *x = &s->builder->tensors[joined];
    const uint32_t rank = x->rank;
    struct pst_form apart = {.rank = rank + 1}, order = {.rank = rank + 1}, last = {.rank = rank};

    apart.dims[0] = s->ways->parts;
    apart.dims[1] = x->dims[0] / s->ways->parts;
    memcpy(&apart.dims[2], &x->dims[1], (rank - 1) * sizeof *x->dims);
    for (uint32_t a = 0; a <= rank; a++) {
        order.from[a] = a == rank ? rank : a == rank - 1 ? 0 : a + 1;
        order.dims[a] = apart.dims[order.from[a]];
        order.step[a] = 1;
    }
    memcpy(last.dims, order.dims, rank * sizeof *last.dims);
    last.dims[rank - 1] = order.dims[rank - 1] * order.dims[rank];
    joined = add_form(s, name, "apart", PST_OP_RESHAPE, &apart, joined);
    joined = add_form(s, name, "order", PST_OP_STRIDED, &order, joined);
    return add_form(s, name, "joined", PST_OP_RESHAPE, &last, joined);
}

/* n equal sections of rows of tokens x, of [t, n parts d], which begin with section `first`: put in
   order so that block j has part j's share of each, [parts t, n d]. Where x has more, their columns
   are picked out before. */
static uint32_t deal_sections(struct splitter *s, const char *name, const struct cut *cut,
                              uint32_t first, uint32_t n, uint32_t x)
{
    const char *number = n == cut->n ? "" : pst_arena_printf(&s->arena, "%u", first);
    const uint64_t parts = s->ways->parts, rows = s->builder->tensors[x].dims[0];
    const uint64_t depth = cut->sections[first] / parts;
    struct pst_form picked = {.rank = 2, .dims = {rows, n * parts * depth}, .from = {0, 1}};
    const struct pst_form apart = {.rank = 4, .dims = {rows, n, parts, depth}};
    const struct pst_form order = {
        .rank = 4, .dims = {parts, rows, n, depth}, .from = {2, 0, 1, 3}, .step = {1, 1, 1, 1}};
    const struct pst_form packed = {.rank = 2, .dims = {parts * rows, n * depth}};
    const struct {
        const char *suffix;
        uint32_t kind;
        const struct pst_form *form;
    } steps[] = {{"picked", PST_OP_STRIDED, &picked},
                 {"apart", PST_OP_RESHAPE, &apart},
                 {"order", PST_OP_STRIDED, &order},
                 {"packed", PST_OP_RESHAPE, &packed}};

    picked.step[0] = picked.step[1] = 1;
    for (uint32_t i = 0; i < first; i++) {
        picked.start[1] += cut->sections[i];
    }
    for (size_t i = n == cut->n ? 1 : 0; i < sizeof steps / sizeof *steps; i++) {
        x = add_form(s, name, pst_arena_printf(&s->arena, "%s%s", steps[i].suffix, number),
                     steps[i].kind, steps[i].form, x);
    }
    return x;
}

/* Rows of tokens to heads of all tokens: block j has part j's share of every section, and the
   blocks are exchanged. Sections of grouped queries are not equal: those that are go together. */
static uint32_t exchange_for_heads(struct splitter *s, uint32_t tensor)
{
    const char *name = s->whole->tensors[tensor].name;
    const struct cut cut = pst_ways_exchanged(s->ways, tensor);
    uint32_t dealt[PST_BOX_SECTIONS], x;
    struct pst_op concat = {
        .kind = PST_OP_CONCAT, .name = pst_arena_printf(&s->arena, "%s:packed", name), .in = dealt};

    for (uint32_t i = 0, n; i < cut.n; i += n) {
        for (n = 1; i + n < cut.n && cut.sections[i + n] == cut.sections[i];) {
            n++;
        }
        x = deal_sections(s, name, &cut, i, n, s->at[tensor][AS_TOKENS]);
        if (x == PST_NONE) {
            return x;
        }
        dealt[concat.n_in++] = x;
    }
    x = concat.n_in > 1 ? add_op(s, &concat) : dealt[0];
    return add_convert(s, name, "exchange", PST_CONVERT_EXCHANGE, x);
}

/* And back. */
static uint32_t exchange_for_tokens(struct splitter *s, uint32_t tensor)
{
    const char *name = s->whole->tensors[tensor].name;
    const uint32_t x =
        add_convert(s, name, "exchange", PST_CONVERT_EXCHANGE, s->at[tensor][AS_SPLIT]);

    return x == PST_NONE ? x : order_parts(s, name, x);
}

/* --- layouts -----------------------------------------------------------------------------------*/

static uint32_t tensor_as(struct splitter *s, uint32_t tensor, uint32_t layout);

/* Operators of several degrees may convert one tensor. */
static const char *suffix_of(struct splitter *s, uint32_t tensor, const char *suffix)
{
    const uint32_t maker = s->whole->tensors[tensor].producer, parts = s->ways->parts;
    const uint32_t home = maker != PST_NONE ? pst_division_degree(s->how, maker) : s->how->parts;

    return home == parts ? suffix : pst_arena_printf(&s->arena, "%s.%u", suffix, parts);
}

/* A tensor without a gradient needs no FAN. */
static uint32_t convert_to_fanned(struct splitter *s, uint32_t tensor)
{
    const struct pst_tensor *of = &s->whole->tensors[tensor];

    if (s->ways->cuts[tensor].tokens) {
        return add_convert(s, of->name, "gather", PST_CONVERT_GATHER, s->at[tensor][AS_TOKENS]);
    }
    return of->needs_grad ? add_convert(s, of->name, suffix_of(s, tensor, "fan"), PST_CONVERT_FAN,
                                        tensor_as(s, tensor, AS_WHOLE))
                          : tensor_as(s, tensor, AS_WHOLE);
}

/* A tensor of the whole as a reader needs it. */
static uint32_t tensor_as(struct splitter *s, uint32_t tensor, uint32_t layout)
{
    uint32_t *at = s->at[tensor];
    const struct pst_tensor *of = &s->whole->tensors[tensor];
    const bool tokens = s->ways->cuts[tensor].tokens;

    if (at[layout] != PST_NONE || s->builder->error.status != PST_OK) {
        return at[layout];
    }
    switch (layout) {
    case AS_FANNED:
        at[layout] = convert_to_fanned(s, tensor);
        break;
    case AS_TOKENS:
        at[layout] = s->ways->exchange && s->ways->cuts[tensor].n > 0
                         ? exchange_for_tokens(s, tensor)
                         : add_convert(s, of->name, suffix_of(s, tensor, "cut"), PST_CONVERT_CUT,
                                       tensor_as(s, tensor, AS_WHOLE));
        break;
    case AS_SPLIT:
        at[layout] = exchange_for_heads(s, tensor);
        break;
    default:
        at[layout] =
            add_convert(s, of->name, "join", PST_CONVERT_JOIN, at[tokens ? AS_TOKENS : AS_SPLIT]);
        if (!tokens && of->rank > 1 && at[layout] != PST_NONE) {
            at[layout] = order_parts(s, of->name, at[layout]);
        }
        break;
    }
    return at[layout];
}

/* --- operators of the whole --------------------------------------------------------------------*/

/* The bias of a layer split by rows, or positions of an embedding, after the sum. */
static uint32_t add_bias(struct splitter *s, const struct pst_op *op, bool tokens, uint32_t x)
{
    const struct pst_op bias = {.kind = PST_OP_PARAMETER,
                                .name = pst_arena_printf(&s->arena, "%s:bias", op->name),
                                .param = &op->param[1],
                                .n_param = 1,
                                .partial = tokens};
    uint32_t in[2] = {x, 0};
    const struct pst_op sum = {.kind = PST_OP_MAP,
                               .name = pst_arena_printf(&s->arena, "%s:add", op->name),
                               .in = in,
                               .n_in = 2,
                               .map = PST_MAP_ADD};

    in[1] = add_op(s, &bias);
    return in[1] == PST_NONE ? PST_NONE : add_op(s, &sum);
}

/* The sum over the parts of what rows of a matrix or table, or of experts, make, and the bias. */
static uint32_t add_sum(struct splitter *s, const struct pst_op *whole, uint32_t result,
                        bool has_bias)
{
    const bool tokens = s->ways->cuts[whole->out[0]].tokens;

    result = tokens ? add_convert(s, whole->name, "scatter", PST_CONVERT_SCATTER, result)
                    : add_convert(s, whole->name, "sum", PST_CONVERT_SUM, result);
    return has_bias && result != PST_NONE ? add_bias(s, whole, tokens, result) : result;
}

static uint32_t layout_of(const struct cut *cut)
{
    return cut->tokens ? AS_TOKENS : cut->n > 0 ? AS_SPLIT : AS_WHOLE;
}

/* Attributes of a part of an operator. */
static void set_part(const struct splitter *s, const struct cut *cut, uint8_t way,
                     struct pst_op *op)
{
    const uint32_t parts = s->ways->parts;

    op->slices = 0;
    op->heads /= way == WAY_HEADS ? parts : 1;
    op->kv_heads /= way == WAY_HEADS ? parts : 1;
    op->parts = op->p > 0 && way != WAY_WHOLE ? parts : 0;
    op->row = op->parts > 0 && way == WAY_ALIKE ? (uint32_t)(cut->sections[0] / parts) : 0;
    if (way == WAY_TABLE) {
        op->parts = parts;
        op->classes = (uint32_t)s->whole->params[op->param[0]].dims[0];
    }
    for (uint32_t i = 0; i < op->n_param && way != WAY_WHOLE; i++) {
        const bool whole =
            op->param[i] != PST_NONE && !pst_is_split(&s->builder->params[op->param[i]]);

        op->partial |= whole ? 1u << i : 0; /* norms of rows, and of heads */
    }
}

/* Adds four numbers of each row of logits, those of all parts, one part after the other. */
static uint32_t add_numbers(struct splitter *s, const struct pst_op *op)
{
    const struct pst_op part = {.kind = PST_OP_CE_PART,
                                .name = pst_arena_printf(&s->arena, "%s:part", op->name),
                                .in = op->in,
                                .n_in = 2,
                                .parts = op->parts,
                                .classes = op->classes};
    const uint32_t numbers = add_op(s, &part);

    return numbers == PST_NONE ? PST_NONE
                               : add_convert(s, op->name, "parts", PST_CONVERT_JOIN, numbers);
}

/* Cross-entropy of the logits of a part. */
static void add_classes(struct splitter *s, uint32_t v)
{
    const struct pst_op *whole = &s->whole->ops[v];
    struct pst_op op = *whole;
    uint32_t in[3];

    in[0] = tensor_as(s, whole->in[0], AS_SPLIT);
    in[1] = tensor_as(s, whole->in[1], AS_WHOLE);
    op.kind = PST_OP_CE_JOIN;
    op.in = in;
    op.n_in = 3;
    op.parts = s->ways->parts;
    op.classes = (uint32_t)s->ways->cuts[whole->in[0]].sections[0];
    in[2] = add_numbers(s, &op);
    if (in[2] != PST_NONE) {
        s->at[whole->out[0]][AS_WHOLE] = add_op(s, &op);
    }
}

/* Adds its part of an operator, with what stands before and after it. */
static void add_part(struct splitter *s, uint32_t v)
{
    static const uint8_t layouts[] = {
        [WAY_WHOLE] = AS_WHOLE, [WAY_COLUMN] = AS_FANNED, [WAY_ROW] = AS_SPLIT,
        [WAY_HEADS] = AS_SPLIT, [WAY_ALIKE] = AS_SPLIT,   [WAY_TOKENS] = AS_TOKENS,
        [WAY_TABLE] = AS_WHOLE, [WAY_EXPERTS] = AS_FANNED};
    const struct pst_op *whole = &s->whole->ops[v];
    const uint8_t way = s->ways->way[v];
    const bool sums = way == WAY_ROW || way == WAY_TABLE;
    uint32_t *in = pst_arena_array(&s->arena, whole->n_in, sizeof *in), result;
    uint32_t param[PST_MAX_PARAM] = {PST_NONE, PST_NONE};
    struct pst_op op = *whole;

    pst_graph_layer(s->builder, whole->layer);
    if (way == WAY_CLASSES) {
        add_classes(s, v);
        return;
    }
    for (uint32_t i = 0; i < whole->n_in; i++) {
        in[i] = tensor_as(s, whole->in[i], layouts[way]);
    }
    memcpy(param, whole->param, whole->n_param * sizeof *param);
    param[1] = sums ? PST_NONE : param[1];
    op.in = in;
    op.param = param;
    set_part(s, &s->ways->cuts[whole->out[0]], way, &op);
    result = add_op(s, &op);
    if ((sums || way == WAY_EXPERTS) && result != PST_NONE) {
        result = add_sum(s, whole, result, sums && pst_op_has_param(whole, 1));
    }
    s->at[whole->out[0]][layout_of(&s->ways->cuts[whole->out[0]])] = result;
}

/* Operators of other degrees read the whole result, which the maker's parts join. */
static void share_result(struct splitter *s, uint32_t v)
{
    const uint32_t tensor = s->whole->ops[v].out[0];
    const struct pst_tensor *of = &s->whole->tensors[tensor];
    bool shared = false;

    for (uint32_t i = 0; i < of->n_consumers; i++) {
        shared = shared || pst_division_degree(s->how, of->consumers[i]) != s->ways->parts;
    }
    if (shared) {
        const uint32_t whole = tensor_as(s, tensor, AS_WHOLE);

        for (uint32_t i = 0; i < s->n_shares; i++) {
            s->shares[i].at[tensor][AS_WHOLE] = whole;
        }
    }
}

static void add_params(struct splitter *s)
{
    for (uint32_t p = 0; p < s->whole->n_params; p++) {
        const struct pst_parameter *whole = &s->whole->params[p];
        const struct pst_box box = pst_ways_box(&share_of(s, whole->users[0])->ways, p);
        struct pst_parameter *param;
        uint64_t dims[PST_MAX_RANK];

        memcpy(dims, whole->dims, sizeof dims);
        if (box.parts > 1) {
            dims[box.axis] = (dims[box.axis] + box.padding) / box.parts;
        }
        if (pst_graph_param(s->builder, whole->name, whole->rank, dims, whole->init,
                            whole->init_scale, whole->decay) == PST_NONE) {
            return;
        }
        param = &s->builder->params[p];
        param->box = box;
        param->rule = whole->rule;
    }
}

/* The number after the targets of a sample comes when the graph is made. */
static void add_inputs(struct splitter *s)
{
    const struct pst_graph *whole = s->whole;
    const struct pst_op *loss = &whole->ops[whole->tensors[whole->loss].producer];

    for (uint32_t i = 0; i < whole->n_inputs; i++) {
        const struct pst_tensor *tensor = &whole->tensors[i];
        const struct pst_tensor *shape = tensor;
        uint32_t rank = tensor->rank, x;

        if (pst_graph_counts_over(whole) > 0 && loss->n_in > 1 && loss->in[1] == i) {
            shape = &whole->tensors[loss->in[0]];
            rank = shape->rank - 1;
        }
        x = pst_graph_input(s->builder, tensor->name, tensor->field, tensor->dtype, rank,
                            shape->dims);
        if (tensor->planar) {
            pst_graph_planar(s->builder, x);
        }
        for (uint32_t k = 0; k < s->n_shares; k++) {
            s->shares[k].at[i][AS_WHOLE] = s->shares[k].at[i][AS_FANNED] = x;
        }
    }
}

/* --- graph -------------------------------------------------------------------------------------*/

static pst_status check_whole(const struct pst_graph *whole, uint32_t parts, struct pst_error *err)
{
    const char *why = whole->costed != NULL    ? "a costed graph has no operators to divide"
                      : whole->customs != NULL ? "operators of plugins cannot be divided"
                      : whole->slices > 1      ? "slices of sequences have no parts"
                                               : NULL;

    if (why != NULL) {
        return pst_fail(err, PST_ERR_CONFIG, "config.value",
                        "parallel.tensor = %u, but model %s cannot have parts: %s; set it to 1",
                        parts, whole->name, why);
    }
    return PST_OK;
}

static pst_status check_edge(const struct pst_graph *whole, const struct pst_division *how,
                             uint32_t from, uint32_t to, struct pst_error *err)
{
    const uint32_t a = pst_division_degree(how, from), b = pst_division_degree(how, to);

    return a % b == 0 || b % a == 0
               ? PST_OK
               : pst_fail(err, PST_ERR_CONFIG, "config.value",
                          "%s has parallel.tensor = %u, and %s, which reads it, %u: one of them "
                          "must be a multiple of the other",
                          whole->ops[from].name, a, whole->ops[to].name, b);
}

static pst_status check_parameter(const struct pst_graph *whole, const struct pst_division *how,
                                  const struct pst_parameter *parameter, struct pst_error *err)
{
    const uint32_t first = parameter->users[0];

    for (uint32_t u = 1; u < parameter->n_users; u++) {
        const uint32_t other = parameter->users[u];

        if (pst_division_degree(how, other) != pst_division_degree(how, first)) {
            return pst_fail(err, PST_ERR_CONFIG, "config.value",
                            "%s is used by %s and %s with parallel.tensor = %u and %u; stages that "
                            "share a parameter share their value",
                            parameter->name, whole->ops[first].name, whole->ops[other].name,
                            pst_division_degree(how, first), pst_division_degree(how, other));
        }
    }
    return PST_OK;
}

static uint32_t first_tied(const uint32_t *tied, uint32_t v)
{
    while (tied[v] != v) {
        v = tied[v];
    }
    return v;
}

void pst_graph_tie_degrees(const struct pst_graph *whole, bool all, uint32_t *ret_tied)
{
    for (uint32_t v = 0; v < whole->n_ops; v++) {
        ret_tied[v] = all ? 0 : v;
    }
    for (uint32_t p = 0; p < whole->n_params; p++) {
        for (uint32_t u = 1; u < whole->params[p].n_users; u++) {
            const uint32_t a = first_tied(ret_tied, whole->params[p].users[0]);
            const uint32_t b = first_tied(ret_tied, whole->params[p].users[u]);

            ret_tied[a > b ? a : b] = a > b ? b : a;
        }
    }
    for (uint32_t v = 0; v < whole->n_ops; v++) {
        ret_tied[v] = first_tied(ret_tied, v);
    }
}

/* Errors: degrees that differ, where they cannot. *ret_fault: what is to blame. */
static pst_status check_degrees(const struct pst_graph *whole, const struct pst_division *how,
                                struct pst_division_fault *ret_fault, struct pst_error *err)
{
    pst_status status = PST_OK;

    if (how->degree_of == NULL) {
        return PST_OK;
    }
    if (how->asked != NULL) {
        ret_fault->key = "way";
        return pst_fail(err, PST_ERR_CONFIG, "config.value",
                        "[[parallel.way]] needs one parallel.tensor for all stages; set it to one "
                        "number, or remove the table");
    }
    if (!pst_ways_mix(how->ways)) {
        ret_fault->key = "ways";
        return pst_fail(err, PST_ERR_CONFIG, "config.value",
                        "parallel.ways = \"%s\" needs one parallel.tensor for all stages; set that "
                        "to one number, or ways = \"auto\"",
                        pst_ways_names[how->ways]);
    }
    for (uint32_t v = 0; v < whole->n_ops; v++) {
        for (uint32_t i = 0; i < whole->ops[v].n_in && status == PST_OK; i++) {
            const uint32_t maker = whole->tensors[whole->ops[v].in[i]].producer;

            status = maker == PST_NONE ? PST_OK : check_edge(whole, how, maker, v, err);
        }
    }
    for (uint32_t p = 0; p < whole->n_params; p++) {
        PST_TRY(status, check_parameter(whole, how, &whole->params[p], err));
    }
    return status;
}

/* Errors: an operator with the name of a conversion, which needs a colon. */
static pst_status check_names(const struct splitter *s, struct pst_error *err)
{
    const uint32_t n = s->builder->n_ops;
    const char **names = pst_alloc((size_t)n + 1, sizeof *names), *twice = NULL;

    for (uint32_t i = 0; i < n; i++) {
        names[i] = s->builder->ops[i].name;
    }
    qsort(names, n, sizeof *names, pst_by_text);
    for (uint32_t i = 1; i < n && twice == NULL; i++) {
        const bool equal = strcmp(names[i - 1], names[i]) == 0;

        twice = equal && strchr(names[i], ':') != NULL ? names[i] : NULL;
    }
    free(names);
    return twice == NULL
               ? PST_OK
               : pst_fail(err, PST_ERR_CONFIG, "config.value",
                          "parallel.tensor = %u: operator %s has the name of a conversion that "
                          "stands beside it; rename it",
                          s->how->parts, twice);
}

static bool has_way(const struct ways *ways, bool tokens)
{
    for (uint32_t v = 0; v < ways->graph->n_ops; v++) {
        if (ways->way[v] != WAY_WHOLE && (ways->way[v] == WAY_TOKENS) == tokens) {
            return true;
        }
    }
    return false;
}

/* Errors: attention that is not divided by heads although `ulysses` says so, or none. */
static pst_status check_exchange(const struct ways *ways, struct pst_error *err)
{
    bool attends = !ways->exchange;

    for (uint32_t v = 0; ways->exchange && v < ways->graph->n_ops; v++) {
        const struct pst_op *op = &ways->graph->ops[v];

        attends = attends || pst_ways_attends(op);
        if (pst_ways_attends(op) && ways->way[v] != WAY_HEADS &&
            pst_ways_asked(ways, op) == PST_WAY_AUTO) {
            return pst_fail(err, PST_ERR_CONFIG, "config.value",
                            "%s: parallel.ways = \"ulysses\" divides attention by heads, but what "
                            "it reads has other readers, is not in whole heads, or is divided in "
                            "another way ([[parallel.way]]); set ways = \"rows\" or \"auto\"",
                            op->name);
        }
    }
    return attends
               ? PST_OK
               : pst_fail(err, PST_ERR_CONFIG, "config.value",
                          "parallel.ways = \"ulysses\": model %s has no attention that could be "
                          "divided by heads; set ways = \"rows\" or \"auto\"",
                          ways->graph->name);
}

static pst_status refuse_degree(const struct ways *ways, struct pst_error *err)
{
    uint32_t v = 0;

    if (ways->asked != NULL) {
        return pst_fail(err, PST_ERR_CONFIG, "config.value",
                        "parallel.tensor = %u divides no operator of model %s that "
                        "[[parallel.way]] does not leave whole; leave fewer whole, or set "
                        "parallel.tensor = 1 and remove the tables",
                        ways->parts, ways->graph->name);
    }
    if (ways->degree_of == NULL) {
        return pst_fail(err, PST_ERR_CONFIG, "config.value",
                        "parallel.tensor = %u divides no operator of model %s, neither heads, "
                        "widths, experts nor vocabulary; take another value, replicas "
                        "(train.degrees) or stages",
                        ways->parts, ways->graph->name);
    }
    while (!pst_ways_ours(ways, v)) {
        v++;
    }
    return pst_fail(err, PST_ERR_CONFIG, "config.value",
                    "parallel.tensor = %u divides no operator that it is meant for, of which %s is "
                    "the first; take 1 or another value there",
                    ways->parts, ways->graph->ops[v].name);
}

static pst_status refuse_sequence(const struct ways *ways, struct pst_error *err)
{
    return ways->rows
               ? pst_fail(err, PST_ERR_CONFIG, "config.value",
                          "parallel.ways: model %s has no operator that works on the tokens of a "
                          "sequence one by one; set ways = \"auto\"",
                          ways->graph->name)
               : pst_fail(err, PST_ERR_CONFIG, "config.value",
                          "parallel.sequence = true: model %s has no norm, residual sum or dropout "
                          "on tokens whose number %u divides; take another length, or set sequence "
                          "= false",
                          ways->graph->name, ways->parts);
}

/* Are there tokens for operators of this degree, and it does not divide their number? */
static bool lacks_rows(const struct ways *ways)
{
    bool by_row = ways->degree_of == NULL;

    for (uint32_t v = 0; v < ways->graph->n_ops; v++) {
        by_row = by_row || (ways->way[v] == WAY_WHOLE && pst_ways_ours(ways, v) &&
                            pst_ways_by_row(ways, &ways->graph->ops[v]));
    }
    return by_row && !has_way(ways, true);
}

static pst_status check_ways(const struct ways *ways, struct pst_division_fault *ret_fault,
                             struct pst_error *err)
{
    const bool divides = has_way(ways, false) || (ways->asked != NULL && has_way(ways, true));
    pst_status status;

    ret_fault->key = "way";
    status = pst_ways_check_asked(ways, &ret_fault->op, err);
    if (status != PST_OK) {
        return status;
    }
    ret_fault->key = "ways";
    status = check_exchange(ways, err);
    if (status != PST_OK) {
        return status;
    }
    ret_fault->key = ways->asked != NULL ? "way" : "tensor";
    if (!ways->rows && !divides) {
        return refuse_degree(ways, err);
    }
    if (!ways->sequence || !lacks_rows(ways)) {
        return PST_OK;
    }
    ret_fault->key = ways->rows ? "ways" : "sequence";
    return refuse_sequence(ways, err);
}

/* Each degree divides something. */
static pst_status check_shares(const struct splitter *s, struct pst_division_fault *ret_fault,
                               struct pst_error *err)
{
    const struct ways *widest = &s->shares[0].ways;
    pst_status status = PST_OK;
    bool rows = false;

    for (uint32_t i = 0; i < s->n_shares; i++) {
        const struct ways *ways = &s->shares[i].ways;

        widest = ways->parts > widest->parts ? ways : widest;
        rows = rows || has_way(ways, true);
        if (ways->parts > 1) {
            PST_TRY(status, check_ways(ways, ret_fault, err));
        }
    }
    if (status == PST_OK && s->how->sequence && !rows) {
        ret_fault->key = "sequence";
        status = refuse_sequence(widest, err);
    }
    return status;
}

static struct ways make_ways(struct splitter *s, uint32_t parts, const uint8_t *asked)
{
    const bool rows = s->how->ways == PST_WAYS_ROWS || s->how->ways == PST_WAYS_ULYSSES;
    struct ways ways = {
        .graph = s->whole,
        .parts = parts,
        .degree_of = s->how->degree_of,
        .sequence = s->how->sequence || rows,
        .rows = rows,
        .exchange = s->how->ways == PST_WAYS_ULYSSES,
        .asked = asked,
        .way = pst_arena_array(&s->arena, s->whole->n_ops, sizeof *ways.way),
        .cuts = pst_arena_array(&s->arena, s->whole->n_tensors, sizeof *ways.cuts),
        .plain = pst_arena_array(&s->arena, s->whole->n_ops, sizeof *ways.plain),
        .together = pst_arena_array(&s->arena, s->whole->n_params, sizeof *ways.together),
    };

    if (parts > 1) { /* else all is whole */
        pst_ways_choose(&ways);
    }
    return ways;
}

static void make_shares(struct splitter *s)
{
    s->shares = pst_arena_array(&s->arena, UINT8_MAX, sizeof *s->shares);
    for (uint32_t v = 0; v < s->whole->n_ops; v++) {
        const uint32_t parts = pst_division_degree(s->how, v);
        uint32_t i = 0;

        while (i < s->n_shares && s->shares[i].ways.parts != parts) {
            i++;
        }
        if (i == s->n_shares) {
            s->shares[i].ways = make_ways(s, parts, s->how->asked);
            s->shares[i].at =
                pst_arena_array(&s->arena, s->whole->n_tensors, sizeof *s->shares[i].at);
            memset(s->shares[i].at, 0xFF, s->whole->n_tensors * sizeof *s->shares[i].at);
            s->n_shares++;
        }
    }
}

/* Operators that are divided otherwise than they would be if nothing was asked for. */
static void name_asked(struct splitter *s, struct pst_graph *graph)
{
    const struct ways *chosen = &s->shares[0].ways;
    struct ways others;
    const char **names;

    if (s->how->asked == NULL) {
        return;
    }
    names = pst_arena_array(&graph->arena, s->whole->n_ops, sizeof *names);
    others = make_ways(s, s->how->parts, NULL);
    for (uint32_t v = 0; v < s->whole->n_ops; v++) {
        if (chosen->way[v] != others.way[v]) {
            names[graph->n_by_name++] =
                pst_arena_printf(&graph->arena, "%s: %s", s->whole->ops[v].name,
                                 pst_way_names[pst_ways_name(chosen, v)]);
        }
    }
    graph->by_name = names;
}

/* Fills the fields that only a graph of parts has. */
static void describe(struct splitter *s, struct pst_graph *graph)
{
    const struct pst_division *how = s->how;

    graph->op_of = pst_arena_copy(&graph->arena, s->op_of, graph->n_ops, sizeof *s->op_of);
    graph->parts = how->parts;
    graph->sequence = s->shares[0].ways.sequence;
    graph->ways = how->ways == PST_WAYS_MEGATRON ? PST_WAYS_AUTO : how->ways;
    name_asked(s, graph);
    if (how->degree_of != NULL) {
        graph->degree_of =
            pst_arena_copy(&graph->arena, how->degree_of, s->whole->n_ops, sizeof *how->degree_of);
        graph->digest = pst_graph_digest(graph);
    }
}

static pst_status make_graph(struct splitter *s, struct pst_graph **ret_graph,
                             struct pst_error *err)
{
    const struct pst_graph *whole = s->whole;
    const uint32_t end = whole->tensors[whole->loss].producer;
    const bool apart = share_of(s, end)->ways.way[end] == WAY_CLASSES;
    uint32_t loss, logits = PST_NONE, n_ops;
    pst_status status;

    add_inputs(s);
    add_params(s);
    for (uint32_t v = 0; v < whole->n_ops && s->builder->error.status == PST_OK; v++) {
        enter_run(s, v);
        add_part(s, v);
        share_result(s, v);
    }
    loss = share_of(s, end)->at[whole->loss][AS_WHOLE];
    if (whole->logits != PST_NONE) {
        if (s->how->degree_of != NULL) {
            enter_run(s, whole->tensors[whole->logits].producer);
        }
        logits = tensor_as(s, whole->logits, apart ? AS_SPLIT : AS_WHOLE);
    }
    n_ops = s->builder->n_ops;
    status = check_names(s, err);
    PST_TRY(status, pst_graph_finish(s->builder, loss, logits, ret_graph, err));
    PST_TRY(status, pst_graph_mean_tokens(*ret_graph, whole->token_batch, err));
    if (status == PST_OK) {
        PST_ASSERT((*ret_graph)->n_ops == n_ops); /* the whole is fused already */
        describe(s, *ret_graph);
    }
    return status;
}

/* The model's own type: that of what its loss reads. */
static uint32_t dtype_of(const struct pst_graph *whole)
{
    return whole->tensors[whole->ops[whole->tensors[whole->loss].producer].in[0]].dtype;
}

/* An operator and what its way brings: for each input a conversion, or an exchange in as many as
   four steps for each section; a sum, a bias. */
static size_t most_ops(const struct pst_graph *whole)
{
    size_t n = 4 * (size_t)whole->n_ops + 4;

    for (uint32_t v = 0; v < whole->n_ops; v++) {
        n += (4 * PST_BOX_SECTIONS + 2) * (size_t)whole->ops[v].n_in;
    }
    return n;
}

struct pst_division pst_division_plain(const struct pst_graph *whole,
                                       const struct pst_division *how)
{
    struct pst_division plain = *how;
    bool equal = true;

    for (uint32_t v = 0; how->degree_of != NULL && v < whole->n_ops; v++) {
        PST_ASSERT(how->degree_of[v] > 0);
        plain.parts = v == 0 || how->degree_of[v] > plain.parts ? how->degree_of[v] : plain.parts;
        equal = equal && how->degree_of[v] == how->degree_of[0];
    }
    plain.degree_of = equal ? NULL : how->degree_of;
    return plain;
}

pst_status pst_graph_split(struct pst_graph *whole, const struct pst_division *how,
                           struct pst_graph **ret_graph, struct pst_error *err)
{
    const struct pst_division division = pst_division_plain(whole, how);
    struct splitter s = {.whole = whole, .how = &division};
    struct pst_graph *graph = NULL;
    struct pst_division_fault fault = {"tensor", PST_NONE};
    pst_status status = check_whole(whole, division.parts, err);

    PST_ASSERT(division.parts > 1);
    PST_TRY(status, check_degrees(whole, &division, &fault, err));
    if (status == PST_OK) {
        make_shares(&s);
        status = check_shares(&s, &fault, err);
        fault.key = status == PST_OK ? "tensor" : fault.key;
    }
    if (how->ret_fault != NULL) {
        *how->ret_fault = fault;
    }
    PST_TRY(status, pst_graph_builder_create(whole->name, dtype_of(whole), &s.builder, err));
    if (status == PST_OK) {
        s.op_of = pst_arena_array(&s.arena, most_ops(whole), sizeof *s.op_of);
        status = make_graph(&s, &graph, err);
    }
    pst_graph_builder_destroy(s.builder);
    pst_arena_finish(&s.arena);
    if (status != PST_OK) {
        pst_graph_destroy(graph);
        return status;
    }
    graph->whole = whole;
    *ret_graph = graph;
    return PST_OK;
}
