/* SPDX-License-Identifier: Apache-2.0
 *
 * What a problem file answers to plugins' questions (questions.h): the costs of its graph; the
 * reference cost model for the rest, or the strategies of the problem.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/util.h"
#include "host/call.h"
#include "planner/problem_state.h"
#include "host/caps.h"
#include "planner/eval_replays.h"
#include "planner/held.h"
#include "planner/optimizer.h"
#include "planner/topology.h"

/* To the nearest; what passes 63 bits stays there. */
static uint64_t whole(double number)
{
    return number >= 9e18 ? (uint64_t)9e18 : (uint64_t)llround(number);
}

/* --- of the graph ------------------------------------------------------------------------------*/

static struct pst_question_limits limits(const void *self)
{
    const struct pst_problem_host *host = self;
    const struct pst_problem *problem = host->problem;

    return (struct pst_question_limits){
        .open = true,
        .n_nodes = problem->graph->n_nodes,
        .batch = problem->mini_batch,
        .n_places = host->places.n_places,
        .most_stages = UINT32_MAX,
        .share = 1,
        .in_samples = true,
    };
}

static void node_ns(const void *self, uint32_t node, uint32_t samples, double ret_ns[3])
{
    pst_costed_node_ns(((const struct pst_problem_host *)self)->problem->graph, node, samples,
                       ret_ns);
}

static void compute(const void *self, const struct pst_instance *who, const uint32_t *nodes,
                    uint32_t n_nodes, uint32_t samples, struct pst_times *ret_times)
{
    double sum[3] = {0, 0, 0};

    (void)who;
    for (uint32_t i = 0; i < n_nodes; i++) {
        double ns[3];

        node_ns(self, nodes[i], samples, ns);
        for (uint32_t pass = 0; pass < 3; pass++) {
            sum[pass] += ns[pass];
        }
    }
    *ret_times = (struct pst_times){whole(sum[0]), whole(sum[1]), whole(sum[2])};
}

static uint64_t transfer_ns(const void *self, const struct pst_instance *who, uint64_t bytes,
                            uint32_t from, uint32_t to)
{
    const struct pst_problem_host *host = self;

    (void)who;
    return from == to ? 0 : whole(pst_rcm_transfer_ns(host->problem, (double)bytes));
}

static uint64_t allreduce_ns(const void *self, uint64_t bytes, uint32_t n_ranks)
{
    const struct pst_problem_host *host = self;

    return n_ranks < 2 ? 0 : whole(pst_rcm_allreduce_ns(host->problem, (double)bytes, n_ranks));
}

static bool is_cancelled(const void *self)
{
    const struct pst_problem_host *host = self;

    return (host->cancelled != NULL && host->cancelled()) ||
           (host->deadline_ns != 0 && pst_now_ns() >= host->deadline_ns);
}

/* --- by the reference cost model ---------------------------------------------------------------*/

static pst_status held(void *self, const struct pst_place *place, struct pst_held *ret_held,
                       struct pst_error *err)
{
    (void)self;
    (void)err;
    ret_held->microbatches = (uint32_t)(pst_rcm_in_flight(place) / place->microbatch_size);
    ret_held->weight_versions = 1;
    return PST_OK;
}

static double cost_of(struct pst_problem_host *host, const struct pst_stage_question *q,
                      struct pst_rcm_cost *ret_cost)
{
    const struct pst_rcm_stage stage = {.nodes = q->nodes,
                                        .n_nodes = q->n_nodes,
                                        .n_ranks = q->n_ranks,
                                        .microbatch_size = q->microbatch_size};

    pst_rcm_cost(&host->rcm, &stage, ret_cost);
    return ret_cost->pass_ns[0] + ret_cost->pass_ns[1] + ret_cost->pass_ns[2];
}

static pst_status price(void *self, const struct pst_stage_question *q,
                        struct pst_stage_price *ret_price, struct pst_error *err)
{
    struct pst_problem_host *host = self;
    double capacity, bytes;
    struct pst_rcm_cost cost;

