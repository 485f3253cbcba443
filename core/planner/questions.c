/* SPDX-License-Identifier: Apache-2.0
 *
 * The host's side of the extensions that plugins ask: it refuses what is wrong with a question, and
 * finds the ranks that a plugin means. Answers are planner->answers (answers.h). A partitioner that
 * does not choose replicas takes a logical device for one; it is told what each of its ranks does.
 */
#include "planner/questions.h"

#include <string.h>

#include <penstock/ext/profile.h>

#include "base/philox.h"
#include "planner/answers.h"
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

/* Is pst.ask/1 answered? Before that the strategies who answer may not be there. */
static bool is_open(const struct pst_planner *planner)
{
    return planner->answers->in_samples || planner->asked != NULL;
}

/* Schedulers that fix the number of stages say where each of them is, and of no more. */
static bool has_places(const struct pst_planner *planner, uint32_t n_stages)
{
    return planner->answers->in_samples || planner->devices.topology.n_stages == 0 ||
           n_stages <= planner->devices.places.n;
}

/* Are the ranks of this plugin's questions places? */
static bool is_in_places(const struct pst_planner *planner, const struct pst_instance *who)
{
    return who == planner->strategies.partitioner && !planner->devices.chooses;
}

/* To a partitioner a rank is a place, of which several may be on one device; to a scheduler it is a
   logical device, whose first rank stands for it. */
static uint32_t rank_of(const struct pst_planner *planner, const struct pst_instance *who,
                        uint32_t device)
{
    const struct pst_planner_devices *devices = &planner->devices;

    if (is_in_places(planner, who) && device < devices->places.n) {
        return pst_places_device(&devices->places, device) * devices->width;
    }
    if (who == planner->strategies.scheduler && devices->first_rank != NULL &&
        device < planner->in.n_ranks) {
        return devices->first_rank[device];
    }
    return device;
}

/* The *ret_n ranks of n devices that a plugin names, in the arena. NULL: one does not exist. */
static const uint32_t *ranks_of(const struct pst_planner *planner, const struct pst_instance *who,
                                const uint32_t *ranks, uint32_t n, struct pst_arena *arena,
                                uint32_t *ret_n)
{
    bool places = is_in_places(planner, who);
    uint32_t share = places ? planner->devices.degree : 1;
    uint32_t *all = pst_arena_array(arena, (size_t)n * share, sizeof *all);

    *ret_n = n * share;
    for (uint32_t i = 0; i < n * share; i++) {
        if (ranks[i / share] >= (places ? planner->devices.places.n : planner->in.n_ranks)) {
            return NULL;
        }
        all[i] = rank_of(planner, who, ranks[i / share]) + i % share;
    }
    return all;
}

/* --- pst.cost/1 ----------------------------------------------------------------------------*/

static pst_status cost_compute_on(const struct pst_host *host, const uint32_t *nodes,
                                  uint32_t n_nodes, uint32_t samples, const uint32_t *ranks,
                                  uint32_t n_ranks, struct pst_times *ret_times)
{
    const struct pst_planner *planner = pst_questions_planner(host);
    const struct pst_instance *who = pst_host_instance(host);
    uint32_t share = who == planner->strategies.partitioner ? planner->devices.degree : 1, n = 0;
    struct pst_arena arena = {0};
    struct pst_cost_at at;
    const uint32_t *on;

    if (planner->answers->in_samples && samples == 0) {
        return wrong(host, "cost.compute was asked about 0 samples");
    }
    for (uint32_t i = 0; i < n_nodes; i++) {
        if (nodes[i] >= planner->in.n_nodes) {
            return wrong(host, "cost.compute was asked about a node that does not exist");
        }
    }
    on = n_ranks == 0 ? NULL : ranks_of(planner, who, ranks, n_ranks, &arena, &n);
    if (on != NULL || n_ranks == 0) {
        planner->answers->compute(pst_cost_on(planner->in.cost, on, n, &at), nodes, n_nodes,
                                  (samples + share - 1) / share, ret_times);
    }
    pst_arena_finish(&arena);
    return on != NULL || n_ranks == 0
               ? PST_OK
               : wrong(host, "cost.compute_on was asked about a rank that does not exist");
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

    return planner->answers->transfer(planner->in.cost, bytes, rank_of(planner, who, from),
                                      rank_of(planner, who, to));
}

static uint64_t cost_allreduce(const struct pst_host *host, uint64_t bytes, uint32_t n_ranks)
{
    const struct pst_planner *planner = pst_questions_planner(host);

    return planner->answers->allreduce(planner->in.cost, bytes, n_ranks);
}

