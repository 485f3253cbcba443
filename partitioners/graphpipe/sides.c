/* SPDX-License-Identifier: Apache-2.0
 *
 * A parallel block whose branches fall into groups. A state is what is left of them: where the
 * branches stand in a row and groups are neighbours, the last few of the row; where any of them may
 * be a group, how many of each kind, since branches of one class are as good as each other.
 */
#include <stdlib.h>
#include <string.h>

#include "probe.h"

/* Limits of states by kind; beyond them the branches are put in a row. */
#define MOST_STATES 4096
#define MOST_PAIRS  2000000

/* Rows of values by (state, s still to be owned, t still to be owned). */
struct table {
    struct gp_probe *probe;
    const struct gp_class *c;
    const struct gp_start *start;
    const struct gp_end *end;
    uint32_t n_states, n_levels;
    uint32_t *value;
    struct gp_share *share;
    struct gp_group_sums group;
    uint32_t *values, *levels; /* of the group at hand */
    const uint32_t *order;     /* of a row */
    /* of kinds */
    const struct gp_kinds *kinds;
    uint32_t *group_value; /* [states][4][levels] of all that is left as one group */
    uint32_t *group_level; /* [states][levels] of one that owns neither end */
};

static size_t at(const struct table *t, uint32_t state, uint32_t s, uint32_t e)
{
    return ((size_t)state * 4 + s * 2 + e) * t->n_levels;
}

static void table_init(struct table *t)
{
    struct gp_pool *pool = &t->probe->pool;
    uint32_t n = t->probe->costs->n_lanes;
    size_t cells = at(t, t->n_states, 0, 0), i;
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
    memset(t->levels, 0, t->n_levels * sizeof *t->levels);
    memset(t->value + at(t, 0, 0, 0), 0, t->n_levels * sizeof *t->value);
}

/* The group at hand, which is one branch of class `alone` or (GP_NONE) several, takes s or t or
   both or none: t->values, t->levels; false: it cannot. */
static bool value_group(struct table *t, uint32_t alone, uint32_t s, uint32_t e)
{
    const uint32_t *values;

    if (alone != GP_NONE) {
        gp_branch_values(t->probe, alone, t->start, t->end, s, e, &values);
        memcpy(t->values, values, t->n_levels * sizeof *values);
    } else if (s + e < 2) {
        gp_share_values(t->probe, &t->group, t->start, t->end, s, e, t->values, t->levels);
    }
    return alone != GP_NONE || s + e < 2;
}

/* A group with these values goes: what remains is `rest`. */
static void relax(struct table *t, uint32_t state, uint32_t rest, uint32_t s, uint32_t e,
                  const uint32_t *values, const uint32_t *levels)
{
    uint32_t left_s, left_e, h;

    for (left_s = s; left_s <= t->start->own; left_s++) {
        for (left_e = e; left_e <= t->end->own; left_e++) {
            const uint32_t *behind = t->value + at(t, rest, left_s - s, left_e - e);
            uint32_t *value = t->value + at(t, state, left_s, left_e);
            struct gp_share *share = t->share + at(t, state, left_s, left_e);

            for (h = 0; h < t->n_levels; h++) {
                if (values[h] + behind[h] < value[h]) {
                    value[h] = values[h] + behind[h];
                    share[h] = (struct gp_share){
                        .rest = rest, .level = levels[h], .s = s, .t = e, .valid = 1};
                }
            }
        }
    }
}

/* --- in a row ----------------------------------------------------------------------------------*/

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

