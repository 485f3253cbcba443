/* SPDX-License-Identifier: Apache-2.0
 *
 * What a problem file answers to plugins' questions (questions.h): the costs of its graph; the
 * reference cost model for the rest, or the strategies of the problem.
 */
#include <math.h>

#include "base/memory.h"
#include "base/util.h"
#include "host/call.h"
#include "planner/problem_state.h"

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
