/* SPDX-License-Identifier: Apache-2.0 */
#include "train/flops.h"

#include "config/job.h"

double pst_session_step_flops(const struct pst_session *session)
{
    double sum = 0;

    for (uint32_t op = 0; op < session->graph->n_ops; op++) {
        for (uint32_t pass = 0; pass < 3; pass++) {
            double flops, bytes;

            pst_op_work(session->graph, op, pass, session->planned.plan->batch, &flops, &bytes);
            sum += flops;
        }
    }
    return sum;
}

double pst_session_peak_flops(const struct pst_session *session)
{
    const bool bf16 = session->job->run.dtype == PST_RUN_BF16;
    const double peak = bf16 ? session->cluster.bf16_flops : session->cluster.flops;
    struct pst_config_node *cluster = session->job->cluster;
    const bool told = cluster != NULL && pst_config_get(cluster, bf16 ? "bf16_flops" : "flops");

    if (!told && session->device_ops->figures == NULL) {
        return 0;
    }
    return peak * (double)session->planned.plan->n_devices;
}
