/* SPDX-License-Identifier: Apache-2.0
 *
 * Graphs drawn at random, of operators that parts divide and of some that they do not.
 */
#ifndef PST_RANDOM_PARTS_H
#define PST_RANDOM_PARTS_H

#include "../graph/model_support.h"
#include "graph/draft.h"
#include "random.h"

enum { ROWS = 24, MOST_TENSORS = 40 };

struct draft {
    struct pst_graph_builder *b;
    uint64_t seed;
    uint32_t tensors[MOST_TENSORS], n; /* [ROWS, C] each */
    uint32_t shared;                   /* a matrix that several layers use; PST_NONE: not yet */
    uint32_t classes, table;           /* PST_NONE: x are no tokens */
    uint32_t n_names;
};

static uint32_t drawn(struct draft *d, uint32_t n)
{
    return (uint32_t)(next_random(&d->seed) % n);
}

static uint64_t width_of(const struct draft *d, uint32_t tensor)
{
    return d->b->tensors[tensor].dims[d->b->tensors[tensor].rank - 1];
}

static const char *new_name(struct draft *d, const char *kind)
{
    return pst_arena_printf(&d->b->arena, "%s%u", kind, d->n_names++);
}

static uint32_t add_op(struct draft *d, struct pst_op op, uint32_t n_in, uint32_t x, uint32_t z)
{
    const uint32_t in[2] = {x, z};
    uint32_t y;

    op.name = new_name(d, "op");
    op.in = in;
    op.n_in = n_in;
    y = pst_graph_add(d->b, &op);
    assert_ok(pst_graph_failure(d->b, &(struct pst_error){0}), &d->b->error);
    return d->tensors[d->n++] = y;
}

static uint32_t add_param(struct draft *d, uint32_t rank, uint64_t rows, uint64_t columns)
{
    return pst_graph_param(d->b, new_name(d, "p"), rank, (const uint64_t[2]){rows, columns},
                           PST_INIT_ZERO, 0, false);
}

static uint32_t add_layer(struct draft *d, uint32_t x, uint64_t out)
{
    const uint64_t in = width_of(d, x);
    const bool transposed = drawn(d, 4) == 0, square = in == 24 && out == 24;
    uint32_t param[2] = {PST_NONE, drawn(d, 2) ? add_param(d, 1, out, 0) : PST_NONE};

    if (square && d->shared != PST_NONE && drawn(d, 2)) {
        param[0] = d->shared;
    } else {
        param[0] = add_param(d, 2, transposed ? out : in, transposed ? in : out);
        d->shared = square ? param[0] : d->shared;
    }
    return add_op(d,
                  (struct pst_op){.kind = PST_OP_LINEAR,
                                  .act = drawn(d, 3) == 0 ? 1 + drawn(d, 2) : 0,
                                  .transposed = transposed,
                                  .n_param = 2,
                                  .param = param},
                  1, x, 0);
}

static uint32_t add_norm(struct draft *d, uint32_t x)
{
    const uint32_t param[2] = {add_param(d, 1, width_of(d, x), 0),
                               add_param(d, 1, width_of(d, x), 0)};

    return add_op(
        d, (struct pst_op){.kind = PST_OP_LAYERNORM, .n_param = 2, .param = param, .eps = 1e-5f}, 1,
        x, 0);
}

/* Packed or from two sequences, with or without rotation, a window, a scale. */
static uint32_t add_attention(struct draft *d, uint32_t x, uint32_t z)
{
    const uint32_t heads = 1u << drawn(d, 4), keys = heads > 1 ? heads >> drawn(d, 2) : 1;
    const uint32_t depth = 2 << drawn(d, 2);
    const bool packed = drawn(d, 3) > 0;
    struct pst_op op = {.kind = PST_OP_ATTENTION,
                        .heads = heads,
                        .kv_heads = keys,
                        .causal = packed && drawn(d, 2)};

    x = add_layer(d, x, (uint64_t)depth * (heads + (packed ? 2 * keys : 0)));
    if (packed && drawn(d, 2)) {
        x = add_op(d,
                   (struct pst_op){.kind = PST_OP_ROTARY,
                                   .heads = heads + keys,
                                   .head_dim = depth,
                                   .rope = {.theta = 100.0f}},
                   1, x, 0);
    }
    return add_op(d, op, packed ? 1 : 2, x,
                  packed ? 0 : add_layer(d, z, (uint64_t)depth * 2 * keys));
}

static uint64_t drawn_width(struct draft *d)
{
    static const uint64_t widths[] = {8, 12, 24, 24, 24, 48, 30, 512};

    return widths[drawn(d, drawn(d, 4) ? 7 : 8)];
}

