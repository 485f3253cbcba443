/* SPDX-License-Identifier: Apache-2.0
 *
 * The exact min-max cut of an order of the nodes into contiguous stages. In a run that is planned:
 * of the model's order, under the memory that the job's scheduler and memory optimizer say each
 * stage takes, one device per stage. By the reference cost model: of any order, with replicas.
 */
#include "chain_plugin.h"
#include "chain_dp.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct config {
    uint32_t comm, order;
    bool chain;
    const char *microbatch;
};

struct chain_dp {
    const struct pst_host *host;
    const struct pst_cost *cost;
    const struct config *config;
};

/* In a run that is planned. */
struct question {
    const struct chain_dp *self;
    uint32_t only_size; /* 0: of all */
};

static const struct pst_param params[] = {
    PST_PARAM(struct config, comm, PST_PARAM_ENUM, "max", "none|sum|max",
              "How transfers count: not at all, added to compute time, or overlapped with it; a "
              "problem file states this itself."),
    PST_PARAM(struct config, order, PST_PARAM_ENUM, "index", "index|dfs|bfs|longest|best",
              "Order of the nodes that is cut; best: many, refined. Problem files only."),
    PST_PARAM(struct config, chain, PST_PARAM_BOOL, "false", NULL,
              "Stages form a chain: each feeds only the next one, as PyTorch's pipelines require. "
              "Jobs only."),
    PST_PARAM(struct config, microbatch, PST_PARAM_STRING, "auto", "1..",
              "Samples of a micro-batch, or auto: the size with the shortest step."),
};

static pst_status create(const struct pst_host *host, const void *config, void **ret_self)
{
    struct chain_dp *self = host->alloc(host, sizeof *self, _Alignof(struct chain_dp));

    if (self == NULL) {
        return PST_ERR_NOMEM;
    }
    self->host = host;
    self->config = config;
    self->cost = host->get_extension(host, PST_COST);
    if (host->get_extension(host, PST_ASK) == NULL || self->cost == NULL) {
        return pst_failf(host, PST_ERR_UNSUPPORTED, "the host lacks %s or %s", PST_ASK, PST_COST);
    }
    *ret_self = self;
    return PST_OK;
}

PST_DESTROY_NOTHING

/* Stage s is on device s. */
static void sum_times(struct chain *chain, uint32_t stage, uint64_t *sums)
{
    const struct pst_cost *cost = chain->cost;

    for (uint32_t v = 0; v < chain->n; v++) {
        struct pst_times times;

        call_check(
            PST_CAN(cost, compute_on)
                ? cost->compute_on(chain->host, &v, 1, chain->microbatch_size, &stage, 1, &times)
                : cost->compute(chain->host, &v, 1, chain->microbatch_size, &times));
        sums[v + 1] =
            sums[v] + times.forward_ns + times.backward_input_ns + times.backward_weight_ns;
    }
}

void chain_find_reach(struct chain *chain)
{
    const struct pst_graph_view *graph = chain->in->graph;

    CALL_TAKE(chain->reach, (size_t)chain->n + 1);
    for (uint32_t i = 0; i < graph->n_edges; i++) {
        const struct pst_edge *edge = pst_graph_edge(graph, i);
        uint32_t *reach = &chain->reach[edge->from + 1];

        *reach = edge->to > *reach ? edge->to : *reach;
    }
    for (uint32_t v = 0; v < chain->n; v++) {
        uint32_t *reach = &chain->reach[v + 1];

        *reach = chain->reach[v] > *reach ? chain->reach[v] : *reach;
    }
}

static uint32_t kind_of(const struct chain *chain, uint32_t stage)
{
    const struct pst_cluster_view *cluster = chain->in->cluster;

    return stage < cluster->n_devices ? pst_cluster_kind_at(cluster, stage) : 0;
}

