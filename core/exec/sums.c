/* SPDX-License-Identifier: Apache-2.0
 *
 * Meetings of ranks: sums of gradients, gathers of weights; the replicas' running statistics, which
 * are those of the first of them where something reads them; their losses.
 */
#include "exec/state.h"

/* --- meetings ----------------------------------------------------------------------------------*/

static const char *name_of(const struct pst_instr *instr)
{
    return instr->op == PST_I_TIE      ? "sum of a tied gradient"
           : instr->op == PST_I_GATHER ? "gather of new weights"
                                       : "sum over replicas";
}

const struct pst_meeting *exec_bind_meeting(struct exec_rank *rank, const struct pst_instr *instr,
                                            const struct pst_program_meeting *from)
{
    const struct pst_program *program = rank->exec->config.programs[rank->index];
    struct pst_meeting *meeting = pst_arena_array(&rank->memory, 1, sizeof *meeting);
    struct pst_meet_part *parts = pst_arena_array(&rank->memory, from->n_parts, sizeof *parts);
    const void **src = pst_arena_array(&rank->memory, from->n_sources, sizeof *src);

    for (uint32_t i = 0; i < from->n_sources; i++) {
        src[i] = (const char *)exec_value(rank, program, from->sources[i]) + from->source_begin;
    }
    for (uint32_t p = 0; p < from->n_parts; p++) {
        const struct pst_program_meet_part *part = &from->parts[p];

        parts[p] = (struct pst_meet_part){
            .src = from->n_sources > 0 ? src : NULL,
            .dst = (char *)exec_value(rank, program, part->value) + part->begin,
            .elems = from->kind == PST_MEET_SUM ? part->bytes / sizeof(float) : part->bytes,
            .owner = part->owner,
        };
    }
    *meeting = (struct pst_meeting){.kind = from->kind,
                                    .name = name_of(instr),
                                    .members = from->members,
                                    .n_members = from->n_members,
                                    .n_src = from->n_sources > 0 ? from->n_sources : 1,
                                    .parts = parts,
                                    .n_parts = from->n_parts,
                                    .order = from->order,
                                    .n_order = from->n_order};
    return meeting;
}

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
        return exec_fail_post(rank, status, pst_instr_name(list->program->instrs[index].op),
                              list->program->instrs[index].stage, err);
    }
    for (uint32_t i = 0; i < meeting->n_parts; i++) {
        exec_clock_touch(rank, meeting->parts[i].dst,
                         meeting->parts[i].elems * pst_meeting_size(meeting));
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
