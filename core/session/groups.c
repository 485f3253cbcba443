/* SPDX-License-Identifier: Apache-2.0 */
#include "session/groups.h"

#include <string.h>

#include "base/memory.h"
#include "graph/split.h"
#include "host/plugin_host.h"
#include "host/remark.h"

static pst_status place_error(const struct pst_job *job, pst_status status, struct pst_error *err)
{
    return pst_config_place(job->config, "parallel", "tensor", status, err);
}

/* --- the graph ---------------------------------------------------------------------------------*/

static pst_status check_slices(const struct pst_job *job, struct pst_error *err)
{
    uint32_t slices = 1;
    pst_status status = pst_job_read_slices(job, &slices, err);

    return status == PST_OK && slices > 1
               ? pst_fail(err, PST_ERR_CONFIG, "config.value",
                          "parallel.tensor = %lld, but the scheduler orders %u slices of each "
                          "sequence, which have no parts; set scheduler.slices = 1, use another "
                          "scheduler, or set parallel.tensor = 1",
                          (long long)job->parallel.tensor, slices)
               : status;
}

pst_status pst_groups_split(const struct pst_job *job, struct pst_graph **graph,
                            struct pst_error *err)
{
    const struct pst_division how = {.parts = (uint32_t)job->parallel.tensor,
                                     .sequence = job->parallel.sequence};
    struct pst_graph *whole = *graph;
    pst_status status;

    if (job->parallel.tensor == 1) {
        return PST_OK;
    }
    status = check_slices(job, err);
    PST_TRY(status, pst_graph_split(whole, &how, graph, err));
    return place_error(job, status, err);
}

/* --- the cluster -------------------------------------------------------------------------------*/

/* One node, however large, is as good as none. */
static bool has_nodes(const struct pst_cluster *cluster)
{
    return cluster->node_size > 0 && cluster->node_size < cluster->devices;
}

static pst_status check_cluster(const struct pst_cluster *cluster, long long tensor,
                                struct pst_error *err)
{
    if (cluster->devices % tensor != 0) {
        return pst_fail(err, PST_ERR_CONFIG, "config.value",
                        "parallel.tensor = %lld does not divide the %lld devices of [cluster]; set "
                        "cluster.devices to a multiple of it",
                        tensor, (long long)cluster->devices);
    }
    if (has_nodes(cluster) && cluster->node_size % tensor != 0) {
        return pst_fail(err, PST_ERR_CONFIG, "config.value",
                        "parts of a replica are in one node: parallel.tensor = %lld does not "
                        "divide cluster.node_size = %lld",
                        tensor, (long long)cluster->node_size);
    }
    return cluster->n_kinds == 0
               ? PST_OK
               : pst_fail(err, PST_ERR_UNSUPPORTED, "plan.mismatch",
                          "parallel.tensor = %lld takes devices that are all alike, and those of "
                          "[cluster] are not; set parallel.tensor = 1",
                          tensor);
}

pst_status pst_groups_check(const struct pst_session *session, struct pst_error *err)
{
    const struct pst_job *job = session->job;
    const long long tensor = job->parallel.tensor;

    if (tensor == 1) {
        return PST_OK;
    }
    if (pst_module_has("transport", job->run.transport, PST_MODULE_IN_STREAMS)) {
        return pst_config_place(job->config, "run", "transport",
                                pst_fail(err, PST_ERR_CONFIG, "config.value",
                                         "transport %s has no sums inside passes, which "
                                         "parallel.tensor = %lld takes; set run.transport = "
                                         "\"threads\" or \"mpi\"",
                                         job->run.transport, tensor),
                                err);
    }
    return place_error(job, check_cluster(&session->cluster, tensor, err), err);
}

static uint64_t part_of(uint64_t whole, uint64_t parts)
{
    return whole > 0 && whole < parts ? 1 : whole / parts;
}

/* The parts of a replica send and receive at a time, and share the link of their node. So do the
   cores that compute at a time. */
void pst_groups_describe(const struct pst_session *session, uint32_t cores,
                         struct pst_groups *ret_groups)
{
    const uint32_t tensor = session->graph->parts;
    struct pst_cluster *cluster = &ret_groups->cluster;

    *cluster = session->cluster;
    ret_groups->cost = session->cost;
    ret_groups->cost.side_by_side = cores;
    if (tensor == 1) {
        ret_groups->cost.cluster = &session->cluster;
        return;
    }
    cluster->node_size = has_nodes(cluster) ? cluster->node_size / tensor : 0;
    cluster->devices /= tensor;
    cluster->node_link_bandwidth = part_of(cluster->node_link_bandwidth, tensor);
    ret_groups->cost.cluster = cluster;
    ret_groups->cost.side_by_side = (uint32_t)part_of(cores, tensor);
}

/* --- the plan ----------------------------------------------------------------------------------*/

void pst_groups_expand(const struct pst_graph *graph, struct pst_planned *planned)
{
    struct pst_remarks remarks = {.n = planned->n_remarks};
    struct pst_planned ranks = {.search_seconds = planned->search_seconds,
                                .n_remarks = planned->n_remarks};

    for (uint32_t i = 0; i < remarks.n; i++) {
        remarks.items[i] = planned->remarks[i];
    }
    pst_plan_expand(planned->plan, graph->parts, &ranks.plan);
    pst_remarks_copy(&remarks, &ranks.plan->arena, &ranks.remarks);
    pst_planned_finish(planned);
    *planned = ranks;
}

void pst_groups_explain(const struct pst_graph *graph, struct pst_error *err)
{
    if (graph->parts > 1 && err != NULL && strstr(err->message, "device") != NULL) {
        pst_error_prefix(err, "parallel.tensor = %u, a device is a group of %u", graph->parts,
                         graph->parts);
    }
}
