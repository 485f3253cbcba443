/* SPDX-License-Identifier: Apache-2.0
 *
 * A made-up host for the tests of partitioners: a graph with times, prices that are sums (period =
 * times, peak = parameters + in-flight x (what comes in + what is saved)), links, and the answer.
 * Devices may be of different speed and memory.
 * Include once, after cmocka.
 */
#ifndef TEST_PARTITION_WORLD_H
#define TEST_PARTITION_WORLD_H

#include <stdio.h>

#define MAX_NODES 1024

/* A graph with times, and what the partitioner answered. */
struct world {
    struct pst_graph_view graph;
    struct pst_node nodes[MAX_NODES];
    struct pst_edge edges[4 * MAX_NODES];
    uint32_t in_edges[4 * MAX_NODES], out_edges[4 * MAX_NODES];
    uint64_t time_ns[MAX_NODES];
    char names[MAX_NODES][8];
    uint32_t n_stages, microbatches;
    uint64_t link_bytes_per_ns, latency_ns, detour_ns; /* detour: makes prices other than sums */
    uint32_t cuts[65], n_cut, size;
    uint64_t n_prices;
    bool stop;
    struct pst_partition_out out;
    struct pst_partition_in in;
    struct pst_cluster_view cluster;
    struct pst_cluster_device devices[64]; /* `kind`: how many times as slow it is, less one */
    uint32_t sizes[4];
};

static inline struct world *world_of(const struct pst_host *host)
{
    return pst_host_instance(host)->context.impl;
}

/* Its links are, too. */
static inline uint64_t slow_of(const struct world *w, uint32_t device)
{
    return 1 + w->devices[device].kind;
}

static inline pst_status compute(const struct pst_host *host, const uint32_t *nodes,
                                 uint32_t n_nodes, uint32_t samples, struct pst_times *ret_times)
{
    const struct world *w = world_of(host);

    memset(ret_times, 0, sizeof *ret_times);
    for (uint32_t i = 0; i < n_nodes; i++) {
        ret_times->forward_ns += w->time_ns[nodes[i]] * samples;
    }
    return PST_OK;
}

static inline pst_status compute_on(const struct pst_host *host, const uint32_t *nodes,
                                    uint32_t n_nodes, uint32_t samples, const uint32_t *ranks,
                                    uint32_t n_ranks, struct pst_times *ret_times)
{
    compute(host, nodes, n_nodes, samples, ret_times);
    assert_int_equal(n_ranks, 1);
    ret_times->forward_ns *= slow_of(world_of(host), ranks[0]);
    return PST_OK;
}

static inline uint64_t transfer_ns(const struct pst_host *host, uint64_t bytes, uint32_t from,
                                   uint32_t to)
{
    const struct world *w = world_of(host);

    if (from == to || w->link_bytes_per_ns == 0) {
        return 0;
    }
    return (w->latency_ns + (bytes + w->link_bytes_per_ns - 1) / w->link_bytes_per_ns) *
           (slow_of(w, from) > slow_of(w, to) ? slow_of(w, from) : slow_of(w, to));
}

static inline uint64_t allreduce_ns(const struct pst_host *host, uint64_t bytes, uint32_t n_ranks)
{
    return 0;
}

static inline uint32_t in_flight_of(const struct world *w, uint32_t stage, uint32_t n_stages)
{
    uint32_t k = n_stages - stage;

    return k < w->microbatches ? k : w->microbatches;
}

static inline pst_status in_flight(const struct pst_host *host, const struct pst_place *place,
                                   struct pst_held *ret_held)
{
    ret_held->microbatches = in_flight_of(world_of(host), place->stage, place->n_stages);
    ret_held->weight_versions = 1;
    return PST_OK;
}

/* Bytes per sample that nodes [first, end) read from before, each source once. */
static inline uint64_t comes_in(const struct world *w, uint32_t first, uint32_t end)
{
    uint64_t sum = 0;

    for (uint32_t u = 0; u < first; u++) {
        uint64_t most = 0;

        for (uint32_t e = 0; e < w->graph.n_edges; e++) {
            if (w->edges[e].from == u && w->edges[e].to >= first && w->edges[e].to < end) {
                most = w->edges[e].bytes;
            }
        }
        sum += most;
    }
    return sum;
}

static inline uint64_t goes_out(const struct world *w, uint32_t first, uint32_t end)
{
    uint64_t sum = 0;

    for (uint32_t u = first; u < end; u++) {
        uint64_t most = 0;

        for (uint32_t e = 0; e < w->graph.n_edges; e++) {
            if (w->edges[e].from == u && w->edges[e].to >= end) {
                most = w->edges[e].bytes;
            }
        }
        sum += most;
    }
    return sum;
}

struct cost {
    uint64_t period_ns, peak_bytes;
};

static inline struct cost cost_on(const struct world *w, uint32_t device, uint32_t first,
                                  uint32_t end, uint32_t k, uint32_t size)
{
    struct cost c = {0, 0};

    for (uint32_t v = first; v < end; v++) {
        c.period_ns += w->time_ns[v] * size * slow_of(w, device);
        c.peak_bytes += w->nodes[v].param_bytes + k * size * w->nodes[v].saved_bytes;
    }
    /* As though some ranges had to recompute: nothing that is monotone. */
    c.period_ns += w->detour_ns * ((first * 7 + end * 3) % 5);
    if (w->graph.n_nodes < 64) {
        c.peak_bytes += k * size * comes_in(w, first, end);
    }
    return c;
}