static void add_some(struct draft *d)
{
    const uint32_t x = d->tensors[d->n - 1 - drawn(d, d->n < 4 ? d->n : 4)];
    const uint32_t z = d->tensors[drawn(d, d->n)];
    uint32_t y;

    switch (drawn(d, 8)) {
    case 7:
        y = add_layer(d, x, 24 << drawn(d, 3));
        y = add_op(d, (struct pst_op){.kind = PST_OP_DROPOUT, .p = 0.4f}, 1, y, 0);
        add_layer(d, y, drawn_width(d));
        break;
    case 0:
        add_norm(d, x);
        break;
    case 1:
        add_attention(d, x, z);
        break;
    case 2:
        y = add_layer(d, x, 2 * drawn_width(d));
        add_op(d, (struct pst_op){.kind = PST_OP_GLU, .act = PST_ACT_SILU}, 1, y, 0);
        break;
    case 3:
        y = add_layer(d, x, width_of(d, z));
        add_op(d, (struct pst_op){.kind = PST_OP_ADD, .p = drawn(d, 2) ? 0.25f : 0}, 2, y, z);
        break;
    case 4:
        add_op(d, (struct pst_op){.kind = PST_OP_ACT, .act = 1 + drawn(d, 3)}, 1, x, 0);
        break;
    default:
        add_layer(d, x, drawn_width(d));
        break;
    }
}

/* Tokens, or what they would become. */
static uint32_t draw_input(struct draft *d)
{
    const uint64_t rows = ROWS, shape[2] = {ROWS, 24};
    uint32_t param[2];

    if (drawn(d, 2)) {
        return pst_graph_input(d->b, "x", PST_FIELD_X, PST_F64, 2, shape);
    }
    param[0] = d->table = add_param(d, 2, d->classes, 24);
    param[1] = drawn(d, 2) ? add_param(d, 2, ROWS, 24) : PST_NONE;
    return add_op(
        d,
        (struct pst_op){
            .kind = PST_OP_EMBEDDING, .n_param = 2, .param = param, .padding = drawn(d, 3) == 0},
        1, pst_graph_input(d->b, "x", PST_FIELD_X, PST_I32, 1, &rows), 0);
}

/* One of classes, maybe tied to the table. */
static uint32_t add_head(struct draft *d, uint32_t x)
{
    const bool tied = d->table != PST_NONE && width_of(d, x) == 24 && drawn(d, 4) > 0;
    const uint32_t param[2] = {tied ? d->table : add_param(d, 2, width_of(d, x), d->classes),
                               drawn(d, 2) ? add_param(d, 1, d->classes, 0) : PST_NONE};

    return add_op(
        d, (struct pst_op){.kind = PST_OP_LINEAR, .transposed = tied, .n_param = 2, .param = param},
        1, x, 0);
}

/* Tensors without a reader become logits, which are added up, or are added up for one head. */
static struct pst_graph *draw_graph(uint64_t seed)
{
    struct draft d = {.seed = seed, .shared = PST_NONE, .table = PST_NONE};
    const uint64_t rows = ROWS;
    struct pst_graph *graph = NULL;
    struct pst_error err = {0};
    uint32_t targets, logits = PST_NONE, n;
    bool one;

    assert_ok(pst_graph_builder_create("random", PST_F64, &d.b, &err), &err);
    d.classes = drawn(&d, 3) ? 3 + drawn(&d, 30) : 8 + 8 * drawn(&d, 4);
    d.n = 0;
    d.tensors[0] = draw_input(&d);
    d.tensors[0] = d.table != PST_NONE && drawn(&d, 2) ? add_norm(&d, d.tensors[0]) : d.tensors[0];
    d.n = 1;
    targets = pst_graph_input(d.b, "targets", PST_FIELD_TARGET, PST_I32, 1, &rows);
    add_layer(&d, d.tensors[0], 24);
    for (n = 2 + drawn(&d, 6); n > 0 && d.n < MOST_TENSORS - 12; n--) {
        pst_graph_layer(d.b, d.n);
        add_some(&d);
    }
    n = d.n;
    one = drawn(&d, 2);
    for (uint32_t t = 0; t < n; t++) {
        bool read = false;

        for (uint32_t v = 0; v < d.b->n_ops; v++) {
            for (uint32_t i = 0; i < d.b->ops[v].n_in; i++) {
                read = read || d.b->ops[v].in[i] == d.tensors[t];
            }
        }
        if (!read && d.n < MOST_TENSORS - 1) {
            const uint32_t y = one ? add_layer(&d, d.tensors[t], 24) : add_head(&d, d.tensors[t]);

            logits = logits == PST_NONE
                         ? y
                         : add_op(&d, (struct pst_op){.kind = PST_OP_ADD}, 2, logits, y);
        }
    }
    if (one) {
        logits = add_head(&d, drawn(&d, 2) ? add_norm(&d, logits) : logits);
    }
    assert_ok(pst_graph_finish(d.b,
                               add_op(&d,
                                      (struct pst_op){.kind = PST_OP_CROSS_ENTROPY,
                                                      .smoothing = drawn(&d, 2) ? 0.1f : 0,
                                                      .z_loss = drawn(&d, 2) ? 0.01f : 0},
                                      2, logits, targets),
                               logits, &graph, &err),
              &err);
    pst_graph_builder_destroy(d.b);
    return graph;
}

#endif
