/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernel calls of the passes of a stage, and how long they take.
 */
#include "plan/pass_calls.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/saturate.h"
#include "plan/sequence.h"
#include "plan/gathers.h"
#include "plan/shards.h"

/* --- calls ------------------------------------------------------------------------------------ */

struct shape {
    const struct pst_plan_stage *stage;
    const struct pst_graph *graph;
    struct pst_op_grad *grad; /* [node] */
    struct pst_replays replays;
};

static void read_tensors(const struct shape *shape, struct pst_pass_calls *pass,
                         const uint32_t *tensors, uint32_t n, uint64_t mask)
{
    for (uint32_t i = 0; i < n; i++) {
        uint32_t producer = shape->graph->tensors[tensors[i]].producer;
        uint32_t maker = producer != PST_NONE && (mask >> i & 1)
                             ? pst_plan_node(shape->stage, producer)
                             : PST_NONE;

        if (maker != PST_NONE && pass->first_read[maker] == PST_NONE) {
            pass->first_read[maker] = pass->n_calls;
        }
    }
}

static void add_call(const struct shape *shape, struct pst_pass_calls *pass, uint32_t node,
                     uint8_t kernel, bool replay)
{
    const struct pst_op *op = &shape->graph->ops[shape->stage->nodes[node]];
    const struct pst_op_grad *grad = &shape->grad[node];

    if (kernel > 0) {
        read_tensors(shape, pass, op->in, op->n_in,
                     kernel == 1 ? grad->b_reads_x : grad->w_reads_x);
        read_tensors(shape, pass, op->out, op->n_out,
                     kernel == 1 ? grad->b_reads_y : grad->w_reads_y);
    } else if (replay) {
        read_tensors(shape, pass, op->in, op->n_in, UINT64_MAX);
    }
    pass->calls[pass->n_calls++] = (struct pst_pass_call){node, kernel, replay};
}

/* Adds the replays right before the backward of a node; *next: the first replay still to add. */
static void add_replays(const struct shape *shape, struct pst_pass_calls *pass, uint32_t node,
                        uint32_t *next)
{
    const struct pst_replays *replays = &shape->replays;

    for (; *next < replays->n && replays->calls[*next].before == node; (*next)++) {
        add_call(shape, pass, replays->calls[*next].node, 0, true);
    }
}

static void add_pass(const struct shape *shape, struct pst_arena *arena, uint32_t op,
                     struct pst_pass_calls *pass)
{
    uint32_t n = shape->stage->n_nodes;
    bool backward = op == PST_I_B || op == PST_I_BW, weights = op == PST_I_W || op == PST_I_BW;
    uint32_t next_replay = 0;

    pass->n_calls = 0;
    pass->calls = pst_arena_array(arena, 2 * (size_t)n + shape->replays.n + 1, sizeof *pass->calls);
    pass->first_read = pst_arena_array(arena, (size_t)n + 1, sizeof *pass->first_read);
    pass->behind = pst_arena_array(arena, (size_t)n + 1, sizeof *pass->behind);
    for (uint32_t i = 0; i < n; i++) {
        pass->first_read[i] = PST_NONE;
    }
    for (uint32_t i = 0; i < n; i++) {
        uint32_t node = op == PST_I_F ? i : n - 1 - i;

        if (op == PST_I_F) {
            add_call(shape, pass, node, 0, false);
        }
        if (backward) {
            add_replays(shape, pass, node, &next_replay);
        }
        if (backward && shape->grad[node].has_b) {
            add_call(shape, pass, node, 1, false);
        }
        if (weights && shape->grad[node].has_w) {
            add_call(shape, pass, node, 2, false);
        }
        pass->behind[node] = pass->n_calls;
    }
}

void pst_pass_calls_init(const struct pst_plan_stage *stage, const struct pst_graph *graph,
                         struct pst_arena *arena, struct pst_pass_calls ret_passes[PST_I_BW + 1])
{
    const uint32_t ops[] = {PST_I_F, PST_I_B, PST_I_W, PST_I_BW};
    struct shape shape = {.stage = stage, .graph = graph};

    shape.grad = pst_arena_array(arena, (size_t)stage->n_nodes + 1, sizeof *shape.grad);
    pst_plan_replays(stage, graph, arena, &shape.replays);
    for (uint32_t i = 0; i < stage->n_nodes; i++) {
        pst_op_grad_info(graph, stage->nodes[i], &shape.grad[i]);
    }
    for (uint32_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        add_pass(&shape, arena, ops[i], &ret_passes[ops[i]]);
    }
}

/* --- times -------------------------------------------------------------------------------------*/

