/* SPDX-License-Identifier: Apache-2.0
 *
 * Operators and blocks with the same numbers share a class.
 */
#include <string.h>

#include "classes.h"
#include "map.h"

uint64_t gp_hash(uint64_t seed, const void *bytes, size_t n)
{
    const unsigned char *at = bytes;
    uint64_t hash = seed ^ n * 0x9E3779B97F4A7C15u, word;

    for (; n >= 8; n -= 8, at += 8) {
        memcpy(&word, at, 8);
        hash = (hash ^ word) * 0xBF58476D1CE4E5B9u;
        hash ^= hash >> 29;
    }
    for (; n > 0; n--, at++) {
        hash = (hash ^ *at) * 0x94D049BB133111EBu;
    }
    return hash ^ hash >> 32;
}

static void op_times(const struct gp_costs *costs, uint32_t v, int64_t *times)
{
    const struct part_problem *p = costs->problem;
    uint32_t l, e, n = costs->n_lanes;

    memset(times, 0, (size_t)GP_TIMES * n * sizeof *times);
    for (l = 0; l < n; l++) {
        const struct gp_lane *lane = &costs->lanes[l];

        times[GP_COMP * n + l] = lane->comp[v];
        if (costs->comm_model == PST_COMM_MAX) {
            times[GP_SYNC * n + l] = lane->sync[v];
        } else {
            times[GP_COMP * n + l] += lane->sync[v];
        }
        for (e = p->first_out[v]; e < p->first_out[v + 1]; e++) {
            times[GP_OUT * n + l] += lane->p2p[e];
        }
        for (e = p->first_in[v]; e < p->first_in[v + 1]; e++) {
            times[GP_IN * n + l] += lane->p2p[p->in_edges[e]];
        }
    }
}

static bool same_load(const struct gp_load *a, const struct gp_load *b)
{
    return a->weight == b->weight && a->saved == b->saved && a->workspace == b->workspace &&
           a->n_real == b->n_real;
}

static struct gp_load op_load(const struct part_problem *p, uint32_t v)
{
    return (struct gp_load){p->weight_bytes[v], p->saved_bytes[v], p->workspace_bytes[v], 1};
}

static void add_op_class(struct gp_costs *costs, const int64_t *times, const struct gp_load *load)
{
    size_t n = (size_t)GP_TIMES * costs->n_lanes;
    struct gp_op_class *c = &costs->op_classes[costs->n_op_classes];

    c->times = call_alloc(n, sizeof *times);
    memcpy(c->times, times, n * sizeof *times);
    c->load = *load;
    costs->n_op_classes++;
}

/* known: class by a number of what it is. */
static void class_of_op(struct gp_costs *costs, struct part_map *known, uint32_t v, int64_t *times)
{
    struct gp_load load = op_load(costs->problem, v);
    size_t bytes = (size_t)GP_TIMES * costs->n_lanes * sizeof *times;
    uint64_t number;
    uint32_t *at;

    op_times(costs, v, times);
    number = gp_hash(0, times, bytes) | 1; /* never 0 */
    for (; (at = part_map_find(known, number)) != NULL; number += 2) {
        if (same_load(&load, &costs->op_classes[*at].load) &&
            memcmp(times, costs->op_classes[*at].times, bytes) == 0) {
            costs->class_of_op[v] = *at;
            return;
        }
    }
    at = part_map_put(known, number);
    *at = costs->class_of_op[v] = costs->n_op_classes;
    add_op_class(costs, times, &load);
}

void gp_classes_of_ops(struct gp_costs *costs)
{
    uint32_t n = costs->problem->n, all = n + 2 + costs->tree->n_virtual, v;
    int64_t *times = call_alloc((size_t)GP_TIMES * costs->n_lanes + 1, sizeof *times);
    const struct gp_load none = {0};
    struct part_map known = {.value_size = sizeof(uint32_t)};

    CALL_TAKE(costs->op_classes, (size_t)n + 1);
    CALL_TAKE(costs->class_of_op, all);
    for (v = 0; v < n; v++) {
        class_of_op(costs, &known, v, times);
    }
    memset(times, 0, (size_t)GP_TIMES * costs->n_lanes * sizeof *times);
    add_op_class(costs, times, &none);
    for (v = n; v < all; v++) {
        costs->class_of_op[v] = costs->n_op_classes - 1;
    }
}

static void add_load(struct gp_load *sum, const struct gp_load *load)
{
    sum->weight += load->weight;
    sum->saved += load->saved;
    sum->workspace = load->workspace > sum->workspace ? load->workspace : sum->workspace;
    sum->n_real += load->n_real;
}

/* Bytes at the ends of a block, from its kids. */
static void end_times(const struct gp_costs *costs, struct gp_class *c)
{
    uint32_t n = costs->n_lanes, i, l;

    if (c->kind == GP_PARALLEL || c->n_ops == 0) {
        for (i = 0; i < c->n_kids; i++) {
            const int64_t *kid = costs->classes[c->kids[i]].times;

            for (l = GP_OUT * n; l < GP_TIMES * n; l++) {
                c->times[l] += kid[l];
            }
        }
        return;
    }
    for (l = 0; l < n; l++) {
        const int64_t *first = costs->classes[c->kids[0]].times;
        const int64_t *last = costs->classes[c->kids[c->n_kids - 1]].times;

        c->times[GP_OUT * n + l] = first[GP_OUT * n + l] + first[GP_DIRECT * n + l];
        c->times[GP_IN * n + l] = last[GP_IN * n + l] + last[GP_DIRECT * n + l];
    }
}

