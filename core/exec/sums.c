/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums over ranks: of a tied parameter's gradient, and of replicas' gradients; the replicas'
 * running statistics, which are those of the first of them where something reads them; their
 * losses.
 */
#include "exec/state.h"

/* --- ties --------------------------------------------------------------------------------------*/

/* One accumulator per using operator, added in the order in which the model uses them, wherever
   they lie, so that no cut changes a bit of it. */

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

/* Where the accumulator of the parameter's `user`-th using operator is: false when nowhere. */
static bool find_source(const struct pst_exec_config *config, const struct pst_meeting *tie,
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
                         uint32_t parity, const struct pst_meeting **ret_meeting,
                         struct pst_error *err)
{
    const struct pst_exec_config *config = &rank->exec->config;
    const struct pst_plan_tie *from = &plan->ties[index];
    const struct pst_parameter *parameter = &config->graph->params[from->parameter];
    const struct pst_program *program = config->programs[rank->index];
    const struct pst_program_param *mine = find_param(program, from->parameter);
    struct pst_meeting *tie = pst_arena_array(&rank->memory, 1, sizeof *tie);
    struct pst_meet_part *part = pst_arena_array(&rank->memory, 1, sizeof *part);
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
    *tie = (struct pst_meeting){.name = "sum of a tied gradient",
                                .members = members,
                                .n_src = mine->n_grads,
                                .parts = part,
                                .n_parts = 1};
    for (uint32_t r = 0; r < plan->n_devices; r++) {
        if (pst_plan_tie_has(plan, index, r)) {
            members[tie->n_members++] = r;
        }
    }
    for (uint32_t i = 0; i < mine->n_grads; i++) {
        src[i] = exec_value(rank, program, mine->grads[first + i]);
    }
    for (uint32_t user = 0; user < parameter->n_users; user++) {
        if (!find_source(config, tie, from->parameter, user, order[user])) {
            return pst_fail(err, PST_ERR_BUG, "plan.illegal",
                            "no rank holds the gradient of %s from its use %u", parameter->name,
                            user);
        }
    }
    tie->order = (const uint32_t(*)[2])order;
    tie->n_order = parameter->n_users;
    *part = (struct pst_meet_part){
        .src = src, .dst = exec_value(rank, program, mine->tie), .elems = parameter->elems};
    *ret_meeting = tie;
    return PST_OK;
}

/* --- gradients of replicas ---------------------------------------------------------------------*/

/* The accumulators of the stage's uses of a parameter; `to` NULL: only counts them. */
static uint32_t collect(const struct exec_rank *rank, const struct pst_plan *plan, uint32_t stage,
                        uint32_t parity, const struct pst_program_param *param,
                        struct pst_meet_part *to)
{
    const struct pst_exec_config *config = &rank->exec->config;
    const struct pst_parameter *parameter = &config->graph->params[param->parameter];
    const struct pst_program *program = config->programs[rank->index];
    uint32_t first = plan->deferred_step ? parity * param->n_grads : 0, n = 0;

    for (uint32_t g = 0; g < param->n_grads; g++) {
        if (pst_plan_node(&plan->stages[stage], parameter->users[param->grad_users[g]]) ==
            PST_NONE) {
            continue;
        }
        if (to != NULL) {
            to[n] = (struct pst_meet_part){
                .dst = exec_value(rank, program, param->grads[first + g]),
                .elems = parameter->elems,
            };
        }
        n++;
    }
    return n;
}

const struct pst_meeting *exec_bind_reduce(struct exec_rank *rank, const struct pst_plan *plan,
                                           uint32_t stage, uint32_t parity)
{
    const struct pst_program *program = rank->exec->config.programs[rank->index];
    struct pst_meeting *reduce = pst_arena_array(&rank->memory, 1, sizeof *reduce);
    struct pst_meet_part *parts;
    uint32_t n = 0;

    for (uint32_t i = 0; i < program->n_params; i++) {
        n += collect(rank, plan, stage, parity, &program->params[i], NULL);
    }
    parts = pst_arena_array(&rank->memory, n, sizeof *parts);
    *reduce = (struct pst_meeting){.name = "sum over replicas",
                                   .members = plan->stages[stage].ranks,
                                   .n_members = plan->stages[stage].n_ranks,
                                   .n_src = 1,
                                   .parts = parts};
    for (uint32_t i = 0; i < program->n_params; i++) {
        reduce->n_parts +=
            collect(rank, plan, stage, parity, &program->params[i], parts + reduce->n_parts);
    }
    return reduce;
}

