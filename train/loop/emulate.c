/* SPDX-License-Identifier: Apache-2.0 */
#include "loop/emulate.h"

#include <math.h>

#include "base/log.h"
#include "base/saturate.h"
#include "base/util.h"
#include "graph/split.h"
#include "host/plugin_host.h"
#include "sim/durations.h"

#define INSTR_NS 100000.0 /* of one core */

uint32_t pst_session_graphs(const struct pst_session *session)
{
    static const uint32_t of[] = {[PST_RUN_GRAPHS_AUTO] = PST_GRAPHS_AUTO,
                                  [PST_RUN_GRAPHS_ON] = PST_GRAPHS_ON,
                                  [PST_RUN_GRAPHS_OFF] = PST_GRAPHS_OFF};
    const struct pst_job_run *run = &session->job->run;

    if (run->graphs == PST_RUN_GRAPHS_AUTO && session->device_ops->capture_begin != NULL &&
        pst_module_has("transport", run->transport, PST_MODULE_IN_STREAMS)) {
        pst_log(PST_LOG_INFO, "train",
                "transport %s runs without graphs: making one may wait for its transfers",
                run->transport);
        return PST_GRAPHS_OFF;
    }
    return of[run->graphs];
}

static uint64_t scaled(const struct pst_emulation *emulation, uint64_t ns)
{
    double time = (double)ns * emulation->scale;

    return time < 4e18 ? (uint64_t)llround(time) : (uint64_t)4e18;
}

/* Finds that of the stage which runs the operator on this rank. */
static struct pst_pass_scale find_scale(const struct pst_plan *plan,
                                        const struct pst_cost_model *cost, uint32_t rank,
                                        uint32_t op, uint32_t samples)
{
    for (uint32_t s = 0; s < plan->n_stages; s++) {
        const struct pst_plan_stage *stage = &plan->stages[s];

        if (pst_plan_place(stage, rank) != PST_NONE && pst_plan_node(stage, op) != PST_NONE) {
            return pst_cost_host_scale(cost, stage->nodes, stage->n_nodes, samples);
        }
    }
    return (struct pst_pass_scale){{1, 1, 1}};
}

static uint64_t kernel_ns(void *context, uint32_t rank, uint32_t op, uint32_t pass,
                          uint32_t samples, uint32_t slice)
{
    const struct pst_emulation *emulation = context;
    const struct pst_cost_model of = pst_cost_of_slice(emulation->cost, slice);
    struct pst_cost_at at;
    const struct pst_cost_model *cost = pst_cost_on(&of, &rank, 1, &at);
    const struct pst_pass_scale scale = find_scale(emulation->plan, cost, rank, op, samples);
    struct pst_times times;

    pst_cost_share(cost, &scale, op, samples, &times);
    return scaled(emulation, pass == PST_KERNEL_F   ? times.forward_ns
                             : pass == PST_KERNEL_B ? times.backward_input_ns
                                                    : times.backward_weight_ns);
}

static uint64_t update_ns(void *context, uint32_t rank, uint64_t elems, uint32_t n_slots,
                          bool first)
{
    const struct pst_emulation *emulation = context;
    struct pst_cost_at at;
    const struct pst_cost_model *cost = pst_cost_on(emulation->cost, &rank, 1, &at);
    uint64_t ns = pst_sim_update_ns(cost, elems * sizeof(float), n_slots);
    bool measured = cost->profile != NULL && cost->profile->update_bytes_per_second > 0;
    uint64_t launch =
        measured ? 0 : pst_sat_add(cost->cluster->launch_overhead, cost->cluster->step_overhead);

    /* A stage is updated in one go, so there is one launch. */
    return scaled(emulation, first || ns < launch ? ns : ns - launch);
}

static uint64_t transfer_ns(void *context, uint64_t bytes, uint32_t from, uint32_t to)
{
    const struct pst_emulation *emulation = context;

    return scaled(emulation, pst_cost_transfer_ns(emulation->cost, bytes, from, to));
}

static uint64_t meeting_ns(void *context, struct pst_meet_bytes bytes, const uint32_t *ranks,
                           uint32_t n_ranks)
{
    const struct pst_emulation *emulation = context;
    const struct pst_plan *plan = emulation->plan;
    const uint32_t n_nodes = pst_cost_count_nodes(emulation->cost, ranks, n_ranks);
    struct pst_cost_at at;

    bytes = pst_cost_shared_bytes(bytes, n_nodes,
                                  n_ranks < plan->n_devices ? pst_plan_tensor(plan) : 1);
    return scaled(emulation, pst_cost_ring_ns(pst_cost_on(emulation->cost, ranks, n_ranks, &at),
                                              bytes, n_ranks, n_nodes));
}

static uint64_t host_ns(void *context, uint32_t rank, uint64_t bytes)
{
    const struct pst_emulation *emulation = context;

    struct pst_cost_at at;

    return scaled(emulation, pst_cost_host_ns(pst_cost_on(emulation->cost, &rank, 1, &at), bytes));
}

static uint32_t node(void *context, uint32_t rank)
{
    const struct pst_emulation *emulation = context;

    return pst_cost_node(emulation->cost, rank);
}

static uint64_t post_ns(void *context, uint32_t rank)
{
    const struct pst_emulation *emulation = context;

    return scaled(emulation, pst_cost_post_ns(emulation->cost, rank));
}

/* Meetings inside the passes of a step, of parts and of replicas: they wake threads as instructions
   do. */
static double count_meetings(const struct pst_session *session)
{
    const struct pst_plan *plan = session->planned.plan;
    double n = 0;

    for (uint32_t s = 0; s < plan->n_stages; s++) {
        const struct pst_plan_stage *stage = &plan->stages[s];
        struct pst_pass_gathers gathers[PST_I_BW + 1];

        pst_plan_gathers_of(plan, session->graph, &session->cost, s, gathers);
        n += (double)(gathers[PST_I_F].n + gathers[PST_I_BW].n) * stage->n_microbatches *
             stage->n_ranks;
        for (uint32_t v = 0; v < stage->n_nodes; v++) {
            const struct pst_op *op = &session->graph->ops[stage->nodes[v]];

            uint32_t each = pst_op_meets(op, PST_KERNEL_F) + pst_op_meets(op, PST_KERNEL_B);

            for (uint32_t i = 0; plan->zero >= 2 && i < op->n_param; i++) {
                each += op->param[i] != PST_NONE && pst_plan_scatters(plan, s, op->param[i]);
            }
            n += (double)each * stage->n_microbatches * stage->n_ranks;
        }
    }
    return n;
}

static double floor_scale(const struct pst_session *session)
{
    const struct pst_plan *plan = session->planned.plan;
    double n_instrs = count_meetings(session), needed;

    for (uint32_t d = 0; d < plan->n_devices; d++) {
        n_instrs += plan->devices[d].n_instrs;
    }
    if (session->predicted_ns == 0) {
        return 1;
    }
    needed = n_instrs * INSTR_NS / (double)pst_usable_cores() / (double)session->predicted_ns;
    return needed > 1 ? ceil(needed) : 1;
}

void pst_emulation_init(struct pst_emulation *emulation, const struct pst_session *session,
                        double scale)
{
    if (!pst_session_has_no_data(session)) {
        scale = 1;
    }
    *emulation = (struct pst_emulation){
        .cost = &session->cost,
        .plan = session->planned.plan,
        .scale = scale > 0 ? scale : floor_scale(session),
        .device = {emulation, kernel_ns, update_ns, host_ns},
        .links = {emulation, transfer_ns, meeting_ns, node, post_ns},
    };
}
