/* SPDX-License-Identifier: Apache-2.0
 *
 * What plugins may ask about a costed graph: pst.cost/1, pst.ask/1, pst.profile/1, pst.eval/1,
 * pst.rng/1. The reference cost model answers, or the strategies of the problem.
 */
#include <math.h>

#include "base/philox.h"
#include "base/util.h"
#include "planner/eval_replays.h"
#include "host/host_log.h"
#include "host/lend.h"
#include "planner/solo_partition_state.h"
#include "planner/topology.h"

static struct pst_partition_host *host_of(const struct pst_host *host)
{
    return pst_host_instance(host)->context.impl;
}

static const struct pst_costed *graph_of(const struct pst_host *host)
{
    return host_of(host)->problem->graph;
}

/* A question that cannot be answered as it stands: the asking plugin's fault. */
static pst_status wrong(const struct pst_host *host, const char *what)
{
    return (host->fail)(host, PST_ERR_BUG, what);
}

/* To the nearest; what passes 63 bits stays there. */
static uint64_t whole(double number)
{
    return number >= 9e18 ? (uint64_t)9e18 : (uint64_t)llround(number);
}

/* --- pst.cost/1 --------------------------------------------------------------------------------*/

static pst_status cost_compute(const struct pst_host *host, const uint32_t *nodes, uint32_t n_nodes,
                               uint32_t samples, struct pst_times *ret_times)
{
    const struct pst_costed *graph = graph_of(host);
    double sum[3] = {0, 0, 0};

    if (samples == 0) {
        return wrong(host, "cost.compute was asked about 0 samples");
    }
    for (uint32_t i = 0; i < n_nodes; i++) {
        double ns[3];

        if (nodes[i] >= graph->n_nodes) {
            return wrong(host, "cost.compute was asked about a node that does not exist");
        }
        pst_costed_node_ns(graph, nodes[i], samples, ns);
        for (uint32_t pass = 0; pass < 3; pass++) {
            sum[pass] += ns[pass];
        }
    }
    *ret_times = (struct pst_times){whole(sum[0]), whole(sum[1]), whole(sum[2])};
    return PST_OK;
}

static uint64_t cost_transfer(const struct pst_host *host, uint64_t bytes, uint32_t from,
                              uint32_t to)
{
    return from == to ? 0 : whole(pst_rcm_transfer_ns(host_of(host)->problem, (double)bytes));
}

static uint64_t cost_allreduce(const struct pst_host *host, uint64_t bytes, uint32_t n_ranks)
{
    return n_ranks < 2
               ? 0
               : whole(pst_rcm_allreduce_ns(host_of(host)->problem, (double)bytes, n_ranks));
}

/* --- pst.ask/1 ---------------------------------------------------------------------------------*/

static pst_status ask_topology(const struct pst_host *host, uint32_t n_devices,
                               struct pst_topology *ret_topology)
{
    struct pst_partition_host *h = host_of(host);
    struct pst_topology topology = {
        .version_rule = PST_VERSION_SYNC, .min_microbatches = 1, .microbatch_multiple = 1};
    pst_status st = PST_OK;

    if (!PST_HAS(ret_topology, microbatch_multiple)) {
        return wrong(host, "ask.topology: ret_topology->size is not set");
    }
    if (n_devices == 0 ||
        n_devices > (h->planned != NULL ? h->planned->places.n_places : h->problem->n_devices)) {
        return wrong(host, "ask.topology: there are not so many devices");
    }
    if (h->planned != NULL) {
        st = pst_scheduler_topology(h->planned->scheduler, n_devices, &topology, &h->pending);
    }
    if (st == PST_OK) {
        topology.size = ret_topology->size;
        *ret_topology = topology;
    }
    return st;
}

static pst_status ask_in_flight(const struct pst_host *host, const struct pst_place *place,
                                struct pst_held *ret_held)
{
    const struct pst_problem *problem = host_of(host)->problem;

    if (!PST_HAS(place, successors) || !PST_HAS(ret_held, weight_versions)) {
        return wrong(host, "ask.in_flight: place->size or ret_held->size is not set");
    }
    if (place->n_stages == 0 || place->stage >= place->n_stages || place->n_microbatches == 0 ||
        place->n_microbatches > problem->mini_batch || place->microbatch_size == 0 ||
        place->k == 0) {
        return wrong(host, "ask.in_flight: no such stage, no such number of micro-batches, or "
                           "k = 0");
    }
    if (place->n_stages > problem->graph->n_nodes && place->n_stages > problem->n_devices) {
        return wrong(host, "ask.in_flight: neither nodes nor devices suffice for so many stages");
    }
    if (host_of(host)->planned != NULL) {
        return pst_partition_planned_held(host_of(host)->planned, place, ret_held,
                                          &host_of(host)->pending);
    }
    ret_held->microbatches = (uint32_t)(pst_rcm_in_flight(place) / place->microbatch_size);
    ret_held->weight_versions = 1;
    return PST_OK;
}

