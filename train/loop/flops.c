/* SPDX-License-Identifier: Apache-2.0 */
#include "loop/flops.h"

#include "config/job.h"

double pst_session_step_flops(const struct pst_session *session)
{
    const struct pst_graph *graph = pst_graph_model(session->graph);
    double sum = 0;

    for (uint32_t op = 0; op < graph->n_ops; op++) {
        for (uint32_t pass = 0; pass < 3; pass++) {
            double flops, bytes;

            pst_op_work(graph, op, pass, session->planned.plan->batch, &flops, &bytes);
            sum += flops;
        }
    }
    return sum;
}

double pst_session_peak_flops(const struct pst_session *session)
{
    const bool bf16 = session->job->run.dtype == PST_RUN_BF16;
    struct pst_config_node *cluster = session->job->cluster;
    const bool told = cluster != NULL && (session->cluster.n_kinds > 0 ||
                                          pst_config_get(cluster, bf16 ? "bf16_flops" : "flops"));
    const uint32_t n = session->planned.plan->n_devices;
    struct pst_cluster device = session->cluster;
    double sum = 0;

    if (!told && session->device_ops->figures == NULL) {
        return 0;
    }
    if (!told) { /* calibrated figures are what operators reached */
        session->device_ops->figures(session->device, &device);
    }
    if (device.n_kinds == 0) {
        return (bf16 ? device.bf16_flops : device.flops) * n;
    }
    for (uint32_t r = 0; r < n; r++) {
        struct pst_cluster room;
        const struct pst_cluster *on = pst_cluster_on(&device, &r, 1, &room);

        sum += bf16 ? on->bf16_flops : on->flops;
    }
    return sum;
}