    (void)err;
    ret_price->period_ns = whole(cost_of(host, q, &cost));
    bytes = pst_rcm_memory(host->problem, &cost, q->n_ranks,
                           (uint64_t)q->in_flight * q->microbatch_size, q->weight_versions);
    capacity = q->capacity_bytes == UINT64_MAX ? (double)INFINITY : (double)q->capacity_bytes;
    ret_price->fits = pst_rcm_fits(capacity, bytes);
    ret_price->peak_bytes =
        ret_price->fits && bytes > capacity ? q->capacity_bytes : whole(ceil(bytes));
    return PST_OK;
}

static pst_status bound(void *self, const struct pst_stage_question *q, uint64_t *ret_period_ns,
                        struct pst_error *err)
{
    struct pst_rcm_cost cost;

    (void)err;
    *ret_period_ns = whole(cost_of(self, q, &cost));
    return PST_OK;
}

/* --- all of them -------------------------------------------------------------------------------*/

static void lend_figures(struct pst_problem_host *host)
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

    pst_lend_figures(&figures, graph->n_nodes, graph->n_edges, &host->figures);
}

void pst_problem_host_init(struct pst_problem_host *host, const struct pst_problem *problem,
                           bool (*cancelled)(void))
{
    static const struct pst_coster costs = {limits,       compute, transfer_ns,
                                            allreduce_ns, node_ns, is_cancelled};
    static const struct pst_strategist reference = {held, price, bound, true};

    *host = (struct pst_problem_host){
        .problem = problem,
        .cancelled = cancelled,
        .places = {.n_places = problem->n_devices, .shared = 1},
    };
    host->questions = (struct pst_questions){
        .costs = &costs,
        .strategies = &reference,
        .coster = host,
        .strategist = host,
        .costed = problem->graph,
        .figures = &host->figures,
        .evaluator = &host->evaluator,
        .pending = &host->pending,
    }; /* a problem file states no seed */
    pst_questions_context(&host->questions, &host->context);
    pst_host_log_begin();
    lend_figures(host);
    pst_rcm_init(&host->rcm, problem);
}

void pst_problem_host_finish(struct pst_problem_host *host)
{
    pst_instance_destroy(host->scheduler);
    pst_instance_destroy(host->memopt);
    pst_host_log_end();
    pst_questions_finish(&host->questions);
    pst_evaluator_finish(&host->evaluator);
    pst_rcm_finish(&host->rcm);
    pst_region_finish(&host->figures);
    pst_arena_finish(&host->arena);
}

/* --- by the strategies of a problem with cost = "planned" -------------------------------------*/

/* --- opening them ------------------------------------------------------------------------------*/

/* A name, or a file where it has a slash. */
static pst_status find(const char *kind, const char *name, const struct pst_plugin **ret_plugin,
                       struct pst_error *err)
{
    bool is_file = strchr(name, '/') != NULL;
    pst_status st =
        pst_plugin_find(kind, is_file ? NULL : name, is_file ? name : NULL, ret_plugin, err);

    if (st != PST_OK) {
        pst_error_prefix(err, "\"%s\"", kind);
    }
    return st;
}

pst_status pst_solo_check_options(struct pst_config *config, const char *what, const char *who,
                                  struct pst_error *err)
{
    static const char *const taken[] = {"use", "path"};

    for (size_t i = 0; i < sizeof taken / sizeof taken[0]; i++) {
        if (pst_config_get(config->root, taken[i]) != NULL) {
            return pst_fail(err, PST_ERR_CONFIG, "config.key", "%s: \"%s\" is no parameter; %s",
                            what, taken[i], who);
        }
    }
    return PST_OK;
}

pst_status pst_problem_create(const struct pst_problem_host *host, const struct pst_plugin *plugin,
                              const json_t *options, const char *what,
                              struct pst_instance **ret_instance, struct pst_error *err)
{
    struct pst_config *config = NULL;
    char *text = options == NULL ? pst_strdup("{}") : pst_problem_text(options);
    pst_status st = pst_config_from_json(text, &config, err);