/* What is wrong with a question about a stage, or NULL. */
static const char *question_fault(const struct pst_costed *graph,
                                  const struct pst_stage_question *q)
{
    if (!PST_HAS(q, capacity_bytes)) {
        return "question->size is not set";
    }
    if (q->n_stages == 0 || q->stage >= q->n_stages) {
        return "there is no such stage";
    }
    if (q->in_flight == 0 || q->weight_versions == 0 || q->n_ranks == 0 ||
        q->microbatch_size == 0 || q->microbatch_size % q->n_ranks != 0) {
        return "counts must be positive, and replicas divide the micro-batch";
    }
    if (q->n_nodes == 0 || q->nodes == NULL) {
        return "a stage has at least one node";
    }
    for (uint32_t i = 0; i < q->n_nodes; i++) {
        if (q->nodes[i] >= graph->n_nodes || (i > 0 && q->nodes[i] <= q->nodes[i - 1])) {
            return "nodes must exist and ascend";
        }
    }
    return NULL;
}

static void cost_of(const struct pst_host *host, const struct pst_stage_question *q,
                    struct pst_rcm_cost *ret_cost)
{
    const struct pst_rcm_stage stage = {.nodes = q->nodes,
                                        .n_nodes = q->n_nodes,
                                        .n_ranks = q->n_ranks,
                                        .microbatch_size = q->microbatch_size};

    pst_rcm_cost(&host_of(host)->rcm, &stage, ret_cost);
}

static pst_status ask_price(const struct pst_host *host, const struct pst_stage_question *q,
                            struct pst_stage_price *ret_price)
{
    const char *fault = question_fault(graph_of(host), q);
    double capacity, bytes;
    struct pst_rcm_cost cost;

    if (fault != NULL || !PST_HAS(ret_price, peak_bytes)) {
        return wrong(host, fault != NULL ? fault : "ask.price: ret_price->size is not set");
    }
    if (host_of(host)->planned != NULL) {
        return pst_partition_planned_price(host_of(host)->planned, q, ret_price,
                                           &host_of(host)->pending);
    }
    cost_of(host, q, &cost);
    bytes = pst_rcm_memory(host_of(host)->problem, &cost, q->n_ranks,
                           (uint64_t)q->in_flight * q->microbatch_size, q->weight_versions);
    capacity = q->capacity_bytes == UINT64_MAX ? (double)INFINITY : (double)q->capacity_bytes;
    ret_price->fits = pst_rcm_fits(capacity, bytes);
    ret_price->period_ns = whole(cost.pass_ns[0] + cost.pass_ns[1] + cost.pass_ns[2]);
    ret_price->peak_bytes =
        ret_price->fits && bytes > capacity ? q->capacity_bytes : whole(ceil(bytes));
    return PST_OK;
}

static pst_status ask_bound(const struct pst_host *host, const struct pst_stage_question *q,
                            uint64_t *ret_period_ns)
{
    const char *fault = question_fault(graph_of(host), q);
    struct pst_rcm_cost cost;

    if (fault != NULL) {
        return wrong(host, fault);
    }
    if (host_of(host)->planned != NULL) {
        return pst_partition_planned_bound(host_of(host)->planned, q, ret_period_ns,
                                           &host_of(host)->pending);
    }
    cost_of(host, q, &cost);
    *ret_period_ns = whole(cost.pass_ns[0] + cost.pass_ns[1] + cost.pass_ns[2]);
    return PST_OK;
}

/* --- pst.profile/1 -----------------------------------------------------------------------------*/

static pst_status node_ns(const struct pst_host *host, uint32_t node, uint32_t samples,
                          double ret_ns[3])
{
    const struct pst_costed *graph = graph_of(host);

    if (node >= graph->n_nodes || samples == 0) {
        return wrong(host, "profile.node_ns: no such node, or 0 samples");
    }
    pst_costed_node_ns(graph, node, samples, ret_ns);
    return PST_OK;
}

static const struct pst_figures *figures(const struct pst_host *host)
{
    return (const void *)host_of(host)->figures.bytes;
}

static uint32_t n_configs(const struct pst_host *host, uint32_t node)
{
    const struct pst_costed *graph = graph_of(host);

    return node < graph->n_nodes ? graph->nodes[node].n_configs : 0;
}

static pst_status get_config(const struct pst_host *host, uint32_t node, uint32_t index,
                             struct pst_node_config *ret_config)
{
    const struct pst_costed *graph = graph_of(host);
    const struct pst_costed_config *config;

