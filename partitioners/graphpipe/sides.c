/* SPDX-License-Identifier: Apache-2.0
 *
 * A parallel block whose branches fall into groups of neighbours.
 */
#include <stdlib.h>
#include <string.h>

#include "probe.h"

/* Rows of values by (position, s still to be owned, t still to be owned). */
struct table {
    struct gp_probe *probe;
    const struct gp_class *c;
    const struct gp_start *start;
    const struct gp_end *end;
    const uint32_t *order;
    uint32_t n, n_levels;
    uint32_t *value;
    struct gp_share *share;
    struct gp_group_sums group;
    uint32_t *values, *levels; /* of the group at hand */
};

static size_t at(const struct table *t, uint32_t position, uint32_t s, uint32_t e)
{
    return ((size_t)position * 4 + s * 2 + e) * t->n_levels;
}

/* The group from `from` to `to` takes s or t or both or none: what then remains. */
static void relax(struct table *t, uint32_t from, uint32_t to, uint32_t s, uint32_t e,
                  const uint32_t *values, const uint32_t *levels)
{
    uint32_t left_s, left_e, h;

    for (left_s = s; left_s <= t->start->own; left_s++) {
        for (left_e = e; left_e <= t->end->own; left_e++) {
            const uint32_t *rest = t->value + at(t, to, left_s - s, left_e - e);
            uint32_t *value = t->value + at(t, from, left_s, left_e);
            struct gp_share *share = t->share + at(t, from, left_s, left_e);

            for (h = 0; h < t->n_levels; h++) {
                if (values[h] + rest[h] < value[h]) {
                    value[h] = values[h] + rest[h];
                    share[h] = (struct gp_share){.take = to,
                                                 .level = levels == NULL ? 0 : levels[h],
                                                 .s = s,
                                                 .t = e,
                                                 .valid = 1};
                }
            }
        }
    }
}

static void add_branch(struct table *t, uint32_t branch)
{
    gp_group_add(t->probe->costs, t->c->kids[branch], 1, &t->group);
}

/* Can a group of this compute time be a stage at all? */
static bool is_hopeless(struct table *t)
{
    const struct gp_costs *costs = t->probe->costs;
    int64_t least = INT64_MAX;
    uint32_t l;

    for (l = 0; l < costs->n_lanes; l++) {
        int64_t ticks = t->group.comp[l] > t->group.sync[l] ? t->group.comp[l] : t->group.sync[l];

        least = ticks < least ? ticks : least;
    }
    if (least <= t->probe->limit) {
        return false;
    }
    t->probe->next = least < t->probe->next ? least : t->probe->next;
    return true;
}

static void from_position(struct table *t, uint32_t from)
{
    uint32_t s, e, to;

    for (s = 0; s <= t->start->own; s++) {
        for (e = 0; e <= t->end->own; e++) {
            const uint32_t *values;

            gp_branch_values(t->probe, t->c->kids[t->order[from]], t->start, t->end, s, e, &values);
            relax(t, from, from + 1, s, e, values, NULL);
        }
    }
    gp_group_clear(&t->group, t->probe->costs->n_lanes);
    add_branch(t, t->order[from]);
    for (to = from + 2; to <= t->n; to++) {
        add_branch(t, t->order[to - 1]);
        if (is_hopeless(t)) {
            break;
        }
        for (s = 0; s <= t->start->own; s++) {
            for (e = 0; e <= t->end->own && s + e < 2; e++) {
                gp_share_values(t->probe, &t->group, t->start, t->end, s, e, t->values, t->levels);
                relax(t, from, to, s, e, t->values, t->levels);
            }
        }
        gp_probe_tick(t->probe, t->n_levels);
    }
}

