/* SPDX-License-Identifier: Apache-2.0
 *
 * How long each instruction of a plan takes on an idle machine, and what it moves.
 */
#include "sim/durations.h"

#include <math.h>

#include "base/saturate.h"
#include "plan/shards.h"

/* A rank has one copy of a parameter, however many of its stages use it; the lowest updates it, or
   the rank's piece of it. */
static void count_updates(struct pst_sim_durations *durations, struct pst_arena *arena)
{
    const struct pst_plan_stage *stages = durations->plan->stages;
    const size_t n_stages = durations->plan->n_stages;
    uint32_t *stage_of = pst_arena_array(arena, durations->graph->n_ops, sizeof *stage_of);
    struct pst_shards *shards = pst_arena_array(arena, n_stages, sizeof *shards);

    for (uint32_t s = 0; s < n_stages; s++) {
        for (uint32_t n = 0; n < stages[s].n_nodes; n++) {
            stage_of[stages[s].nodes[n]] = s;
        }
        pst_plan_shards(durations->plan, durations->graph, s, arena, &shards[s]);
        durations->stages[s].n_updates = shards[s].n;
        durations->stages[s].update_bytes = pst_arena_array(arena, shards[s].n, sizeof(uint64_t));
    }
    for (uint32_t p = 0; p < durations->graph->n_params; p++) {
        const struct pst_parameter *param = &durations->graph->params[p];

        for (uint32_t u = 0; u < param->n_users; u++) {
            uint32_t s = stage_of[param->users[u]];
            bool updates = true;

            for (uint32_t v = 0; v < param->n_users; v++) {
                uint32_t other = stage_of[param->users[v]];

                updates &= !pst_plan_shares(&stages[other], &stages[s]) || other > s ||
                           (other == s && v >= u);
            }
            for (uint32_t m = 0; updates && m < shards[s].n; m++) {
                durations->stages[s].update_bytes[m] +=
                    pst_shard_of(&shards[s], durations->graph, p, m).elems * sizeof(float);
            }
        }
    }
}

/*
 * An update reads gradient and weight, writes the weight, and reads and writes each optimizer slot:
 * bound by memory. The gradient is counted with the weight's read, which the caches often save.
 */
uint64_t pst_sim_update_ns(const struct pst_cost_model *cost, uint64_t param_bytes, uint32_t slots)
{
    const struct pst_cluster *cluster = cost->cluster;
    if (param_bytes == 0) {
        return 0;
    }
    if (cost->profile != NULL && cost->profile->update_bytes_per_second > 0) {
        double measured = (double)param_bytes / cost->profile->update_bytes_per_second * 1e9;
        const struct pst_cluster *was = cluster->stated; /* what it was measured on */

        measured *= was != NULL && cluster->memory_bandwidth > 0
                        ? (double)was->memory_bandwidth / (double)cluster->memory_bandwidth
                        : 1;

        return measured < 4e18 ? (uint64_t)ceil(measured) : (uint64_t)4e18;
    }
    unsigned __int128 traffic = (unsigned __int128)param_bytes * (2 + 2 * (uint64_t)slots);
    unsigned __int128 ns = pst_sat_add(cluster->launch_overhead, cluster->step_overhead);
    if (cluster->memory_bandwidth > 0) {
        ns += (traffic * 1000000000u + cluster->memory_bandwidth - 1) / cluster->memory_bandwidth;
    }
    return ns > UINT64_MAX / 2 ? UINT64_MAX / 2 : (uint64_t)ns;
}

uint64_t pst_sim_host_ns(const struct pst_cost_model *cost, const struct pst_plan *plan)
{
    const struct pst_costed *profile = cost->profile;

    if (profile == NULL || profile->host_devices == 0 || plan->n_devices < profile->host_devices) {
        return 0;
    }
    return (uint64_t)(profile->host_step_ns + profile->host_sample_ns * plan->batch);
}

