/* SPDX-License-Identifier: Apache-2.0
 *
 * Every partition that graphpipe's three rules make of a small series-parallel graph, by sets of
 * operators as bits, written without the code under test:
 *
 *   all operators that a piece owns are one stage;
 *   a piece that is a series is cut at one of its operators, which goes to the left or the right;
 *   a piece that is parallel is cut in two groups of branches, one of which owns s and one t, if
 * the piece did.
 *
 * A piece hangs between s and t, whose operators it may own. Branches are what hangs together
 * between s and t, in the order of their least operator; an edge s -> t is the last branch.
 */
#ifndef TEST_GRAPHPIPE_FAMILY_RIG_H
#define TEST_GRAPHPIPE_FAMILY_RIG_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "partition_check.h"

/* A partition of some operators: four bits each, least operator of its stage + 1; 0: not in it. */
struct family {
    uint64_t *items;
    size_t n, room;
};

struct family_rig {
    uint32_t n;
    uint32_t out[12]; /* bits; operators n and n + 1 are source and sink */
    bool any;         /* any two groups, or one cut of the row */
};

static inline void family_add(struct family *f, uint64_t item)
{
    if (f->n == f->room) {
        f->room = f->room == 0 ? 64 : 2 * f->room;
        f->items = realloc(f->items, f->room * sizeof *f->items);
        assert_non_null(f->items);
    }
    f->items[f->n++] = item;
}