    if (index >= n_configs(host, node) || !PST_HAS(ret_config, fixed_bytes)) {
        return wrong(host, "profile.config: there is no such one, or ret_config->size is not set");
    }
    config = &graph->nodes[node].configs[index];
    ret_config->tensor_degree = config->tensor_degree;
    ret_config->name = config->name;
    ret_config->ns_per_sample = config->ns / graph->batch;
    ret_config->param_bytes = config->param_bytes;
    ret_config->in_flight_bytes = config->in_flight_bytes / graph->batch;
    ret_config->fixed_bytes = config->fixed_bytes;
    return PST_OK;
}

/* --- pst.eval/1 --------------------------------------------------------------------------------*/

static pst_status evaluate(const struct pst_host *host, const struct pst_stage_view *view,
                           const uint8_t *actions, struct pst_stage_value *ret_value)
{
    struct pst_partition_host *h = host_of(host);

    if (!PST_HAS(ret_value, extra_ns)) {
        return wrong(host, "eval.evaluate: ret_value->size is not set");
    }
    return pst_evaluate(&h->evaluator, view, actions, ret_value) ? PST_OK
                                                                 : pst_fail_nomem(&h->pending);
}

static pst_status evaluate_replays(const struct pst_host *host, const struct pst_stage_view *view,
                                   const struct pst_replay *replays, uint32_t n_replays,
                                   struct pst_stage_value *ret_value)
{
    if (!PST_HAS(ret_value, extra_ns)) {
        return wrong(host, "eval.evaluate_replays: ret_value->size is not set");
    }
    return pst_evaluate_replays(view, replays, n_replays, ret_value, NULL)
               ? PST_OK
               : pst_fail_nomem(&host_of(host)->pending);
}

/* --- all of them -------------------------------------------------------------------------------*/

/* A problem file states no seed. */
static uint64_t random_bits(const struct pst_host *host, uint64_t stream, uint64_t counter)
{
    struct pst_philox words = pst_philox(0, stream, counter);

    (void)host;
    return (uint64_t)words.v[1] << 32 | words.v[0];
}

static bool is_cancelled(void *impl)
{
    const struct pst_partition_host *host = impl;

    return (host->cancelled != NULL && host->cancelled()) ||
           (host->deadline_ns != 0 && pst_now_ns() >= host->deadline_ns);
}

static bool lend_figures(struct pst_partition_host *host)
{
    const struct pst_problem *problem = host->problem;
    const struct pst_costed *graph = problem->graph;
    const struct pst_figures figures = {.size = sizeof figures,
                                        .comm_model = problem->comm_model,
                                        .reference = problem->planned ? 0 : 1,
                                        .node_size = problem->node_size,
                                        .weight_multiplier = problem->weight_multiplier,
                                        .p2p_bytes_per_s = problem->p2p_bandwidth,
                                        .allreduce_bytes_per_s = problem->allreduce_bandwidth,
                                        .saved_bytes = graph->saved_bytes,
                                        .edge_bytes = graph->edge_bytes};

    return pst_lend_figures(&figures, graph->n_nodes, graph->n_edges, &host->figures);
}

pst_status pst_partition_host_init(struct pst_partition_host *host,
                                   const struct pst_problem *problem, bool (*cancelled)(void),
                                   struct pst_host_context *ret_context, struct pst_error *err)
{
    static const struct pst_cost cost = {sizeof cost, cost_compute, cost_transfer, cost_allreduce};
    static const struct pst_ask ask = {sizeof ask, ask_topology, ask_in_flight, ask_bound,
                                       ask_price};
    static const struct pst_profile profile = {sizeof profile, node_ns, figures, n_configs,
                                               get_config};
    static const struct pst_eval eval = {sizeof eval, evaluate, evaluate_replays};
    static const struct pst_rng rng = {sizeof rng, random_bits};

    *host = (struct pst_partition_host){
        .problem = problem,
        .cancelled = cancelled,
    };
    *ret_context = (struct pst_host_context){
        .cost = &cost,
        .ask = &ask,
        .eval = &eval,
        .profile = &profile,
        .figures = &host->figures,
        .rng = &rng,
        .impl = host,
        .cancelled = is_cancelled,
    };
    pst_host_log_begin();
    return lend_figures(host) ? pst_rcm_init(&host->rcm, problem, err) : pst_fail_nomem(err);
}

void pst_partition_host_finish(struct pst_partition_host *host)
{
    pst_host_log_end();
    pst_evaluator_finish(&host->evaluator);
    pst_rcm_finish(&host->rcm);
    pst_region_finish(&host->figures);
}