    free(text);
    if (st == PST_OK) {
        st = pst_solo_check_options(config, what, "it is said elsewhere which plugin", err);
    }
    if (st == PST_OK) {
        st = pst_instance_create(plugin, config->root, &host->context, ret_instance, err);
    }
    pst_config_destroy(config);
    return st;
}

static pst_status open_strategies(struct pst_problem_host *host,
                                  const struct pst_plugin *partitioner, struct pst_error *err)
{
    const struct pst_problem *problem = host->problem;
    const char *name = problem->scheduler != NULL ? problem->scheduler : PENSTOCK_DEFAULT_SCHEDULER;
    const struct pst_plugin *plugins[3] = {partitioner, NULL, NULL};
    pst_status st = find("scheduler", name, &plugins[1], err);

    if (st == PST_OK && problem->memopt != NULL) {
        st = find("memopt", problem->memopt, &plugins[2], err);
    }
    if (st == PST_OK) {
        st = pst_caps_match(plugins, problem->memopt != NULL ? 3 : 2, err);
    }
    if (st == PST_OK) {
        st = pst_problem_create(host, plugins[1], problem->scheduler_options, "scheduler_options",
                                &host->scheduler, err);
    }
    if (st == PST_OK && plugins[2] != NULL) {
        st = pst_problem_create(host, plugins[2], problem->memopt_options, "memopt_options",
                                &host->memopt, err);
    }
    return st;
}

static pst_status find_places(struct pst_problem_host *host, struct pst_error *err)
{
    uint32_t n_devices = host->problem->n_devices, n = host->topology.n_stages;
    uint32_t n_places = n == 0 ? n_devices : n;
    uint32_t *device_of = pst_arena_array(&host->arena, n_places, sizeof *device_of);
    pst_status st = pst_scheduler_devices(host->scheduler, &host->topology, n_devices, n_places,
                                          device_of, err);

    if (st == PST_OK) {
        pst_problem_place(&host->places, n_devices, n, device_of, &host->arena);
    }
    return st;
}

uint32_t pst_problem_devices(const struct pst_problem_host *host, uint32_t n_stages)
{
    const struct pst_problem *problem = host->problem;
    bool replicates = problem->degrees[problem->n_degrees - 1] > 1;

    return replicates && host->topology.n_stages == 0 ? n_stages : problem->n_devices;
}

/* --- what a partitioner asks of them -----------------------------------------------------------*/

/* Whatever place->n_devices says. */
static pst_status planned_held(void *self, const struct pst_place *place, struct pst_held *ret_held,
                               struct pst_error *err)
{
    struct pst_problem_host *host = self;
    struct pst_place asked = *place;
    const struct pst_scheduler_use use = {.scheduler = host->scheduler,
                                          .topology = &host->topology,
                                          .device_of = host->places.device_of,
                                          .n_places = host->places.n_places,
                                          .counts = &host->counts,
                                          .arena = &host->arena};

    asked.size = sizeof asked;
    asked.n_devices = pst_problem_devices(host, place->n_stages);
    return pst_scheduler_held(&use, &asked, ret_held, err);
}

static struct pst_optimizer optimizer_of(struct pst_problem_host *host)
{
    return (struct pst_optimizer){
        .instance = host->memopt, .evaluator = &host->evaluator, .pending = &host->pending};
}

static struct pst_stage_node *build_view(struct pst_problem_host *host,
                                         const struct pst_stage_question *q,
                                         struct pst_stage_view *ret_view)
{
    struct pst_stage_node *nodes =
        pst_costed_stage_build(&host->stage, q->nodes, q->n_nodes, q->microbatch_size / q->n_ranks,
                               q->weight_versions, ret_view);

    pst_view_state(q, ret_view);
    return nodes;
}

