/* SPDX-License-Identifier: Apache-2.0
 *
 * The plan that has the value of a probe: its picks followed through the blocks themselves.
 */

#include "probe.h"

struct stage {
    uint32_t level, d;
};

struct plan {
    struct gp_probe *probe;
    const struct gp_tree *tree;
    uint32_t *stage_of; /* [n] */
    struct stage *stages;
    uint32_t n_stages;
    int64_t ticks;    /* most over stages */
    int64_t *scratch; /* [7][n_lanes] */
};

/* Actual operators at the ends of a block; GP_NONE at virtual ones. */
struct ends {
    struct gp_start start;
    struct gp_end end;
    uint32_t s, t;
};

static bool is_real(const struct plan *p, uint32_t op)
{
    return op < p->probe->problem->n;
}

static void add_op(struct plan *p, uint32_t op)
{
    if (is_real(p, op)) {
        p->stage_of[op] = p->n_stages;
    }
}

static void add_block(struct plan *p, uint32_t at)
{
    const struct gp_block *block = &p->tree->blocks[at];
    uint32_t i;

    for (i = 0; block->kind == GP_SERIES && i < block->n_ops; i++) {
        add_op(p, p->tree->ops[block->first_op + i]);
    }
    for (i = 0; block->kind != GP_EDGE && i < block->n_kids; i++) {
        add_block(p, p->tree->kids[block->first_kid + i]);
    }
}

/* The operators added last are a stage. */
static void close_stage(struct plan *p, const struct gp_stage_sums *sums, uint32_t level)
{
    int64_t ticks = 0;
    uint32_t d = gp_degree(p->probe, sums, level, &ticks);

    p->stages[p->n_stages++] = (struct stage){level, d};
    p->ticks = ticks > p->ticks ? ticks : p->ticks;
}

static void emit_series(struct plan *p, uint32_t at, const struct ends *ends, bool whole,
                        uint32_t level);

/* Where a walk along a series has arrived. */
struct here {
    uint32_t i, level;
    bool own;
    struct gp_pick pick;
};

static struct here go(const struct plan *p, const struct gp_tail *tail, uint32_t i, bool own,
                      uint32_t level)
{
    const struct gp_pick *picks = own ? tail->pick_with : tail->pick_without;

    return (struct here){i, level, own, picks[(size_t)i * p->probe->levels->n + level]};
}

static void emit_stage(struct plan *p, uint32_t at, const struct ends *ends,
                       const struct gp_start *start, uint32_t from, const struct gp_pick *pick)
{
    const struct gp_block *block = &p->tree->blocks[at];
    const struct gp_class *c = &p->probe->costs->classes[p->probe->costs->class_of_block[at]];
    struct gp_stage_sums sums;
    uint32_t item;

    for (item = from; item < pick->cut; item++) {
        if (item == 0) {
            add_op(p, ends->s);
        } else if (item == 2 * block->n_ops + 2) {
            add_op(p, ends->t);
        } else if (item % 2 == 0) {
            add_op(p, p->tree->ops[block->first_op + item / 2 - 1]);
        } else {
            add_block(p, p->tree->kids[block->first_kid + item / 2]);
        }
    }
    gp_run_sums(p->probe, c, from, pick->cut, start, &ends->end, p->scratch, &sums);
    close_stage(p, &sums, pick->level);
}