static inline int family_order(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

static inline void family_unique(struct family *f)
{
    size_t i, n = 0;

    qsort(f->items, f->n, sizeof *f->items, family_order);
    for (i = 0; i < f->n; i++) {
        if (i == 0 || f->items[i] != f->items[i - 1]) {
            f->items[n++] = f->items[i];
        }
    }
    f->n = n;
}

static inline void family_product(struct family *f, struct family *a, struct family *b)
{
    for (size_t i = 0; i < a->n; i++) {
        for (size_t j = 0; j < b->n; j++) {
            family_add(f, a->items[i] | b->items[j]);
        }
    }
    free(a->items);
    free(b->items);
}

static inline void family_stage(struct family *f, uint32_t set)
{
    uint64_t item = 0, least = (uint64_t)__builtin_ctz(set | 1u << 31) + 1;

    for (uint32_t v = 0; v < 12; v++) {
        item |= set >> v & 1 ? least << 4 * v : 0;
    }
    family_add(f, item);
}

static inline bool is_direct(const struct family_rig *r, uint32_t s, uint32_t t)
{
    return (r->out[s] >> t & 1) != 0;
}

/* Operators of `set` reachable from v by arrows forward (or back), v not among them. */
static inline uint32_t reach(const struct family_rig *r, uint32_t set, uint32_t v, bool back)
{
    uint32_t found = 0, before;

    do {
        before = found;
        for (uint32_t a = 0; a < r->n; a++) {
            for (uint32_t b = 0; b < r->n; b++) {
                if ((set >> a & 1) != 0 && (set >> b & 1) != 0 && is_direct(r, a, b)) {
                    if (!back && (a == v || (found >> a & 1) != 0)) {
                        found |= 1u << b;
                    } else if (back && (b == v || (found >> b & 1) != 0)) {
                        found |= 1u << a;
                    }
                }
            }
        }
    } while (found != before);
    return found;
}

static inline uint32_t component(const struct family_rig *r, uint32_t set, uint32_t v)
{
    uint32_t found = 1u << v, before;

    do {
        before = found;
        for (uint32_t a = 0; a < r->n; a++) {
            for (uint32_t b = 0; b < r->n; b++) {
                if ((set >> a & 1) != 0 && (set >> b & 1) != 0 && is_direct(r, a, b) &&
                    (found >> a & 1) != (found >> b & 1)) {
                    found |= 1u << a | 1u << b;
                }
            }
        }
    } while (found != before);
    return found;
}

/* A piece: branches (sets of operators; 0: the edge s -> t) between s and t. */
struct piece {
    uint32_t n, branch[12];
    uint32_t s, t;
    bool own_s, own_t, whole;
};

static inline void family_of(const struct family_rig *r, const struct piece *p, struct family *f);

/* The operator sets between s and t as branches. */
static inline struct piece piece_of(const struct family_rig *r, uint32_t set, uint32_t s,
                                    uint32_t t, bool own_s, bool own_t, bool whole)
{
    struct piece p = {.s = s, .t = t, .own_s = own_s, .own_t = own_t, .whole = whole};

    while (set != 0) {
        p.branch[p.n] = component(r, set, (uint32_t)__builtin_ctz(set));
        set &= ~p.branch[p.n++];
    }
    if (p.n == 0 || is_direct(r, s, t)) {
        p.branch[p.n++] = 0;
    }
    return p;
}

static inline uint32_t inner_of(const struct piece *p)
{
    uint32_t set = 0;

    for (uint32_t i = 0; i < p->n; i++) {
        set |= p->branch[i];
    }
    return set;
}

static inline void family_series(const struct family_rig *r, const struct piece *p,
                                 struct family *f)
{
    uint32_t set = p->branch[0];

    for (uint32_t v = 0; v < r->n; v++) {
        uint32_t after, before;
        bool skipped = false;

        if ((set >> v & 1) == 0) {
            continue;
        }
        after = reach(r, set, v, false);
        before = reach(r, set, v, true);
        if ((after | before | 1u << v) != set) {
            continue;
        }
        for (uint32_t a = 0; a < r->n + 2; a++) {
            for (uint32_t b = 0; b < r->n + 2; b++) {
                bool up = a < r->n ? (before >> a & 1) != 0 : a == p->s;
                bool down = b < r->n ? (after >> b & 1) != 0 : b == p->t;

                up = up || a == p->s;
                down = down || b == p->t;
                /* s -> t itself is a branch of its own */
                skipped =
                    skipped || (up && down && is_direct(r, a, b) && !(a == p->s && b == p->t));
            }
        }
        for (uint32_t left = 0; !skipped && left < 2; left++) {
            struct family upper = {0}, lower = {0};
            struct piece first = piece_of(r, before, p->s, v, p->own_s, left == 1, true);
            struct piece last = piece_of(r, after, v, p->t, left == 0, p->own_t, true);

            family_of(r, &first, &upper);
            family_of(r, &last, &lower);
            family_product(f, &upper, &lower);
        }
    }
}

static inline void family_groups(const struct family_rig *r, const struct piece *p,
                                 struct family *f)
{
    for (uint32_t mask = 1; mask + 1 < 1u << p->n; mask++) {
        bool row = (mask & (mask + 1)) == 0; /* the first so many branches */

        if (!row && !r->any) {
            continue;
        }
        for (uint32_t ends = 0; ends < 4; ends++) { /* bit 0: s, bit 1: t goes to the first group */
            struct piece group[2] = {*p, *p};
            struct family part[2] = {{0}};

            if (((ends & 1) != 0 && !p->own_s) || ((ends & 2) != 0 && !p->own_t)) {
                continue;
            }
            group[0].n = group[1].n = 0;
            for (uint32_t i = 0; i < p->n; i++) {
                struct piece *g = &group[(mask >> i & 1) == 0];

                g->branch[g->n++] = p->branch[i];
            }
            for (uint32_t g = 0; g < 2; g++) {
                group[g].own_s = p->own_s && (ends & 1) == (g == 0);
                group[g].own_t = p->own_t && (ends >> 1) == (g == 0);
            }
            for (uint32_t g = 0; g < 2; g++) {
                bool both = group[g].own_s && group[g].own_t;

                group[g].whole = !(both && (!p->whole || inner_of(&group[1 - g]) != 0));
                family_of(r, &group[g], &part[g]);
            }
            family_product(f, &part[0], &part[1]);
        }
    }
}

static inline void family_of(const struct family_rig *r, const struct piece *p, struct family *f)
{
    uint32_t owned = inner_of(p);

    owned |= p->own_s ? 1u << p->s : 0;
    owned |= p->own_t ? 1u << p->t : 0;
    if (owned == 0) {
        family_add(f, 0);
        return;
    }
    if (p->whole) {
        family_stage(f, owned);
    }
    if (p->n == 1) {
        family_series(r, p, f);
    } else {
        family_groups(r, p, f);
    }
    family_unique(f);
}

/* All partitions of a graph by the rules. free() items. */
static inline struct family family_all(const struct rig_graph *graph, bool any)
{
    struct family_rig r = {.n = graph->n, .any = any};
    uint32_t in = 0;
    struct family f = {0};
    struct piece p;

    assert_true(graph->n <= 10);
    for (uint32_t e = 0; e < graph->n_edges; e++) {
        r.out[graph->from[e]] |= 1u << graph->to[e];
        in |= 1u << graph->to[e];
    }
    for (uint32_t v = 0; v < graph->n; v++) {
        r.out[graph->n] |= (in >> v & 1) == 0 ? 1u << v : 0;
        r.out[v] |= r.out[v] == 0 ? 1u << (graph->n + 1) : 0;
    }
    p = piece_of(&r, (1u << graph->n) - 1, graph->n, graph->n + 1, false, false, true);
    family_of(&r, &p, &f);
    return f;
}

/* The stage of every operator of a partition; how many stages. */
static inline uint32_t family_stages(uint64_t item, uint32_t n, uint32_t *stage_of)
{
    uint32_t number[16], n_stages = 0;

    memset(number, 0xff, sizeof number);
    for (uint32_t v = 0; v < n; v++) {
        uint32_t least = (uint32_t)(item >> 4 * v & 15);

        assert_true(least > 0);
        if (number[least] == UINT32_MAX) {
            number[least] = n_stages++;
        }
        stage_of[v] = number[least];
    }
    return n_stages;
}

/* Least bottleneck over degrees for one partition, below `best`. */
static inline double family_degrees(const struct rig_case *c, const uint32_t *stage_of,
                                    uint32_t n_stages, uint32_t at, uint32_t left, uint32_t *d,
                                    double best)
{
    if (at == n_stages) {
        struct rig_worth worth = rig_judge(c, stage_of, n_stages, d, false);

        assert_true(worth.legal);
        return worth.fits && worth.bottleneck < best ? worth.bottleneck : best;
    }
    for (uint32_t k = 0; k < (c->degrees == NULL ? 1 : c->n_degrees); k++) {
        d[at] = c->degrees == NULL ? 1 : c->degrees[k];
        if (c->b % d[at] == 0 && d[at] + (n_stages - at - 1) <= left) {
            best = family_degrees(c, stage_of, n_stages, at + 1, left - d[at], d, best);
        }
    }
    return best;
}

/* The family's least bottleneck in us; INFINITY: nothing fits. */
static inline double family_best(const struct rig_case *c, bool any)
{
    struct family f = family_all(c->graph, any);
    double best = INFINITY;

    for (size_t i = 0; i < f.n; i++) {
        uint32_t stage_of[10], n_stages = family_stages(f.items[i], c->graph->n, stage_of), d[10];

        if (n_stages <= c->devices) {
            best = family_degrees(c, stage_of, n_stages, 0, c->devices, d, best);
        }
    }
    free(f.items);
    return best;
}

#endif
