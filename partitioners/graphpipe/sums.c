/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums over the items of a series, so that what a run of them costs takes no loop.
 */
#include "classes.h"

/* One more item: position `at` + 1 from position `at`. */
static void append(const struct gp_costs *costs, struct gp_class *c, uint32_t at,
                   const struct gp_load *load, const int64_t *times)
{
    uint32_t row;

    c->weight[at + 1] = c->weight[at] + load->weight;
    c->saved[at + 1] = c->saved[at] + load->saved;
    c->workspace[at] = load->workspace;
    c->real[at + 1] = c->real[at] + load->n_real;
    for (row = 0; row < GP_OUT * costs->n_lanes; row++) {
        int64_t *sums = c->sums + (size_t)row * c->n_sums;

        sums[at + 1] = sums[at] + times[row];
    }
}

/* Bytes that a cut at a position costs the stage on its right, and the one on its left. */
static void cut_bytes(struct gp_costs *costs, struct gp_class *c)
{
    uint32_t n = costs->n_lanes, positions = 2 * c->n_ops + 4, l, i;

    CALL_TAKE(c->left, (size_t)n * positions);
    CALL_TAKE(c->right, (size_t)n * positions);
    for (l = 0; l < n; l++) {
        int64_t *left = c->left + (size_t)l * positions, *right = c->right + (size_t)l * positions;

        for (i = 0; i <= c->n_ops; i++) {
            const int64_t *gap = costs->classes[c->kids[i]].times;
            int64_t direct = gap[GP_DIRECT * n + l];

            left[2 * i + 1] = gap[GP_OUT * n + l] + direct; /* after v_i */
            right[2 * i + 2] = gap[GP_IN * n + l] + direct; /* before v_i+1 */
        }
        for (i = 1; i <= c->n_ops; i++) {
            const int64_t *op = costs->op_classes[c->ops[i - 1]].times;

            left[2 * i] = op[GP_IN * n + l];
            right[2 * i + 1] = op[GP_OUT * n + l];
        }
        /* with an end: all its edges but those inside; the caller adds all of them */
        left[0] = -left[1];
        right[positions - 1] = -right[positions - 2];
    }
}

void gp_class_sums(struct gp_costs *costs, struct gp_class *c)
{
    uint32_t i;

    c->n_sums = 2 * c->n_ops + 3;
    CALL_TAKE(c->sums, (size_t)GP_OUT * costs->n_lanes * c->n_sums);
    CALL_TAKE(c->weight, c->n_sums);
    CALL_TAKE(c->saved, c->n_sums);
    CALL_TAKE(c->workspace, c->n_sums);
    CALL_TAKE(c->real, c->n_sums);
    for (i = 1; i <= 2 * c->n_ops + 1; i++) { /* v_0 is s */
        const struct gp_class *gap = &costs->classes[c->kids[i / 2]];
        const struct gp_op_class *op = i % 2 == 0 ? &costs->op_classes[c->ops[i / 2 - 1]] : NULL;

        append(costs, c, i, op != NULL ? &op->load : &gap->load,
               op != NULL ? op->times : gap->times);
    }
    if (costs->links) {
        cut_bytes(costs, c);
    }
}