/* Branches as one group, as their share says; level: of the stage of s. */
static void emit_group(struct plan *p, const uint32_t *kids, uint32_t n, const struct ends *ends,
                       const struct gp_share *share, uint32_t level)
{
    uint32_t lanes = p->probe->costs->n_lanes, i;
    struct gp_group_sums g = {
        p->scratch, p->scratch + lanes, p->scratch + 2 * lanes, p->scratch + 3 * lanes, 0, 0, 0, 0};
    struct gp_stage_sums sums;

    if (n == 1 && p->tree->blocks[kids[0]].kind == GP_SERIES) {
        struct ends inner = *ends;

        inner.start.own = share->s;
        inner.start.op = share->s ? ends->start.op : 0;
        inner.end.own = share->t;
        inner.end.op = share->t ? ends->end.op : 0;
        emit_series(p, kids[0], &inner, !(share->s && share->t), level);
        return;
    }
    gp_group_clear(&g, lanes);
    for (i = 0; i < n; i++) {
        gp_group_add(p->probe->costs, p->probe->costs->class_of_block[kids[i]], 1, &g);
        add_block(p, kids[i]);
    }
    if (g.n_real == 0 && !share->s && !share->t) {
        return;
    }
    if (share->s) {
        add_op(p, ends->s);
    }
    if (share->t) {
        add_op(p, ends->t);
    }
    gp_share_sums(p->probe, &g, &ends->start, &ends->end, share->s, share->t,
                  p->scratch + 4 * lanes, &sums);
    close_stage(p, &sums, share->s ? level : share->t ? ends->end.level : share->level);
}

/* Actual branches of the kinds and counts that `group` states; `used` of each kind are gone. */
static uint32_t pick_kids(const struct plan *p, const struct gp_block *block,
                          const struct gp_kinds *kinds, uint32_t group, uint32_t *used,
                          uint32_t *kids)
{
    uint32_t k, i, n = 0;

    for (k = 0; k < kinds->n; k++) {
        uint32_t want = group / kinds->radix[k] % (kinds->count[k] + 1), seen = 0;

        for (i = 0; i < block->n_kids; i++) {
            uint32_t kid = p->tree->kids[block->first_kid + i];

            if (p->probe->costs->class_of_block[kid] == kinds->class[k]) {
                if (seen >= used[k] && seen < used[k] + want) {
                    kids[n++] = kid;
                }
                seen++;
            }
        }
        used[k] += want;
    }
    return n;
}

/* Group by group, as their shares say. */
static void emit_sides(struct plan *p, uint32_t at, const struct gp_sides *sides,
                       const struct ends *ends, uint32_t level)
{
    const struct gp_block *block = &p->tree->blocks[at];
    const struct gp_class *c = &p->probe->costs->classes[p->probe->costs->class_of_block[at]];
    bool other = sides->sorted != NULL && sides->sorted[level], small;
    const uint32_t *order = other ? sides->other_order : sides->order;
    uint32_t *kids = call_alloc((size_t)block->n_kids, sizeof *kids);
    uint32_t *used = call_alloc(block->n_kids, sizeof *used);
    uint32_t s = ends->start.own, t = ends->end.own, state = sides->n_states - 1, n;
    struct gp_kinds kinds;

    if (order == NULL) {
        gp_kinds_of(p->probe, c, &kinds, &small);
    }
    while (state > 0) {
        const struct gp_share *share = (other ? sides->other : sides->share) +
                                       ((size_t)state * 4 + s * 2 + t) * p->probe->levels->n +
                                       level;

        if (!share->valid) {
            call_end(PST_ERR_BUG);
        }
        if (order == NULL) {
            n = pick_kids(p, block, &kinds, state - share->rest, used, kids);
        } else {
            for (n = 0; n < state - share->rest; n++) {
                kids[n] = p->tree->kids[block->first_kid + order[block->n_kids - state + n]];
            }
        }
        emit_group(p, kids, n, ends, share, level);
        state = share->rest;
        s -= share->s;
        t -= share->t;
    }
}

/* The gap after v_i in groups. */
static void emit_gap(struct plan *p, uint32_t at, const struct ends *ends, const struct here *here,
                     const struct gp_start *start)
{
    const struct gp_block *block = &p->tree->blocks[at];
    const struct gp_costs *costs = p->probe->costs;
    uint32_t i = here->i, kid = p->tree->kids[block->first_kid + i];
    struct ends inner = *ends;
    const struct gp_sides *sides;

    inner.start = *start;
    if (i > 0) {
        inner.s = p->tree->ops[block->first_op + i - 1];
    }
    if (i < block->n_ops) {
        uint32_t op = p->tree->ops[block->first_op + i];

        inner.t = op;
        inner.end = (struct gp_end){.kind = is_real(p, op) ? GP_END_REAL : GP_END_VIRTUAL,
                                    .own = here->pick.own,
                                    .op = here->pick.own ? costs->class_of_op[op] : 0,
                                    .level = here->pick.level};
    }
    gp_sides_of(p->probe, costs->class_of_block[kid], &inner.start, &inner.end, &sides);
    emit_sides(p, kid, sides, &inner, here->level);
}

