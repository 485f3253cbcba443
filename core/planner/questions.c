/* SPDX-License-Identifier: Apache-2.0
 *
 * The host's side of the extensions that plugins ask: what is wrong with a question, and the
 * answer. Of a job the cost model and the cluster answer, of a problem file the costs of its graph.
 * The scheduler and the memory optimizers of either say what stages hold and cost, or for a problem
 * file without them the reference cost model. A partitioner that does not choose replicas takes a
 * logical device for one; it is told what each of its ranks does.
 */
#include "planner/questions.h"

#include <math.h>
#include <string.h>

#include <penstock/ext/profile.h>

#include "base/philox.h"
#include "base/util.h"
#include "host/call.h"
#include "planner/eval_replays.h"
#include "planner/optimizer.h"
#include "planner/state.h"

/* How far questions may go, at the moment. */
struct limits {
    bool open; /* pst.ask/1 is answered: strategies are there */
    uint32_t n_nodes;
    uint32_t batch;       /* samples of a step */
    uint32_t n_places;    /* that a partitioner may fill */
    uint32_t most_stages; /* whose places are known */
    uint32_t share;  /* ranks of every logical device, of which the asking plugin knows nothing */
    bool in_samples; /* of a problem file: places and costs are of some samples, sizes any */
};

struct pst_planner *pst_questions_planner(const struct pst_host *host)
{
    return pst_host_instance(host)->context.impl;
}

/* A question that cannot be answered as it stands: the asking plugin's fault. */
static pst_status wrong(const struct pst_host *host, const char *what)
{
    return (host->fail)(host, PST_ERR_BUG, what);
}

/* --- pst.cost/1 ----------------------------------------------------------------------------*/

/* To the nearest; what passes 63 bits stays there. */
static uint64_t whole(double number)
{
    return number >= 9e18 ? (uint64_t)9e18 : (uint64_t)llround(number);
}

/* Schedulers that fix the number of stages say where each of them is, and of no more. */
static struct limits limits_of(const struct pst_planner *planner)
{
    bool job = planner->problem == NULL;

    return (struct limits){
        .open = !job || planner->asked != NULL,
        .n_nodes = job ? planner->graph->n_ops : planner->view->n_nodes,
        .batch = planner->batch,
        .n_places = planner->places.n,
        .most_stages = job && planner->topology.n_stages != 0 ? planner->places.n : UINT32_MAX,
        .share = job ? planner->degree : 1,
        .in_samples = !job,
    };
}

/* To a partitioner a rank is a place, of which several may be on one device; to a scheduler it is a
   logical device, whose first rank stands for it. */
static uint32_t rank_of(const struct pst_planner *planner, const struct pst_instance *who,
                        uint32_t device)
{
    if (who == planner->partitioner && !planner->chooses && device < planner->places.n) {
        return pst_places_device(&planner->places, device) * planner->width;
    }
    if (who == planner->scheduler && planner->first_rank != NULL && device < planner->n_ranks) {
        return planner->first_rank[device];
    }
    return device;
}

/* The *ret_n ranks of n devices that a plugin names, in the arena. NULL: one does not exist. */
static const uint32_t *ranks_of(struct pst_planner *planner, const struct pst_instance *who,
                                const uint32_t *ranks, uint32_t n, struct pst_arena *arena,
                                uint32_t *ret_n)
{
    bool places = who == planner->partitioner && !planner->chooses;
    uint32_t share = places ? planner->degree : 1;
    uint32_t *all = pst_arena_array(arena, (size_t)n * share, sizeof *all);

    *ret_n = n * share;
    for (uint32_t i = 0; i < n * share; i++) {
        if (ranks[i / share] >= (places ? planner->places.n : planner->n_ranks)) {
            return NULL;
        }
        all[i] = rank_of(planner, who, ranks[i / share]) + i % share;
    }
    return all;
}

