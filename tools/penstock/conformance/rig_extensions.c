/* SPDX-License-Identifier: Apache-2.0
 *
 * The extensions that the checker's host offers. Costs are those of the question; the scheduler and
 * the memory optimizer behind pst.ask/1 are a plain 1F1B and one that keeps everything; the
 * evaluator is the planner's own.
 */
#include <string.h>

#include "base/saturate.h"
#include "conformance/rig.h"
#include "conformance/verdict.h"
#include "host/remark.h"
#include "planner/eval_replays.h"

static struct pst_rig *rig_of(const struct pst_host *host)
{
    return host->impl;
}

static bool known_nodes(struct pst_rig *rig, const uint32_t *nodes, uint32_t n)
{
    uint32_t i;

    for (i = 0; rig->graph != NULL && i < n; i++) {
        if (nodes[i] >= rig->graph->view->n_nodes) {
            pst_verdict_fail("it asked about node %u of a graph of %u nodes", nodes[i],
                             rig->graph->view->n_nodes);
        }
    }
    return rig->graph != NULL;
}

static pst_status cost_compute(const struct pst_host *host, const uint32_t *nodes, uint32_t n_nodes,
                               uint32_t samples, struct pst_times *ret_times)
{
    struct pst_rig *rig = rig_of(host);
    struct pst_times sum = {0};
    uint32_t i;

    if (!known_nodes(rig, nodes, n_nodes)) {
        return PST_ERR_UNSUPPORTED;
    }
    for (i = 0; i < n_nodes; i++) {
        const struct pst_times *t = &rig->graph->times[nodes[i]];

        sum.forward_ns = pst_sat_add(sum.forward_ns, pst_sat_mul(t->forward_ns, samples));
        sum.backward_input_ns =
            pst_sat_add(sum.backward_input_ns, pst_sat_mul(t->backward_input_ns, samples));
        sum.backward_weight_ns =
            pst_sat_add(sum.backward_weight_ns, pst_sat_mul(t->backward_weight_ns, samples));
    }
    *ret_times = sum;
    return PST_OK;
}

static uint64_t cost_transfer(const struct pst_host *host, uint64_t bytes, uint32_t from,
                              uint32_t to)
{
    (void)host;
    return from == to ? 0 : 1000 + bytes / 16;
}

static uint64_t cost_allreduce(const struct pst_host *host, uint64_t bytes, uint32_t n_ranks)
{
    (void)host;
    return n_ranks <= 1 ? 0 : 1000 * (uint64_t)n_ranks + bytes / 8;
}

static pst_status ask_topology(const struct pst_host *host, uint32_t n_devices,
                               struct pst_topology *ret_topology)
{
    (void)host;
    (void)n_devices;
    ret_topology->n_stages = 0;
    ret_topology->version_rule = PST_VERSION_SYNC;
    ret_topology->min_microbatches = 1;
    ret_topology->microbatch_multiple = 1;
    return PST_OK;
}

static pst_status ask_in_flight(const struct pst_host *host, const struct pst_place *place,
                                struct pst_held *ret_held)
{
    uint32_t behind = place->stage < place->n_stages ? place->n_stages - place->stage : 1;

    (void)host;
    ret_held->microbatches = behind < place->n_microbatches ? behind : place->n_microbatches;
    ret_held->weight_versions = 1;
    return PST_OK;
}

static pst_status ask_price(const struct pst_host *host, const struct pst_stage_question *question,
                            struct pst_stage_price *ret_price)
{
    struct pst_rig *rig = rig_of(host);
    struct pst_times sum = {0};
    uint64_t bytes = 0;
    uint32_t i,
        samples = question->microbatch_size / (question->n_ranks != 0 ? question->n_ranks : 1);
    pst_status st = cost_compute(host, question->nodes, question->n_nodes, samples, &sum);

    if (st != PST_OK) {
        return st;
    }
    for (i = 0; i < question->n_nodes; i++) {
        const struct pst_node *node = pst_graph_node(rig->graph->view, question->nodes[i]);

        bytes = pst_sat_add(
            bytes, pst_sat_mul(node->saved_bytes, (uint64_t)samples * question->in_flight));
        bytes = pst_sat_add(
            bytes, pst_sat_mul(node->param_bytes, 3 + (uint64_t)question->weight_versions));
    }
    ret_price->fits = bytes <= question->capacity_bytes;
    ret_price->peak_bytes = bytes;
    ret_price->period_ns =
        pst_sat_add(sum.forward_ns, pst_sat_add(sum.backward_input_ns, sum.backward_weight_ns));
    return PST_OK;
}