static pst_status chain_init(struct chain *chain, const struct question *q,
                             const struct part_problem *problem, uint32_t n_stages, uint32_t size)
{
    uint32_t n = problem->n, s, t;
    pst_status status;

    *chain = (struct chain){.host = problem->host,
                            .cost = q->self->cost,
                            .in = problem->in,
                            .comm = q->self->config->comm,
                            .n = n,
                            .n_stages = n_stages,
                            .microbatch_size = size,
                            .prices = {.value_size = sizeof(struct range_price)}};
    if (q->self->config->chain) {
        chain_find_reach(chain);
    }
    CALL_TAKE(chain->prefix_ns, n_stages);
    CALL_TAKE(chain->stamps, n);
    for (s = 0; s < n_stages; s++) {
        for (t = 0; kind_of(chain, t) != kind_of(chain, s); t++) {
        }
        if (t == s) {
            CALL_TAKE(chain->prefix_ns[s], (size_t)n + 1);
            sum_times(chain, s, chain->prefix_ns[s]);
        }
        chain->prefix_ns[s] = chain->prefix_ns[t];
    }
    status = part_asker_init(problem, n_stages, size, 1, &chain->asker);
    chain->asker.placed = true;
    return status;
}

/* The best cut for one size, and a bound of the step time to compare sizes by. */
static pst_status try_size(void *question, const struct part_ranges *ranges, uint32_t n_stages,
                           uint32_t size, double best, double *ret_score, uint32_t *ret_cuts)
{
    const struct question *q = question;
    struct chain_answer answer = {.cuts = ret_cuts};
    struct chain chain;
    pst_status status;

    *ret_score = INFINITY;
    if (q->only_size != 0 && q->only_size != size) {
        return PST_OK;
    }
    status = chain_init(&chain, q, ranges->problem, n_stages, size);
    if (status == PST_OK) {
        status = chain_search(&chain, &answer);
    }
    if (status == PST_OK) {
        *ret_score = part_chain_score(ranges->problem, size, (double)answer.bottleneck_ns,
                                      (double)answer.sum_ns);
        status = *ret_score < best ? chain_shorten(&chain, ret_cuts) : PST_OK;
    }
    return status;
}

/* *ret_size: 0 for auto. */
static pst_status read_size(const struct chain_dp *self, const struct pst_partition_in *in,
                            uint32_t *ret_size)
{
    const char *text = self->config->microbatch;
    char *end;
    unsigned long size;
    uint32_t i;

    *ret_size = 0;
    if (strcmp(text, "auto") == 0) {
        return PST_OK;
    }
    size = strtoul(text, &end, 10);
    if (*text < '0' || *text > '9' || *end != '\0') {
        return pst_failf(self->host, PST_ERR_CONFIG,
                         "microbatch must be \"auto\" or a number of samples, not \"%s\"", text);
    }
    for (i = 0; i < in->n_micro_batches; i++) {
        if (in->micro_batches[i] == size) {
            *ret_size = (uint32_t)size;
            return PST_OK;
        }
    }
    return pst_failf(self->host, PST_ERR_CONFIG,
                     "microbatch = %lu is not one of the sizes to choose from", size);
}

static pst_status partition(void *self_, const struct pst_partition_in *in,
                            struct pst_partition_out *out)
{
    const struct chain_dp *self = self_;
    const struct pst_profile *profile = self->host->get_extension(self->host, PST_PROFILE);
    struct question question;
    uint32_t size;
    pst_status status = read_size(self, in, &size);

    if (status != PST_OK) {
        return status;
    }
    if (profile != NULL && profile->figures(self->host)->reference != 0) {
        if (self->config->chain) {
            return pst_failf(self->host, PST_ERR_CONFIG,
                             "chain = true is for jobs; a problem's stages form any graph");
        }
        return chain_by_reference(self->host, in, self->config->order, size, out);
    }
    if (PST_HAS(in, n_tensors) && in->n_tensors > 1) {
        if (self->config->order != 0) {
            return pst_failf(self->host, PST_ERR_CONFIG,
                             "order is for problem files; remove it, or set order = \"index\"");
        }
        return chain_by_ways(self->host, in, self->config->comm, self->config->chain, size, out);
    }
    if (in->n_stages == 0 && in->n_devices > in->graph->n_nodes) {
        return part_too_few_nodes(self->host, in->n_devices, in->graph->n_nodes);
    }
    question = (struct question){self, size};
    return part_chain_run(self->host, in, try_size, &question, out);
}

PART_CHAIN_PLUGIN_WORDS(
    struct config, "chain-dp", "2.0", "mixed-devices", "ways",
    .summary = "The exact min-max cut into contiguous stages, within memory.",
    .reference = "after Narayanan et al., PipeDream: Generalized Pipeline Parallelism for DNN "
                 "Training, SOSP 2019")