static pst_status cost_compute_on(const struct pst_host *host, const uint32_t *nodes,
                                  uint32_t n_nodes, uint32_t samples, const uint32_t *ranks,
                                  uint32_t n_ranks, struct pst_times *ret_times)
{
    struct pst_planner *planner = pst_questions_planner(host);
    const struct pst_instance *who = pst_host_instance(host);
    const struct limits limits = limits_of(planner);
    uint32_t share = who == planner->partitioner ? planner->degree : 1, n = 0;
    double sum[3] = {0, 0, 0};

    if (limits.in_samples && samples == 0) {
        return wrong(host, "cost.compute was asked about 0 samples");
    }
    for (uint32_t i = 0; i < n_nodes; i++) {
        if (nodes[i] >= limits.n_nodes) {
            return wrong(host, "cost.compute was asked about a node that does not exist");
        }
    }
    if (planner->problem == NULL) {
        struct pst_arena arena = {0};
        struct pst_cost_at at;
        const uint32_t *on = ranks_of(planner, who, ranks, n_ranks, &arena, &n);

        if (on != NULL) {
            pst_cost_ops(pst_cost_on(planner->cost, on, n, &at), nodes, n_nodes,
                         (samples + share - 1) / share, ret_times);
        }
        pst_arena_finish(&arena);
        return on != NULL ? PST_OK
                          : wrong(host, "cost.compute_on was asked about a rank that does not "
                                        "exist");
    }
    for (uint32_t i = 0; i < n_nodes; i++) {
        double ns[3];

        pst_costed_node_ns(planner->problem->graph, nodes[i], samples, ns);
        for (uint32_t pass = 0; pass < 3; pass++) {
            sum[pass] += ns[pass];
        }
    }
    *ret_times = (struct pst_times){whole(sum[0]), whole(sum[1]), whole(sum[2])};
    return PST_OK;
}

static pst_status cost_compute(const struct pst_host *host, const uint32_t *nodes, uint32_t n_nodes,
                               uint32_t samples, struct pst_times *ret_times)
{
    return cost_compute_on(host, nodes, n_nodes, samples, NULL, 0, ret_times);
}

static uint64_t cost_transfer(const struct pst_host *host, uint64_t bytes, uint32_t from,
                              uint32_t to)
{
    const struct pst_planner *planner = pst_questions_planner(host);
    const struct pst_instance *who = pst_host_instance(host);

    if (planner->problem != NULL) {
        return from == to ? 0 : whole(pst_rcm_transfer_ns(planner->problem, (double)bytes));
    }
    return pst_cost_transfer_ns(planner->cost, bytes, rank_of(planner, who, from),
                                rank_of(planner, who, to));
}

static uint64_t cost_allreduce(const struct pst_host *host, uint64_t bytes, uint32_t n_ranks)
{
    const struct pst_planner *planner = pst_questions_planner(host);

    if (planner->problem == NULL) {
        return pst_cost_allreduce_ns(planner->cost, bytes, n_ranks);
    }
    return n_ranks < 2 ? 0 : whole(pst_rcm_allreduce_ns(planner->problem, (double)bytes, n_ranks));
}

/* --- pst.ask/1 ---------------------------------------------------------------------------------*/

/* Before that the strategies who answer may not be there. */
#define OUTSIDE "pst.ask/1 was asked outside of partition()"

static pst_status ask_topology(const struct pst_host *host, uint32_t n_devices,
                               struct pst_topology *ret_topology)
{
    struct pst_planner *planner = pst_questions_planner(host);
    const struct limits limits = limits_of(planner);
    struct pst_topology topology = {
        .version_rule = PST_VERSION_SYNC, .min_microbatches = 1, .microbatch_multiple = 1};
    pst_status st = PST_OK;

    if (!PST_HAS(ret_topology, microbatch_multiple)) {
        return wrong(host, "ask.topology: ret_topology->size is not set");
    }
    if (!limits.open) {
        return wrong(host, OUTSIDE);
    }
    if (n_devices == 0 || n_devices > limits.n_places) {
        return wrong(host, "ask.topology: there are not so many devices");
    }
    if (!planner->reference) {
        st = pst_scheduler_topology(planner->scheduler, n_devices, &topology, &planner->pending);
    }
    if (st == PST_OK) {
        topology.size = ret_topology->size;
        *ret_topology = topology;
    }
    return st;
}