static inline struct cost cost_of(const struct world *w, uint32_t first, uint32_t end, uint32_t k,
                                  uint32_t size)
{
    return cost_on(w, 63, first, end, k, size);
}

static inline pst_status price(const struct pst_host *host,
                               const struct pst_stage_question *question,
                               struct pst_stage_price *ret_price)
{
    struct world *w = world_of(host);
    uint32_t first = question->nodes[0], end = first + question->n_nodes;
    struct cost c = cost_on(w, question->ranks != NULL ? question->ranks[0] : 63, first, end,
                            question->in_flight, question->microbatch_size);

    w->n_prices++;
    ret_price->fits = c.peak_bytes <= question->capacity_bytes;
    ret_price->period_ns = c.period_ns;
    ret_price->peak_bytes = c.peak_bytes;
    return PST_OK;
}

static inline bool cancelled(void *impl)
{
    return ((struct world *)impl)->stop;
}

static inline pst_status take_stage(struct pst_partition_out *out,
                                    const struct pst_stage_decl *decl)
{
    struct world *w = out->impl;

    assert_int_equal(decl->n_ranks, 1);
    assert_int_equal(decl->ranks[0], w->n_cut);
    assert_int_equal(decl->k, 1);
    assert_true(decl->n_nodes > 0);
    for (uint32_t i = 0; i < decl->n_nodes; i++) {
        assert_int_equal(decl->nodes[i], w->cuts[w->n_cut] + i);
    }
    w->size = decl->microbatch_size;
    w->cuts[w->n_cut + 1] = w->cuts[w->n_cut] + decl->n_nodes;
    w->n_cut++;
    return PST_OK;
}

static inline void world_init(struct world *w, uint32_t n_stages, uint32_t microbatches)
{
    static const uint32_t one = 1;

    memset(w, 0, sizeof *w);
    w->n_stages = n_stages;
    w->microbatches = microbatches;
    w->graph.size = sizeof w->graph;
    w->graph.node_size = sizeof w->nodes[0];
    w->graph.edge_size = sizeof w->edges[0];
    w->graph.nodes = w->nodes;
    w->graph.edges = w->edges;
    w->graph.in_edges = w->in_edges;
    w->graph.out_edges = w->out_edges;
    w->out = (struct pst_partition_out){sizeof w->out, w, take_stage};
    w->sizes[0] = 1;
    w->in = (struct pst_partition_in){
        .size = sizeof w->in,
        .graph = &w->graph,
        .cluster = &w->cluster,
        .batch = microbatches,
        .micro_batches = w->sizes,
        .degrees = &one,
        .n_micro_batches = 1,
        .n_degrees = 1,
        .n_devices = n_stages,
        .capacity_bytes = UINT64_MAX,
    };
}

static inline void world_node(struct world *w, uint64_t time_ns, uint64_t params, uint64_t saved)
{
    uint32_t v = w->graph.n_nodes++;

    snprintf(w->names[v], sizeof w->names[v], "n%u", v);
    w->nodes[v].name = w->names[v];
    w->nodes[v].op = "op";
    w->nodes[v].param_bytes = params;
    w->nodes[v].saved_bytes = saved;
    w->time_ns[v] = time_ns;
}

static inline void world_edge(struct world *w, uint32_t from, uint32_t to, uint64_t bytes)
{
    w->edges[w->graph.n_edges++] = (struct pst_edge){from, to, bytes, 1};
}

/* Rows of in and out edges. */
static inline void world_finish(struct world *w)
{
    uint32_t in = 0, out = 0;

    for (uint32_t v = 0; v < w->graph.n_nodes; v++) {
        w->nodes[v].first_in = in;
        w->nodes[v].first_out = out;
        for (uint32_t e = 0; e < w->graph.n_edges; e++) {
            if (w->edges[e].to == v) {
                w->in_edges[in++] = e;
                w->nodes[v].n_in++;
            }
            if (w->edges[e].from == v) {
                w->out_edges[out++] = e;
                w->nodes[v].n_out++;
            }
        }
    }
}

static inline pst_status partition(struct world *w, const char *id, const char *options,
                                   struct pst_error *err)
{
    static const struct pst_cost cost = {sizeof cost, compute, transfer_ns, allreduce_ns,
                                         compute_on};
    static const struct pst_ask ask = {.size = sizeof ask, .in_flight = in_flight, .price = price};
    const struct pst_host_context context = {
        .cost = &cost, .ask = &ask, .impl = w, .cancelled = cancelled};
    const struct pst_partitioner *f;
    struct pst_instance *instance = NULL;
    pst_status st = plugin_rig_open("partitioner", id, options, &context, &instance, err);

    assert_ok(st, err);
    w->n_cut = 0;
    w->n_prices = 0;
    f = instance->plugin->get_interface(PST_PARTITIONER);
    st = f->partition(instance->self, &w->in, &w->out);
    *err = instance->failure;
    pst_instance_destroy(instance);
    return st;
}

#endif