/* --- both --------------------------------------------------------------------------------------*/

pst_status exec_post_meeting(struct exec_rank *rank, struct exec_list *list, uint32_t index,
                             struct pst_error *err)
{
    struct exec_instr *instr = &list->instrs[index];
    const struct pst_meeting *meeting = instr->meeting;
    pst_status status = exec_before_post(rank, err);

    if (status != PST_OK) {
        return status;
    }
    status = rank->exec->config.transport->meet(rank->exec->transport, rank->index, meeting,
                                                &instr->request);
    if (status != PST_OK) {
        return exec_fail_post(rank, status,
                              list->program->instrs[index].op == PST_I_TIE
                                  ? "the sum of tie"
                                  : "the sum over replicas of stage",
                              list->program->instrs[index].stage, err);
    }
    for (uint32_t i = 0; i < meeting->n_parts; i++) {
        exec_clock_touch(rank, meeting->parts[i].dst, meeting->parts[i].elems * sizeof(float));
    }
    instr->pending = true;
    return PST_OK;
}

/* --- running statistics ------------------------------------------------------------------------*/

/* One buffer from the first replica to the others. */
static pst_status share_buffer(struct exec_rank *rank, const struct pst_plan_stage *stage,
                               uint64_t tag, void *data, uint64_t bytes, struct pst_error *err)
{
    const struct pst_transport_ops *transport = rank->exec->config.transport;
    struct pst_transport *t = rank->exec->transport;
    bool first = stage->ranks[0] == rank->index;
    pst_status status = exec_before_post(rank, err);

    for (uint32_t r = 1; r < stage->n_ranks && status == PST_OK; r++) {
        pst_request request;

        if (!first && stage->ranks[r] != rank->index) {
            continue;
        }
        status = transport->post(t, rank->index, stage->ranks[first ? r : 0], first, tag, data,
                                 bytes, &request);
        status = status == PST_OK
                     ? transport->wait(t, rank->index, request, err)
                     : exec_fail_post(rank, status, "running statistics for replica", r, err);
    }
    return status;
}

pst_status exec_share_state(struct exec_rank *rank, struct pst_error *err)
{
    const struct pst_exec_config *config = &rank->exec->config;
    const struct pst_program *program = config->programs[rank->index];
    pst_status status = PST_OK;

    for (uint32_t s = 0; s < config->plan->n_stages; s++) {
        const struct pst_plan_stage *stage = &config->plan->stages[s];
        bool here = stage->n_ranks > 1 && pst_plan_replica(stage, rank->index) != PST_NONE;

        for (uint32_t n = 0; here && n < stage->n_nodes; n++) {
            uint32_t op = stage->nodes[n];

            for (uint32_t i = 0; i < config->graph->ops[op].n_state && status == PST_OK; i++) {
                uint32_t value = program->state_values[2 * (size_t)op + i];

                status = share_buffer(rank, stage, exec_state_tag(op, i),
                                      exec_value(rank, program, value),
                                      program->values[value].bytes, err);
            }
        }
    }
    return status;
}

/* --- losses ------------------------------------------------------------------------------------*/

const struct pst_plan_stage *exec_loss_stage(const struct pst_plan *plan,
                                             const struct pst_graph *graph)
{
    uint32_t op = graph->tensors[graph->loss].producer;

    for (uint32_t s = 0; s < plan->n_stages; s++) {
        if (pst_plan_node(&plan->stages[s], op) != PST_NONE) {
            return &plan->stages[s];
        }
    }
    return NULL;
}

double exec_eval_loss(const struct pst_exec *exec, uint64_t t)
{
    double sum = 0;

    for (uint32_t i = 0; i < exec->config.eval_plan->batch; i++) {
        for (uint32_t r = 0; r < exec->n_ranks; r++) { /* one of them has it, for the others 0 */
            const struct exec_rank *rank = &exec->ranks[r];

            sum += rank->eval.has_loss ? rank->losses[t % 2 * rank->n_losses + i] : 0;
        }
    }
    return sum;
}