static pst_status find_held(struct pst_planner *planner, const struct pst_place *place,
                            struct pst_held *ret_held)
{
    struct pst_place asked = *place;
    struct pst_memo_key key;
    struct pst_memo_entry *entry;

    if (planner->reference) {
        ret_held->microbatches = (uint32_t)(pst_rcm_in_flight(place) / place->microbatch_size);
        ret_held->weight_versions = 1;
        return PST_OK;
    }
    key = pst_memo_key_place(place);
    entry = pst_memo_find(&planner->memo, key);
    if (!entry->used) {
        pst_status st;

        asked.n_devices = pst_planner_logical(planner, place->n_stages);
        st = pst_planner_held(planner, &asked, &entry->answer.held, &planner->pending);
        if (st != PST_OK) {
            return st;
        }
        pst_memo_keep(&planner->memo, entry, key);
    }
    ret_held->microbatches = entry->answer.held.microbatches;
    ret_held->weight_versions = entry->answer.held.weight_versions;
    return PST_OK;
}

static pst_status ask_in_flight(const struct pst_host *host, const struct pst_place *place,
                                struct pst_held *ret_held)
{
    struct pst_planner *planner = pst_questions_planner(host);
    const struct limits limits = limits_of(planner);
    struct pst_place asked;

    if (!PST_HAS(place, successors) || !PST_HAS(ret_held, weight_versions)) {
        return wrong(host, "ask.in_flight: place->size or ret_held->size is not set");
    }
    if (!limits.open) {
        return wrong(host, OUTSIDE);
    }
    if (place->n_stages == 0 || place->stage >= place->n_stages || place->n_microbatches == 0 ||
        place->n_microbatches > limits.batch ||
        (limits.in_samples && (place->microbatch_size == 0 || place->k == 0))) {
        return wrong(host, limits.in_samples
                               ? "ask.in_flight: no such stage, no such number of micro-batches, "
                                 "or k = 0"
                               : "ask.in_flight: no such stage, or no such number of "
                                 "micro-batches");
    }
    if (place->n_stages > limits.n_nodes && place->n_stages > limits.n_places) {
        return wrong(host, "ask.in_flight: neither nodes nor devices suffice for so many stages");
    }
    if (place->n_stages > limits.most_stages) {
        return wrong(host, "ask.in_flight: the scheduler has not so many stages");
    }
    asked = *place;
    asked.size = sizeof asked;
    return find_held(planner, &asked, ret_held);
}

/* Returns what is wrong with a question about a stage, or NULL. */
static const char *question_fault(const struct limits *limits, const struct pst_stage_question *q)
{
    if (!limits->open) {
        return OUTSIDE;
    }
    if (!PST_HAS(q, capacity_bytes)) {
        return "question->size is not set";
    }
    if (q->n_stages == 0 || q->stage >= q->n_stages) {
        return "there is no such stage";
    }
    if (q->n_stages > limits->most_stages) {
        return "the scheduler has not so many stages";
    }
    if (q->in_flight == 0 || q->weight_versions == 0 || q->n_ranks == 0 ||
        q->microbatch_size == 0 || (!limits->in_samples && q->microbatch_size > limits->batch) ||
        q->microbatch_size % ((uint64_t)q->n_ranks * limits->share) != 0) {
        return limits->in_samples
                   ? "counts must be positive, and replicas divide the micro-batch"
                   : "counts must be positive, replicas divide the micro-batch, and that be no "
                     "larger than the batch";
    }
    if (q->n_nodes == 0 || q->nodes == NULL) {
        return "a stage has at least one node";
    }
    for (uint32_t i = 0; i < q->n_nodes; i++) {
        if (q->nodes[i] >= limits->n_nodes || (i > 0 && q->nodes[i] <= q->nodes[i - 1])) {
            return "nodes must exist and ascend";
        }
    }
    return NULL;
}

/* `asked` in *ret_whole, with the replicas of a logical device, of which the plugin knows nothing;
   NULL, or what is wrong with it. Ranks are in the arena. */
static const char *check_question(struct pst_planner *planner,
                                  const struct pst_stage_question *asked, struct pst_arena *arena,
                                  struct pst_stage_question *ret_whole)
{
    const struct limits limits = limits_of(planner);
    const char *fault = question_fault(&limits, asked);

