/* SPDX-License-Identifier: Apache-2.0 */
#include "session/groups.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "graph/split.h"
#include "host/plugin_host.h"
#include "host/remark.h"
#include "session/degrees.h"
#include "session/patterns.h"

static pst_status place_error(const struct pst_job *job, pst_status status, struct pst_error *err)
{
    return pst_config_place(job->config, "parallel", "tensor", status, err);
}

/* --- the graph ---------------------------------------------------------------------------------*/

static pst_status check_slices(const struct pst_job *job, uint32_t tensor, struct pst_error *err)
{
    uint32_t slices = 1;
    pst_status status = pst_job_read_slices(job, &slices, err);

    return status == PST_OK && slices > 1
               ? pst_fail(err, PST_ERR_CONFIG, "config.value",
                          "parallel.tensor = %u, but the scheduler orders %u slices of each "
                          "sequence, which have no parts; set scheduler.slices = 1, use another "
                          "scheduler, or set parallel.tensor = 1",
                          tensor, slices)
               : status;
}

/* --- ways of operators by name -----------------------------------------------------------------*/

/* The [[parallel.way]] that counts for the operator; n_ways: none. */
static uint32_t way_for(const struct pst_job *job, const char *name)
{
    uint32_t i = 0;

    while (i < job->n_ways && !pst_list_matches(job->ways[i].match, name)) {
        i++;
    }
    return i;
}

/* *ret_asked: as in struct pst_division; the caller frees it. */
static pst_status read_ways(const struct pst_job *job, const struct pst_graph *whole,
                            uint8_t **ret_asked, struct pst_error *err)
{
    uint8_t *asked = job->n_ways == 0 ? NULL : pst_alloc(whole->n_ops, sizeof *asked);
    pst_status status = PST_OK;

    *ret_asked = asked;
    for (uint32_t i = 0; i < job->n_ways && status == PST_OK; i++) {
        status = pst_config_place_item(
            job->config, "parallel", "way", i,
            pst_patterns_check(job->ways[i].match, whole, true, "[[parallel.way]]", err), err);
    }
    for (uint32_t v = 0; asked != NULL && v < whole->n_ops; v++) {
        const uint32_t i = way_for(job, whole->ops[v].name);

        asked[v] = i < job->n_ways ? (uint8_t)job->ways[i].way : PST_WAY_AUTO;
    }
    return status;
}

/* One device divides nothing. */
static pst_status check_one(const struct pst_job *job, struct pst_error *err)
{
    if (job->n_ways > 0) {
        return pst_config_place(
            job->config, "parallel", "way",
            pst_fail(err, PST_ERR_CONFIG, "config.value",
                     "[[parallel.way]] divides operators over the parts of a replica, and "
                     "parallel.tensor is 1; set it to 2 or more, or remove the table"),
            err);
    }
    if (job->parallel.ways != PST_WAYS_AUTO) {
        return pst_config_place(
            job->config, "parallel", "ways",
            pst_fail(err, PST_ERR_CONFIG, "config.value",
                     "parallel.ways = \"%s\" divides operators over the parts of a replica, and "
                     "parallel.tensor is 1; set it to 2 or more, or ways = \"auto\"",
                     pst_ways_names[job->parallel.ways]),
            err);
    }
    return !job->parallel.sequence
               ? PST_OK
               : pst_config_place(
                     job->config, "parallel", "sequence",
                     pst_fail(err, PST_ERR_CONFIG, "config.value",
                              "parallel.sequence = true divides rows of tokens over the parts "
                              "of a replica, and parallel.tensor is 1; set it to 2 or more"),
                     err);
}

/* A key that the config leaves to its default has no place; `tensor` is there. */
static pst_status split_graph(const struct pst_job *job, struct pst_division *how,
                              struct pst_graph **graph, struct pst_error *err)
{
    const struct pst_graph *whole = *graph;
    struct pst_division_fault fault = {"tensor", PST_NONE};
    pst_status status = pst_config_place(job->config, "parallel", "ways",
                                         pst_graph_check_ways(whole, how, err), err);

    how->ret_fault = &fault;
    PST_TRY(status, check_slices(job, how->parts, err));
    PST_TRY(status, pst_graph_split(*graph, how, graph, err));
    if (fault.op != PST_NONE) {
        status = pst_config_place_item(job->config, "parallel", fault.key,
                                       way_for(job, whole->ops[fault.op].name), status, err);
    }
    status = pst_config_place(job->config, "parallel", fault.key, status, err);
    return place_error(job, status, err);
}

pst_status pst_groups_split(const struct pst_job *job, const uint16_t *degree_of,
                            struct pst_graph **graph, struct pst_error *err)
{
    struct pst_division how = {
        .parts = 1,
        .degree_of = degree_of,
        .sequence = job->parallel.sequence,
        .ways = job->parallel.ways,
    };
    uint8_t *asked;
    pst_status status;