/* F of the operators that run again. */
static void time_replays(const struct pst_plan_stage *stage, const struct pst_graph *graph,
                         const struct pst_cost_model *cost, uint64_t *ret_ns)
{
    const struct pst_pass_scale scale =
        pst_cost_host_scale(cost, stage->nodes, stage->n_nodes, pst_plan_samples(stage));
    uint32_t *replayed = pst_alloc((size_t)stage->n_nodes + 1, sizeof *replayed);

    pst_plan_replayed(stage, graph, replayed);
    *ret_ns = 0;
    for (uint32_t i = 0; i < stage->n_nodes; i++) {
        struct pst_times times;

        if (replayed[i] > 0) {
            pst_cost_share(cost, &scale, stage->nodes[i], pst_plan_samples(stage), &times);
            if (__builtin_mul_overflow(times.forward_ns, replayed[i], &times.forward_ns)) {
                times.forward_ns = UINT64_MAX / 2;
            }
            *ret_ns = pst_sat_add_ns(*ret_ns, times.forward_ns);
        }
    }
    free(replayed);
}

void pst_plan_pass_ns(const struct pst_plan_stage *stage, const struct pst_graph *graph,
                      const struct pst_cost_model *cost, uint32_t slice, bool inside,
                      uint64_t *ret_ns)
{
    const struct pst_cost_model of = pst_cost_of_slice(cost, slice);
    struct pst_cost_at at;
    struct pst_times times;
    uint64_t replay;

    cost = pst_cost_on(&of, stage->ranks, stage->n_ranks, &at);
    time_replays(stage, graph, cost, &replay);
    pst_cost_stage(cost, stage->nodes, stage->n_nodes, pst_plan_samples(stage), &times);
    ret_ns[PST_I_F] = times.forward_ns;
    ret_ns[PST_I_B] = pst_sat_add_ns(times.backward_input_ns, inside ? replay : 0);
    ret_ns[PST_I_W] = times.backward_weight_ns;
    ret_ns[PST_I_BW] = pst_sat_add_ns(ret_ns[PST_I_B], times.backward_weight_ns);
    ret_ns[PST_I_R] = replay;
}

/* All parts have this meeting at the same time; their replicas are in the same nodes. */
uint64_t pst_plan_scatter_ns(const struct pst_plan *plan, const struct pst_cost_model *cost,
                             uint32_t stage, uint64_t bytes)
{
    const struct pst_plan_stage *of = &plan->stages[stage];
    const struct pst_meet_bytes added = {bytes, 0};
    const uint32_t n_nodes = pst_cost_count_nodes(cost, of->ranks, of->n_ranks);
    struct pst_cost_at at;

    return pst_cost_ring_ns(pst_cost_on(cost, of->ranks, of->n_ranks, &at),
                            pst_cost_shared_bytes(added, n_nodes, of->tensor),
                            pst_plan_replicas(of), n_nodes);
}

/* Returns the time of the sums directly after W of a node. */
static uint64_t node_scatter_ns(const struct pst_plan *plan, const struct pst_graph *graph,
                                const struct pst_cost_model *cost, uint32_t stage, uint32_t node)
{
    const struct pst_op *of = &graph->ops[plan->stages[stage].nodes[node]];
    uint64_t ns = 0;
    uint32_t end;

    for (uint32_t i = 0; plan->zero >= 2 && i < of->n_param; i++) {
        const uint32_t p = of->param[i];

        if (p != PST_NONE && pst_plan_scatters(plan, stage, p) &&
            !pst_scatters_in_layer(plan, graph, stage, p)) {
            ns = pst_sat_add_ns(
                ns, pst_plan_scatter_ns(plan, cost, stage, graph->params[p].elems * sizeof(float)));
        }
    }
    if (plan->zero >= 2 && pst_scatters_layer(plan, graph, stage, node, &end)) {
        ns = pst_sat_add_ns(
            ns, pst_plan_scatter_ns(plan, cost, stage,
                                    pst_scatters_layer_bytes(plan, graph, stage, node, end)));
    }
    return ns;
}

uint64_t pst_plan_stage_scatter_ns(const struct pst_plan *plan, const struct pst_graph *graph,
                                   const struct pst_cost_model *cost, uint32_t stage)
{
    uint64_t ns = 0;

    for (uint32_t n = 0; plan->zero >= 2 && n < plan->stages[stage].n_nodes; n++) {
        ns = pst_sat_add_ns(ns, node_scatter_ns(plan, graph, cost, stage, n));
    }
    return ns;
}

/* --- gathers -----------------------------------------------------------------------------------*/

static uint64_t reads_of(const struct pst_graph *graph, uint32_t op, uint8_t kernel)
{
    struct pst_op_grad grad;

    if (kernel == 0) {
        return UINT64_MAX;
    }
    pst_op_grad_info(graph, op, &grad);
    return kernel == 1 ? grad.b_reads_p : grad.w_reads_p;
}

