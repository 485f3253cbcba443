/* SPDX-License-Identifier: Apache-2.0
 *
 * Operators of plugins: the row of this kind is what a plugin says in describe(), once for each
 * operator. It is not believed: counts, masks, shapes and numbers are checked here.
 */
#include "graph/ops/operands.h"

#include <math.h>

#include "graph/custom.h"

void pst_customs_destroy(struct pst_custom *first)
{
    while (first != NULL) {
        struct pst_custom *next = first->next;

        first->destroy(first);
        first = next;
    }
}

static struct pst_operand operand_of(uint32_t dtype, uint32_t rank, const uint64_t *dims)
{
    struct pst_operand operand = {.dtype = dtype, .rank = rank};

    memcpy(operand.dims, dims, sizeof operand.dims);
    return operand;
}

static bool fill_question(const struct pst_op_case *c, struct pst_error *err)
{
    const struct pst_op *op = c->op;
    struct pst_custom *custom = op->custom;
    uint32_t n_p = 0;

    for (uint32_t i = 0; i < op->n_in; i++) {
        custom->x[i] = operand_of(input(c, i)->dtype, input(c, i)->rank, input(c, i)->dims);
        if (!input(c, i)->batched) {
            return BAD("%s: input %u is not one of each sample", op->name, i);
        }
    }
    for (uint32_t i = 0; i < op->n_param; i++) {
        if (pst_op_has_param(op, i)) {
            const struct pst_parameter *param = &c->params[op->param[i]];

            custom->p[i] = operand_of(param->dtype, param->rank, param->dims);
            n_p = i + 1;
        }
    }
    if (n_p == 2 && !pst_op_has_param(op, 0)) {
        return BAD("%s: parameter 1 is given without parameter 0", op->name);
    }
    custom->question = (struct pst_operator_question){.size = sizeof custom->question,
                                                      .dtype = c->dtype,
                                                      .n_x = op->n_in,
                                                      .n_p = n_p,
                                                      .x = custom->x,
                                                      .p = custom->p};
    return true;
}

/* Returns true if the mask has bits of operands that do not exist. */
static bool is_beyond(uint64_t mask, uint32_t n)
{
    return n < 64 && mask >> n != 0;
}

static bool is_shape(const struct pst_operand *operand)
{
    uint64_t elems;

    return operand->dtype <= PST_I32 && operand->rank <= PST_MAX_RANK &&
           pst_shape_elems(operand->rank, operand->dims, &elems);
}

static bool has_same_rows(const struct pst_operator_question *q, const struct pst_operator_row *row)
{
    bool same = row->y[0].rank > 0;

    for (uint32_t i = 0; i < q->n_x; i++) {
        same = same && q->x[i].rank > 0 && q->x[i].dims[0] == row->y[0].dims[0];
    }
    return same;
}

/* Returns what is wrong with the row; NULL: nothing. */
static const char *fault_of_row(const struct pst_operator_question *q,
                                const struct pst_operator_row *row)
{
    if (row->size != sizeof *row) {
        return "changed the size of ret_row";
    }
    if (row->n_y < 1 || row->n_y > PST_OPERATOR_MAX_Y || row->n_z > PST_OPERATOR_MAX_Z) {
        return "has not 1 to 3 outputs and at most 2 buffers z";
    }
    for (uint32_t i = 0; i < row->n_y; i++) {
        if (!is_shape(&row->y[i])) {
            return "has an output without a type, or with an axis of 0 or too many elements";
        }
    }
    for (uint32_t i = 0; i < row->n_z; i++) {
        if (!is_shape(&row->z[i])) {
            return "has a buffer z without a type, or with an axis of 0 or too many elements";
        }
    }
    if (row->y[0].dtype != q->dtype) {
        return "has a result that is not of the model's type";
    }
    if (is_beyond(row->b_reads_x | row->w_reads_x, q->n_x) ||
        is_beyond(row->b_reads_p | row->w_reads_p, q->n_p) ||
        is_beyond(row->b_reads_y | row->w_reads_y, row->n_y) || is_beyond(row->z_once, row->n_z)) {
        return "reads operands that do not exist";
    }
    if (row->n_z > 0 && q->n_p == 0) {
        return "has a buffer z for W, but no parameters";
    }
    if ((row->flags & ~(uint32_t)(PST_OPERATOR_COSTLY | PST_OPERATOR_CAUSAL)) != 0) {
        return "has flags that this host does not know";
    }
    if ((row->flags & PST_OPERATOR_CAUSAL) != 0 && !has_same_rows(q, row)) {
        return "states that it is causal, but its operands have not as many rows as its result";
    }
    for (uint32_t i = 0; i < 3; i++) {
        if (!isfinite(row->flops[i]) || row->flops[i] < 0) {
            return "has a number of operations that is negative or not finite";
        }
    }
    return NULL;
}

