/* SPDX-License-Identifier: Apache-2.0
 *
 * What a rank holds for the whole run: weights, working copies, gradient accumulators, sums of tied
 * gradients, optimizer state, running statistics.
 */
#include <stdlib.h>
#include <string.h>

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
    uint32_t n = 0;

    for (uint32_t parity = 0; parity < (b->plan->deferred_step ? 2 : 1); parity++) {
        row->n_grads = 0;
        for (uint32_t u = 0; u < parameter->n_users; u++) {
            uint32_t op = parameter->users[u], slot = parameter->user_slots[u];

            if (!b->stages[b->stage_of[op]].local || slot >= PST_MAX_PARAMS) {
                continue;
            }
            grads[n] = add_static(b, PST_V_GRAD, stage, index, u, parameter->elems * 4);
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

/* Weights, and copies of them in working precision: as many as passes read versions. */
static void add_weights(struct pst_builder *b, uint32_t index, uint32_t stage,
                        struct pst_program_param *row)
{
    const struct pst_parameter *parameter = &b->graph->params[index];
    bool f32 = parameter->dtype == PST_F32;
    uint32_t n = pst_plan_slots(b->plan, stage);
    uint32_t *versions = pst_arena_array(&b->program->arena, n, sizeof *versions);
    uint64_t working_bytes = parameter->elems * pst_dtype_bytes(parameter->dtype);

    row->weight = add_static(b, PST_V_WEIGHT, stage, index, 0, parameter->elems * 4);
    row->working = f32 ? row->weight : add_static(b, PST_V_WORKING, stage, index, 0, working_bytes);
    row->n_versions = n;
    row->versions = versions;
    for (uint32_t v = 0; v < n; v++) {
        versions[v] = v == 0 ? row->working
                             : add_static(b, f32 ? PST_V_WEIGHT : PST_V_WORKING, stage, index, v,
                                          working_bytes);
    }
}

static void add_parameter(struct pst_builder *b, uint32_t index)
{
    const struct pst_parameter *parameter = &b->graph->params[index];
    uint32_t stage = first_local_stage(b, parameter);
    struct pst_program_param *row;

    if (stage == PST_NONE) {
        return;
    }
    b->param_row[index] = b->program->n_params;
    row = &b->program->params[b->program->n_params++];
    row->parameter = index;
    row->stage = stage;
    row->owner = b->stages[b->stage_of[parameter->users[0]]].local &&
                 b->stages[b->stage_of[parameter->users[0]]].replica == 0;
    add_weights(b, index, stage, row);
    add_accumulators(b, index, stage, row);
    row->tie = parameter->n_users > 1
                   ? add_static(b, PST_V_TIE, stage, index, 0, parameter->elems * 4)
                   : PST_NONE;
    for (uint32_t i = 0; i < 2; i++) {
        row->optimizer[i] =
            i < b->plan->optimizer_slots
                ? add_static(b, PST_V_OPTIMIZER, stage, index, i, parameter->elems * 4)
                : PST_NONE;
    }
}

void pst_build_static(struct pst_builder *b)
{
    const struct pst_graph *graph = b->graph;
    struct pst_program *program = b->program;

    program->params = pst_arena_array(&program->arena, graph->n_params, sizeof *program->params);
    program->state_values =
        pst_arena_array(&program->arena, 2 * (size_t)graph->n_ops, sizeof *program->state_values);
    b->param_row = pst_arena_array(&b->arena, graph->n_params, sizeof *b->param_row);
    b->grad_value = pst_arena_array(&b->arena, (size_t)graph->n_ops * 2 * PST_MAX_PARAMS,
                                    sizeof *b->grad_value);
    memset(b->param_row, 0xFF, graph->n_params * sizeof *b->param_row);
    memset(b->grad_value, 0xFF, (size_t)graph->n_ops * 2 * PST_MAX_PARAMS * sizeof *b->grad_value);
    memset(program->state_values, 0xFF, 2 * (size_t)graph->n_ops * sizeof *program->state_values);
    for (uint32_t p = 0; p < graph->n_params; p++) {
        add_parameter(b, p);
    }
    for (uint32_t v = 0; v < graph->n_ops; v++) {
        for (uint32_t i = 0; b->stages[b->stage_of[v]].local && i < graph->ops[v].n_state; i++) {
            program->state_values[2 * v + i] =
                add_static(b, PST_V_STATE, b->stage_of[v], v, i, graph->ops[v].state_elems[i] * 4);
        }
    }
}
