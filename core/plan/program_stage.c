/* SPDX-License-Identifier: Apache-2.0
 *
 * Tables of one stage: what its operators need backward, which nodes are replayed and when, and
 * room for its micro-batches.
 */
#include <stdlib.h>
#include <string.h>

#include "plan/program_build.h"

void pst_build_reset(struct pst_builder *b)
{
    for (uint32_t s = 0; s < b->plan->n_stages; s++) {
        struct pst_stage_build *build = &b->stages[s];

        for (uint32_t j = 0; build->local && j < build->n_micros; j++) {
            memset(build->micros[j].all, 0xFF, build->n_all * sizeof(uint32_t));
            build->summable[j] = false;
        }
        build->next_sum = 0;
    }
    for (uint32_t e = 0; e < b->plan->n_edges; e++) {
        uint32_t from = b->plan->edges[e].from;

        if (b->stages[from].local) {
            memset(b->received[e], 0xFF,
                   (size_t)b->stages[from].n_micros * b->edge_items[e] * sizeof(uint32_t));
        }
    }
}

static pst_status make_micros(struct pst_builder *b, uint32_t s, struct pst_error *err)
{
    const struct pst_plan_stage *stage = &b->plan->stages[s];
    struct pst_stage_build *build = &b->stages[s];
    size_t n = (size_t)2 * b->graph->n_tensors + b->n_separate +
               (size_t)stage->n_nodes * (3 + PST_MAX_SCRATCH) + build->n_uses;
    uint32_t *at;

    build->n_batch = b->batch / stage->microbatch_size;
    build->n_unit = pst_rule_unit(b->plan->version_rule, build->n_batch);
    build->n_micros = build->n_batch * b->n_batches;
    build->n_all = (uint32_t)n;
    build->n_values = (uint32_t)(n - 2 * (size_t)stage->n_nodes);
    build->micros = pst_arena_array(&b->arena, build->n_micros, sizeof *build->micros);
    build->summable = pst_arena_array(&b->arena, build->n_micros, sizeof *build->summable);
    at = pst_arena_array(&b->arena, n * build->n_micros, sizeof *at);
    if (build->micros == NULL || build->summable == NULL || at == NULL) {
        return pst_fail_nomem(err);
    }
    for (uint32_t j = 0; j < build->n_micros; j++, at += n) {
        struct pst_micro *micro = &build->micros[j];

        micro->all = micro->act = at;
        micro->dact = micro->act + b->graph->n_tensors;
        micro->contrib = micro->dact + b->graph->n_tensors;
        micro->dy = micro->contrib + b->n_separate;
        micro->z = micro->dy + stage->n_nodes;
        micro->scratch = micro->z + (size_t)stage->n_nodes * PST_MAX_SCRATCH;
        micro->out_copy = micro->scratch + build->n_uses;
        micro->in_copy = micro->out_copy + stage->n_nodes;
    }
    return PST_OK;
}

/* What the copies of a stage need to know, if it has any. */
static pst_status prepare_copies(struct pst_builder *b, uint32_t s, struct pst_error *err)
{
    const struct pst_plan_stage *stage = &b->plan->stages[s];
    struct pst_stage_build *build = &b->stages[s];

    if (!pst_plan_stage_has(stage, PST_ACTION_OFFLOAD)) {
        return PST_OK;
    }
    build->saved = pst_arena_array(&b->arena, b->graph->n_tensors, sizeof *build->saved);
    build->calls = pst_arena_array(&b->arena, PST_I_BW + 1, sizeof *build->calls);
    if (build->saved == NULL || build->calls == NULL ||
        !pst_plan_saved(stage, b->graph, build->saved) ||
        !pst_pass_calls_init(stage, b->graph, &b->arena, build->calls)) {
        return pst_fail_nomem(err);
    }
    return PST_OK;
}

pst_status pst_build_stage(struct pst_builder *b, uint32_t s, struct pst_error *err)
{
    const struct pst_plan_stage *stage = &b->plan->stages[s];
    struct pst_stage_build *build = &b->stages[s];

    build->grad = pst_arena_array(&b->arena, stage->n_nodes, sizeof *build->grad);
    build->use_base = pst_arena_array(&b->arena, stage->n_nodes, sizeof *build->use_base);
    if (build->grad == NULL || build->use_base == NULL ||
        !pst_plan_replays(stage, b->graph, &b->arena, &build->replays)) {
        return pst_fail_nomem(err);
    }
    for (uint32_t i = 0; i < stage->n_nodes; i++) {
        pst_op_grad_info(b->graph, stage->nodes[i], &build->grad[i]);
        build->use_base[i] = build->n_uses;
        build->n_uses += b->graph->ops[stage->nodes[i]].n_param;
    }
    if (prepare_copies(b, s, err) != PST_OK) {
        return PST_ERR_NOMEM;
    }
    return make_micros(b, s, err);
}
