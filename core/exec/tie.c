/* SPDX-License-Identifier: Apache-2.0
 *
 * The sum of a tied parameter's gradient: one accumulator per using operator, added in the order in
 * which the model uses them, wherever they lie, so that no cut changes a bit of it.
 */
#include "exec/internal.h"

static const struct pst_program_param *find_param(const struct pst_program *program,
                                                  uint32_t parameter)
{
    for (uint32_t i = 0; i < program->n_params; i++) {
        if (program->params[i].parameter == parameter) {
            return &program->params[i];
        }
    }
    return NULL;
}

/* Ranks of the tie's stages, ascending and distinct. */
static uint32_t collect_members(const struct pst_plan *plan, const struct pst_plan_tie *tie,
                                uint32_t *members)
{
    uint32_t n = 0;

    for (uint32_t rank = 0; rank < plan->n_devices; rank++) {
        bool is_member = false;

        for (uint32_t s = 0; s < tie->n_stages && !is_member; s++) {
            const struct pst_plan_stage *stage = &plan->stages[tie->stages[s]];

            for (uint32_t r = 0; r < stage->n_ranks; r++) {
                is_member = is_member || stage->ranks[r] == rank;
            }
        }
        if (is_member) {
            members[n++] = rank;
        }
    }
    return n;
}

/* Where the accumulator of the parameter's `user`-th using operator is: false when nowhere. */
static bool find_source(const struct pst_exec_config *config, const struct exec_tie *tie,
                        uint32_t parameter, uint32_t user, uint32_t *ret_source)
{
    for (uint32_t m = 0; m < tie->n_members; m++) {
        const struct pst_program_param *param =
            find_param(config->programs[tie->members[m]], parameter);

        for (uint32_t g = 0; param != NULL && g < param->n_grads; g++) {
            if (param->grad_users[g] == user) {
                ret_source[0] = m;
                ret_source[1] = g;
                return true;
            }
        }
    }
    return false;
}

pst_status exec_bind_tie(struct exec_rank *rank, const struct pst_plan *plan, uint32_t index,
                         uint32_t parity, const struct exec_tie **ret_tie, struct pst_error *err)
{
    const struct pst_exec_config *config = &rank->exec->config;
    const struct pst_plan_tie *from = &plan->ties[index];
    const struct pst_parameter *parameter = &config->graph->params[from->parameter];
    const struct pst_program *program = config->programs[rank->index];
    const struct pst_program_param *mine = find_param(program, from->parameter);
    struct exec_tie *tie = pst_arena_alloc(&rank->memory, sizeof *tie, 0);
    uint32_t *members = pst_arena_array(&rank->memory, plan->n_devices, sizeof *members);
    uint32_t(*order)[2] = pst_arena_array(&rank->memory, parameter->n_users, sizeof *order);
    uint32_t first;
    const float **src;

    if (mine == NULL || mine->tie == PST_NONE) {
        return pst_fail(err, PST_ERR_BUG, "plan.illegal", "rank %u: TIE of %s, which is not here",
                        rank->index, parameter->name);
    }
    src = pst_arena_array(&rank->memory, mine->n_grads, sizeof *src);
    first = plan->deferred_step ? parity * mine->n_grads : 0;
    tie->members = members;
    tie->n_members = collect_members(plan, from, members);
    for (uint32_t i = 0; i < mine->n_grads; i++) {
        src[i] = exec_value(rank, program, mine->grads[first + i]);
    }
    tie->src = src;
    tie->n_src = mine->n_grads;
    for (uint32_t user = 0; user < parameter->n_users; user++) {
        if (!find_source(config, tie, from->parameter, user, order[user])) {
            return pst_fail(err, PST_ERR_BUG, "plan.illegal",
                            "no rank holds the gradient of %s from its use %u", parameter->name,
                            user);
        }
    }
    tie->order = (const uint32_t(*)[2])order;
    tie->n_order = parameter->n_users;
    tie->dst = exec_value(rank, program, mine->tie);
    tie->elems = parameter->elems;
    *ret_tie = tie;
    return PST_OK;
}
