/* SPDX-License-Identifier: Apache-2.0
 *
 * What plugins may ask the host: pst.cost/1, pst.ask/1, pst.eval/1, pst.rng/1; pst.profile/1 is in
 * profile.c, pst.trial/1 in trial.c. Prices and in-flight counts are remembered (memo.h).
 */
#include "host/call.h"
#include "planner/eval_replays.h"
#include "planner/state.h"
#include "planner/topology.h"

#include <stdlib.h>
#include <string.h>

#include "base/philox.h"
#include "base/util.h"

struct pst_planner *pst_questions_planner(const struct pst_host *host)
{
    return pst_host_instance(host)->context.impl;
}

static struct pst_planner *planner_of(const struct pst_host *host)
{
    return pst_questions_planner(host);
}

/* A question that cannot be answered as it stands: the asking plugin's fault. */
static pst_status wrong(const struct pst_host *host, const char *what)
{
    return (host->fail)(host, PST_ERR_BUG, what);
}

void pst_questions_finish(struct pst_planner *planner)
{
    pst_memo_finish(&planner->memo);
}

/* --- pst.cost/1 --------------------------------------------------------------------------------*/

static pst_status cost_compute(const struct pst_host *host, const uint32_t *nodes, uint32_t n_nodes,
                               uint32_t samples, struct pst_times *ret_times)
{
    const struct pst_planner *planner = planner_of(host);
    uint32_t share = pst_host_instance(host) == planner->partitioner ? planner->degree : 1, i;

    for (i = 0; i < n_nodes; i++) {
        if (nodes[i] >= planner->graph->n_ops) {
            return wrong(host, "cost.compute was asked about a node that does not exist");
        }
    }
    pst_cost_ops(planner->cost, nodes, n_nodes, (samples + share - 1) / share, ret_times);
    return PST_OK;
}

/* To a partitioner a rank is a place, of which several may be on one device; to a scheduler it is a
   logical device, whose first rank stands for it. */
static uint32_t rank_of(const struct pst_planner *planner, const struct pst_instance *who,
                        uint32_t device)
{
    if (who == planner->partitioner && !planner->chooses && device < planner->n_places) {
        return planner->device_of[device] * planner->degree;
    }
    if (who == planner->scheduler && planner->first_rank != NULL && device < planner->n_ranks) {
        return planner->first_rank[device];
    }
    return device;
}

static uint64_t cost_transfer(const struct pst_host *host, uint64_t bytes, uint32_t from,
                              uint32_t to)
{
    const struct pst_planner *planner = planner_of(host);
    const struct pst_instance *who = pst_host_instance(host);

    return pst_cost_transfer_ns(planner->cost, bytes, rank_of(planner, who, from),
                                rank_of(planner, who, to));
}

static uint64_t cost_allreduce(const struct pst_host *host, uint64_t bytes, uint32_t n_ranks)
{
    return pst_cost_allreduce_ns(planner_of(host)->cost, bytes, n_ranks);
}

/* --- pst.ask/1 ---------------------------------------------------------------------------------*/

/* Before that the strategies who answer may not be there. */
#define OUTSIDE "pst.ask/1 was asked outside of partition()"

static pst_status ask_topology(const struct pst_host *host, uint32_t n_devices,
                               struct pst_topology *ret_topology)
{
    struct pst_planner *planner = planner_of(host);
    struct pst_topology topology;
    pst_status st;

    if (!PST_HAS(ret_topology, microbatch_multiple)) {
        return wrong(host, "ask.topology: ret_topology->size is not set");
    }
    if (planner->asked == NULL) {
        return wrong(host, OUTSIDE);
    }
    if (n_devices == 0 || n_devices > planner->asked->n_devices) {
        return wrong(host, "ask.topology: there are not so many devices");
    }
    st = pst_scheduler_topology(planner->scheduler, n_devices, &topology, &planner->pending);
    if (st != PST_OK) {
        return st;
    }
    topology.size = ret_topology->size;
    *ret_topology = topology;
    return PST_OK;
}