    if (degree_of != NULL) {
        how = pst_division_plain(*graph, &how);
    } else if (!pst_degrees_are_chosen(job)) {
        how.parts = job->parallel.tensors[0];
        if (how.parts == 1) {
            return check_one(job, err);
        }
    }
    status = read_ways(job, *graph, &asked, err);
    how.asked = asked;
    if (status == PST_OK && how.parts > 1) {
        status = split_graph(job, &how, graph, err);
    }
    free(asked);
    return status;
}

/* --- the cluster -------------------------------------------------------------------------------*/

/* A cluster in one node needs no check of nodes. */
static bool has_nodes(const struct pst_cluster *cluster)
{
    return cluster->node_size > 0 && cluster->node_size < cluster->devices;
}

static pst_status check_cluster(const struct pst_cluster *cluster, long long tensor,
                                struct pst_error *err)
{
    if (cluster->devices % tensor != 0) {
        return pst_fail(err, PST_ERR_CONFIG, "config.value",
                        "parallel.tensor = %lld does not divide cluster.devices = %lld; set "
                        "cluster.devices to a multiple of it",
                        tensor, (long long)cluster->devices);
    }
    if (has_nodes(cluster) && cluster->node_size % tensor != 0) {
        return pst_fail(
            err, PST_ERR_CONFIG, "config.value",
            "parallel.tensor = %lld does not divide cluster.node_size = %lld: the parts "
            "of a replica must be in one node; set cluster.node_size to a multiple of it",
            tensor, (long long)cluster->node_size);
    }
    return PST_OK;
}

/* A plan from a file may have fewer ranks than the cluster. */
static uint32_t count_groups(const struct pst_session *session, uint32_t *ret_ranks)
{
    const struct pst_plan *plan = session->planned.plan;
    uint32_t *group_of, n;

    *ret_ranks = (uint32_t)session->cluster.devices;
    if (plan == NULL) {
        return session->chooses ? session->n_groups : *ret_ranks / session->graph->parts;
    }
    *ret_ranks = plan->n_devices;
    group_of = pst_alloc(plan->n_devices, sizeof *group_of);
    n = pst_plan_groups(plan, group_of);
    free(group_of);
    return n;
}

pst_status pst_groups_check_nodes(const struct pst_session *session, struct pst_error *err)
{
    const struct pst_cluster *cluster = &session->cluster;
    const struct pst_graph *graph = session->graph;
    uint32_t n_ranks;
    const uint32_t n = count_groups(session, &n_ranks);

    return !has_nodes(cluster) || (graph->degree_of == NULL && n * graph->parts == n_ranks)
               ? PST_OK
               : pst_fail(err, PST_ERR_UNSUPPORTED, "plan.mismatch",
                          "stages have unlike tensor degrees, or replicas that begin at no "
                          "multiple of theirs, and cluster.node_size = %lld makes several nodes of "
                          "%lld devices; give all stages one degree, or take one node",
                          (long long)cluster->node_size, (long long)cluster->devices);
}

static pst_status check_kinds(const struct pst_cluster *cluster, uint32_t tensor,
                              struct pst_error *err)
{
    return cluster->n_kinds == 0
               ? PST_OK
               : pst_fail(
                     err, PST_ERR_UNSUPPORTED, "plan.mismatch",
                     "parallel.tensor = %u needs equal devices, but [[cluster.device]] describes "
                     "different ones; remove those tables or set parallel.tensor = 1",
                     tensor);
}

/* The parts compute whole operators apart, and their bits must agree: so do the processors, and the
   library that uses them. How many cores there are does not matter. */
pst_status pst_groups_check_processors(const struct pst_session *session, struct pst_error *err)
{
    const struct pst_team *team = &session->team;
    char own[256] = "", *all, *end;
    pst_status status;

    if (team->n < 2 || session->device_ops->describe == NULL) {
        return PST_OK;
    }
    session->device_ops->describe(own, sizeof own);
    end = strrchr(own, ';');
    memset(end != NULL ? end : own, 0, sizeof own - (size_t)((end != NULL ? end : own) - own));
    all = pst_alloc(team->n, sizeof own);
    status = team->ops->exchange(own, all, sizeof own, err);
    for (uint32_t r = 1; r < team->n && status == PST_OK; r++) {
        if (strcmp(all, all + r * sizeof own) != 0) {
            status = pst_fail(err, PST_ERR_UNSUPPORTED, "plan.mismatch",
                              "parallel.tensor needs equal processors, whose bits agree: rank %u "
                              "(host %s) has %s, rank 0 (host %s) %s",
                              r, team->ops->host(r), all + r * sizeof own, team->ops->host(0), all);
        }
    }
    free(all);
    return place_error(session->job, status, err);
}

/* Meetings inside passes: of parts, and of replicas that keep pieces of gradients and
   weights. */