/* --- pst.ask/1 ---------------------------------------------------------------------------------*/

#define OUTSIDE "pst.ask/1 was asked outside of partition()"

static pst_status ask_topology(const struct pst_host *host, uint32_t n_devices,
                               struct pst_topology *ret_topology)
{
    struct pst_planner *planner = pst_questions_planner(host);
    struct pst_instance *scheduler = planner->strategies.scheduler;
    struct pst_topology topology = {
        .version_rule = PST_VERSION_SYNC, .min_microbatches = 1, .microbatch_multiple = 1};
    pst_status status = PST_OK;

    if (!PST_HAS(ret_topology, microbatch_multiple)) {
        return wrong(host, "ask.topology: ret_topology->size is not set");
    }
    if (!is_open(planner)) {
        return wrong(host, OUTSIDE);
    }
    if (n_devices == 0 || n_devices > planner->devices.places.n) {
        return wrong(host, "ask.topology: there are not so many devices");
    }
    if (scheduler != NULL) { /* none: the reference cost model takes any order */
        status = pst_scheduler_topology(scheduler, n_devices, &topology, &planner->pending);
    }
    if (status == PST_OK) {
        topology.size = ret_topology->size;
        *ret_topology = topology;
    }
    return status;
}

static pst_status ask_in_flight(const struct pst_host *host, const struct pst_place *place,
                                struct pst_held *ret_held)
{
    struct pst_planner *planner = pst_questions_planner(host);
    bool in_samples = planner->answers->in_samples;
    struct pst_place asked;

    if (!PST_HAS(place, successors) || !PST_HAS(ret_held, weight_versions)) {
        return wrong(host, "ask.in_flight: place->size or ret_held->size is not set");
    }
    if (!is_open(planner)) {
        return wrong(host, OUTSIDE);
    }
    if (place->n_stages == 0 || place->stage >= place->n_stages || place->n_microbatches == 0 ||
        place->n_microbatches > planner->sizes.batch ||
        (in_samples && (place->microbatch_size == 0 || place->k == 0))) {
        return wrong(host, in_samples
                               ? "ask.in_flight: no such stage, no such number of micro-batches, "
                                 "or k = 0"
                               : "ask.in_flight: no such stage, or no such number of "
                                 "micro-batches");
    }
    if (place->n_stages > planner->in.n_nodes && place->n_stages > planner->devices.places.n) {
        return wrong(host, "ask.in_flight: neither nodes nor devices suffice for so many stages");
    }
    if (!has_places(planner, place->n_stages)) {
        return wrong(host, "ask.in_flight: the scheduler has not so many stages");
    }
    asked = *place;
    asked.size = sizeof asked;
    return planner->answers->in_flight(planner, &asked, ret_held);
}

/* Since 1.7; before that structs end with what stands before it. */
static uint32_t tensor_of(const struct pst_stage_question *q)
{
    return PST_HAS(q, tensor) && q->tensor > 1 ? q->tensor : 1;
}

static bool is_offered(const struct pst_planner *planner, uint32_t tensor)
{
    uint32_t i = 0;

    while (i < planner->in.n_tensors && planner->in.tensors[i] != tensor) {
        i++;
    }
    return tensor == 1 || i < planner->in.n_tensors;
}