/* Schedulers that fix the number of stages say where each of them is, and of no more. */
static bool has_places(const struct pst_planner *planner, uint32_t n_stages)
{
    return planner->topology.n_stages == 0 || n_stages <= planner->n_places;
}

static pst_status ask_in_flight(const struct pst_host *host, const struct pst_place *place,
                                struct pst_held *ret_held)
{
    struct pst_planner *planner = planner_of(host);
    struct pst_place asked;
    struct pst_memo_entry *entry;
    struct pst_memo_key key;
    pst_status st;

    if (!PST_HAS(place, successors) || !PST_HAS(ret_held, weight_versions)) {
        return wrong(host, "ask.in_flight: place->size or ret_held->size is not set");
    }
    if (planner->asked == NULL) {
        return wrong(host, OUTSIDE);
    }
    if (place->n_stages == 0 || place->stage >= place->n_stages || place->n_microbatches == 0 ||
        place->n_microbatches > planner->batch) {
        return wrong(host, "ask.in_flight: no such stage, or no such number of micro-batches");
    }
    if (place->n_stages > planner->graph->n_ops && place->n_stages > planner->n_places) {
        return wrong(host, "ask.in_flight: neither nodes nor devices suffice for so many stages");
    }
    if (!has_places(planner, place->n_stages)) {
        return wrong(host, "ask.in_flight: the scheduler has not so many stages");
    }
    asked = *place;
    asked.size = sizeof asked;
    asked.n_devices = pst_planner_logical(planner, place->n_stages);
    key = pst_memo_key_place(&asked);
    entry = pst_memo_find(&planner->memo, key);
    if (entry == NULL) {
        return pst_fail_nomem(&planner->pending);
    }
    if (!entry->used) {
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

/* What is wrong with a question about a stage, or NULL. */
static const char *question_fault(const struct pst_planner *planner,
                                  const struct pst_stage_question *q)
{
    uint32_t i;

    if (planner->asked == NULL) {
        return OUTSIDE;
    }
    if (!PST_HAS(q, capacity_bytes)) {
        return "question->size is not set";
    }
    if (q->n_stages == 0 || q->stage >= q->n_stages) {
        return "there is no such stage";
    }
    if (!has_places(planner, q->n_stages)) {
        return "the scheduler has not so many stages";
    }
    if (q->in_flight == 0 || q->weight_versions == 0 || q->n_ranks == 0 ||
        q->microbatch_size == 0 || q->microbatch_size > planner->batch ||
        q->microbatch_size % ((uint64_t)q->n_ranks * planner->degree) != 0) {
        return "counts must be positive, replicas divide the micro-batch, and that be no larger "
               "than the batch";
    }
    if (q->n_nodes == 0 || q->nodes == NULL) {
        return "a stage has at least one node";
    }
    for (i = 0; i < q->n_nodes; i++) {
        if (q->nodes[i] >= planner->graph->n_ops || (i > 0 && q->nodes[i] <= q->nodes[i - 1])) {
            return "nodes must exist and ascend";
        }
    }
    return NULL;
}

/* Of a stage on logical devices of equal size the plugin does not know the replicas. */
static struct pst_stage_question with_replicas(const struct pst_planner *planner,
                                               const struct pst_stage_question *question)
{
    struct pst_stage_question whole = *question;

    whole.n_ranks *= planner->degree;
    return whole;
}

static pst_status ask_price(const struct pst_host *host, const struct pst_stage_question *asked,
                            struct pst_stage_price *ret_price)
{
    struct pst_planner *planner = planner_of(host);
    const char *fault = question_fault(planner, asked);
    struct pst_stage_question whole, *question = &whole;
    struct pst_memo_key key;
    struct pst_memo_entry *entry;

    if (fault != NULL || !PST_HAS(ret_price, peak_bytes)) {
        return wrong(host, fault != NULL ? fault : "ask.price: ret_price->size is not set");
    }
    whole = with_replicas(planner, asked);
    key = pst_memo_key_question(question);
    entry = pst_memo_find(&planner->memo, key);
    if (entry == NULL) {
        return pst_fail_nomem(&planner->pending);
    }
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

/* With one optimizer its own bound; decisions of several depend on each other, so the sum of times,
   which no plan goes below. */
static pst_status ask_bound(const struct pst_host *host, const struct pst_stage_question *asked,
                            uint64_t *ret_period_ns)
{
    struct pst_planner *planner = planner_of(host);
    const char *fault = question_fault(planner, asked);
    struct pst_stage_question whole, *question = &whole;
    struct pst_stage_view view;
    struct pst_stage_value value = {.size = sizeof value};
    struct pst_stage_node *nodes;
    pst_status st;

    if (fault != NULL) {
        return wrong(host, fault);
    }
    whole = with_replicas(planner, asked);
    nodes = pst_view_build(planner, question->nodes, question->n_nodes,
                           question->microbatch_size / question->n_ranks, question->weight_versions,
                           &view);
    if (nodes == NULL) {
        return pst_fail_nomem(&planner->pending);
    }
    view.stage = question->stage;
    view.n_stages = question->n_stages;
    view.in_flight = question->in_flight;
    view.capacity_bytes = question->capacity_bytes;
    st = pst_view_split(planner, question->microbatch_size / question->n_ranks,
                        planner->batch / question->microbatch_size, &view, &planner->pending);
    if (st != PST_OK) {
        return st;
    }
    if (planner->n_memopt == 1 && PST_CAN(planner->memopt_if[0], bound)) {
        st = pst_call_bound(planner->memopt[0], &view, ret_period_ns);
        return st == PST_OK ? PST_OK
                            : pst_instance_fail(planner->memopt[0], st, "bound", &planner->pending);
    }
    if (!pst_evaluate(&planner->evaluator, &view, NULL, &value)) {
        return pst_fail_nomem(&planner->pending);
    }
    *ret_period_ns = value.period_ns; /* of everything kept */
    return PST_OK;
}

/* --- pst.eval/1, pst.rng/1 ---------------------------------------------------------------------*/

static pst_status evaluate(const struct pst_host *host, const struct pst_stage_view *view,
                           const uint8_t *actions, struct pst_stage_value *ret_value)
{
    struct pst_planner *planner = planner_of(host);

    if (!PST_HAS(ret_value, extra_ns)) {
        return wrong(host, "eval.evaluate: ret_value->size is not set");
    }
    return pst_evaluate(&planner->evaluator, view, actions, ret_value)
               ? PST_OK
               : pst_fail_nomem(&planner->pending);
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
               : pst_fail_nomem(&planner_of(host)->pending);
}

static uint64_t random_bits(const struct pst_host *host, uint64_t stream, uint64_t counter)
{
    uint64_t seed = (uint64_t)planner_of(host)->job->train.seed;
    struct pst_philox words = pst_philox(seed, stream, counter);

    return (uint64_t)words.v[1] << 32 | words.v[0];
}

static bool is_cancelled(void *impl)
{
    const struct pst_planner *planner = impl;

    return (planner->cancelled != NULL && planner->cancelled()) ||
           pst_planner_is_late(planner->deadline_ns, planner->work_end_ns);
}

void pst_questions_context(struct pst_planner *planner, struct pst_host_context *ret_context)
{
    static const struct pst_cost cost = {
        .size = sizeof cost,
        .compute = cost_compute,
        .transfer_ns = cost_transfer,
        .allreduce_ns = cost_allreduce,
    };
    static const struct pst_ask ask = {
        .size = sizeof ask,
        .topology = ask_topology,
        .in_flight = ask_in_flight,
        .bound = ask_bound,
        .price = ask_price,
    };
    static const struct pst_eval eval = {
        .size = sizeof eval, .evaluate = evaluate, .evaluate_replays = evaluate_replays};
    static const struct pst_rng rng = {.size = sizeof rng, .bits = random_bits};

    *ret_context = (struct pst_host_context){
        .cost = &cost,
        .ask = &ask,
        .eval = &eval,
        .rng = &rng,
        .profile = &pst_planner_profile,
        .figures = &planner->figures,
        .trial = planner->clock == NULL ? NULL : &pst_planner_trial,
        .impl = planner,
        .cancelled = is_cancelled,
    };
}
