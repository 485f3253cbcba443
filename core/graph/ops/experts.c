/* SPDX-License-Identifier: Apache-2.0
 *
 * Gated units and mixtures of experts.
 */
#include "graph/ops/operands.h"

#include <float.h>

static bool check_gate(const struct pst_op_case *c, struct pst_error *err)
{
    return c->op->act == PST_ACT_SILU || c->op->act == PST_ACT_GELU ||
           BAD("%s: gates go with silu or gelu", c->op->name);
}

static bool infer_glu(const struct pst_op_case *c, struct pst_error *err)
{
    const struct pst_tensor *x = input(c, 0);

    if (!check_rank(c, 1, PST_MAX_RANK, "[..., 2F] (gate, up)", err)) {
        return false;
    }
    if (x->dims[x->rank - 1] % 2 != 0) {
        return BAD("%s: input has last axis %llu, which is not a gate and as much to be gated",
                   c->op->name, (unsigned long long)x->dims[x->rank - 1]);
    }
    result_like(c)->dims[x->rank - 1] = x->dims[x->rank - 1] / 2;
    return check_gate(c, err);
}

/* Backward: the function, its slope, three products. */
static double glu_flops(const struct pst_op_case *c)
{
    const double act = pst_act_flops(c->op->act);

    return (c->pass == 0 ? act + 1.0 : 2.0 * act + 3.0) * (double)result_of(c)->elems;
}

const struct pst_op_rules pst_op_glu = {
    .kind = {"glu", 1, 1, 0, 0},
    .attributes = PST_ATTR_ACT,
    .infer = infer_glu,
    .passes = {.b_reads_x = 1},
    .elementwise = glu_flops,
    .by_row = true,
};

static bool check_chosen(const struct pst_op_case *c, uint64_t experts, struct pst_error *err)
{
    return (c->op->experts_per_token > 0 && c->op->experts_per_token <= experts) ||
           BAD("%s: a token has %u of %llu experts", c->op->name, c->op->experts_per_token,
               (unsigned long long)experts);
}

static bool infer_router(const struct pst_op_case *c, struct pst_error *err)
{
    const struct pst_op *op = c->op;

    result_like(c);
    return check_rank(c, 2, 2, "[T, experts]", err) && check_chosen(c, input(c, 0)->dims[1], err) &&
           ((op->capacity >= 0.0f && op->capacity <= FLT_MAX && op->aux_loss >= 0.0f &&
             op->aux_loss <= FLT_MAX) ||
            BAD("%s: capacity %g and weight %g of the load balancing loss must be 0 or more",
                op->name, (double)op->capacity, (double)op->aux_loss));
}

/* Softmax, a search for each of the greatest; backward: both, a slope. */
static double router_flops(const struct pst_op_case *c)
{
    return ((c->pass == 0 ? 5.0 : 9.0) + c->op->experts_per_token) * (double)result_of(c)->elems;
}

static const char *router_mixes(const struct pst_op_case *c, bool decode)
{
    return c->op->capacity != 0 || (c->op->aux_loss != 0 && !decode)
               ? "has a capacity or a balancing loss (capacity, aux_loss), which are of whole "
                 "sequences"
               : NULL;
}

const struct pst_op_rules pst_op_router = {
    .kind = {"router", 1, 1, 0, 0},
    .attributes =
        PST_ATTR_EXPERTS_PER_TOKEN | PST_ATTR_NORMALIZE | PST_ATTR_CAPACITY | PST_ATTR_AUX_LOSS,
    .infer = infer_router,
    .passes = {.b_reads_x = 1},
    .elementwise = router_flops,
    .by_row = true,
    .mixes = router_mixes,
};

static bool infer_experts(const struct pst_op_case *c, struct pst_error *err)
{
    const struct pst_tensor *x = input(c, 0), *weights = input(c, 1);
    uint64_t experts, width;
    char text[256];

    if (!check_rank(c, 2, 2, "[T, C]", err) ||
        !check_param_rank(c, 3, "[experts, C, 2F] (gate, up)", err) ||
        !check_dtype(c, 1, c->dtype, err)) {
        return false;
    }
    experts = param0(c)->dims[0];
    width = param0(c)->dims[2] / 2;
    if (weights->rank != 2 || weights->dims[0] != x->dims[0] || weights->dims[1] != experts) {
        return BAD("%s: weights have shape %s, expected [%llu, %llu]", c->op->name,
                   text_of(text, weights), (unsigned long long)x->dims[0],
                   (unsigned long long)experts);
    }
    const uint64_t up[] = {experts, x->dims[1], 2 * width}, down[] = {experts, width, x->dims[1]};
    const uint64_t pairs[] = {x->dims[0], c->op->experts_per_token, 2 * width};

    result_like(c);
    output(c, PST_ROLE_AUX, c->dtype, 3, pairs);
    return check_param(c, 0, 3, up, err) && check_param(c, 1, 3, down, err) &&
           check_chosen(c, experts, err) && check_gate(c, err);
}

static void grad_experts(const struct pst_op_case *c, struct pst_op_grad *info)
{
    leave_scratch(info, aux_of(c)->elems, aux_of(c)->dtype, true);
    leave_scratch(info, aux_of(c)->elems / 2, aux_of(c)->dtype, true);
}

/* As many pairs as there can be; three products in every pass. */
static double experts_products(const struct pst_op_case *c)
{
    return 3.0 * (double)aux_of(c)->elems * (double)input(c, 0)->dims[1];
}

/* A token's experts have its slots, in their order; what is left is 0: y1 [T,k,2F] gate|up; B
   leaves z0 [T,k,2F], its gradient, and z1 [T,k,F], x1[t,e] act(gate) up. */
const struct pst_op_rules pst_op_experts = {
    .kind = {"experts", 2, 2, 2, 3},
    .attributes = PST_ATTR_ACT | PST_ATTR_EXPERTS_PER_TOKEN,
    .aux = {"pre"},
    .costly = true,
    .infer = infer_experts,
    .passes = {.b_reads_x = 2,
               .b_reads_p = 1 | 2,
               .b_reads_y = 2,
               .w_reads_x = 1 | 2,
               .w_reads_dy = true},
    .grad = grad_experts,
    .z_needs_params = true,
    .products = experts_products,
    .by_row = true,
};