/* Moves on to the part after a pick. Returns false if there is none. */
static bool follow(const struct plan *p, const struct gp_block *block, const struct gp_tail *tail,
                   struct here *here)
{
    struct gp_pick pick = here->pick;
    uint32_t i = pick.kind == GP_PICK_STAGE ? pick.cut / 2 : here->i + 1, level = pick.level;
    bool real;

    if (i > block->n_ops) {
        return false;
    }
    real = is_real(p, p->tree->ops[block->first_op + i - 1]);
    if (pick.kind == GP_PICK_STAGE && pick.cut % 2 == 1 && real) {
        *here = go(p, tail, i, false, level);
    } else if (pick.kind == GP_PICK_STAGE) {
        *here = go(p, tail, i, real, tail->next_from[(size_t)i * p->probe->levels->n + level]);
    } else {
        *here = go(p, tail, i, real && !(pick.kind == GP_PICK_GAP && pick.own), level);
    }
    return true;
}

static void emit_series(struct plan *p, uint32_t at, const struct ends *ends, bool whole,
                        uint32_t level)
{
    const struct gp_block *block = &p->tree->blocks[at];
    const struct gp_costs *costs = p->probe->costs;
    const struct gp_head *head;
    struct here here;

    gp_head_of(p->probe, costs->class_of_block[at], &ends->start, &ends->end, whole, &head);
    here = (struct here){0, level, ends->start.own, head->pick[level]};
    do {
        struct gp_start start = ends->start;

        if (here.i > 0) {
            uint32_t op = p->tree->ops[block->first_op + here.i - 1];

            start = (struct gp_start){.is_virtual = !is_real(p, op),
                                      .own = here.own,
                                      .op = here.own ? costs->class_of_op[op] : 0};
        }
        if (here.pick.kind == GP_PICK_STAGE) {
            emit_stage(p, at, ends, &start, 2 * here.i + !here.own, &here.pick);
        } else if (here.pick.kind == GP_PICK_GAP) {
            emit_gap(p, at, ends, &here, &start);
        } else if (here.pick.kind == GP_PICK_NONE) {
            call_end(PST_ERR_BUG);
        }
    } while (follow(p, block, head->tail, &here));
}

static void finish_plan(const struct plan *p, struct part_plan *ret_plan)
{
    const struct gp_levels *levels = p->probe->levels;
    uint32_t s;

    part_plan_init(ret_plan, p->probe->problem, p->stage_of, p->n_stages, levels->groups[0].b);
    for (s = 0; s < p->n_stages; s++) {
        const struct gp_group *group = &levels->groups[levels->group[p->stages[s].level]];

        ret_plan->stages[s].d = p->stages[s].d;
        ret_plan->stages[s].b = group->b;
        ret_plan->stages[s].k = group->k;
    }
}

void gp_probe_plan(struct gp_probe *probe, struct part_plan *ret_plan, int64_t *ret_ticks)
{
    const struct gp_tree *tree = probe->costs->tree;
    struct plan p = {.probe = probe, .tree = tree};
    struct ends ends = {.start = {.is_virtual = 1}, .s = GP_NONE, .t = GP_NONE};
    const struct gp_head *head;
    uint32_t n = probe->problem->n, x = 0;

    CALL_TAKE(p.stage_of, (size_t)n);
    CALL_TAKE(p.stages, (size_t)n);
    CALL_TAKE(p.scratch, (size_t)7 * probe->costs->n_lanes + 1);
    gp_head_of(probe, probe->costs->class_of_block[tree->n_blocks - 1], &ends.start, &ends.end,
               true, &head);
    while (x + 1 < probe->levels->n && head->value[x] > probe->problem->n_devices) {
        x++;
    }
    emit_series(&p, tree->n_blocks - 1, &ends, true, x);
    finish_plan(&p, ret_plan);
    *ret_ticks = p.ticks;
}