static pst_status ask_bound(const struct pst_host *host, const struct pst_stage_question *question,
                            uint64_t *ret_period_ns)
{
    struct pst_stage_price price = {.size = sizeof price};
    pst_status st = ask_price(host, question, &price);

    if (st == PST_OK) {
        *ret_period_ns = price.period_ns;
    }
    return st;
}

static pst_status eval_evaluate(const struct pst_host *host, const struct pst_stage_view *view,
                                const uint8_t *actions, struct pst_stage_value *ret_value)
{
    pst_evaluate(&rig_of(host)->evaluator, view, actions, ret_value);
    return PST_OK;
}

static pst_status eval_replays(const struct pst_host *host, const struct pst_stage_view *view,
                               const struct pst_replay *replays, uint32_t n_replays,
                               struct pst_stage_value *ret_value)
{
    (void)host;
    pst_evaluate_replays(view, replays, n_replays, ret_value, NULL);
    return PST_OK;
}

static uint64_t rng_bits(const struct pst_host *host, uint64_t stream, uint64_t counter)
{
    uint64_t state = rig_of(host)->subject->seed ^ (stream * 0xD1342543DE82EF95u) ^ counter;

    return pst_random(&state);
}

static pst_status profile_node_ns(const struct pst_host *host, uint32_t node, uint32_t samples,
                                  double ret_ns[3])
{
    struct pst_rig *rig = rig_of(host);

    if (!known_nodes(rig, &node, 1)) {
        return PST_ERR_UNSUPPORTED;
    }
    if (samples == 0) {
        pst_verdict_fail("it asked what node %u takes for 0 samples", node);
    }
    ret_ns[0] = (double)rig->graph->times[node].forward_ns * samples;
    ret_ns[1] = (double)rig->graph->times[node].backward_input_ns * samples;
    ret_ns[2] = (double)rig->graph->times[node].backward_weight_ns * samples;
    return PST_OK;
}

static const struct pst_figures *profile_figures(const struct pst_host *host)
{
    static const struct pst_figures none = {.size = sizeof none, .weight_multiplier = 4};
    const struct pst_rig *rig = rig_of(host);

    return rig->graph == NULL ? &none : rig->graph->figures;
}

static uint32_t profile_n_configs(const struct pst_host *host, uint32_t node)
{
    (void)host;
    (void)node;
    return 0;
}

static pst_status profile_config(const struct pst_host *host, uint32_t node, uint32_t index,
                                 struct pst_node_config *ret_config)
{
    (void)host;
    (void)ret_config;
    pst_verdict_fail("it asked for configuration %u of node %u, which has none", index, node);
    return PST_ERR_BUG;
}

static void check_key(const char *key)
{
    if (!pst_remark_key_is_sound(key)) {
        pst_verdict_fail("it made a remark with the key \"%s\"; a key is a word of a-z, 0-9 and _",
                         key == NULL ? "" : key);
    }
}

static void remark_number(const struct pst_host *host, const char *key, double value)
{
    (void)host;
    (void)value;
    check_key(key);
}

static void remark_text(const struct pst_host *host, const char *key, const char *value)
{
    (void)host;
    check_key(key);
    if (value == NULL) {
        pst_verdict_fail("its remark \"%s\" has no text", key);
    }
}

static void remark_flag(const struct pst_host *host, const char *key, bool value)
{
    (void)host;
    (void)value;
    check_key(key);
}

const void *pst_rig_extension(const struct pst_rig *rig, const char *id)
{
    static const struct pst_cost cost = {sizeof cost, cost_compute, cost_transfer, cost_allreduce};
    static const struct pst_ask ask = {sizeof ask, ask_topology, ask_in_flight, ask_bound,
                                       ask_price};
    static const struct pst_eval eval = {sizeof eval, eval_evaluate, eval_replays};
    static const struct pst_rng rng = {sizeof rng, rng_bits};
    static const struct pst_profile profile = {sizeof profile, profile_node_ns, profile_figures,
                                               profile_n_configs, profile_config};
    static const struct pst_remark remark = {sizeof remark, remark_number, remark_text,
                                             remark_flag};
    const char *kind = rig->subject->plugin->kind;
    bool cuts = strcmp(kind, "partitioner") == 0;

    if (strcmp(id, PST_COST) == 0) {
        return &cost;
    }
    if (strcmp(id, PST_RNG) == 0) {
        return &rng;
    }
    if (strcmp(id, PST_REMARK) == 0) {
        return &remark;
    }
    if (strcmp(id, PST_ASK) == 0 && cuts) {
        return &ask;
    }
    if (strcmp(id, PST_PROFILE) == 0 && cuts) {
        return &profile;
    }
    return strcmp(id, PST_EVAL) == 0 && strcmp(kind, "memopt") == 0 ? &eval : NULL;
}
