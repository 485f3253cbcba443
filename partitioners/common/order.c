/* SPDX-License-Identifier: Apache-2.0
 *
 * Topological orders of the nodes.
 */
#include <string.h>

#include "chain.h"

/* The ready nodes: a binary heap, least key first, then least index. */
struct ready {
    uint32_t n, *nodes;
    const uint64_t *keys;
};

static bool is_before(const struct ready *r, uint32_t a, uint32_t b)
{
    return r->keys[a] != r->keys[b] ? r->keys[a] < r->keys[b] : a < b;
}

static void push(struct ready *r, uint32_t v)
{
    uint32_t i = r->n++;

    while (i > 0 && is_before(r, v, r->nodes[(i - 1) / 2])) {
        r->nodes[i] = r->nodes[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    r->nodes[i] = v;
}

static uint32_t pop(struct ready *r)
{
    uint32_t first = r->nodes[0], v = r->nodes[--r->n], i = 0;

    for (;;) {
        uint32_t child = 2 * i + 1;

        if (child >= r->n) {
            break;
        }
        if (child + 1 < r->n && is_before(r, r->nodes[child + 1], r->nodes[child])) {
            child++;
        }
        if (!is_before(r, r->nodes[child], v)) {
            break;
        }
        r->nodes[i] = r->nodes[child];
        i = child;
    }
    r->nodes[i] = v;
    return first;
}

static void count_inputs(const struct part_problem *p, uint32_t *waits)
{
    uint32_t v;

    for (v = 0; v < p->n; v++) {
        waits[v] = p->first_in[v + 1] - p->first_in[v];
    }
}

static void by_keys(const struct part_problem *p, struct ready *ready, uint32_t *waits,
                    uint32_t *order)
{
    uint32_t v, e, at = 0;

    for (v = 0; v < p->n; v++) {
        if (waits[v] == 0) {
            push(ready, v);
        }
    }
    while (ready->n > 0) {
        v = pop(ready);
        order[at++] = v;
        for (e = p->first_out[v]; e < p->first_out[v + 1]; e++) {
            if (--waits[p->to[e]] == 0) {
                push(ready, p->to[e]);
            }
        }
    }
}

/* A stack instead of a heap: the first branch is followed to the join before the next begins. */
static void by_depth_first(const struct part_problem *p, uint32_t *stack, uint32_t *waits,
                           uint32_t *order)
{
    uint32_t v, e, at = 0, n = 0;

    for (v = p->n; v-- > 0;) {
        if (waits[v] == 0) {
            stack[n++] = v;
        }
    }
    while (n > 0) {
        v = stack[--n];
        order[at++] = v;
        for (e = p->first_out[v + 1]; e-- > p->first_out[v];) {
            if (--waits[p->to[e]] == 0) {
                stack[n++] = p->to[e];
            }
        }
    }
}

static void longest_from_source(const struct part_problem *p, uint64_t *keys)
{
    uint32_t v, i;

    for (v = 0; v < p->n; v++) {
        keys[v] = 0;
        for (i = p->first_in[v]; i < p->first_in[v + 1]; i++) {
            uint64_t level = keys[p->from[p->in_edges[i]]] + 1;

            keys[v] = level > keys[v] ? level : keys[v];
        }
    }
}

/* Time is not negative, so its bits order as it does; longest first: complement. */
static void longest_to_sink(const struct part_problem *p, double *rest, uint64_t *keys)
{
    uint32_t v, e;

    for (v = p->n; v-- > 0;) {
        double most = 0;

        for (e = p->first_out[v]; e < p->first_out[v + 1]; e++) {
            most = rest[p->to[e]] > most ? rest[p->to[e]] : most;
        }
        rest[v] = most + p->forward_ns[v] + p->backward_ns[v];
        memcpy(&keys[v], &rest[v], sizeof keys[v]);
        keys[v] = ~keys[v];
    }
}

void part_order(const struct part_problem *p, uint32_t kind, const uint64_t *keys,
                uint32_t *ret_order)
{
    struct call_region region;
    struct ready ready = {0};
    uint64_t *own;
    double *rest;
    uint32_t *waits, *nodes, v;

    call_enter(&region);
    CALL_TAKE(waits, (size_t)p->n + 1);
    CALL_TAKE(nodes, (size_t)p->n + 1);
    CALL_TAKE(own, (size_t)p->n + 1);
    CALL_TAKE(rest, (size_t)p->n + 1);
    ready = (struct ready){0, nodes, keys != NULL ? keys : own};
    count_inputs(p, waits);
    switch (kind) {
    case PART_ORDER_DFS:
        by_depth_first(p, nodes, waits, ret_order);
        break;
    case PART_ORDER_BFS:
        longest_from_source(p, own);
        by_keys(p, &ready, waits, ret_order);
        break;
    case PART_ORDER_LONGEST:
        longest_to_sink(p, rest, own);
        by_keys(p, &ready, waits, ret_order);
        break;
    case PART_ORDER_KEYS:
        by_keys(p, &ready, waits, ret_order);
        break;
    default:
        for (v = 0; v < p->n; v++) {
            ret_order[v] = v;
        }
    }
    call_leave(&region);
}

void part_plan_cut(struct part_plan *plan, const struct part_problem *p, const uint32_t *order,
                   const uint32_t *first, uint32_t n_stages, uint32_t b)
{
    uint32_t *stage_of = call_alloc((size_t)p->n + 1, sizeof *stage_of);
    uint32_t s, at;

    for (s = 0; s < n_stages; s++) {
        for (at = first[s]; at < first[s + 1]; at++) {
            stage_of[order[at]] = s;
        }
    }
    part_plan_init(plan, p, stage_of, n_stages, b);
    call_free(stage_of);
}
