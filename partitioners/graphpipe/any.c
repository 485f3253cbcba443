/* SPDX-License-Identifier: Apache-2.0
 *
 * A parallel block whose branches fall into any groups. Branches of one class are as good as each
 * other, so a state is how many of each kind are left.
 */
#include <string.h>

#include "probe.h"

#define MOST_STATES 4096
#define MOST_PAIRS  2000000

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

struct many {
    struct gp_probe *probe;
    const struct gp_start *start;
    const struct gp_end *end;
    const struct gp_kinds *kinds;
    uint32_t n_levels;
    uint32_t *value;        /* [states][4][levels] */
    struct gp_share *share; /* likewise */
    uint32_t *group;        /* [states][4][levels] value of a group; [.][3]: both ends */
    uint32_t *level;        /* [states][levels] of a group that owns neither */
    struct gp_group_sums sums;
};

static uint32_t digit(const struct gp_kinds *kinds, uint32_t state, uint32_t k)
{
    return state / kinds->radix[k] % (kinds->count[k] + 1);
}

static size_t at(const struct many *m, uint32_t state, uint32_t s, uint32_t t)
{
    return ((size_t)state * 4 + s * 2 + t) * m->n_levels;
}

static void sum_group(struct many *m, uint32_t state)
{
    const struct gp_costs *costs = m->probe->costs;
    uint32_t k;

    gp_group_clear(&m->sums, costs->n_lanes);
    for (k = 0; k < m->kinds->n; k++) {
        gp_group_add(costs, m->kinds->class[k], digit(m->kinds, state, k), &m -> sums);
    }
}

/* The kind of a group of one branch; else kinds->n. */
static uint32_t alone(const struct gp_kinds *kinds, uint32_t state)
{
    uint32_t k;

    for (k = 0; k < kinds->n; k++) {
        if (state == kinds->radix[k]) {
            return k;
        }
    }
    return kinds->n;
}

static void group_values(struct many *m, uint32_t state)
{
    uint32_t k = alone(m->kinds, state), s, t, h;

    sum_group(m, state);
    for (s = 0; s <= m->start->own; s++) {
        for (t = 0; t <= m->end->own; t++) {
            uint32_t *group = m->group + at(m, state, s, t);
            uint32_t *level = m->level + (size_t)state * m->n_levels;

            if (k < m->kinds->n) {
                const uint32_t *values;

                gp_branch_values(m->probe, m->kinds->class[k], m -> start, m -> end, s, t, &values);
                memcpy(group, values, m->n_levels * sizeof *group);
            } else if (s + t < 2) {
                uint32_t *levels =
                    s + t == 0 ? level : level + (size_t)m->n_levels * m->kinds->n_states;

                gp_share_values(m->probe, &m->sums, m->start, m->end, s, t, group, levels);
            } else {
                for (h = 0; h < m->n_levels; h++) {
                    group[h] = GP_NEVER;
                }
            }
        }
    }
    gp_probe_tick(m->probe, m->n_levels);
}

static void relax(struct many *m, uint32_t state, uint32_t group)
{
    uint32_t left_s, left_t, s, t, h;

    for (left_s = 0; left_s <= m->start->own; left_s++) {
        for (left_t = 0; left_t <= m->end->own; left_t++) {
            uint32_t *value = m->value + at(m, state, left_s, left_t);
            struct gp_share *share = m->share + at(m, state, left_s, left_t);

            for (s = 0; s <= left_s; s++) {
                for (t = 0; t <= left_t; t++) {
                    const uint32_t *own = m->group + at(m, group, s, t);
                    const uint32_t *rest = m->value + at(m, state - group, left_s - s, left_t - t);

                    for (h = 0; h < m->n_levels; h++) {
                        if (own[h] + rest[h] < value[h]) {
                            value[h] = own[h] + rest[h];
                            share[h] = (struct gp_share){
                                .take = group,
                                .level = m->level[(size_t)group * m->n_levels + h],
                                .s = s,
                                .t = t,
                                .valid = 1};
                        }
                    }
                }
            }
        }
    }
}

/* All groups of what is left that hold one of the first kind left. */
static void solve_state(struct many *m, uint32_t state)
{
    const struct gp_kinds *kinds = m->kinds;
    uint32_t group, k, first = 0;

    while (digit(kinds, state, first) == 0) {
        first++;
    }
    group_values(m, state);
    for (group = 1; group <= state; group++) {
        bool part = digit(kinds, group, first) > 0;

        for (k = 0; part && k < kinds->n; k++) {
            part = digit(kinds, group, k) <= digit(kinds, state, k);
        }
        if (part) {
            relax(m, state, group);
        }
    }
}

void gp_sides_any(struct gp_probe *probe, const struct gp_class *c, const struct gp_start *start,
                  const struct gp_end *end, struct gp_sides *sides, bool *ret_done)
{
    struct gp_kinds kinds;
    struct many m = {
        .probe = probe, .start = start, .end = end, .kinds = &kinds, .n_levels = probe->levels->n};
    uint32_t n = probe->costs->n_lanes, state;
    int64_t *rows = gp_pool_take(&probe->pool, (size_t)7 * n, sizeof *rows);
    size_t cells, i;
    bool small;

    gp_kinds_of(probe, c, &kinds, &small);
    *ret_done = false;
    if (!small) {
        return;
    }
    cells = (size_t)kinds.n_states * 4 * m.n_levels;
    m.value = gp_pool_take(&probe->pool, cells, sizeof *m.value);
    m.share = gp_pool_take(&probe->pool, cells, sizeof *m.share);
    m.group = gp_pool_take(&probe->pool, cells, sizeof *m.group);
    m.level =
        gp_pool_take(&probe->pool, ((size_t)2 * kinds.n_states + 1) * m.n_levels, sizeof *m.level);
    m.sums = (struct gp_group_sums){rows, rows + n, rows + 2 * n, rows + 3 * n, 0, 0, 0, 0};
    for (i = 0; i < cells; i++) {
        m.value[i] = GP_NEVER;
        m.group[i] = GP_NEVER;
    }
    memset(m.share, 0, cells * sizeof *m.share);
    memset(m.level, 0, (size_t)kinds.n_states * m.n_levels * sizeof *m.level);
    memset(m.value + at(&m, 0, 0, 0), 0, m.n_levels * sizeof *m.value);
    for (state = 1; state < kinds.n_states; state++) {
        solve_state(&m, state);
    }
    sides->value = m.value + at(&m, kinds.n_states - 1, start->own, end->own);
    sides->share = m.share;
    *ret_done = true;
}
