/* SPDX-License-Identifier: Apache-2.0 */
#include "tune/bound.h"

#include "base/saturate.h"
#include "session/session.h"

static uint64_t work_of(const struct pst_session *session, uint32_t samples)
{
    uint64_t ns = 0;

    for (uint32_t op = 0; op < session->graph->n_ops; op++) {
        struct pst_times times;

        pst_cost_op(&session->cost, op, samples, &times);
        ns = pst_sat_add(ns, times.forward_ns + times.backward_input_ns + times.backward_weight_ns);
    }
    return pst_sat_mul(ns, session->graph->parts); /* each of them takes that long */
}

/* A step's, with the best size of micro-batches. Costs are those of the slowest of devices that are
   not alike, which bounds nothing. */
static uint64_t least_work(const struct pst_session *session, uint32_t batch)
{
    uint64_t least = UINT64_MAX;

    if (session->cluster.n_kinds > 0) {
        return 0;
    }
    for (uint32_t size = 1; size <= batch; size++) {
        if (batch % size == 0) {
            const uint64_t ns = pst_sat_mul(work_of(session, size),
                                            pst_graph_samples(session->graph, batch) / size);

            least = ns < least ? ns : least;
        }
    }
    return least;
}

void pst_bound_lower(const struct pst_session *session, struct pst_bound *bound)
{
    const uint64_t work_ns = least_work(session, bound->batch);

    bound->work_ns = work_ns < bound->work_ns ? work_ns : bound->work_ns;
}

void pst_bound_find(const struct pst_session *session, struct pst_bound *ret_bound)
{
    const uint32_t batch = (uint32_t)session->job->train.batch;

    *ret_bound = (struct pst_bound){
        .batch = batch,
        .work_ns = least_work(session, batch),
        .weight_bytes = sizeof(float) * pst_graph_parameters(session->graph),
        .capacity_bytes = pst_cluster_capacity(&session->cluster),
    };
}

bool pst_bound_excludes(const struct pst_bound *bound, const struct pst_goal *goal,
                        const struct pst_score *best, uint32_t n_devices)
{
    const double ns = (double)bound->work_ns / n_devices;
    const double rate = ns > 0 ? 1e9 * bound->batch / ns : 1e300;
    const double bytes = (double)bound->weight_bytes / n_devices;

    if (best->state < PST_SCORE_GOOD) {
        return false; /* what is in the way is still to be said */
    }
    return bytes > (double)bound->capacity_bytes || rate < goal->floor ||
           (goal->objective == PST_THROUGHPUT && rate < best->first) ||
           (goal->objective == PST_LEAST_MEMORY && bytes > -best->first);
}