    if (fault != NULL) {
        return fault;
    }
    *ret_whole = (struct pst_stage_question){.size = sizeof *ret_whole};
    memcpy(ret_whole, asked, asked->size < sizeof *asked ? asked->size : sizeof *asked);
    ret_whole->n_ranks *= limits.share;
    if (ret_whole->ranks != NULL && planner->problem == NULL && planner->cluster->n_kinds > 0) {
        ret_whole->ranks = ranks_of(planner, planner->partitioner, asked->ranks, asked->n_ranks,
                                    arena, &ret_whole->n_ranks);
        return ret_whole->ranks == NULL ? "ranks must exist" : NULL;
    }
    ret_whole->ranks = NULL;
    return NULL;
}

static double reference_ns(struct pst_planner *planner, const struct pst_stage_question *q,
                           struct pst_rcm_cost *ret_cost)
{
    const struct pst_rcm_stage stage = {.nodes = q->nodes,
                                        .n_nodes = q->n_nodes,
                                        .n_ranks = q->n_ranks,
                                        .microbatch_size = q->microbatch_size};

    pst_rcm_cost(&planner->rcm, &stage, ret_cost);
    return ret_cost->pass_ns[0] + ret_cost->pass_ns[1] + ret_cost->pass_ns[2];
}

static void reference_price(struct pst_planner *planner, const struct pst_stage_question *q,
                            struct pst_stage_price *ret_price)
{
    double capacity, bytes;
    struct pst_rcm_cost cost;

    ret_price->period_ns = whole(reference_ns(planner, q, &cost));
    bytes = pst_rcm_memory(planner->problem, &cost, q->n_ranks,
                           (uint64_t)q->in_flight * q->microbatch_size, q->weight_versions);
    capacity = q->capacity_bytes == UINT64_MAX ? (double)INFINITY : (double)q->capacity_bytes;
    ret_price->fits = pst_rcm_fits(capacity, bytes);
    ret_price->peak_bytes =
        ret_price->fits && bytes > capacity ? q->capacity_bytes : whole(ceil(bytes));
}

static pst_status find_price(struct pst_planner *planner, const struct pst_stage_question *question,
                             struct pst_stage_price *ret_price)
{
    struct pst_memo_key key;
    struct pst_memo_entry *entry;

    if (planner->reference) {
        reference_price(planner, question, ret_price);
        return PST_OK;
    }
    key = pst_memo_key_question(question);
    entry = pst_memo_find(&planner->memo, key);
    if (!entry->used) {
        pst_status st =
            pst_planner_price(planner, question, &entry->answer.price, &planner->pending);

        if (st != PST_OK) {
            return st;
        }
        pst_memo_keep(&planner->memo, entry, key);
    }
    ret_price->fits = entry->answer.price.fits;
    ret_price->period_ns = entry->answer.price.period_ns;
    ret_price->peak_bytes = entry->answer.price.peak_bytes;
    return PST_OK;
}

static pst_status ask_price(const struct pst_host *host, const struct pst_stage_question *asked,
                            struct pst_stage_price *ret_price)
{
    struct pst_planner *planner = pst_questions_planner(host);
    struct pst_stage_question question;
    struct pst_arena arena = {0};
    const char *fault = check_question(planner, asked, &arena, &question);
    pst_status st;

    if (fault != NULL || !PST_HAS(ret_price, peak_bytes)) {
        st = wrong(host, fault != NULL ? fault : "ask.price: ret_price->size is not set");
    } else {
        st = find_price(planner, &question, ret_price);
    }
    pst_arena_finish(&arena);
    return st;
}

/* With one optimizer its own bound; decisions of several depend on each other, so the sum of times,
   which no plan goes below. */
