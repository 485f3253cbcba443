/* SPDX-License-Identifier: Apache-2.0
 *
 * The exact min-max cut of an order of the nodes into contiguous stages. In a run that is planned:
 * of the model's order, under the memory that the job's scheduler and memory optimizer say each
 * stage takes, one device per stage. By the reference cost model: of any order, with replicas.
 */
#include "chain_plugin.h"
#include "chain_dp.h"

#include <stdlib.h>
#include <string.h>

struct config {
    uint32_t comm, order;
    const char *microbatch;
};

struct chain_dp {
    const struct pst_host *host;
    const struct pst_ask *ask;
    const struct pst_cost *cost;
    const struct config *config;
};

static const struct pst_param params[] = {
    PST_PARAM(struct config, comm, PST_PARAM_ENUM, "max", "none|sum|max",
              "How transfers count: not at all, added to compute time, or side by side with it; "
              "a problem file says so itself."),
    PST_PARAM(struct config, order, PST_PARAM_ENUM, "index", "index|dfs|bfs|longest|best",
              "Order of the nodes that is cut; best: many, refined. Problem files only."),
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
    self->ask = host->get_extension(host, PST_ASK);
    self->cost = host->get_extension(host, PST_COST);
    if (self->ask == NULL || self->cost == NULL) {
        return pst_failf(host, PST_ERR_UNSUPPORTED, "the host lacks %s or %s", PST_ASK, PST_COST);
    }
    *ret_self = self;
    return PST_OK;
}

PST_DESTROY_NOTHING

/* In-flight counts of a chain, from the sink up: a stage may be told about its successor. */
static pst_status ask_in_flight(struct chain *chain)
{
    uint32_t s;

    for (s = chain->n_stages; s-- > 0;) {
        struct pst_successor successor = {
            .microbatch_size = chain->microbatch_size,
            .k = 1,
            .in_flight = s + 1 < chain->n_stages ? chain->in_flight[s + 1] : 0,
        };
        struct pst_place place = {
            .size = sizeof place,
            .stage = s,
            .n_stages = chain->n_stages,
            .n_devices = chain->in->n_devices,
            .n_microbatches = chain->in->batch / chain->microbatch_size,
            .microbatch_size = chain->microbatch_size,
            .k = 1,
            .n_successors = s + 1 < chain->n_stages ? 1 : 0,
            .successor_size = sizeof successor,
            .successors = &successor,
        };
        struct pst_held held = {.size = sizeof held};
        pst_status st = chain->ask->in_flight(chain->host, &place, &held);

        if (st != PST_OK) {
            return st;
        }
        chain->in_flight[s] = held.microbatches;
        chain->versions[s] = held.weight_versions;
    }
    return PST_OK;
}

/* Needs chain_finish in any case. */
static pst_status chain_init(struct chain *chain, const struct chain_dp *self,
                             const struct pst_partition_in *in, uint32_t n_stages,
                             uint32_t microbatch_size)
{
    uint32_t n = in->graph->n_nodes, v;

    memset(chain, 0, sizeof *chain);
    chain->host = self->host;
    chain->ask = self->ask;
    chain->cost = self->cost;
    chain->comm = self->config->comm;
    chain->in = in;
    chain->n = n;
    chain->n_stages = n_stages;
    chain->microbatch_size = microbatch_size;
    chain->nodes = part_alloc(n, sizeof *chain->nodes);
    chain->prefix_ns = part_alloc((size_t)n + 1, sizeof *chain->prefix_ns);
    chain->in_flight = part_alloc(n_stages, sizeof *chain->in_flight);
    chain->versions = part_alloc(n_stages, sizeof *chain->versions);
    chain->stamps = part_alloc(n, sizeof *chain->stamps);
    for (v = 0; v < n; v++) {
        struct pst_times times;

        chain->nodes[v] = v;
        part_check(self->cost->compute(self->host, &v, 1, microbatch_size, &times));
        chain->prefix_ns[v + 1] = chain->prefix_ns[v] + times.forward_ns + times.backward_input_ns +
                                  times.backward_weight_ns;
    }
    return ask_in_flight(chain);
}

/* The best cut for one micro-batch size, and a bound of the step time to compare sizes by. Needs
   chain_finish in any case. */