/* placed: the lists hold R passes of the stage, so that B does not replay. */
static void stage_times(const struct pst_sim_durations *durations, struct pst_arena *arena,
                        uint32_t s, bool placed)
{
    const struct pst_plan_stage *stage = &durations->plan->stages[s];
    struct pst_sim_stage *ret_stage = &durations->stages[s];
    const uint32_t n = durations->graph->slices;
    struct pst_arena temporary = {0};
    struct pst_stage_rows rows = {.stage = s};
    struct pst_cost_at at;
    const struct pst_cost_model *cost =
        pst_cost_on(durations->cost, stage->ranks, stage->n_ranks, &at);

    ret_stage->update_ns = pst_arena_array(arena, ret_stage->n_updates, sizeof(uint64_t));
    for (uint32_t m = 0; m < ret_stage->n_updates; m++) {
        ret_stage->update_ns[m] =
            pst_sim_update_ns(cost, ret_stage->update_bytes[m], durations->plan->optimizer_slots);
    }
    ret_stage->compute_ns = pst_arena_array(arena, n, sizeof *ret_stage->compute_ns);
    ret_stage->summed_ns = pst_arena_array(arena, n, sizeof *ret_stage->summed_ns);
    if (durations->plan->zero >= 2) {
        pst_stage_rows_make(durations->plan, durations->graph, durations->cost, s, &temporary,
                            &rows);
    }
    for (uint32_t slice = 0; slice < n; slice++) {
        pst_stage_times(&rows, durations->plan, durations->graph, durations->cost, slice, !placed,
                        ret_stage->compute_ns[slice], ret_stage->summed_ns[slice]);
    }
    pst_arena_finish(&temporary);
}

static void find_placed_replays(const struct pst_plan *plan, bool *placed)
{
    for (uint32_t i = 0; i < plan->n_devices * PST_PARTS; i++) {
        uint32_t n;
        const struct pst_instr *list =
            pst_plan_list(&plan->devices[i / PST_PARTS], i % PST_PARTS, &n);

        for (uint32_t k = 0; k < n; k++) {
            if (list[k].op == PST_I_R) {
                placed[list[k].stage] = true;
            }
        }
    }
}

static void edge_bytes(const struct pst_graph *graph, const struct pst_plan_edge *edge,
                       struct pst_sim_edge *ret_payloads)
{
    for (uint32_t i = 0; i < edge->n_tensors; i++) {
        const struct pst_tensor *tensor = &graph->tensors[edge->tensors[i]];
        ret_payloads[PST_PAYLOAD_ACT].bytes += tensor->bytes;
        ret_payloads[PST_PAYLOAD_GRAD].bytes += tensor->needs_grad ? tensor->bytes : 0;
    }
}

/* Finds the bytes of one guest of each stage. */
static void guest_bytes(struct pst_sim_durations *durations, struct pst_arena *arena)
{
    const struct pst_plan *plan = durations->plan;
    durations->guests = pst_arena_array(arena, plan->n_stages + 1u, sizeof *durations->guests);
    for (uint32_t s = 0; s < plan->n_stages; s++) {
        uint32_t *tensors, n;
        if (plan->stages[s].n_guests > 0) {
            pst_plan_guest_tensors(&plan->stages[s], durations->graph, arena, &tensors, &n);
            durations->guests[s].bytes =
                pst_plan_guest_bytes(&plan->stages[s], durations->graph, tensors, n);
        }
    }
}

/* --- sums over replicas inside passes ----------------------------------------------------------*/

/* All ranks of a stage run its passes in one order. */
static void count_sums(const struct pst_sim_durations *durations, struct pst_arena *arena,
                       uint32_t s, struct pst_sim_scatters *scatters)
{
    const struct pst_plan *plan = durations->plan;
    const struct pst_plan_device *device = &plan->devices[plan->stages[s].ranks[0]];
    const uint32_t n = plan->stages[s].n_microbatches;
    bool *has_come = pst_arena_array(arena, n + 1u, sizeof *has_come); /* [turn] */
    uint32_t next = 0;

    scatters->n_microbatches = n;
    scatters->n_sums = pst_arena_array(arena, n, sizeof *scatters->n_sums);
    for (uint32_t i = 0; i < device->n_instrs; i++) {
        const struct pst_instr *instr = &device->body[i];

        if ((instr->op == PST_I_W || instr->op == PST_I_BW) && instr->stage == s &&
            instr->microbatch < n) {
            has_come[pst_graph_turn(durations->graph, instr->microbatch)] = true;
            for (; has_come[next]; next++) {
                scatters->n_sums[instr->microbatch]++;
            }
        }
    }
}