uint64_t pst_plan_gather_ns(const struct pst_plan *plan, const struct pst_cost_model *cost,
                            uint32_t stage, uint64_t bytes)
{
    const struct pst_plan_stage *of = &plan->stages[stage];
    const uint32_t n_nodes = pst_cost_count_nodes(cost, of->ranks, of->n_ranks);
    const struct pst_meet_bytes copied = {0, bytes};
    struct pst_cost_at at;

    return pst_cost_ring_ns(pst_cost_on(cost, of->ranks, of->n_ranks, &at),
                            pst_cost_shared_bytes(copied, n_nodes, of->tensor),
                            pst_plan_replicas(of), n_nodes);
}

static uint64_t bytes_of(const struct pst_graph *graph, const uint32_t *bucket, uint32_t n)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < n; i++) {
        const struct pst_parameter *parameter = &graph->params[bucket[i]];

        bytes += parameter->elems * pst_dtype_bytes(parameter->dtype);
    }
    return bytes;
}

uint32_t pst_pass_gathers_list(const struct pst_plan *plan, const struct pst_graph *graph,
                               uint32_t stage, const struct pst_pass_calls *pass,
                               struct pst_arena *arena, struct pst_pass_gather **ret_gathers)
{
    struct pst_pass_gather *rows;
    struct pst_gathers gathers;
    size_t n_reads = 0;
    uint32_t n_rows = 0;

    pst_gathers_init(&gathers, plan, graph, arena);
    for (uint32_t c = 0; plan->zero >= 3 && c < pass->n_calls; c++) {
        n_reads += graph->ops[plan->stages[stage].nodes[pass->calls[c].node]].n_param;
    }
    rows = pst_arena_array(arena, n_reads, sizeof *rows);
    for (uint32_t c = 0; plan->zero >= 3 && c < pass->n_calls; c++) {
        const uint32_t node = pass->calls[c].node, op = plan->stages[stage].nodes[node];
        const uint64_t reads = reads_of(graph, op, pass->calls[c].pass);

        for (uint32_t i = 0; i < graph->ops[op].n_param; i++) {
            const uint32_t p = graph->ops[op].param[i], *bucket;
            const uint32_t n = p != PST_NONE && (reads >> i & 1)
                                   ? pst_gathers_need(&gathers, stage, node, p, &bucket)
                                   : 0;

            if (n > 0) {
                rows[n_rows++] =
                    (struct pst_pass_gather){c, n, pst_arena_copy(arena, bucket, n, sizeof *bucket),
                                             bytes_of(graph, bucket, n)};
            }
        }
    }
    *ret_gathers = rows;
    return n_rows;
}

struct pst_pass_gathers pst_plan_pass_gathers(const struct pst_plan *plan,
                                              const struct pst_graph *graph,
                                              const struct pst_cost_model *cost, uint32_t stage,
                                              const struct pst_pass_calls *pass,
                                              uint64_t *ret_call_ns)
{
    struct pst_arena arena = {0};
    struct pst_pass_gather *rows;
    struct pst_pass_gathers sum = {
        .n = pst_pass_gathers_list(plan, graph, stage, pass, &arena, &rows)};

    for (uint32_t i = 0; i < sum.n; i++) {
        const uint64_t ns = pst_plan_gather_ns(plan, cost, stage, rows[i].bytes);

        sum.bytes = pst_sat_add(sum.bytes, rows[i].bytes);
        sum.ns = pst_sat_add_ns(sum.ns, ns);
        if (ret_call_ns != NULL) {
            ret_call_ns[rows[i].call] = pst_sat_add_ns(ret_call_ns[rows[i].call], ns);
        }
    }
    pst_arena_finish(&arena);
    return sum;
}

void pst_plan_gathers_of(const struct pst_plan *plan, const struct pst_graph *graph,
                         const struct pst_cost_model *cost, uint32_t stage,
                         struct pst_pass_gathers ret_passes[PST_I_BW + 1])
{
    const uint32_t ops[] = {PST_I_F, PST_I_B, PST_I_W, PST_I_BW};
    struct pst_pass_calls calls[PST_I_BW + 1];
    struct pst_arena arena = {0};

    memset(ret_passes, 0, (PST_I_BW + 1) * sizeof *ret_passes);
    if (plan->zero >= 3) {
        pst_pass_calls_init(&plan->stages[stage], graph, &arena, calls);
        for (uint32_t i = 0; i < sizeof ops / sizeof *ops; i++) {
            ret_passes[ops[i]] =
                pst_plan_pass_gathers(plan, graph, cost, stage, &calls[ops[i]], NULL);
        }
    }
    pst_arena_finish(&arena);
}