static pst_status check_transport(const struct pst_job *job, uint32_t tensor, struct pst_error *err)
{
    const bool parts = tensor > 1;

    if ((!parts && job->parallel.zero < 2) ||
        !pst_module_has("transport", job->run.transport, PST_MODULE_IN_STREAMS)) {
        return PST_OK;
    }
    return pst_config_place(job->config, "run", "transport",
                            pst_fail(err, PST_ERR_CONFIG, "config.value",
                                     "transport %s does not support parallel.%s = %lld; set "
                                     "run.transport = \"threads\" or \"mpi\"%s",
                                     job->run.transport, parts ? "tensor" : "zero",
                                     parts ? (long long)tensor : (long long)job->parallel.zero,
                                     parts ? "" : ", or parallel.zero = 1"),
                            err);
}

pst_status pst_groups_check(const struct pst_session *session, struct pst_error *err)
{
    const struct pst_job *job = session->job;
    const struct pst_cluster *cluster = &session->cluster;
    const uint32_t tensor = session->graph->parts;
    pst_status status = check_transport(job, tensor, err);

    if (tensor == 1 || status != PST_OK) {
        return status;
    }
    if (session->graph->degree_of != NULL) {
        status = pst_groups_check_nodes(session, err);
    } else if (!session->chooses || has_nodes(cluster)) {
        status = check_cluster(cluster, tensor, err);
    }
    PST_TRY(status, check_kinds(cluster, tensor, err));
    return place_error(job, status, err);
}

static uint64_t part_of(uint64_t whole, uint64_t parts)
{
    return whole > 0 && whole < parts ? 1 : whole / parts;
}

/* The parts of a replica send and receive at a time, and share the link of their node. So do the
   cores that compute at a time: groups of unlike sizes have the mean. */
void pst_groups_describe(const struct pst_session *session, uint32_t cores,
                         struct pst_groups *ret_groups)
{
    const uint32_t tensor = session->graph->parts;
    struct pst_cluster *cluster = &ret_groups->cluster;
    uint32_t n_ranks;
    const uint32_t n = count_groups(session, &n_ranks);

    *cluster = session->cluster;
    ret_groups->cost = session->cost;
    ret_groups->cost.side_by_side = cores;
    if (tensor == 1) {
        ret_groups->cost.cluster = &session->cluster;
        return;
    }
    ret_groups->cost.side_by_side = (uint32_t)part_of((uint64_t)cores * n, n_ranks);
    cluster->node_size = has_nodes(cluster) ? cluster->node_size / tensor : 0;
    cluster->devices = n;
    cluster->node_link_bandwidth = part_of(cluster->node_link_bandwidth, tensor);
    cluster->collective_bandwidth = part_of(cluster->collective_bandwidth, tensor);
    ret_groups->cost.cluster = cluster;
}

/* --- the plan ----------------------------------------------------------------------------------*/

void pst_groups_expand(const struct pst_session *session, struct pst_planned *planned)
{
    struct pst_remarks remarks = {.n = planned->n_remarks};
    struct pst_planned ranks = {.search_seconds = planned->search_seconds,
                                .n_remarks = planned->n_remarks};

    for (uint32_t i = 0; i < remarks.n; i++) {
        remarks.items[i] = planned->remarks[i];
    }
    pst_plan_expand(planned->plan, session->graph, (uint32_t)session->cluster.devices, &ranks.plan);
    pst_remarks_copy(&remarks, &ranks.plan->arena, &ranks.remarks);
    pst_planned_finish(planned);
    *planned = ranks;
}

void pst_groups_explain(const struct pst_graph *graph, struct pst_error *err)
{
    if (graph->parts == 1 || err == NULL || strcmp(err->kind, "config.key") == 0 ||
        strstr(err->message, "device") == NULL) {
        return;
    }
    if (graph->degree_of != NULL) {
        pst_error_prefix(err, "here a device is a group that shares operators, as many as the "
                              "tensor degree of its stage, and bytes are those of each of them");
    } else {
        pst_error_prefix(
            err,
            "parallel.tensor = %u: here a device is a group of %u, and bytes are those "
            "of each of them",
            graph->parts, graph->parts);
    }
}

uint32_t pst_groups_cores(const struct pst_session *session)
{
    return session->profile != NULL ? pst_session_side_by_side(session) : 0;
}

pst_status pst_groups_search(const struct pst_session *session, const struct pst_job *job,
                             bool (*cancelled)(void), struct pst_planned *ret_planned,
                             struct pst_error *err)
{
    pst_job_planner *planner = job->planner == NULL ? pst_planner_run : job->planner;
    struct pst_groups groups;
    pst_status status;

    pst_groups_describe(session, pst_groups_cores(session), &groups);
    status = planner(job, session->graph, groups.cost.cluster, &groups.cost, pst_predict_step,
                     cancelled, ret_planned, err);
    if (status != PST_OK) {
        pst_groups_explain(session->graph, err);
    } else if (session->graph->parts > 1 || session->chooses) {
        pst_groups_expand(session, ret_planned);
    }
    return status;
}
