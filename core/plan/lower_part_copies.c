/* SPDX-License-Identifier: Apache-2.0
 *
 * OFFLOAD and FETCH of one part of an asynchronous plan. Both stand in the part of the pass that
 * makes or reads the bytes, whatever the other one does: what a part leaves in host memory, a later
 * one fetches. Before the first pass of a part FETCH stands at its head.
 */
#include <string.h>

#include "plan/lower.h"

static bool same(const struct pst_pass *a, const struct pst_pass *b)
{
    return a->op == b->op && a->stage == b->stage && a->microbatch == b->microbatch;
}

/* The last pass of fill, which is that of every body, a batch on; the first of body, which is that
   of drain. NULL where they are not. */
static void find_seam(const struct pst_parts *parts, uint32_t rank,
                      const struct pst_pass **ret_last, const struct pst_pass **ret_first)
{
    const uint32_t *const *n = parts->n_passes;
    const struct pst_pass *body = parts->passes[PST_BODY][rank];
    struct pst_pass last;

    *ret_last = *ret_first = NULL;
    if (n[PST_FILL][rank] == 0 || n[PST_BODY][rank] == 0 || n[PST_DRAIN][rank] == 0) {
        return;
    }
    last = parts->passes[PST_FILL][rank][n[PST_FILL][rank] - 1];
    last.microbatch += parts->plan->stages[last.stage].n_microbatches;
    if (same(&last, &body[n[PST_BODY][rank] - 1]) &&
        same(&body[0], &parts->passes[PST_DRAIN][rank][0])) {
        *ret_last = &parts->passes[PST_FILL][rank][n[PST_FILL][rank] - 1];
        *ret_first = &body[0];
    }
}

/* Positions of the passes; a part reaches into the batch after the one that it closes. */
static bool make_tables(const struct pst_plan *plan, struct pst_arena *arena,
                        const struct pst_pass *passes, uint32_t n, uint32_t **base, uint32_t **at)
{
    uint32_t rows = 0;

    *base = pst_arena_array(arena, plan->n_stages, sizeof **base);
    for (uint32_t s = 0; *base != NULL && s < plan->n_stages; s++) {
        (*base)[s] = rows;
        rows += 2 * plan->stages[s].n_microbatches;
    }
    for (uint32_t op = 0; op <= PST_PASS_R; op++) {
        at[op] = pst_arena_array(arena, rows, sizeof **at);
        if (*base == NULL || at[op] == NULL) {
            return false;
        }
        memset(at[op], 0xFF, rows * sizeof **at);
    }
    for (uint32_t i = 0; i < n; i++) {
        at[passes[i].op][(*base)[passes[i].stage] + passes[i].microbatch] = i;
    }
    return true;
}

static bool offloads(const struct pst_parts *parts, uint32_t rank)
{
    bool any = false;

    for (uint32_t s = 0; s < parts->plan->n_stages && !any; s++) {
        const struct pst_plan_stage *stage = &parts->plan->stages[s];

        any = pst_lowering_holds(parts->low, rank, s) &&
              memchr(stage->actions, PST_ACTION_OFFLOAD, stage->n_nodes) != NULL;
    }
    return any;
}

pst_status pst_parts_copies(const struct pst_parts *parts, uint32_t rank, enum pst_part part,
                            struct pst_arena *arena, struct pst_copies *ret_copies,
                            struct pst_error *err)
{
    const struct pst_plan *plan = parts->plan;
    struct pst_copy_order order = {
        .passes = parts->passes[part][rank], .n = parts->n_passes[part][rank], .part = true};
    uint32_t *base, *at[PST_PASS_R + 1];
    const struct pst_pass *last, *first;
    struct pst_pass behind;

    *ret_copies = (struct pst_copies){0};
    if (!offloads(parts, rank)) {
        return PST_OK;
    }
    if (!make_tables(plan, arena, order.passes, order.n, &base, at)) {
        return pst_fail_nomem(err);
    }
    order.base = base;
    order.at = at;
    find_seam(parts, rank, &last, &first);
    if (first != NULL) {
        behind = *first;
        behind.microbatch += part == PST_BODY ? plan->stages[behind.stage].n_microbatches : 0;
        order.before = part != PST_FILL ? last : NULL;
        order.behind = part != PST_DRAIN ? &behind : NULL;
    }
    return pst_lowering_copies_of(parts->low, rank, &order, arena, ret_copies, err);
}
