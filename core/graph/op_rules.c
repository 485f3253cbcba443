/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of kinds, and what follows from a row in the same way for every kind: names, gradients,
 * whether rows of tokens are apart. Autodiff is at operator granularity: a row states its passes as
 * if every input needed a gradient, and pst_op_grad_info takes out what nobody needs.
 */
#include "graph/op_rules.h"

#include <stddef.h>
#include <string.h>

#include "graph/custom.h"

/* In the order of enum pst_op_kind; the last six are those that no model asks for (graph.h). */
static const struct pst_op_rules *const kinds[PST_OP_KINDS] = {
    &pst_op_embedding, &pst_op_linear,      &pst_op_layernorm, &pst_op_attention,
    &pst_op_add,       &pst_op_dropout,     &pst_op_act,       &pst_op_cross_entropy,
    &pst_op_conv2d,    &pst_op_batchnorm,   &pst_op_maxpool2d, &pst_op_avgpool,
    &pst_op_concat,    &pst_op_mse,         &pst_op_rmsnorm,   &pst_op_avgpool2d,
    &pst_op_shift2d,   &pst_op_rotary,      &pst_op_glu,       &pst_op_qknorm,
    &pst_op_router,    &pst_op_experts,     &pst_op_parameter, &pst_op_constant,
    &pst_op_map,       &pst_op_reduce,      &pst_op_softmax,   &pst_op_matmul,
    &pst_op_reshape,   &pst_op_strided,     &pst_op_bce,       &pst_op_gather,
    &pst_op_costed,    &pst_op_costed_loss, &pst_op_custom,    &pst_op_convert,
    &pst_op_ce_part,   &pst_op_ce_join};

const struct pst_op_rules *pst_op_rules_of(uint32_t kind)
{
    return kind < PST_OP_KINDS ? kinds[kind] : NULL;
}

#define ATTRIBUTE(field)                                                                           \
    {                                                                                              \
#field, offsetof(struct pst_op, field), sizeof((struct pst_op *)0)->field                  \
    }

/* In the order of enum pst_op_attribute. */
static const struct {
    const char *name;
    size_t at, bytes;
} attributes[] = {ATTRIBUTE(act),          ATTRIBUTE(transposed), ATTRIBUTE(causal),
                  ATTRIBUTE(heads),        ATTRIBUTE(kv_heads),   ATTRIBUTE(window),
                  ATTRIBUTE(head_dim),     ATTRIBUTE(rope),       ATTRIBUTE(experts_per_token),
                  ATTRIBUTE(normalize),    ATTRIBUTE(capacity),   ATTRIBUTE(aux_loss),
                  ATTRIBUTE(max_distance), ATTRIBUTE(scale),      ATTRIBUTE(bag),
                  ATTRIBUTE(padding),      ATTRIBUTE(kernel),     ATTRIBUTE(stride),
                  ATTRIBUTE(pad),          ATTRIBUTE(pad_more),   ATTRIBUTE(dilation),
                  ATTRIBUTE(groups),       ATTRIBUTE(whole),      ATTRIBUTE(p),
                  ATTRIBUTE(smoothing),    ATTRIBUTE(z_loss),     ATTRIBUTE(eps),
                  ATTRIBUTE(momentum),     ATTRIBUTE(map),        ATTRIBUTE(reduce),
                  ATTRIBUTE(constants),    ATTRIBUTE(axis),       ATTRIBUTE(axes),
                  ATTRIBUTE(swapped),      ATTRIBUTE(logarithm),  ATTRIBUTE(convert),
                  ATTRIBUTE(parts),        ATTRIBUTE(row),        ATTRIBUTE(classes)};

#undef ATTRIBUTE

static bool differs(const struct pst_op *op, const struct pst_op *other, size_t i)
{
    return memcmp((const char *)op + attributes[i].at, (const char *)other + attributes[i].at,
                  attributes[i].bytes) != 0;
}

const char *pst_op_stray_attribute(const struct pst_op *op)
{
    static const struct pst_op zeros;
    struct pst_op plain = *op; /* a 1 that means the same as 0 is none */

    plain.groups = op->groups == 1 ? 0 : op->groups;
    for (uint32_t k = 0; k < 2; k++) {
        plain.dilation[k] = op->dilation[k] == 1 ? 0 : op->dilation[k];
    }
    for (size_t i = 0; i < sizeof attributes / sizeof *attributes; i++) {
        if ((kinds[op->kind]->attributes >> i & 1) == 0 && differs(&plain, &zeros, i)) {
            return attributes[i].name;
        }
    }
    return NULL;
}