static void table_init(struct table *t)
{
    struct gp_pool *pool = &t->probe->pool;
    uint32_t n = t->probe->costs->n_lanes;
    size_t cells = ((size_t)t->n + 1) * 4 * t->n_levels, i;
    int64_t *rows = gp_pool_take(pool, (size_t)7 * n, sizeof *rows);

    t->value = gp_pool_take(pool, cells, sizeof *t->value);
    t->share = gp_pool_take(pool, cells, sizeof *t->share);
    t->values = gp_pool_take(pool, t->n_levels, sizeof *t->values);
    t->levels = gp_pool_take(pool, t->n_levels, sizeof *t->levels);
    t->group = (struct gp_group_sums){rows, rows + n, rows + 2 * n, rows + 3 * n, 0, 0, 0, 0};
    for (i = 0; i < cells; i++) {
        t->value[i] = GP_NEVER;
    }
    memset(t->share, 0, cells * sizeof *t->share);
    memset(t->value + at(t, t->n, 0, 0), 0, t->n_levels * sizeof *t->value);
}

static void solve(struct table *t, const uint32_t *order)
{
    uint32_t from;

    t->order = order;
    table_init(t);
    for (from = t->n; from-- > 0;) {
        from_position(t, from);
    }
}

struct heavy {
    int64_t work;
    uint32_t branch;
};

static int by_work(const void *a_, const void *b_)
{
    const struct heavy *a = a_, *b = b_;

    if (a->work != b->work) {
        return a->work < b->work ? 1 : -1;
    }
    return (a->branch > b->branch) - (a->branch < b->branch);
}

/* Branches by work, the heaviest first. */
static void sort(struct table *t, uint32_t *order)
{
    struct heavy *heavy = call_alloc((size_t)t->n, sizeof *heavy);
    uint32_t i;

    for (i = 0; i < t->n; i++) {
        heavy[i] = (struct heavy){t->probe->costs->classes[t->c->kids[i]].times[GP_COMP], i};
    }
    qsort(heavy, t->n, sizeof *heavy, by_work);
    for (i = 0; i < t->n; i++) {
        order[i] = heavy[i].branch;
    }
}

/* The better of two tables, level by level. */
static void merge(struct table *t, struct gp_sides *sides)
{
    uint8_t *sorted = gp_pool_take(&t->probe->pool, t->n_levels, sizeof *sorted);
    size_t all = at(t, 0, t->start->own, t->end->own);
    uint32_t h;

    for (h = 0; h < t->n_levels; h++) {
        sorted[h] = t->value[all + h] < sides->value[h];
        if (sorted[h]) {
            sides->value[h] = t->value[all + h];
        }
    }
    sides->sorted = sorted;
    sides->other = t->share;
    sides->other_order = t->order;
}

static void sides_in_row(struct gp_probe *probe, const struct gp_class *c,
                         const struct gp_start *start, const struct gp_end *end,
                         struct gp_sides *sides)
{
    struct table t = {.probe = probe,
                      .c = c,
                      .start = start,
                      .end = end,
                      .n = c->n_kids,
                      .n_levels = probe->levels->n};
    uint32_t *order = gp_pool_take(&probe->pool, (size_t)2 * t.n, sizeof *order), i;

    for (i = 0; i < t.n; i++) {
        order[i] = i;
    }
    solve(&t, order);
    sides->value = t.value + at(&t, 0, start->own, end->own);
    sides->share = t.share;
    sides->order = order;
    if (probe->grouping == GP_CONTIGUOUS) {
        return;
    }
    sort(&t, order + t.n);
    solve(&t, order + t.n);
    merge(&t, sides);
}

void gp_sides_of(struct gp_probe *probe, uint32_t class, const struct gp_start *start,
                 const struct gp_end *end, const struct gp_sides **ret_sides)
{
    struct gp_key key = {{2, class, end->kind, end->own, end->op, end->level,
                          start->is_virtual | start->own << 1, start->op, 0}};
    const struct gp_class *c = &probe->costs->classes[class];
    bool is_new, done = false;
    struct gp_sides *sides;
    void *state;

    gp_memo_find(probe, &key, sizeof *sides, &state, &is_new);
    sides = state;
    *ret_sides = sides;
    if (!is_new) {
        return;
    }
    if (probe->grouping == GP_ANY) {
        gp_sides_any(probe, c, start, end, sides, &done);
    }
    if (!done) {
        sides_in_row(probe, c, start, end, sides);
    }
    gp_probe_tick(probe, probe->levels->n);
}
