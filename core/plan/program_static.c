/* SPDX-License-Identifier: Apache-2.0
 *
 * What a rank holds for the whole run: weights, working copies, gradient accumulators, sums of tied
 * gradients, optimizer state, running statistics.
 */
#include "graph/split.h"
#include "plan/program_build.h"

static uint32_t add_static(struct pst_builder *b, uint8_t kind, uint32_t stage, uint32_t what,
                           uint32_t slot, uint64_t bytes)
{
    uint32_t value = pst_build_value(b, kind, stage, 0, what, slot, bytes);

    if (value != PST_NONE) {
        b->program->values[value].is_static = true;
    }
    return value;
}

/* Lowest stage of this rank that uses the parameter, PST_NONE if none does. */
static uint32_t first_local_stage(const struct pst_builder *b,
                                  const struct pst_parameter *parameter)
{
    uint32_t lowest = PST_NONE;

    for (uint32_t u = 0; u < parameter->n_users; u++) {
        uint32_t stage = b->stage_of[parameter->users[u]];

        if (b->stages[stage].local && stage < lowest) {
            lowest = stage;
        }
    }
    return lowest;
}

static void add_accumulators(struct pst_builder *b, uint32_t index, uint32_t stage,
                             struct pst_program_param *row)
{
    const struct pst_parameter *parameter = &b->graph->params[index];
    uint32_t *grads =
        pst_arena_array(&b->program->arena, 2 * (size_t)parameter->n_users, sizeof *grads);
    uint32_t *users = pst_arena_array(&b->program->arena, parameter->n_users, sizeof *users);
    const bool piece = pst_plan_scatters(b->plan, stage, index);
    const uint64_t elems = piece ? row->shard.elems : parameter->elems;
    uint32_t n = 0;

    row->grad_first = piece ? row->shard.first : 0;
    for (uint32_t parity = 0; parity < (b->plan->deferred_step ? 2 : 1); parity++) {
        row->n_grads = 0;
        for (uint32_t u = 0; u < parameter->n_users; u++) {
            uint32_t op = parameter->users[u], slot = parameter->user_slots[u];

            if (!b->stages[b->stage_of[op]].local || slot >= PST_MAX_PARAMS) {
                continue;
            }
            grads[n] = elems > 0 ? add_static(b, PST_V_GRAD, stage, index, u, elems * 4) : PST_NONE;
            if (grads[n] != PST_NONE) {
                b->program->values[grads[n]].microbatch = parity;
            }
            b->grad_value[((size_t)parity * b->graph->n_ops + op) * PST_MAX_PARAMS + slot] =
                grads[n++];
            users[row->n_grads++] = u;
        }
    }
    row->grads = grads;
    row->grad_users = users;
}

void pst_static_parts(const struct pst_parameter *parameter, uint64_t shard_elems,
                      uint64_t kept_elems, uint32_t n_versions, uint32_t optimizer_slots,
                      pst_static_part *part, void *context)
{
    bool f32 = parameter->dtype == PST_F32;
    uint64_t bytes = shard_elems * 4;

    if (f32 ? kept_elems > 0 : bytes > 0) {
        part(context, PST_V_WEIGHT, 0, f32 ? kept_elems * 4 : bytes);
    }
    for (uint32_t v = f32 ? 1 : 0; v < n_versions && kept_elems > 0; v++) {
        part(context, f32 ? PST_V_WEIGHT : PST_V_WORKING, v,
             kept_elems * pst_dtype_bytes(parameter->dtype));
    }
    if (parameter->n_users > 1 && bytes > 0) {
        part(context, PST_V_TIE, 0, bytes);
    }
    for (uint32_t i = 0; i < pst_parameter_slots(parameter, optimizer_slots) && bytes > 0; i++) {
        part(context, PST_V_OPTIMIZER, i, bytes);
    }
}

struct parts {
    struct pst_builder *b;
    struct pst_program_param *row;
    uint32_t *versions;
};

static void add_part(void *parts_, uint8_t kind, uint32_t slot, uint64_t bytes)
{
    const struct parts *parts = parts_;
    struct pst_program_param *row = parts->row;
    uint32_t value = add_static(parts->b, kind, row->stage, row->parameter, slot, bytes);

    if (kind == PST_V_TIE) {
        row->tie = value;
    } else if (kind == PST_V_OPTIMIZER) {
        row->optimizer[slot] = value;
    } else {
        parts->versions[slot] = value; /* of a working copy: after the master weights */
        row->weight = kind == PST_V_WEIGHT && slot == 0 ? value : row->weight;
    }
}

