/* SPDX-License-Identifier: Apache-2.0
 *
 * How long a step takes. [cluster] describes devices that compute side by side; on a machine with
 * fewer cores than they have threads they take turns, and all that they compute takes longer by
 * that ratio. What goes between them does not.
 */
#include "train/session.h"

#include "base/util.h"
#include "sim/sim.h"

pst_status pst_predict_step(const struct pst_plan *plan, const struct pst_graph *graph,
                            const struct pst_cost_model *cost, bool quick, uint64_t *ret_ns,
                            struct pst_error *err)
{
    struct pst_sim_result result;
    pst_status st;

    if (quick) {
        return pst_sim_quick(plan, graph, cost, ret_ns, err);
    }
    st = pst_sim_steps(plan, graph, cost, 1, &result, err);

    if (st == PST_OK) {
        *ret_ns = result.period_ns;
    }
    return st;
}

pst_status pst_session_predict(struct pst_session *session, struct pst_error *err)
{
    struct pst_plan *plan = session->planned.plan;
    struct pst_cluster slower = session->cluster;
    struct pst_cost_model cost = session->cost;
    double ratio;
    pst_status st = pst_predict_step(plan, session->graph, &cost, false, &plan->step_ns, err);

    session->predicted_ns = plan->step_ns;
    session->threads = 0;
    session->cores = 0;
    if (st != PST_OK || !pst_device_is_host(session->device_ops)) {
        return st;
    }
    session->threads = plan->n_devices * session->device_config.threads;
    session->cores = pst_usable_cores();
    if (session->threads <= session->cores) {
        return PST_OK;
    }
    ratio = (double)session->threads / (double)session->cores;
    slower.flops /= ratio;
    slower.bf16_flops /= ratio;
    slower.memory_bandwidth = (uint64_t)((double)slower.memory_bandwidth / ratio);
    slower.launch_overhead = (uint64_t)((double)slower.launch_overhead * ratio);
    cost.cluster = &slower;
    cost.profile_scale = ratio;
    return pst_predict_step(plan, session->graph, &cost, false, &session->predicted_ns, err);
}
