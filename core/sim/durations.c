/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/durations.h"

static uint64_t add_ns(uint64_t a, uint64_t b)
{
    uint64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

/* seen[p] == stage + 1: counted for this stage already. */
static uint64_t stage_param_bytes(const struct pst_graph *graph, const struct pst_plan_stage *stage,
                                  uint32_t mark, uint32_t *seen)
{
    uint64_t bytes = 0;
    for (uint32_t n = 0; n < stage->n_nodes; n++) {
        const struct pst_op *op = &graph->ops[stage->nodes[n]];
        for (uint32_t i = 0; i < op->n_param; i++) {
            uint32_t parameter = op->param[i];
            if (parameter != PST_NONE && seen[parameter] != mark) {
                seen[parameter] = mark;
                bytes += graph->params[parameter].elems * sizeof(float);
            }
        }
    }
    return bytes;
}

static void stage_times(const struct pst_cost_model *cost, const struct pst_plan_stage *stage,
                        struct pst_sim_stage *ret_stage)
{
    uint32_t samples = stage->microbatch_size / stage->n_ranks;
    pst_cost_ops(cost, stage->nodes, stage->n_nodes, samples, &ret_stage->times);
    for (uint32_t n = 0; n < stage->n_nodes; n++) {
        if (stage->actions[n] == PST_ACTION_RECOMPUTE) {
            struct pst_times one;
            pst_cost_op(cost, stage->nodes[n], samples, &one);
            ret_stage->replay_ns = add_ns(ret_stage->replay_ns, one.forward_ns);
        }
    }
}

static void find_placed_replays(const struct pst_plan *plan, struct pst_sim_stage *stages)
{
    for (uint32_t d = 0; d < plan->n_devices; d++) {
        for (uint32_t i = 0; i < plan->devices[d].n_instrs; i++) {
            const struct pst_instr *instr = &plan->devices[d].body[i];
            if (instr->op == PST_I_R) {
                stages[instr->stage].places_replay = true;
            }
        }
    }
}

bool pst_sim_durations_init(struct pst_sim_durations *durations, struct pst_arena *arena,
                            const struct pst_plan *plan, const struct pst_graph *graph,
                            const struct pst_cost_model *cost)
{
    durations->plan = plan;
    durations->graph = graph;
    durations->cost = cost;
    durations->stages = pst_arena_array(arena, plan->n_stages, sizeof *durations->stages);
    durations->edges = pst_arena_array(arena, plan->n_edges, sizeof *durations->edges);
    uint32_t *seen = pst_arena_array(arena, graph->n_params, sizeof *seen);
    if ((durations->stages == NULL && plan->n_stages > 0) ||
        (durations->edges == NULL && plan->n_edges > 0) || (seen == NULL && graph->n_params > 0)) {
        return false;
    }
    for (uint32_t s = 0; s < plan->n_stages; s++) {
        stage_times(cost, &plan->stages[s], &durations->stages[s]);
        durations->stages[s].param_bytes = stage_param_bytes(graph, &plan->stages[s], s + 1, seen);
    }
    find_placed_replays(plan, durations->stages);
    for (uint32_t e = 0; e < plan->n_edges; e++) {
        for (uint32_t i = 0; i < plan->edges[e].n_tensors; i++) {
            const struct pst_tensor *tensor = &graph->tensors[plan->edges[e].tensors[i]];
            durations->edges[e].act_bytes += tensor->bytes;
            durations->edges[e].grad_bytes += tensor->needs_grad ? tensor->bytes : 0;
        }
    }
    return true;
}

/*
 * An update reads gradient and weight, writes the weight, and reads and writes each optimizer slot:
 * bound by memory. The gradient is counted with the weight's read, which the caches often save.
 */
static uint64_t step_ns(const struct pst_sim_durations *durations,
                        const struct pst_sim_stage *stage)
{
    const struct pst_cluster *cluster = durations->cost->cluster;
    if (stage->param_bytes == 0) {
        return 0;
    }
    unsigned __int128 traffic = (unsigned __int128)stage->param_bytes *
                                (2 + 2 * (uint64_t)durations->plan->optimizer_slots);
    unsigned __int128 ns = cluster->launch_overhead;
    if (cluster->memory_bandwidth > 0) {
        ns += (traffic * 1000000000u + cluster->memory_bandwidth - 1) / cluster->memory_bandwidth;
    }
    return ns > UINT64_MAX / 2 ? UINT64_MAX / 2 : (uint64_t)ns;
}

uint64_t pst_sim_compute_ns(const struct pst_sim_durations *durations,
                            const struct pst_instr *instr)
{
    const struct pst_sim_stage *stage = &durations->stages[instr->stage];
    uint64_t replay = stage->places_replay ? 0 : stage->replay_ns;
    switch (instr->op) {
    case PST_I_F:
        return stage->times.forward_ns;
    case PST_I_B:
        return add_ns(stage->times.backward_input_ns, replay);
    case PST_I_W:
        return stage->times.backward_weight_ns;
    case PST_I_BW:
        return add_ns(add_ns(stage->times.backward_input_ns, stage->times.backward_weight_ns),
                      replay);
    case PST_I_R:
        return stage->replay_ns;
    default:
        return step_ns(durations, stage);
    }
}

uint64_t pst_sim_transfer_ns(const struct pst_sim_durations *durations,
                             const struct pst_instr *send, uint32_t from)
{
    const struct pst_sim_edge *edge = &durations->edges[send->stage];
    uint64_t per_sample = send->payload == PST_PAYLOAD_ACT ? edge->act_bytes : edge->grad_bytes;
    uint64_t bytes;
    if (__builtin_mul_overflow(per_sample, (uint64_t)send->n_samples, &bytes)) {
        bytes = UINT64_MAX;
    }
    return pst_cost_transfer_ns(durations->cost, bytes, from, send->peer);
}

uint64_t pst_sim_collective_ns(const struct pst_sim_durations *durations,
                               const struct pst_instr *instr, uint32_t n_ranks)
{
    uint64_t bytes = sizeof(double); /* NORM */
    if (instr->op == PST_I_REDUCE) {
        bytes = durations->stages[instr->stage].param_bytes;
    } else if (instr->op == PST_I_TIE) {
        uint32_t parameter = durations->plan->ties[instr->stage].parameter;
        bytes = durations->graph->params[parameter].elems * sizeof(float);
    }
    return pst_cost_allreduce_ns(durations->cost, bytes, n_ranks);
}
