/* SPDX-License-Identifier: Apache-2.0
 *
 * The host's side of the extensions that plugins ask: what is wrong with a question, and an answer
 * from the memo or from the one who knows.
 */
#include "planner/questions.h"

#include <string.h>

#include <penstock/ext/profile.h>

#include "base/philox.h"
#include "planner/eval_replays.h"
#include "planner/state.h"

struct pst_planner *pst_questions_planner(const struct pst_host *host)
{
    return pst_host_instance(host)->context.impl;
}

/* A question that cannot be answered as it stands: the asking plugin's fault. */
static pst_status wrong(const struct pst_host *host, const char *what)
{
    return (host->fail)(host, PST_ERR_BUG, what);
}

/* --- pst.cost/1 --------------------------------------------------------------------------------*/

static pst_status cost_compute(const struct pst_host *host, const uint32_t *nodes, uint32_t n_nodes,
                               uint32_t samples, struct pst_times *ret_times)
{
    const struct pst_planner *planner = pst_questions_planner(host);
    const struct pst_question_limits limits = pst_answer_limits(planner);

    if (limits.in_samples && samples == 0) {
        return wrong(host, "cost.compute was asked about 0 samples");
    }
    for (uint32_t i = 0; i < n_nodes; i++) {
        if (nodes[i] >= limits.n_nodes) {
            return wrong(host, "cost.compute was asked about a node that does not exist");
        }
    }
    pst_answer_compute(planner, pst_host_instance(host), nodes, n_nodes, samples, ret_times);
    return PST_OK;
}

static uint64_t cost_transfer(const struct pst_host *host, uint64_t bytes, uint32_t from,
                              uint32_t to)
{
    const struct pst_planner *planner = pst_questions_planner(host);

    return pst_answer_transfer_ns(planner, pst_host_instance(host), bytes, from, to);
}

static uint64_t cost_allreduce(const struct pst_host *host, uint64_t bytes, uint32_t n_ranks)
{
    const struct pst_planner *planner = pst_questions_planner(host);

    return pst_answer_allreduce_ns(planner, bytes, n_ranks);
}

/* --- pst.ask/1 ---------------------------------------------------------------------------------*/

/* Before that the strategies who answer may not be there. */
#define OUTSIDE "pst.ask/1 was asked outside of partition()"

static pst_status ask_topology(const struct pst_host *host, uint32_t n_devices,
                               struct pst_topology *ret_topology)
{
    struct pst_planner *planner = pst_questions_planner(host);
    const struct pst_question_limits limits = pst_answer_limits(planner);
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

pst_status pst_questions_held(struct pst_planner *planner, const struct pst_place *place,
                              struct pst_held *ret_held, struct pst_error *err)
{
    struct pst_memo_entry own = {.used = false}, *entry = &own;
    struct pst_memo_key key = pst_memo_key_place(place);
    pst_status st = PST_OK;

    if (!planner->reference) {
        entry = pst_memo_find(&planner->memo, key);
    }
    if (!entry->used) {
        st = pst_answer_held(planner, place, &entry->answer.held, err);
        if (st == PST_OK && entry != &own) {
            pst_memo_keep(&planner->memo, entry, key);
        }
    }
    if (st == PST_OK) {
        ret_held->microbatches = entry->answer.held.microbatches;
        ret_held->weight_versions = entry->answer.held.weight_versions;
    }
    return st;
}

static pst_status ask_in_flight(const struct pst_host *host, const struct pst_place *place,
                                struct pst_held *ret_held)
{
    struct pst_planner *planner = pst_questions_planner(host);
    const struct pst_question_limits limits = pst_answer_limits(planner);
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
    return pst_questions_held(planner, &asked, ret_held, &planner->pending);
}

/* What is wrong with a question about a stage, or NULL. */
static const char *question_fault(const struct pst_question_limits *limits,
                                  const struct pst_stage_question *q)
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
   NULL, or what is wrong with it. */
static const char *check_question(const struct pst_planner *planner,
                                  const struct pst_stage_question *asked,
                                  struct pst_stage_question *ret_whole)
{
    const struct pst_question_limits limits = pst_answer_limits(planner);
    const char *fault = question_fault(&limits, asked);

    if (fault == NULL) {
        *ret_whole = *asked;
        ret_whole->n_ranks *= limits.share;
    }
    return fault;
}

static pst_status find_price(struct pst_planner *planner, const struct pst_stage_question *question,
                             struct pst_stage_price *ret_price)
{
    struct pst_memo_entry own = {.used = false}, *entry = &own;
    struct pst_memo_key key = pst_memo_key_question(question);
    pst_status st = PST_OK;

    if (!planner->reference) {
        entry = pst_memo_find(&planner->memo, key);
    }
    if (!entry->used) {
        st = pst_answer_price(planner, question, &entry->answer.price, &planner->pending);
        if (st == PST_OK && entry != &own) {
            pst_memo_keep(&planner->memo, entry, key);
        }
    }
    if (st == PST_OK) {
        ret_price->fits = entry->answer.price.fits;
        ret_price->period_ns = entry->answer.price.period_ns;
        ret_price->peak_bytes = entry->answer.price.peak_bytes;
    }
    return st;
}

static pst_status ask_price(const struct pst_host *host, const struct pst_stage_question *asked,
                            struct pst_stage_price *ret_price)
{
    struct pst_stage_question question;
    const char *fault = check_question(pst_questions_planner(host), asked, &question);

    if (fault != NULL || !PST_HAS(ret_price, peak_bytes)) {
        return wrong(host, fault != NULL ? fault : "ask.price: ret_price->size is not set");
    }
    return find_price(pst_questions_planner(host), &question, ret_price);
}

static pst_status ask_bound(const struct pst_host *host, const struct pst_stage_question *asked,
                            uint64_t *ret_period_ns)
{
    struct pst_planner *planner = pst_questions_planner(host);
    struct pst_stage_question question;
    const char *fault = check_question(planner, asked, &question);

    return fault != NULL ? wrong(host, fault)
                         : pst_answer_bound(planner, &question, ret_period_ns, &planner->pending);
}

/* --- pst.profile/1 -----------------------------------------------------------------------------*/

static pst_status node_ns(const struct pst_host *host, uint32_t node, uint32_t samples,
                          double ret_ns[3])
{
    const struct pst_planner *planner = pst_questions_planner(host);

    if (node >= pst_answer_limits(planner).n_nodes || samples == 0) {
        return wrong(host, "profile.node_ns: no such node, or 0 samples");
    }
    pst_answer_node_ns(planner, node, samples, ret_ns);
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
    return pst_answer_cancelled(impl);
}

void pst_questions_context(struct pst_planner *planner, struct pst_host_context *ret_context)
{
    static const struct pst_cost cost = {sizeof cost, cost_compute, cost_transfer, cost_allreduce};
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
