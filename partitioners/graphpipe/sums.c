/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums over the items of a series or the branches of a parallel block, so that what a run of them
 * costs takes no loop.
 */
#include <string.h>

#include "classes.h"

static void allocate(struct gp_costs *costs, struct gp_class *c, uint32_t rows)
{
    size_t n = c->n_sums;

    CALL_TAKE(c->sums, rows * costs->n_lanes * n);
    CALL_TAKE(c->weight, n);
    CALL_TAKE(c->saved, n);
    CALL_TAKE(c->workspace, n);
    CALL_TAKE(c->real, n);
}

/* One more item: position `at` + 1 from position `at`. */
static void append(const struct gp_costs *costs, struct gp_class *c, uint32_t at, uint32_t rows,
                   const struct gp_load *load, const int64_t *times)
{
    uint32_t n = costs->n_lanes, row, l;

    c->weight[at + 1] = c->weight[at] + load->weight;
    c->saved[at + 1] = c->saved[at] + load->saved;
    c->workspace[at] = load->workspace;
    c->real[at + 1] = c->real[at] + load->n_real;
    for (row = 0; row < rows; row++) {
        for (l = 0; l < n; l++) {
            int64_t *sums = c->sums + ((size_t)row * n + l) * c->n_sums;

            sums[at + 1] = sums[at] + times[row * n + l];
        }
    }
}

static void start(const struct gp_costs *costs, struct gp_class *c, uint32_t rows)
{
    uint32_t i;

    c->weight[0] = 0;
    c->saved[0] = 0;
    c->real[0] = 0;
    for (i = 0; i < rows * costs->n_lanes; i++) {
        c->sums[(size_t)i * c->n_sums] = 0;
    }
    c->workspace[c->n_sums - 1] = 0;
}

/* Bytes that a cut at a position costs the stage on its right, and the one on its left. */
static void cut_bytes(struct gp_costs *costs, struct gp_class *c)
{
    uint32_t n = costs->n_lanes, positions = 2 * c->n_ops + 4, l, i;

    CALL_TAKE(c->left, (size_t)n * positions);
    CALL_TAKE(c->right, (size_t)n * positions);
    memset(c->left, 0, (size_t)n * positions * sizeof *c->left);
    memset(c->right, 0, (size_t)n * positions * sizeof *c->right);
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
    bool series = c->kind == GP_SERIES;
    uint32_t rows = series ? 2 : 4, i;
    int64_t *none = NULL;
    const struct gp_load nothing = {0};

    c->n_sums = series ? 2 * c->n_ops + 3 : c->n_kids + 1;
    allocate(costs, c, rows);
    start(costs, c, rows);
    if (!series) {
        for (i = 0; i < c->n_kids; i++) {
            const struct gp_class *kid = &costs->classes[c->kids[i]];

            append(costs, c, i, rows, &kid->load, kid->times);
        }
        return;
    }
    CALL_TAKE(none, (size_t)GP_TIMES * costs->n_lanes + 1);
    append(costs, c, 0, rows, &nothing, none); /* v_0 is s */
    for (i = 1; i <= 2 * c->n_ops + 1; i++) {
        const struct gp_class *gap = &costs->classes[c->kids[i / 2]];

        if (i % 2 == 1) {
            append(costs, c, i, rows, &gap->load, gap->times);
        } else {
            const struct gp_op_class *op = &costs->op_classes[c->ops[i / 2 - 1]];

            append(costs, c, i, rows, &op->load, op->times);
        }
    }
    if (costs->links) {
        cut_bytes(costs, c);
    }
}