static void fill_class(struct gp_costs *costs, struct gp_class *c, const struct gp_block *block)
{
    uint32_t n = costs->n_lanes, i, l;

    CALL_TAKE(c->times, (size_t)GP_TIMES * n);
    if (c->kind == GP_EDGE) {
        for (i = 0; i < block->n_edges; i++) {
            uint32_t e = costs->tree->edges[block->first_edge + i];

            for (l = 0; l < n; l++) {
                c->times[GP_DIRECT * n + l] += costs->lanes[l].p2p[e];
            }
        }
        return;
    }
    for (i = 0; i < c->n_ops; i++) {
        const struct gp_op_class *op = &costs->op_classes[c->ops[i]];

        add_load(&c->load, &op->load);
        for (l = 0; l < GP_OUT * n; l++) {
            c->times[l] += op->times[l];
        }
    }
    for (i = 0; i < c->n_kids; i++) {
        const struct gp_class *kid = &costs->classes[c->kids[i]];

        add_load(&c->load, &kid->load);
        for (l = 0; l < GP_OUT * n; l++) {
            c->times[l] += kid->times[l];
        }
    }
    end_times(costs, c);
    if (c->kind == GP_SERIES) {
        gp_class_sums(costs, c);
    }
}

static bool same_class(const struct gp_costs *costs, const struct gp_class *a,
                       const struct gp_block *block, const struct gp_class *c)
{
    const struct gp_block *other = &costs->tree->blocks[a->block];
    uint32_t i, l;

    if (a->kind != c->kind || a->n_ops != c->n_ops || a->n_kids != c->n_kids) {
        return false;
    }
    if (c->kind == GP_EDGE) { /* all that counts is how long its bytes take */
        for (l = 0; l < costs->n_lanes; l++) {
            int64_t sum = 0;

            for (i = 0; i < block->n_edges; i++) {
                sum += costs->lanes[l].p2p[costs->tree->edges[block->first_edge + i]];
            }
            if (sum != a->times[GP_DIRECT * costs->n_lanes + l]) {
                return false;
            }
        }
        return (other->n_edges == 0) == (block->n_edges == 0);
    }
    return memcmp(a->ops, c->ops, c->n_ops * sizeof *c->ops) == 0 &&
           memcmp(a->kids, c->kids, c->n_kids * sizeof *c->kids) == 0;
}

static void take_parts(struct gp_costs *costs, const struct gp_block *block, struct gp_class *c,
                       uint64_t *hash)
{
    const struct gp_tree *tree = costs->tree;
    uint32_t i;

    CALL_TAKE(c->ops, c->n_ops);
    CALL_TAKE(c->kids, c->n_kids);
    for (i = 0; i < c->n_ops; i++) {
        c->ops[i] = costs->class_of_op[tree->ops[block->first_op + i]];
    }
    for (i = 0; i < c->n_kids; i++) {
        c->kids[i] = costs->class_of_block[tree->kids[block->first_kid + i]];
    }
    *hash = gp_hash(c->kind, c->ops, c->n_ops * sizeof *c->ops);
    *hash = gp_hash(*hash, c->kids, c->n_kids * sizeof *c->kids);
}

static void class_of_block(struct gp_costs *costs, struct part_map *known, uint32_t at)
{
    const struct gp_block *block = &costs->tree->blocks[at];
    struct gp_class c = {.kind = block->kind,
                         .block = at,
                         .n_ops = block->kind == GP_SERIES ? block->n_ops : 0,
                         .n_kids = block->kind == GP_EDGE ? 0 : block->n_kids};
    uint64_t hash;
    uint32_t *class, l;

    take_parts(costs, block, &c, &hash);
    for (l = 0; c.kind == GP_EDGE && l < block->n_edges; l++) {
        int64_t ticks =
            costs->n_lanes > 0 ? costs->lanes[0].p2p[costs->tree->edges[block->first_edge + l]] : 0;

        hash += (uint64_t)ticks * 0x9E3779B97F4A7C15u; /* of several edges the order is free */
    }
    for (hash |= 1; (class = part_map_find(known, hash)) != NULL; hash += 2) {
        if (same_class(costs, &costs->classes[*class], block, &c)) {
            costs->class_of_block[at] = *class;
            return;
        }
    }
    fill_class(costs, &c, block);
    class = part_map_put(known, hash);
    *class = costs->class_of_block[at] = costs->n_classes;
    costs->classes[costs->n_classes++] = c;
}

void gp_classes_of_blocks(struct gp_costs *costs)
{
    uint32_t n = costs->tree->n_blocks, at;
    struct part_map known = {.value_size = sizeof(uint32_t)};

    CALL_TAKE(costs->classes, (size_t)n + 1);
    CALL_TAKE(costs->class_of_block, (size_t)n + 1);
    for (at = 0; at < n; at++) {
        class_of_block(costs, &known, at);
    }
}