static void scatters_init(const struct pst_sim_durations *durations, struct pst_arena *arena,
                          uint32_t s, struct pst_sim_scatters **ret_scatters)
{
    const struct pst_plan *plan = durations->plan;
    const uint64_t bytes = pst_plan_scattered_bytes(plan, durations->graph, s);
    struct pst_sim_scatters *scatters;

    if (bytes == 0) {
        return;
    }
    scatters = pst_arena_array(arena, 1, sizeof *scatters);
    scatters->bytes = bytes;
    scatters->ns = pst_plan_stage_scatter_ns(plan, durations->graph, durations->cost, s);
    count_sums(durations, arena, s, scatters);
    *ret_scatters = scatters;
}

/* --- inside the passes of stages that offload --------------------------------------------------*/

/* placed: passes R replay, so that B does not. */
static void time_calls(const struct pst_sim_durations *durations, struct pst_arena *arena,
                       const struct pst_plan_stage *stage, bool placed,
                       const struct pst_pass_calls *pass, uint64_t **ret_ns)
{
    const uint32_t n = durations->graph->slices;
    uint64_t *ns = pst_arena_array(arena, (size_t)pass->n_calls * n + 1, sizeof *ns);

    for (uint32_t slice = 0; slice < n; slice++) {
        pst_pass_call_ns(stage, durations->cost, pass, slice, placed,
                         ns + (size_t)slice * pass->n_calls);
    }
    *ret_ns = ns;
}

static void offload_init(const struct pst_sim_durations *durations, struct pst_arena *arena,
                         uint32_t s, bool placed, struct pst_sim_offload **ret_offload)
{
    const uint32_t ops[] = {PST_I_F, PST_I_B, PST_I_W, PST_I_BW};
    const struct pst_plan_stage *stage = &durations->plan->stages[s];
    if (!pst_plan_stage_has(stage, PST_ACTION_OFFLOAD)) {
        return;
    }
    struct pst_sim_offload *offload = pst_arena_array(arena, 1, sizeof *offload);
    pst_stage_rows_make(durations->plan, durations->graph, durations->cost, s, arena,
                        &offload->rows);
    offload->bytes = pst_arena_array(arena, stage->n_nodes, sizeof *offload->bytes);
    pst_plan_offload_bytes(stage, durations->graph, offload->bytes);
    for (uint32_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        time_calls(durations, arena, stage, placed, &offload->rows.calls[ops[i]],
                   &offload->call_ns[ops[i]]);
    }
    *ret_offload = offload;
}

/* --- all ---------------------------------------------------------------------------------------*/

void pst_sim_durations_init(struct pst_sim_durations *durations, struct pst_arena *arena,
                            const struct pst_plan *plan, const struct pst_graph *graph,
                            const struct pst_cost_model *cost)
{
    durations->plan = plan;
    durations->graph = graph;
    durations->cost = cost;
    durations->stages = pst_arena_array(arena, plan->n_stages + 1u, sizeof *durations->stages);
    durations->edges =
        pst_arena_array(arena, 2 * (size_t)plan->n_edges + 1, sizeof *durations->edges);
    bool *placed = pst_arena_array(arena, plan->n_stages + 1u, sizeof *placed);
    find_placed_replays(plan, placed);
    count_updates(durations, arena);
    for (uint32_t s = 0; s < plan->n_stages; s++) {
        struct pst_sim_stage *stage = &durations->stages[s];
        stage_times(durations, arena, s, placed[s]);
        scatters_init(durations, arena, s, &stage->scatters);
        pst_plan_gathers_of(plan, graph, cost, s, stage->gathers);
        offload_init(durations, arena, s, placed[s], &stage->offload);
    }
    for (uint32_t e = 0; e < plan->n_edges; e++) {
        edge_bytes(graph, &plan->edges[e], &durations->edges[2 * e]);
    }
    guest_bytes(durations, arena);
}

