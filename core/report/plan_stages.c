/* SPDX-License-Identifier: Apache-2.0 */
#include "report/plan_report.h"

#include <stdlib.h>

/* The first tick at which the live bytes of a program are at their peak. */
static pst_status peak_tick(const struct pst_program *program, uint32_t *ret_tick,
                            struct pst_error *err)
{
    int64_t *change = calloc((size_t)program->n_ticks + 1, sizeof *change), live = 0, most = -1;

    if (change == NULL) {
        return pst_fail_nomem(err);
    }
    for (uint32_t i = 0; i < program->n_values; i++) {
        const struct pst_value *value = &program->values[i];

        if (!value->is_static) {
            change[value->first] += (int64_t)value->bytes;
            change[value->last + 1] -= (int64_t)value->bytes;
        }
    }
    for (uint32_t tick = 0; tick < program->n_ticks; tick++) {
        live += change[tick];
        if (live > most) {
            most = live;
            *ret_tick = tick;
        }
    }
    free(change);
    return PST_OK;
}

static pst_status add_memory(const struct pst_session *session, struct pst_stage_report *stages,
                             struct pst_error *err)
{
    const struct pst_plan *plan = session->planned.plan;

    for (uint32_t rank = 0; rank < plan->n_devices; rank++) {
        const struct pst_program *program = session->planned.programs[rank];
        uint32_t tick = 0;
        pst_status st = peak_tick(program, &tick, err);

        if (st != PST_OK) {
            return st;
        }
        for (uint32_t i = 0; i < program->n_values; i++) {
            const struct pst_value *value = &program->values[i];
            struct pst_stage_report *stage = &stages[value->stage];

            if (plan->stages[value->stage].ranks[0] != rank) {
                continue;
            }
            if (value->is_static) {
                stage->static_bytes += value->bytes;
            } else if (value->first <= tick && tick <= value->last) {
                stage->activation_bytes += value->bytes;
            }
        }
    }
    return PST_OK;
}

/* Parameters that operators of the stage use, each once. */
static uint64_t count_parameters(const struct pst_session *session, uint32_t stage)
{
    const struct pst_program *program =
        session->planned.programs[session->planned.plan->stages[stage].ranks[0]];
    uint64_t count = 0;

    for (uint32_t i = 0; i < program->n_params; i++) {
        if (program->params[i].stage == stage) {
            count += session->graph->params[program->params[i].parameter].elems;
        }
    }
    return count;
}

/* Does a backward pass of operator `reader` read the tensor? */
static bool backward_reads(const struct pst_graph *graph, uint32_t reader, uint32_t tensor)
{
    const struct pst_op *op = &graph->ops[reader];
    struct pst_op_grad grad;
    bool reads = false;

    pst_op_grad_info(graph, reader, &grad);
    for (uint32_t i = 0; i < op->n_in; i++) {
        reads |= op->in[i] == tensor && ((grad.b_reads_x | grad.w_reads_x) >> i & 1) != 0;
    }
    for (uint32_t i = 0; i < op->n_out; i++) {
        reads |= op->out[i] == tensor && ((grad.b_reads_y | grad.w_reads_y) >> i & 1) != 0;
    }
    return reads;
}

static bool has_node(const struct pst_plan_stage *stage, uint32_t op)
{
    uint32_t low = 0, high = stage->n_nodes;

    while (low < high) { /* nodes ascend */
        uint32_t middle = low + (high - low) / 2;

        if (stage->nodes[middle] < op) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < stage->n_nodes && stage->nodes[low] == op;
}

/* What an operator leaves for backward passes of its own stage; another stage has its own copy. */
static uint64_t saved_bytes(const struct pst_graph *graph, const struct pst_plan_stage *stage,
                            uint32_t op)
{
    uint32_t samples = stage->microbatch_size / stage->n_ranks;
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < graph->ops[op].n_out; i++) {
        const struct pst_tensor *tensor = &graph->tensors[graph->ops[op].out[i]];
        bool read = backward_reads(graph, op, graph->ops[op].out[i]);

        for (uint32_t k = 0; k < tensor->n_consumers && !read; k++) {
            read = has_node(stage, tensor->consumers[k]) &&
                   backward_reads(graph, tensor->consumers[k], graph->ops[op].out[i]);
        }
        bytes += read ? tensor->bytes * (tensor->batched ? samples : 1) : 0;
    }
    return bytes;
}

/* By action: how many operators, bytes, what it costs. */
static void add_actions(const struct pst_session *session, const struct pst_plan_stage *stage,
                        struct pst_stage_report *report)
{
    for (uint32_t i = 0; i < stage->n_nodes; i++) {
        uint64_t bytes = saved_bytes(session->graph, stage, stage->nodes[i]);
        struct pst_times times;

        switch (stage->actions[i]) {
        case PST_ACTION_RECOMPUTE:
            pst_cost_op(&session->cost, stage->nodes[i], stage->microbatch_size / stage->n_ranks,
                        &times);
            report->n_recomputed++;
            report->recomputed_bytes += bytes;
            report->recompute_ns += times.forward_ns;
            break;
        case PST_ACTION_OFFLOAD:
        case PST_ACTION_PEER:
            report->n_offloaded++;
            report->offloaded_bytes += bytes;
            break;
        default:
            report->kept_bytes += bytes;
            break;
        }
    }
}

static void describe(const struct pst_session *session, uint32_t id,
                     struct pst_stage_report *ret_stage)
{
    const struct pst_plan_stage *stage = &session->planned.plan->stages[id];
    struct pst_times times;

    pst_cost_ops(&session->cost, stage->nodes, stage->n_nodes,
                 stage->microbatch_size / stage->n_ranks, &times);
    ret_stage->stage = id;
    ret_stage->n_operators = stage->n_nodes;
    ret_stage->first_operator = stage->nodes[0];
    ret_stage->last_operator = stage->nodes[stage->n_nodes - 1];
    ret_stage->forward_ns = times.forward_ns;
    ret_stage->backward_ns = times.backward_input_ns + times.backward_weight_ns;
    ret_stage->parameters = count_parameters(session, id);
    add_actions(session, stage, ret_stage);
}

pst_status pst_plan_report_stages(const struct pst_session *session,
                                  struct pst_stage_report **ret_stages, struct pst_error *err)
{
    uint32_t n = session->planned.plan->n_stages;
    struct pst_stage_report *stages = calloc(n, sizeof *stages);
    pst_status st;

    if (stages == NULL) {
        return pst_fail_nomem(err);
    }
    for (uint32_t i = 0; i < n; i++) {
        describe(session, i, &stages[i]);
    }
    st = add_memory(session, stages, err);
    if (st != PST_OK) {
        free(stages);
        return st;
    }
    *ret_stages = stages;
    return PST_OK;
}
