/* SPDX-License-Identifier: Apache-2.0
 *
 * From binary blocks to series of operators with blocks between them and parallel blocks with
 * branches in the order of the model.
 */
#include <stdlib.h>

#include "build.h"

/* More than this is not solved as blocks: the search would nest as deeply. */
#define MOST_NESTING 1000

struct list {
    uint32_t n, room, *items;
};

static void push(struct list *list, uint32_t item)
{
    CALL_MAKE_ROOM(list->items, list->n, list->room);
    list->items[list->n++] = item;
}

struct flatten {
    const struct gp_build *build;
    struct gp_tree *tree;
    struct list ops, kids, edges;
    uint32_t room_blocks;
    uint32_t n_real;
};

static void flatten(struct flatten *f, uint32_t node, uint32_t *ret_block);

static void add_block(struct flatten *f, const struct gp_block *block, uint32_t *ret_block)
{
    struct gp_tree *tree = f->tree;

    CALL_MAKE_ROOM(tree->blocks, tree->n_blocks, f->room_blocks);
    tree->blocks[tree->n_blocks] = *block;
    *ret_block = tree->n_blocks++;
}

/* The blocks of a series (and the operators between them), or those side by side, left to right. */
static void unfold(struct flatten *f, uint32_t node, uint32_t kind, struct list *kids,
                   struct list *ops)
{
    const struct gp_node *nodes = f->build->nodes;
    struct list stack = {0};

    push(&stack, node);
    /* operators wait on the stack as numbers after all nodes */
    while (stack.n > 0) {
        uint32_t top = stack.items[--stack.n];

        if (top >= f->build->n_nodes) {
            push(ops, top - f->build->n_nodes);
        } else if (nodes[top].kind != kind) {
            push(kids, top);
        } else {
            push(&stack, nodes[top].b);
            if (kind == GP_SERIES) {
                push(&stack, f->build->n_nodes + nodes[top].op);
            }
            push(&stack, nodes[top].a);
        }
    }
}

static void take_links(struct flatten *f, uint32_t node)
{
    uint32_t link = f->build->nodes[node].links;

    for (; link != GP_NONE; link = f->build->links[link].next) {
        push(&f->edges, f->build->links[link].edge);
    }
}

/* Bare edges among `nodes` as one block. */
static void flatten_edges(struct flatten *f, const struct list *nodes, uint32_t *ret_block)
{
    struct gp_block block = {.kind = GP_EDGE, .first_edge = f->edges.n, .key = GP_NONE};
    uint32_t i;

    for (i = 0; i < nodes->n; i++) {
        if (f->build->nodes[nodes->items[i]].kind == GP_EDGE) {
            take_links(f, nodes->items[i]);
        }
    }
    block.n_edges = f->edges.n - block.first_edge;
    add_block(f, &block, ret_block);
}

static void add_kids(struct flatten *f, struct gp_block *block, const struct list *kids)
{
    uint32_t i;

    block->first_kid = f->kids.n;
    block->n_kids = kids->n;
    for (i = 0; i < kids->n; i++) {
        uint32_t key = f->tree->blocks[kids->items[i]].key;

        block->key = key < block->key ? key : block->key;
        push(&f->kids, kids->items[i]);
    }
}

static void flatten_series(struct flatten *f, uint32_t node, uint32_t *ret_block)
{
    struct gp_block block = {.kind = GP_SERIES, .key = GP_NONE};
    struct list kids = {0}, ops = {0};
    uint32_t i;

    unfold(f, node, GP_SERIES, &kids, &ops);
    for (i = 0; i < kids.n; i++) {
        flatten(f, kids.items[i], &kids.items[i]);
    }
    block.first_op = f->ops.n;
    block.n_ops = ops.n;
    for (i = 0; i < ops.n; i++) {
        if (ops.items[i] < f->n_real && ops.items[i] < block.key) {
            block.key = ops.items[i];
        }
        push(&f->ops, ops.items[i]);
    }
    add_kids(f, &block, &kids);
    add_block(f, &block, ret_block);
}

struct keyed {
    uint32_t key, block;
};

static int by_key(const void *a_, const void *b_)
{
    const struct keyed *a = a_, *b = b_;

    return (a->key > b->key) - (a->key < b->key);
}

static void sort_kids(const struct flatten *f, struct list *kids)
{
    struct keyed *sorted = call_alloc((size_t)kids->n, sizeof *sorted);
    uint32_t i;

    for (i = 0; i < kids->n; i++) {
        sorted[i] = (struct keyed){f->tree->blocks[kids->items[i]].key, kids->items[i]};
    }
    qsort(sorted, kids->n, sizeof *sorted, by_key);
    for (i = 0; i < kids->n; i++) {
        kids->items[i] = sorted[i].block;
    }
}

static void flatten_parallel(struct flatten *f, uint32_t node, uint32_t *ret_block)
{
    struct gp_block block = {.kind = GP_PARALLEL, .key = GP_NONE};
    struct list nodes = {0}, kids = {0};
    uint32_t i, n_bare = 0, kid;

    unfold(f, node, GP_PARALLEL, &nodes, NULL);
    for (i = 0; i < nodes.n; i++) {
        if (f->build->nodes[nodes.items[i]].kind == GP_EDGE) {
            n_bare++;
            continue;
        }
        flatten(f, nodes.items[i], &kid);
        push(&kids, kid);
    }
    if (n_bare > 0) {
        flatten_edges(f, &nodes, &kid);
        push(&kids, kid);
    }
    if (kids.n == 1) {
        *ret_block = kids.items[0];
    } else {
        sort_kids(f, &kids);
        add_kids(f, &block, &kids);
        add_block(f, &block, ret_block);
    }
}

static void flatten(struct flatten *f, uint32_t node, uint32_t *ret_block)
{
    struct list alone = {1, 1, &node};

    switch (f->build->nodes[node].kind) {
    case GP_SERIES:
        flatten_series(f, node, ret_block);
        return;
    case GP_PARALLEL:
        flatten_parallel(f, node, ret_block);
        return;
    default:
        flatten_edges(f, &alone, ret_block);
        return;
    }
}

void gp_tree_flatten(struct gp_build *build, uint32_t root, struct gp_tree *tree)
{
    struct flatten f = {.build = build, .tree = tree, .n_real = build->problem->n};
    struct gp_block top = {.kind = GP_SERIES, .key = GP_NONE};
    uint32_t block = GP_NONE;

    if (build->nodes[root].depth > MOST_NESTING) {
        return;
    }
    flatten(&f, root, &block);
    if (tree->blocks[block].kind != GP_SERIES) {
        struct list kids = {1, 1, &block};

        add_kids(&f, &top, &kids);
        add_block(&f, &top, &block);
    }
    tree->ops = f.ops.items;
    tree->kids = f.kids.items;
    tree->edges = f.edges.items;
    tree->n_ops = f.ops.n;
}