static uint64_t copy_bytes(const struct pst_sim_durations *durations, const struct pst_instr *instr)
{
    const struct pst_sim_offload *offload = durations->stages[instr->stage].offload;
    uint32_t node = offload != NULL
                        ? pst_plan_node(&durations->plan->stages[instr->stage], instr->node)
                        : PST_NONE;
    return node != PST_NONE ? offload->bytes[node] : 0;
}

uint64_t pst_sim_bytes(const struct pst_sim_durations *durations, const struct pst_instr *instr,
                       uint32_t rank)
{
    const struct pst_sim_stage *stage;
    struct pst_meet_bytes meet;
    uint32_t n_sums;

    switch (instr->op) {
    case PST_I_SEND:
    case PST_I_RECV:
        if (pst_instr_moves_guest(instr)) {
            return durations->guests[instr->stage].bytes;
        }
        return pst_sat_mul(durations->edges[2 * instr->stage + instr->payload].bytes,
                           instr->n_samples);
    case PST_I_OFFLOAD:
    case PST_I_FETCH:
        return copy_bytes(durations, instr);
    case PST_I_F:
    case PST_I_B:
    case PST_I_W:
    case PST_I_BW:
        stage = &durations->stages[instr->stage];
        n_sums = pst_sim_sums(durations, instr);
        return pst_sat_add(stage->gathers[instr->op].bytes,
                           n_sums == 0 ? 0 : pst_sat_mul(stage->scatters->bytes, n_sums));
    default:
        meet = pst_plan_meet_bytes(durations->plan, durations->graph, instr, rank);
        return meet.added > meet.copied ? meet.added : meet.copied;
    }
}

struct pst_sim_edge pst_sim_transfer(struct pst_sim_durations *durations,
                                     const struct pst_instr *send, uint32_t from)
{
    const uint32_t link = pst_cost_link(durations->cost, from, send->peer);
    struct pst_sim_edge *edge = pst_instr_moves_guest(send)
                                    ? &durations->guests[send->stage]
                                    : &durations->edges[2 * send->stage + send->payload];
    if (edge->n_samples != send->n_samples || edge->link != link) {
        edge->n_samples = send->n_samples;
        edge->link = link;
        edge->ns = pst_cost_transfer_ns(durations->cost, pst_sim_bytes(durations, send, from), from,
                                        send->peer);
        edge->latency_ns = pst_cost_transfer_ns(durations->cost, 0, from, send->peer);
    }
    return *edge;
}

uint64_t pst_sim_copy_ns(const struct pst_sim_durations *durations, const struct pst_instr *instr)
{
    const struct pst_plan_stage *stage = &durations->plan->stages[instr->stage];
    struct pst_cost_at at;

    return pst_cost_host_ns(pst_cost_on(durations->cost, stage->ranks, stage->n_ranks, &at),
                            pst_sim_bytes(durations, instr, stage->ranks[0]));
}

uint64_t pst_sim_collective_ns(const struct pst_sim_durations *durations,
                               const struct pst_instr *instr, uint32_t rank, const uint32_t *ranks,
                               uint32_t n_ranks, uint32_t n_nodes)
{
    const struct pst_plan *plan = durations->plan;
    const struct pst_meet_bytes bytes = pst_plan_meet_bytes(plan, durations->graph, instr, rank);
    struct pst_cost_at at;

    return pst_cost_ring_ns(
        pst_cost_on(durations->cost, ranks, ranks == NULL ? 0 : n_ranks, &at),
        pst_cost_shared_bytes(bytes, n_nodes, instr->op == PST_I_NORM ? 1 : pst_plan_tensor(plan)),
        n_ranks, n_nodes);
}