/* Returns what is wrong with a question about a stage, or NULL. */
static const char *question_fault(const struct pst_planner *planner,
                                  const struct pst_stage_question *q)
{
    bool in_samples = planner->answers->in_samples;

    if (!is_open(planner)) {
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
        q->microbatch_size == 0 || (!in_samples && q->microbatch_size > planner->sizes.batch) ||
        q->microbatch_size % ((uint64_t)q->n_ranks * planner->devices.degree) != 0) {
        return in_samples
                   ? "counts must be positive, and replicas divide the micro-batch"
                   : "counts must be positive, replicas divide the micro-batch, and that be no "
                     "larger than the batch";
    }
    if (!is_offered(planner, tensor_of(q))) {
        return "the tensor degree was not offered";
    }
    if (q->n_nodes == 0 || q->nodes == NULL) {
        return "a stage has at least one node";
    }
    for (uint32_t i = 0; i < q->n_nodes; i++) {
        if (q->nodes[i] >= planner->in.n_nodes || (i > 0 && q->nodes[i] <= q->nodes[i - 1])) {
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
    const char *fault = question_fault(planner, asked);

    if (fault != NULL) {
        return fault;
    }
    *ret_whole = (struct pst_stage_question){.size = sizeof *ret_whole};
    memcpy(ret_whole, asked, asked->size < sizeof *asked ? asked->size : sizeof *asked);
    ret_whole->n_ranks *= planner->devices.degree;
    ret_whole->tensor = tensor_of(asked);
    if (ret_whole->ranks != NULL && planner->in.cluster->n_kinds > 0) {
        ret_whole->ranks = ranks_of(planner, planner->strategies.partitioner, asked->ranks,
                                    asked->n_ranks, arena, &ret_whole->n_ranks);
        return ret_whole->ranks == NULL ? "ranks must exist" : NULL;
    }
    ret_whole->ranks = NULL;
    return NULL;
}

/* Another planner notes why it failed in its own place. */
static pst_status hand_on(struct pst_planner *planner, const struct pst_planner *who,
                          pst_status status)
{
    if (status != PST_OK && who != planner) {
        planner->pending = who->pending;
    }
    return status;
}

static pst_status ask_price(const struct pst_host *host, const struct pst_stage_question *asked,
                            struct pst_stage_price *ret_price)
{
    struct pst_planner *planner = pst_questions_planner(host), *who = NULL;
    struct pst_stage_question question;
    struct pst_arena arena = {0};
    const char *fault = check_question(planner, asked, &arena, &question);
    pst_status status;

    if (fault != NULL || !PST_HAS(ret_price, peak_bytes)) {
        status = wrong(host, fault != NULL ? fault : "ask.price: ret_price->size is not set");
    } else {
        status = pst_divided_find(planner, &question, &arena, &who);
    }
    if (status == PST_OK && who == NULL) {
        ret_price->fits = 0;
        ret_price->period_ns = ret_price->peak_bytes = UINT64_MAX;
    } else if (status == PST_OK) {
        status = hand_on(planner, who, who->answers->price(who, &question, ret_price));
        pst_divided_border(who, &question, ret_price);
    }
    pst_arena_finish(&arena);
    return status;
}

static pst_status ask_bound(const struct pst_host *host, const struct pst_stage_question *asked,
                            uint64_t *ret_period_ns)
{
    struct pst_planner *planner = pst_questions_planner(host), *who = NULL;
    struct pst_stage_question question;
    struct pst_arena arena = {0};
    const char *fault = check_question(planner, asked, &arena, &question);
    pst_status status =
        fault != NULL ? wrong(host, fault) : pst_divided_find(planner, &question, &arena, &who);

    if (status == PST_OK && who == NULL) {
        *ret_period_ns = UINT64_MAX;
    } else if (status == PST_OK) {
        status = hand_on(planner, who, who->answers->bound(who, &question, ret_period_ns));
    }
    pst_arena_finish(&arena);
    return status;
}

/* --- pst.profile/1 -----------------------------------------------------------------------------*/

static pst_status node_ns(const struct pst_host *host, uint32_t node, uint32_t samples,
                          double ret_ns[3])
{
    const struct pst_planner *planner = pst_questions_planner(host);
    uint32_t share = planner->devices.degree;

    if (node >= planner->in.n_nodes || samples == 0) {
        return wrong(host, "profile.node_ns: no such node, or 0 samples");
    }
    planner->answers->node_ns(planner->in.cost, node, (samples + share - 1) / share, ret_ns);
    return PST_OK;
}

static const struct pst_figures *get_figures(const struct pst_host *host)
{
    return (const void *)pst_questions_planner(host)->figures.bytes;
}

static uint32_t n_configs(const struct pst_host *host, uint32_t node)
{
    const struct pst_planner *planner = pst_questions_planner(host);

    return planner->answers->config != NULL && node < planner->in.n_nodes
               ? planner->answers->config(planner->in.cost, node, UINT32_MAX, NULL)
               : 0;
}

static pst_status get_config(const struct pst_host *host, uint32_t node, uint32_t index,
                             struct pst_node_config *ret_config)
{
    const struct pst_planner *planner = pst_questions_planner(host);

    if (index >= n_configs(host, node) || !PST_HAS(ret_config, fixed_bytes)) {
        return wrong(host, "profile.config: no such configuration, or ret_config->size is not set");
    }
    (void)planner->answers->config(planner->in.cost, node, index, ret_config);
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
    const struct pst_planner *planner = pst_questions_planner(host);
    struct pst_philox words = pst_philox(planner->in.seed, stream, counter);

    return (uint64_t)words.v[1] << 32 | words.v[0];
}

static bool is_cancelled(void *impl)
{
    const struct pst_planner *planner = impl;

    return (planner->in.cancelled != NULL && planner->in.cancelled()) ||
           pst_search_is_late(planner->in.deadline_ns);
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
        .trial = planner->in.clock == NULL ? NULL : &pst_planner_trial,
        .impl = planner,
        .cancelled = is_cancelled,
    };
}