/* Several ranks may have the same elements; one of them is their owner. */
static bool is_owner(const struct pst_builder *b, uint32_t index)
{
    const struct pst_parameter *parameter = &b->graph->params[index];
    const uint32_t s = b->stage_of[parameter->users[0]];
    const struct pst_stage_build *first = &b->stages[s];

    return first->local && (first->replica == 0 || pst_shards_cut(&first->shards, index)) &&
           (pst_is_split(parameter) || pst_plan_part(&b->plan->stages[s], b->rank) == 0);
}

static void add_parameter(struct pst_builder *b, uint32_t index)
{
    const struct pst_parameter *parameter = &b->graph->params[index];
    uint32_t stage = first_local_stage(b, parameter);
    struct pst_program_param *row;
    struct parts parts;

    if (stage == PST_NONE) {
        return;
    }
    b->param_row[index] = b->program->n_params;
    row = &b->program->params[b->program->n_params++];
    *row = (struct pst_program_param){
        .parameter = index,
        .stage = stage,
        .weight = PST_NONE,
        .tie = PST_NONE,
        .optimizer = {PST_NONE, PST_NONE},
        .room = PST_NONE,
        .n_versions = pst_plan_slots(b->plan, stage),
        .shard = pst_shard_of(&b->stages[stage].shards, b->graph, index, b->stages[stage].replica),
        .owner = is_owner(b, index),
    };
    row->kept = pst_plan_gathers(b->plan, stage, index) ? row->shard
                                                        : (struct pst_shard){0, parameter->elems};
    parts = (struct parts){b, row, pst_arena_none(&b->program->arena, row->n_versions)};
    pst_static_parts(parameter, row->shard.elems, row->kept.elems, row->n_versions,
                     b->plan->optimizer_slots, add_part, &parts);
    row->versions = parts.versions;
    row->working = parts.versions[0];
    add_accumulators(b, index, stage, row);
}

/* Updates of a stage come one after the other, so the largest room is that of all. */
static void add_room(struct pst_builder *b, uint32_t stage)
{
    const struct pst_parameter *params = b->graph->params;
    uint32_t most = PST_NONE, value = PST_NONE;

    for (uint32_t i = 0; i < b->program->n_params; i++) {
        const struct pst_program_param *row = &b->program->params[i];
        const uint32_t p = row->parameter;

        if (row->stage == stage && row->shard.elems > 0 && pst_parameter_room(&params[p]) > 0 &&
            (most == PST_NONE ||
             pst_parameter_room(&params[p]) > pst_parameter_room(&params[most]))) {
            most = p;
        }
    }
    if (most != PST_NONE) {
        value = add_static(b, PST_V_OPTIMIZER, stage, most, PST_ROOM,
                           pst_parameter_room(&params[most]));
    }
    for (uint32_t i = 0; i < b->program->n_params; i++) {
        struct pst_program_param *row = &b->program->params[i];

        if (row->stage == stage && pst_parameter_room(&params[row->parameter]) > 0) {
            row->room = value;
        }
    }
}

void pst_build_static(struct pst_builder *b)
{
    const struct pst_graph *graph = b->graph;
    struct pst_program *program = b->program;

    program->params = pst_arena_array(&program->arena, graph->n_params, sizeof *program->params);
    program->state_values = pst_arena_none(&program->arena, 2 * (size_t)graph->n_ops);
    b->param_row = pst_arena_none(&b->arena, graph->n_params);
    b->grad_value = pst_arena_none(&b->arena, (size_t)graph->n_ops * 2 * PST_MAX_PARAMS);
    for (uint32_t s = 0; s < b->plan->n_stages; s++) {
        if (b->stages[s].local) {
            pst_plan_shards(b->plan, graph, s, &b->arena, &b->stages[s].shards);
        }
    }
    for (uint32_t p = 0; p < graph->n_params; p++) {
        add_parameter(b, p);
    }
    b->gathered = pst_arena_none(&b->arena, program->n_params);
    b->pass.gathers = pst_arena_array(&b->arena, 1 + b->plan->prefetch, sizeof *b->pass.gathers);
    for (uint32_t s = 0; s < b->plan->n_stages; s++) {
        add_room(b, s);
    }
    for (uint32_t v = 0; v < graph->n_ops; v++) {
        for (uint32_t i = 0; b->stages[b->stage_of[v]].local && i < graph->ops[v].n_state; i++) {
            program->state_values[2 * v + i] =
                add_static(b, PST_V_STATE, b->stage_of[v], v, i, graph->ops[v].state_elems[i] * 4);
        }
    }
}