static pst_status planned_price(void *self, const struct pst_stage_question *question,
                                struct pst_stage_price *ret_price, struct pst_error *err)
{
    const struct pst_optimizer optimizer = optimizer_of(self);
    struct pst_stage_view view;

    build_view(self, question, &view);
    return pst_optimizer_price(&optimizer, &view, ret_price, err);
}

static pst_status planned_bound(void *self, const struct pst_stage_question *question,
                                uint64_t *ret_period_ns, struct pst_error *err)
{
    const struct pst_optimizer optimizer = optimizer_of(self);
    struct pst_stage_view view;

    build_view(self, question, &view);
    return pst_optimizer_bound(&optimizer, &view, ret_period_ns, err);
}

pst_status pst_problem_open(struct pst_problem_host *host, const struct pst_plugin *partitioner,
                            struct pst_error *err)
{
    static const struct pst_strategist strategies = {planned_held, planned_price, planned_bound,
                                                     false};
    uint32_t n_devices = host->problem->n_devices;
    pst_status st;

    host->questions.strategies = &strategies;
    pst_costed_stage_init(&host->stage, host->problem, &host->arena);
    st = open_strategies(host, partitioner, err);
    host->questions.scheduler = host->scheduler;
    if (st == PST_OK) {
        st = pst_scheduler_topology(host->scheduler, n_devices, &host->topology, err);
    }
    return st == PST_OK ? find_places(host, err) : st;
}

/* --- the end of it -----------------------------------------------------------------------------*/

static uint64_t kept_bytes(const struct pst_stage_view *view, const struct pst_replay_list *replays)
{
    struct pst_stage_value value = {.size = sizeof value};
    uint64_t bytes = view->input_bytes, kept;

    if (replays->n > 0) {
        pst_evaluate_replays(view, replays->at, replays->n, &value, &kept);
        return bytes + kept;
    }
    for (uint32_t i = 0; i < view->n_nodes; i++) {
        const struct pst_stage_node *node = pst_stage_node_at(view, i);

        bytes += node->action == PST_ACTION_KEEP ? node->saved_bytes : 0;
    }
    return bytes;
}

static pst_status too_large(const struct pst_problem_host *host, const struct pst_stage_question *q,
                            uint64_t bytes, struct pst_error *err)
{
    const struct pst_graph_view *graph = &host->problem->graph->view;
    char needed[32], capacity[32];

    return pst_fail(err, PST_ERR_INFEASIBLE, "plan.infeasible",
                    "stage %u (\"%s\" to \"%s\") with %u micro-batches of %u samples in flight "
                    "takes %s, more than the %s that are left on its device",
                    q->stage, pst_graph_node(graph, q->nodes[0])->name,
                    pst_graph_node(graph, q->nodes[q->n_nodes - 1])->name, q->in_flight,
                    q->microbatch_size, pst_format_bytes(needed, bytes),
                    pst_format_bytes(capacity, q->capacity_bytes));
}

pst_status pst_problem_decide(struct pst_problem_host *host,
                              const struct pst_stage_question *question,
                              struct pst_stage_value *ret_value, uint64_t *ret_kept_bytes,
                              struct pst_error *err)
{
    const struct pst_optimizer optimizer = optimizer_of(host);
    struct pst_replay_list replays = {.n = 0};
    struct pst_stage_price promised;
    struct pst_stage_view view;
    struct pst_stage_node *nodes = build_view(host, question, &view);
    pst_status st = pst_optimizer_price(&optimizer, &view, &promised, err);

    if (st == PST_OK && !promised.fits) {
        st = too_large(host, question, promised.peak_bytes, err);
    }
    if (st == PST_OK) {
        *ret_value = (struct pst_stage_value){.size = sizeof *ret_value};
        st = pst_optimizer_settle(&optimizer, &host->problem->graph->view, &view, nodes, &promised,
                                  &replays, ret_value, err);
    }
    if (st == PST_OK) {
        *ret_kept_bytes = kept_bytes(&view, &replays);
    }
    pst_replay_list_finish(&replays);
    return st;
}