static pst_status solve(const struct chain_dp *self, const struct pst_partition_in *in,
                        uint32_t n_stages, uint32_t microbatch_size, struct chain *ret_chain,
                        uint32_t *ret_cuts, uint64_t *ret_step_ns)
{
    struct chain_answer answer = {.cuts = ret_cuts};
    pst_status st = chain_init(ret_chain, self, in, n_stages, microbatch_size);

    if (st == PST_OK) {
        st = chain_search(ret_chain, &answer);
    }
    if (st == PST_OK) {
        *ret_step_ns = answer.sum_ns + (in->batch / microbatch_size - 1) * answer.bottleneck_ns;
    }
    return st;
}

static void chain_answer(const struct chain *chain, const uint32_t *cuts,
                         struct pst_partition_out *out)
{
    uint32_t s;

    for (s = 0; s < chain->n_stages; s++) {
        struct pst_stage_decl stage = {
            .size = sizeof stage,
            .nodes = chain->nodes + cuts[s],
            .n_nodes = cuts[s + 1] - cuts[s],
            .ranks = &s,
            .n_ranks = 1,
            .microbatch_size = chain->microbatch_size,
            .k = 1,
        };

        part_check(out->stage(out, &stage));
    }
}

/* Priced by the job's scheduler and memory optimizer. */
static pst_status plan(const struct chain_dp *self, const struct pst_partition_in *in,
                       uint32_t only_size, struct pst_partition_out *out)
{
    uint32_t n_stages = in->n_stages != 0 ? in->n_stages : in->n_devices;
    uint32_t i, n = in->graph->n_nodes;
    uint32_t *cuts[2] = {NULL, NULL};
    struct chain chain = {.microbatch_size = 0}, tried = {.microbatch_size = 0};
    uint64_t best_ns = UINT64_MAX;
    pst_status st = PST_OK, failed = PST_OK;

    if (n_stages > n) {
        return pst_failf(self->host, PST_ERR_INFEASIBLE,
                         "%u stages are wanted but the graph has only %u nodes; use fewer "
                         "devices, fewer stages on each, or a deeper model",
                         n_stages, n);
    }
    cuts[0] = part_alloc((size_t)n_stages + 1, sizeof *cuts[0]);
    cuts[1] = part_alloc((size_t)n_stages + 1, sizeof *cuts[1]);
    for (i = 0; i < in->n_micro_batches; i++) {
        uint64_t step_ns = 0;

        if (only_size != 0 && in->micro_batches[i] != only_size) {
            continue;
        }
        st = solve(self, in, n_stages, in->micro_batches[i], &tried, cuts[1], &step_ns);
        if (st == PST_ERR_INFEASIBLE) {
            failed = st;
            continue;
        }
        if (st != PST_OK) {
            goto out;
        }
        if (step_ns < best_ns) {
            uint32_t *spare = cuts[0];

            best_ns = step_ns;
            chain = tried;
            tried = (struct chain){.microbatch_size = 0};
            cuts[0] = cuts[1];
            cuts[1] = spare;
        }
    }
    st = chain.microbatch_size == 0 ? failed : chain_shorten(&chain, cuts[0]);
    if (st == PST_OK && chain.microbatch_size != 0) {
        chain_answer(&chain, cuts[0], out);
    }
out:
    return st;
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
                     "microbatch = %lu is none of the sizes to choose from", size);
}

static pst_status partition(void *self_, const struct pst_partition_in *in,
                            struct pst_partition_out *out)
{
    const struct chain_dp *self = self_;
    const struct pst_profile *profile = self->host->get_extension(self->host, PST_PROFILE);
    uint32_t size;
    pst_status st = read_size(self, in, &size);

    if (st != PST_OK) {
        return st;
    }
    if (profile != NULL && profile->figures(self->host)->reference != 0) {
        return chain_by_reference(self->host, in, self->config->order, size, out);
    }
    return plan(self, in, size, out);
}

PART_CHAIN_PLUGIN(struct config, "chain-dp", "2.0",
                  .summary = "The exact min-max cut into contiguous stages, within memory.",
                  .reference =
                      "after Narayanan et al., PipeDream: Generalized Pipeline Parallelism for DNN "
                      "Training, SOSP 2019")