static pst_status ask_bound(const struct pst_host *host, const struct pst_stage_question *asked,
                            uint64_t *ret_period_ns)
{
    struct pst_planner *planner = pst_questions_planner(host);
    const struct pst_optimizer optimizer = {.instance =
                                                planner->n_memopt == 1 ? planner->memopt[0] : NULL,
                                            .evaluator = &planner->evaluator};
    struct pst_stage_question question;
    struct pst_stage_node *nodes;
    struct pst_stage_view view;
    struct pst_rcm_cost cost;
    struct pst_arena arena = {0};
    const char *fault = check_question(planner, asked, &arena, &question);
    pst_status st;

    if (fault != NULL) {
        st = wrong(host, fault);
    } else if (planner->reference) {
        *ret_period_ns = whole(reference_ns(planner, &question, &cost));
        st = PST_OK;
    } else {
        st = pst_view_charge(planner, &question, &nodes, &view, &planner->pending);
        st = st == PST_OK ? pst_optimizer_bound(&optimizer, &view, ret_period_ns, &planner->pending)
                          : st;
    }
    pst_arena_finish(&arena);
    return st;
}

/* --- pst.profile/1 -----------------------------------------------------------------------------*/

/* All ranks may take part in a reduction, so the links of nodes count where there are several. */
static void job_figures(struct pst_planner *planner)
{
    const struct pst_cluster *cluster = planner->cluster;
    const struct pst_graph_view *view = planner->view;
    double *saved = pst_arena_array(&planner->arena, view->n_nodes, sizeof *saved);
    double *edges = pst_arena_array(&planner->arena, view->n_edges, sizeof *edges);
    struct pst_figures figures;

    for (uint32_t i = 0; i < view->n_nodes; i++) {
        saved[i] = (double)pst_graph_node(view, i)->saved_bytes / planner->degree;
    }
    for (uint32_t i = 0; i < view->n_edges; i++) {
        edges[i] = (double)pst_graph_edge(view, i)->bytes / planner->degree;
    }
    figures = (struct pst_figures){
        .size = sizeof figures,
        .comm_model = PST_COMM_MAX,
        .node_size = (uint32_t)cluster->node_size,
        .weight_multiplier = 2.0 + planner->optimizer_slots,
        .p2p_bytes_per_s = (double)cluster->link_bandwidth,
        .allreduce_bytes_per_s = (double)(cluster->node_size > 0 ? cluster->node_link_bandwidth
                                                                 : cluster->link_bandwidth),
        .saved_bytes = saved,
        .edge_bytes = edges,
    };
    pst_lend_figures(&figures, view->n_nodes, view->n_edges, &planner->figures);
}

static void problem_figures(struct pst_planner *planner)
{
    const struct pst_problem *problem = planner->problem;
    const struct pst_costed *graph = problem->graph;
    const struct pst_figures figures = {.size = sizeof figures,
                                        .comm_model = problem->comm_model,
                                        .reference = problem->planned ? 0 : 1,
                                        .node_size = problem->node_size,
                                        .weight_multiplier = problem->weight_multiplier,
                                        .p2p_bytes_per_s = problem->p2p_bandwidth,
                                        .allreduce_bytes_per_s = problem->allreduce_bandwidth,
                                        .saved_bytes = graph->saved_bytes,
                                        .edge_bytes = graph->edge_bytes,
                                        .problem = 1};

    pst_lend_figures(&figures, graph->n_nodes, graph->n_edges, &planner->figures);
}

void pst_planner_figures(struct pst_planner *planner)
{
    if (planner->problem != NULL) {
        problem_figures(planner);
    } else {
        job_figures(planner);
    }
}

static pst_status node_ns(const struct pst_host *host, uint32_t node, uint32_t samples,
                          double ret_ns[3])
{
    const struct pst_planner *planner = pst_questions_planner(host);
    uint32_t share = planner->degree;
    struct pst_times times;

    if (node >= limits_of(planner).n_nodes || samples == 0) {
        return wrong(host, "profile.node_ns: no such node, or 0 samples");
    }
    if (planner->problem != NULL) {
        pst_costed_node_ns(planner->problem->graph, node, samples, ret_ns);
        return PST_OK;
    }
    pst_cost_op(planner->cost, node, (samples + share - 1) / share, &times);
    ret_ns[0] = (double)times.forward_ns;
    ret_ns[1] = (double)times.backward_input_ns;
    ret_ns[2] = (double)times.backward_weight_ns;
    return PST_OK;
}