/* Groups of the first few branches that are left. */
static void solve_row_state(struct table *t, uint32_t state)
{
    uint32_t from = t->n_states - 1 - state, n, s, e;

    gp_group_clear(&t->group, t->probe->costs->n_lanes);
    for (n = 1; n <= state; n++) {
        uint32_t class = t->c->kids[t->order[from + n - 1]];

        gp_group_add(t->probe->costs, class, 1, &t->group);
        if (n > 1 && is_hopeless(t)) {
            break;
        }
        for (s = 0; s <= t->start->own; s++) {
            for (e = 0; e <= t->end->own; e++) {
                if (value_group(t, n == 1 ? class : GP_NONE, s, e)) {
                    relax(t, state, state - n, s, e, t->values, t->levels);
                }
            }
        }
        if (n > 1) {
            gp_probe_tick(t->probe, t->n_levels);
        }
    }
}

static void solve_row(struct table *t, const uint32_t *order)
{
    uint32_t state;

    t->order = order;
    t->n_states = t->c->n_kids + 1;
    table_init(t);
    for (state = 1; state < t->n_states; state++) {
        solve_row_state(t, state);
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
    struct heavy *heavy = call_alloc((size_t)t->c->n_kids, sizeof *heavy);
    uint32_t i;

    for (i = 0; i < t->c->n_kids; i++) {
        heavy[i] = (struct heavy){t->probe->costs->classes[t->c->kids[i]].times[GP_COMP], i};
    }
    qsort(heavy, t->c->n_kids, sizeof *heavy, by_work);
    for (i = 0; i < t->c->n_kids; i++) {
        order[i] = heavy[i].branch;
    }
}

/* The better of two tables, level by level. */
static void merge(struct table *t, struct gp_sides *sides)
{
    uint8_t *sorted = gp_pool_take(&t->probe->pool, t->n_levels, sizeof *sorted);
    const uint32_t *value = t->value + at(t, t->n_states - 1, t->start->own, t->end->own);
    uint32_t h;

    for (h = 0; h < t->n_levels; h++) {
        sorted[h] = value[h] < sides->value[h];
        if (sorted[h]) {
            sides->value[h] = value[h];
        }
    }
    sides->sorted = sorted;
    sides->other = t->share;
    sides->other_order = t->order;
}

static void take(const struct table *t, struct gp_sides *sides)
{
    sides->n_states = t->n_states;
    sides->value = t->value + at(t, t->n_states - 1, t->start->own, t->end->own);
    sides->share = t->share;
    sides->order = t->order;
}

static void sides_in_row(struct table *t, struct gp_sides *sides)
{
    uint32_t n = t->c->n_kids, i;
    uint32_t *order = gp_pool_take(&t->probe->pool, (size_t)2 * n, sizeof *order);

    for (i = 0; i < n; i++) {
        order[i] = i;
    }
    solve_row(t, order);
    take(t, sides);
    if (t->probe->grouping != GP_CONTIGUOUS) {
        sort(t, order + n);
        solve_row(t, order + n);
        merge(t, sides);
    }
}

/* --- of kinds ----------------------------------------------------------------------------------*/

void gp_kinds_of(struct gp_probe *probe, const struct gp_class *c, struct gp_kinds *kinds,
                 bool *ret_small)
{
    uint32_t q = c->n_kids, i, k;
    uint32_t *rows = gp_pool_take(&probe->pool, (size_t)3 * q, sizeof *rows);
    double states = 1, pairs = 1;

    *ret_small = false;
    *kinds = (struct gp_kinds){.class = rows, .count = rows + q, .radix = rows + 2 * q};
    for (i = 0; i < q; i++) {
        for (k = 0; k < kinds->n && kinds->class[k] != c->kids[i]; k++) {
        }
        if (k == kinds->n) {
            kinds->class[kinds->n] = c->kids[i];
            kinds->count[kinds->n++] = 0;
        }
        kinds->count[k]++;
    }
    for (k = 0; k < kinds->n; k++) {
        kinds->radix[k] = (uint32_t)states;
        states *= kinds->count[k] + 1;
        pairs *= (double)(kinds->count[k] + 1) * (kinds->count[k] + 2) / 2;
        if (states > MOST_STATES || pairs > MOST_PAIRS) {
            return;
        }
    }
    kinds->n_states = (uint32_t)states;
    *ret_small = true;
}

static uint32_t digit(const struct gp_kinds *kinds, uint32_t state, uint32_t k)
{
    return state / kinds->radix[k] % (kinds->count[k] + 1);
}

/* All that is left as one group. */
static void group_values(struct table *t, uint32_t state)
{
    const struct gp_kinds *kinds = t->kinds;
    uint32_t alone = GP_NONE, k, s, e;

    gp_group_clear(&t->group, t->probe->costs->n_lanes);
    for (k = 0; k < kinds->n; k++) {
        gp_group_add(t->probe->costs, kinds->class[k], digit(kinds, state, k), &t -> group);
        alone = state == kinds->radix[k] ? kinds->class[k] : alone;
    }
    for (s = 0; s <= t->start->own; s++) {
        for (e = 0; e <= t->end->own; e++) {
            if (value_group(t, alone, s, e)) {
                memcpy(t->group_value + at(t, state, s, e), t->values,
                       t->n_levels * sizeof *t->values);
            }
            if (s + e == 0) {
                memcpy(t->group_level + (size_t)state * t->n_levels, t->levels,
                       t->n_levels * sizeof *t->levels);
            }
        }
    }
    gp_probe_tick(t->probe, t->n_levels);
}

/* All groups of what is left that hold one of the first kind left. */
static void solve_kinds_state(struct table *t, uint32_t state)
{
    const struct gp_kinds *kinds = t->kinds;
    uint32_t group, k, first = 0, s, e;

    while (digit(kinds, state, first) == 0) {
        first++;
    }
    group_values(t, state);
    for (group = 1; group <= state; group++) {
        bool part = digit(kinds, group, first) > 0;

        for (k = 0; part && k < kinds->n; k++) {
            part = digit(kinds, group, k) <= digit(kinds, state, k);
        }
        for (s = 0; part && s <= t->start->own; s++) {
            for (e = 0; e <= t->end->own; e++) {
                relax(t, state, state - group, s, e, t->group_value + at(t, group, s, e),
                      t->group_level + (size_t)group * t->n_levels);
            }
        }
    }
}

/* False: there are too many kinds. */
static bool sides_of_kinds(struct table *t, struct gp_sides *sides)
{
    struct gp_kinds kinds;
    uint32_t state;
    size_t cells, i;
    bool small;

    gp_kinds_of(t->probe, t->c, &kinds, &small);
    if (!small) {
        return false;
    }
    t->kinds = &kinds;
    t->n_states = kinds.n_states;
    table_init(t);
    cells = at(t, t->n_states, 0, 0);
    t->group_value = gp_pool_take(&t->probe->pool, cells, sizeof *t->group_value);
    t->group_level =
        gp_pool_take(&t->probe->pool, t->n_states * t->n_levels, sizeof *t->group_level);
    for (i = 0; i < cells; i++) {
        t->group_value[i] = GP_NEVER;
    }
    for (state = 1; state < t->n_states; state++) {
        solve_kinds_state(t, state);
    }
    take(t, sides);
    return true;
}

void gp_sides_of(struct gp_probe *probe, uint32_t class, const struct gp_start *start,
                 const struct gp_end *end, const struct gp_sides **ret_sides)
{
    struct gp_key key = {{2, class, end->kind, end->own, end->op, end->level,
                          start->is_virtual | start->own << 1, start->op, 0}};
    struct table t = {.probe = probe,
                      .c = &probe->costs->classes[class],
                      .start = start,
                      .end = end,
                      .n_levels = probe->levels->n};
    struct gp_sides *sides;
    bool is_new;
    void *state;

    gp_memo_find(probe, &key, sizeof *sides, &state, &is_new);
    sides = state;
    *ret_sides = sides;
    if (!is_new) {
        return;
    }
    if (probe->grouping != GP_ANY || !sides_of_kinds(&t, sides)) {
        sides_in_row(&t, sides);
    }
    gp_probe_tick(probe, probe->levels->n);
}