static bool infer_custom(const struct pst_op_case *c, struct pst_error *err)
{
    struct pst_custom *custom = c->op->custom;
    const struct pst_operator_row *row = &custom->row;
    const char *fault;

    if (!fill_question(c, err)) {
        return false;
    }
    if (custom->describe(custom, err) != PST_OK) {
        custom->is_to_blame = err->status != PST_ERR_CONFIG;
        return false;
    }
    fault = fault_of_row(&custom->question, row);
    if (fault != NULL) {
        custom->is_to_blame = true;
        pst_fail(err, PST_ERR_BUG, "plugin.contract",
                 "operator \"%s\" broke its contract in describe(): its row %s", custom->id, fault);
        return false;
    }
    for (uint32_t i = 0; i < row->n_y; i++) {
        output(c, i == 0 ? PST_ROLE_ACTIVATION : PST_ROLE_AUX, row->y[i].dtype, row->y[i].rank,
               row->y[i].dims);
    }
    return true;
}

static void grad_custom(const struct pst_op_case *c, struct pst_op_grad *info)
{
    const struct pst_operator_row *row = &c->op->custom->row;
    bool needed = row->n_z > 0;
    uint64_t elems = 0;

    for (uint32_t i = 0; i < c->op->n_in; i++) {
        needed = needed || input(c, i)->needs_grad;
    }
    info->b_reads_x = row->b_reads_x;
    info->b_reads_p = needed ? row->b_reads_p : 0;
    info->b_reads_y = row->b_reads_y;
    info->w_reads_x = row->w_reads_x;
    info->w_reads_p = row->w_reads_p;
    info->w_reads_y = row->w_reads_y;
    info->w_reads_dy = row->w_reads_dy != 0;
    for (uint32_t i = 0; i < row->n_z; i++) {
        pst_shape_elems(row->z[i].rank, row->z[i].dims, &elems);
        leave_scratch(info, elems, row->z[i].dtype, (row->z_once >> i & 1) == 0);
    }
}

static double count_flops(const struct pst_op_case *c)
{
    return c->op->custom->row.flops[c->pass];
}

static uint32_t flags_of(const struct pst_op *op)
{
    return (op->custom->row.flags & PST_OPERATOR_COSTLY) != 0 ? 0 : PST_NODE_CHEAP;
}

static const char *mixes_rows(const struct pst_op_case *c, bool decode)
{
    (void)c;
    (void)decode;
    return "is an operator of a plugin, which says nothing of single tokens";
}

static const char *name_plugin(const struct pst_op *op)
{
    return op->custom->id;
}

const struct pst_op_rules pst_op_custom = {
    .kind = {"custom", 1, PST_MAX_IN, PST_MAX_PARAM, 0},
    .aux = {"y1", "y2"},
    .costly = true,
    .more_flags = flags_of,
    .infer = infer_custom,
    .grad = grad_custom,
    .z_needs_params = true,
    .elementwise = count_flops,
    .by_row = true,
    .mixes = mixes_rows,
    .title = name_plugin,
};