static const struct pst_figures *get_figures(const struct pst_host *host)
{
    return (const void *)pst_questions_planner(host)->figures.bytes;
}

/* NULL: nodes run in one way each. */
static const struct pst_costed *costed_of(const struct pst_host *host)
{
    const struct pst_problem *problem = pst_questions_planner(host)->problem;

    return problem == NULL ? NULL : problem->graph;
}

static uint32_t n_configs(const struct pst_host *host, uint32_t node)
{
    const struct pst_costed *costed = costed_of(host);

    return costed != NULL && node < costed->n_nodes ? costed->nodes[node].n_configs : 0;
}

static pst_status get_config(const struct pst_host *host, uint32_t node, uint32_t index,
                             struct pst_node_config *ret_config)
{
    const struct pst_costed *costed = costed_of(host);
    const struct pst_costed_config *config;

    if (index >= n_configs(host, node) || !PST_HAS(ret_config, fixed_bytes)) {
        return wrong(host, "profile.config: there is no such one, or ret_config->size is not set");
    }
    config = &costed->nodes[node].configs[index];
    ret_config->tensor_degree = config->tensor_degree;
    ret_config->name = config->name;
    ret_config->ns_per_sample = config->ns / costed->batch;
    ret_config->param_bytes = config->param_bytes;
    ret_config->in_flight_bytes = config->in_flight_bytes / costed->batch;
    ret_config->fixed_bytes = config->fixed_bytes;
    return PST_OK;
}

/* --- pst.eval/1, pst.rng/1 ---------------------------------------------------------------------*/

static pst_status evaluate(const struct pst_host *host, const struct pst_stage_view *view,
                           const uint8_t *actions, struct pst_stage_value *ret_value)
{
    struct pst_planner *planner = pst_questions_planner(host);

    if (!PST_HAS(ret_value, extra_ns)) {
        return wrong(host, "eval.evaluate: ret_value->size is not set");
    }
    pst_evaluate(&planner->evaluator, view, actions, ret_value);
    return PST_OK;
}

static pst_status evaluate_replays(const struct pst_host *host, const struct pst_stage_view *view,
                                   const struct pst_replay *replays, uint32_t n_replays,
                                   struct pst_stage_value *ret_value)
{
    if (!PST_HAS(ret_value, extra_ns)) {
        return wrong(host, "eval.evaluate_replays: ret_value->size is not set");
    }
    pst_evaluate_replays(view, replays, n_replays, ret_value, NULL);
    return PST_OK;
}

static uint64_t random_bits(const struct pst_host *host, uint64_t stream, uint64_t counter)
{
    const struct pst_job *job = pst_questions_planner(host)->job; /* a problem file has no seed */
    uint64_t seed = job == NULL ? 0 : (uint64_t)job->train.seed;
    struct pst_philox words = pst_philox(seed, stream, counter);

    return (uint64_t)words.v[1] << 32 | words.v[0];
}

static bool is_cancelled(void *impl)
{
    const struct pst_planner *planner = impl;

    return (planner->cancelled != NULL && planner->cancelled()) ||
           pst_search_is_late(planner->deadline_ns);
}

void pst_questions_context(struct pst_planner *planner, struct pst_host_context *ret_context)
{
    static const struct pst_cost cost = {sizeof cost, cost_compute, cost_transfer, cost_allreduce,
                                         cost_compute_on};
    static const struct pst_ask ask = {sizeof ask, ask_topology, ask_in_flight, ask_bound,
                                       ask_price};
    static const struct pst_profile profile = {sizeof profile, node_ns, get_figures, n_configs,
                                               get_config};
    static const struct pst_eval eval = {sizeof eval, evaluate, evaluate_replays};
    static const struct pst_rng rng = {sizeof rng, random_bits};

    *ret_context = (struct pst_host_context){
        .cost = &cost,
        .ask = &ask,
        .eval = &eval,
        .profile = &profile,
        .figures = &planner->figures,
        .rng = &rng,
        .trial = planner->clock == NULL ? NULL : &pst_planner_trial,
        .impl = planner,
        .cancelled = is_cancelled,
    };
}