const char *pst_op_kind_name(uint32_t kind)
{
    return kind < PST_OP_KINDS ? kinds[kind]->kind.name : "?";
}

const char *pst_op_title(const struct pst_op *op)
{
    const struct pst_op_rules *rules = kinds[op->kind];

    return rules->title != NULL ? rules->title(op) : rules->kind.name;
}

bool pst_op_is_convert(uint32_t kind)
{
    return kind < PST_OP_KINDS && kinds[kind]->converts;
}

bool pst_op_is_loss(uint32_t kind)
{
    return kind < PST_OP_KINDS && kinds[kind]->loss;
}

const char *pst_op_mixing(const struct pst_graph *graph, const struct pst_op *op, bool decode)
{
    const struct pst_op_rules *rules = kinds[op->kind];
    const struct pst_op_case c = pst_op_case_of(graph, op);

    return !rules->by_row         ? PST_MIXES_TOKENS
           : rules->mixes == NULL ? NULL
                                  : rules->mixes(&c, decode);
}

static bool looks_ahead(const struct pst_graph *graph, const struct pst_op *op)
{
    const struct pst_tensor *logits = &graph->tensors[graph->logits];
    const struct pst_custom *custom = op->custom;

    if (custom != NULL) {
        return (custom->row.flags & PST_OPERATOR_CAUSAL) == 0 || logits->rank == 0 ||
               custom->row.y[0].dims[0] != logits->dims[0];
    }
    return (kinds[op->kind]->attributes & PST_ATTR_CAUSAL) != 0 && !op->causal;
}

const struct pst_op *pst_graph_looks_ahead(const struct pst_graph *graph)
{
    uint32_t i = 0;

    while (i < graph->n_ops && !looks_ahead(graph, &graph->ops[i])) {
        i++;
    }
    return i < graph->n_ops ? &graph->ops[i] : NULL;
}

bool pst_shape_elems(uint32_t rank, const uint64_t *dims, uint64_t *ret_elems)
{
    uint64_t elems = 1;

    for (uint32_t i = 0; i < rank; i++) {
        if (dims[i] == 0 || dims[i] > PST_MAX_ELEMS / elems) {
            return false;
        }
        elems *= dims[i];
    }
    *ret_elems = elems;
    return true;
}

void pst_op_grad_info(const struct pst_graph *graph, uint32_t op_index,
                      struct pst_op_grad *ret_info)
{
    const struct pst_op *op = &graph->ops[op_index];
    const struct pst_op_rules *rules = kinds[op->kind];
    const struct pst_op_case c = pst_op_case_of(graph, op);
    const uint64_t inputs = op->n_in >= 64 ? UINT64_MAX : (1ull << op->n_in) - 1;
    uint64_t wanted = 0;

    *ret_info = (struct pst_op_grad){0};
    if (!graph->tensors[op->out[0]].needs_grad) {
        return;
    }
    for (uint32_t i = 0; i < op->n_in; i++) {
        if (graph->tensors[op->in[i]].needs_grad) {
            wanted |= 1ull << i;
        }
    }
    *ret_info = rules->passes;
    if (rules->grad != NULL) {
        rules->grad(&c, ret_info);
    }
    ret_info->has_w = pst_op_has_param(op, 0);
    if (!ret_info->has_w) {
        ret_info->b_reads_p = ret_info->w_reads_x = ret_info->w_reads_y = 0;
        ret_info->w_reads_dy = false;
    }
    ret_info->b_alias &= wanted;
    ret_info->b_dx = wanted & ~ret_info->b_alias;
    ret_info->b_adds &= ret_info->b_dx;
    ret_info->b_reads_x &= inputs;
    ret_info->has_b = ret_info->b_dx != 0 || ret_info->n_z != 0;
    if (ret_info->b_dx == 0 && !rules->z_needs_params) {
        ret_info->b_reads_p = 0; /* weights only shape the gradient of the input */
    }
    if (!ret_info->has_b) {
        ret_info->b_reads_x = ret_info->b_reads_y = 0;
    }
}
