/* SPDX-License-Identifier: Apache-2.0
 *
 * uniform and chain-dp against enumeration of every cut, with a host whose prices the test makes
 * up: period = sum of times, peak = parameters + in-flight x (what comes in + what is saved).
 */
#include "plugin_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>

#include "base/philox.h"
#include "base/util.h"

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
    uint32_t sizes[4];
};

static struct world *world_of(const struct pst_host *host)
{
    return pst_host_instance(host)->context.impl;
}

static pst_status compute(const struct pst_host *host, const uint32_t *nodes, uint32_t n_nodes,
                          uint32_t samples, struct pst_times *ret_times)
{
    const struct world *w = world_of(host);

    memset(ret_times, 0, sizeof *ret_times);
    for (uint32_t i = 0; i < n_nodes; i++) {
        ret_times->forward_ns += w->time_ns[nodes[i]] * samples;
    }
    return PST_OK;
}

static uint64_t transfer_ns(const struct pst_host *host, uint64_t bytes, uint32_t from, uint32_t to)
{
    const struct world *w = world_of(host);

    if (from == to || w->link_bytes_per_ns == 0) {
        return 0;
    }
    return w->latency_ns + (bytes + w->link_bytes_per_ns - 1) / w->link_bytes_per_ns;
}

static uint64_t allreduce_ns(const struct pst_host *host, uint64_t bytes, uint32_t n_ranks)
{
    (void)host;
    (void)bytes;
    (void)n_ranks;
    return 0;
}

static uint32_t in_flight_of(const struct world *w, uint32_t stage, uint32_t n_stages)
{
    uint32_t k = n_stages - stage;

    return k < w->microbatches ? k : w->microbatches;
}

static pst_status in_flight(const struct pst_host *host, const struct pst_place *place,
                            struct pst_held *ret_held)
{
    ret_held->microbatches = in_flight_of(world_of(host), place->stage, place->n_stages);
    ret_held->weight_versions = 1;
    return PST_OK;
}

/* Bytes per sample that nodes [first, end) read from before, each source once. */
static uint64_t comes_in(const struct world *w, uint32_t first, uint32_t end)
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

static uint64_t goes_out(const struct world *w, uint32_t first, uint32_t end)
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

static struct cost cost_of(const struct world *w, uint32_t first, uint32_t end, uint32_t k,
                           uint32_t size)
{
    struct cost c = {0, 0};

    for (uint32_t v = first; v < end; v++) {
        c.period_ns += w->time_ns[v] * size;
        c.peak_bytes += w->nodes[v].param_bytes + k * size * w->nodes[v].saved_bytes;
    }
    /* As though some ranges had to recompute: nothing that is monotone. */
    c.period_ns += w->detour_ns * ((first * 7 + end * 3) % 5);
    if (w->graph.n_nodes < 64) {
        c.peak_bytes += k * size * comes_in(w, first, end);
    }
    return c;
}

static pst_status price(const struct pst_host *host, const struct pst_stage_question *question,
                        struct pst_stage_price *ret_price)
{
    struct world *w = world_of(host);
    uint32_t first = question->nodes[0], end = first + question->n_nodes;
    struct cost c = cost_of(w, first, end, question->in_flight, question->microbatch_size);

    w->n_prices++;
    ret_price->fits = c.peak_bytes <= question->capacity_bytes;
    ret_price->period_ns = c.period_ns;
    ret_price->peak_bytes = c.peak_bytes;
    return PST_OK;
}

static bool cancelled(void *impl)
{
    return ((struct world *)impl)->stop;
}

static pst_status take_stage(struct pst_partition_out *out, const struct pst_stage_decl *decl)
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

static void world_init(struct world *w, uint32_t n_stages, uint32_t microbatches)
{
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
        .degrees = w->sizes,
        .n_micro_batches = 1,
        .n_degrees = 1,
        .n_devices = n_stages,
        .capacity_bytes = UINT64_MAX,
    };
}

static void world_node(struct world *w, uint64_t time_ns, uint64_t params, uint64_t saved)
{
    uint32_t v = w->graph.n_nodes++;

    snprintf(w->names[v], sizeof w->names[v], "n%u", v);
    w->nodes[v].name = w->names[v];
    w->nodes[v].op = "op";
    w->nodes[v].param_bytes = params;
    w->nodes[v].saved_bytes = saved;
    w->time_ns[v] = time_ns;
}

static void world_edge(struct world *w, uint32_t from, uint32_t to, uint64_t bytes)
{
    w->edges[w->graph.n_edges++] = (struct pst_edge){from, to, bytes, 1};
}

/* Rows of in and out edges. */
static void world_finish(struct world *w)
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

static pst_status partition(struct world *w, const char *id, const char *options,
                            struct pst_error *err)
{
    static const struct pst_cost cost = {sizeof cost, compute, transfer_ns, allreduce_ns};
    static const struct pst_ask ask = {.size = sizeof ask, .in_flight = in_flight, .price = price};
    const struct pst_host_context context = {
        .cost = &cost, .ask = &ask, .impl = w, .cancelled = cancelled};
    const struct pst_partitioner *f;
    struct pst_instance *instance = NULL;
    pst_status st = plugin_rig_open("partitioner", id, options, &context, &instance, err);

    if (st != PST_OK) {
        fail_msg("%s", err->message);
    }
    w->n_cut = 0;
    w->n_prices = 0;
    f = instance->plugin->get_interface(PST_PARTITIONER);
    st = f->partition(instance->self, &w->in, &w->out);
    *err = instance->failure;
    pst_instance_destroy(instance);
    return st;
}

/* --- uniform -----------------------------------------------------------------------------------*/

static void test_uniform_sizes(void **state)
{
    static const uint32_t expected[][6] = {/* nodes, stages, sizes */
                                           {6, 3, 2, 2, 2, 0},
                                           {7, 3, 2, 2, 3, 0},
                                           {8, 3, 2, 3, 3, 0},
                                           {4, 4, 1, 1, 1, 1},
                                           {5, 1, 5}};
    struct pst_error err;

    (void)state;
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        static struct world w;

        world_init(&w, expected[i][1], 4);
        for (uint32_t v = 0; v < expected[i][0]; v++) {
            world_node(&w, 1, 0, 0);
        }
        assert_int_equal(partition(&w, "uniform", "", &err), PST_OK);
        assert_int_equal(w.n_cut, expected[i][1]);
        for (uint32_t s = 0; s < w.n_cut; s++) {
            assert_int_equal(w.cuts[s + 1] - w.cuts[s], expected[i][2 + s]);
        }
    }
}

static void test_more_stages_than_nodes(void **state)
{
    static const char *const ids[] = {"uniform", "chain-dp"};
    struct pst_error err;

    (void)state;
    for (int i = 0; i < 2; i++) {
        static struct world w;

        world_init(&w, 3, 4);
        world_node(&w, 1, 0, 0);
        world_node(&w, 1, 0, 0);
        assert_int_equal(partition(&w, ids[i], "", &err), PST_ERR_INFEASIBLE);
        assert_non_null(strstr(err.message, "3 stages are wanted but the graph has only 2 nodes"));
    }
}

/* A scheduler that wants its own number of stages gets it. */
static void test_wanted_stages(void **state)
{
    static const char *const ids[] = {"uniform", "chain-dp"};
    struct pst_error err;

    (void)state;
    for (int i = 0; i < 2; i++) {
        static struct world w;

        world_init(&w, 2, 4);
        w.in.n_stages = 4;
        for (int v = 0; v < 8; v++) {
            world_node(&w, 1, 0, 0);
        }
        assert_int_equal(partition(&w, ids[i], "", &err), PST_OK);
        assert_int_equal(w.n_cut, 4);
        assert_int_equal(w.cuts[2], 4);
    }
}

/* --- chain-dp ----------------------------------------------------------------------------------*/

struct best {
    uint64_t bottleneck, peaks;
    uint32_t cuts[9];
};

static uint64_t with_comm(const struct world *w, int comm, uint32_t s, uint32_t first, uint32_t end,
                          uint64_t period)
{
    uint64_t in = 0, out = 0;

    if (comm == 0 || w->link_bytes_per_ns == 0) {
        return period;
    }
    if (s > 0) {
        in = w->latency_ns +
             (comes_in(w, first, end) + w->link_bytes_per_ns - 1) / w->link_bytes_per_ns;
    }
    if (s + 1 < w->n_stages) {
        out = w->latency_ns +
              (goes_out(w, first, end) + w->link_bytes_per_ns - 1) / w->link_bytes_per_ns;
    }
    if (comm == 1) {
        return period + 2 * (in + out);
    }
    in = in > out ? in : out;
    return period > in ? period : in;
}

/* Every cut in lexicographic order; the first of the best ones stays. */
static void enumerate(const struct world *w, int comm, uint32_t s, uint32_t *cuts, uint64_t most,
                      uint64_t peaks, struct best *best)
{
    uint32_t n = w->graph.n_nodes;

    if (s == w->n_stages) {
        if (cuts[s] == n &&
            (most < best->bottleneck || (most == best->bottleneck && peaks < best->peaks))) {
            best->bottleneck = most;
            best->peaks = peaks;
            memcpy(best->cuts, cuts, (w->n_stages + 1) * sizeof *cuts);
        }
        return;
    }
    for (cuts[s + 1] = cuts[s] + 1; cuts[s + 1] <= n; cuts[s + 1]++) {
        struct cost c = cost_of(w, cuts[s], cuts[s + 1], in_flight_of(w, s, w->n_stages), 1);
        uint64_t t = with_comm(w, comm, s, cuts[s], cuts[s + 1], c.period_ns);

        if (c.peak_bytes <= w->in.capacity_bytes) {
            enumerate(w, comm, s + 1, cuts, t > most ? t : most, peaks + c.peak_bytes, best);
        }
    }
}

static void random_world(struct world *w, uint64_t seed, uint64_t *counter)
{
    struct pst_philox r = pst_philox(seed, 0, (*counter)++);
    uint32_t n_stages = 1 + r.v[0] % 4, n = n_stages + r.v[1] % (10 - n_stages);

    world_init(w, n_stages, 1 + r.v[2] % 6);
    for (uint32_t v = 0; v < n; v++) {
        struct pst_philox q = pst_philox(seed, 1, (*counter)++);

        world_node(w, q.v[0] % 8, q.v[1] % 10, q.v[2] % 6);
        for (uint32_t u = 0; u < v; u++) {
            if (u + 1 == v || pst_philox(seed, 2, (*counter)++).v[0] % 6 == 0) {
                world_edge(w, u, v, 1 + u % 4);
            }
        }
    }
    world_finish(w);
    w->detour_ns = r.v[3] % 3 == 0 ? 2 : 0;
    if (r.v[3] % 4 != 0) {
        struct pst_philox q = pst_philox(seed, 3, (*counter)++);

        w->link_bytes_per_ns = 1;
        w->latency_ns = q.v[0] % 3;
        w->in.capacity_bytes = q.v[1] % 5 == 0 ? UINT64_MAX : 20 + q.v[1] % 120;
    }
}

static void test_chain_dp_against_every_cut(void **state)
{
    static const char *const options[] = {"comm = \"none\"", "comm = \"sum\"", "comm = \"max\""};
    const uint64_t seed = 4711;
    uint64_t counter = 0;
    uint32_t infeasible = 0, feasible = 0;

    (void)state;
    print_message("seed %llu\n", (unsigned long long)seed);
    for (int round = 0; round < 3000; round++) {
        static struct world w;
        struct best best = {UINT64_MAX, UINT64_MAX, {0}};
        uint32_t cuts[9] = {0};
        struct pst_error err;
        pst_status st;
        int comm = round % 3;

        random_world(&w, seed, &counter);
        enumerate(&w, comm, 0, cuts, 0, 0, &best);
        st = partition(&w, "chain-dp", options[comm], &err);
        if (best.bottleneck == UINT64_MAX) {
            infeasible++;
            assert_int_equal(st, PST_ERR_INFEASIBLE);
            assert_non_null(strstr(err.message, "does not fit: node \"n"));
            continue;
        }
        feasible++;
        assert_int_equal(st, PST_OK);
        assert_int_equal(w.n_cut, w.n_stages);
        for (uint32_t s = 0; s <= w.n_stages; s++) {
            if (w.cuts[s] != best.cuts[s]) {
                fail_msg("round %d: cut %u is %u, expected %u (bottleneck %llu)", round, s,
                         w.cuts[s], best.cuts[s], (unsigned long long)best.bottleneck);
            }
        }
    }
    print_message("%u feasible, %u not\n", feasible, infeasible);
    assert_true(feasible > 1000 && infeasible > 100);
}

/* Six nodes of time 6, results 2 8 40 8 2 2, a link of 2 bytes per tick: the cut in the middle
   costs a transfer of 20, more than the compute of 18, and is the best all the same. */
static void test_transfers_decide(void **state)
{
    static const uint64_t bytes[] = {2, 8, 40, 8, 2, 2};
    static struct world w;
    struct pst_error err;

    (void)state;
    world_init(&w, 2, 4);
    w.link_bytes_per_ns = 2;
    for (uint32_t v = 0; v < 6; v++) {
        world_node(&w, 6, 0, 0);
        if (v > 0) {
            world_edge(&w, v - 1, v, bytes[v - 1]);
        }
    }
    world_finish(&w);
    assert_int_equal(partition(&w, "chain-dp", "", &err), PST_OK);
    assert_int_equal(w.cuts[1], 3);
    /* Without overlap 18 + 2 x 20 is worse than 24 + 2 x 4 and 30 + 2 x 1; of these the earlier. */
    assert_int_equal(partition(&w, "chain-dp", "comm = \"sum\"", &err), PST_OK);
    assert_int_equal(w.cuts[1], 1);
    assert_int_equal(partition(&w, "chain-dp", "comm = \"none\"", &err), PST_OK);
    assert_int_equal(w.cuts[1], 3);
}

/* With four nodes of equal time memory alone decides: 1f1b holds two on the first stage. */
static void test_memory_moves_the_cut(void **state)
{
    static struct world w;
    struct pst_error err;

    (void)state;
    world_init(&w, 2, 8);
    for (int v = 0; v < 4; v++) {
        world_node(&w, 1, 0, 10);
    }
    world_finish(&w);
    w.in.capacity_bytes = 40; /* 2 x 2 x 10 fit */
    assert_int_equal(partition(&w, "chain-dp", "", &err), PST_OK);
    assert_int_equal(w.cuts[1], 2);
    w.in.capacity_bytes = 39; /* only one node fits the first stage */
    assert_int_equal(partition(&w, "chain-dp", "", &err), PST_OK);
    assert_int_equal(w.cuts[1], 1);
    w.in.capacity_bytes = 29; /* then the other three do not fit the second */
    assert_int_equal(partition(&w, "chain-dp", "", &err), PST_ERR_INFEASIBLE);
    assert_non_null(strstr(err.message, "stage 1 of 2 does not fit: node \"n1\" with all nodes "
                                        "behind it needs 0.0 MiB (30 bytes)"));
    w.in.capacity_bytes = 19;
    assert_int_equal(partition(&w, "chain-dp", "", &err), PST_ERR_INFEASIBLE);
    assert_non_null(strstr(err.message,
                           "stage 0 of 2 does not fit: node \"n0\" alone needs 0.0 MiB "
                           "(20 bytes), a device has 0.0 MiB (19 bytes)"));
}

/* Of several sizes the one whose step is shortest: bottleneck x (m - 1) + sum. */
static void test_sizes(void **state)
{
    static struct world w;
    struct pst_error err;

    (void)state;
    world_init(&w, 2, 8);
    w.in.batch = 8;
    w.sizes[0] = 4;
    w.sizes[1] = 1;
    w.in.n_micro_batches = 2;
    for (int v = 0; v < 4; v++) {
        world_node(&w, 1, 0, 10);
    }
    world_finish(&w);
    assert_int_equal(partition(&w, "chain-dp", "", &err), PST_OK);
    assert_int_equal(w.size, 1); /* 7 x 2 + 4 against 1 x 8 + 16 */
    w.in.capacity_bytes = 79;    /* size 1 only */
    assert_int_equal(partition(&w, "chain-dp", "", &err), PST_OK);
    assert_int_equal(w.size, 1);
}

static void test_large_graphs_are_quick(void **state)
{
    const uint64_t seed = 9;
    static struct world w;
    struct pst_error err;
    uint64_t begin, peak = 0;

    (void)state;
    world_init(&w, 16, 64);
    for (uint32_t v = 0; v < 1000; v++) {
        struct pst_philox q = pst_philox(seed, 1, v);

        world_node(&w, 100 + q.v[0] % 1000, 4, 1 + q.v[2] % 6);
        if (v > 0) {
            world_edge(&w, v - 1, v, 1 + v % 4);
        }
    }
    world_finish(&w);
    begin = pst_now_ns();
    assert_int_equal(partition(&w, "chain-dp", "", &err), PST_OK);
    for (uint32_t s = 0; s < 16; s++) {
        struct cost c = cost_of(&w, w.cuts[s], w.cuts[s + 1], 16 - s, 1);

        peak = c.peak_bytes > peak ? c.peak_bytes : peak;
    }
    print_message("1000 nodes, 16 stages: %.3f s, %llu prices\n",
                  (double)(pst_now_ns() - begin) / 1e9, (unsigned long long)w.n_prices);
    assert_true(pst_now_ns() - begin < 2000000000u);
    w.in.capacity_bytes = peak * 6 / 10; /* the cut must move a long way */
    begin = pst_now_ns();
    assert_int_equal(partition(&w, "chain-dp", "", &err), PST_OK);
    print_message("with tight memory: %.3f s, %llu prices\n", (double)(pst_now_ns() - begin) / 1e9,
                  (unsigned long long)w.n_prices);
    assert_true(pst_now_ns() - begin < 5000000000u);
    w.in.capacity_bytes = peak / 8; /* some stages fit, all together do not */
    begin = pst_now_ns();
    assert_int_equal(partition(&w, "chain-dp", "", &err), PST_ERR_INFEASIBLE);
    print_message("with too little: %.3f s, %llu prices\n", (double)(pst_now_ns() - begin) / 1e9,
                  (unsigned long long)w.n_prices);
    assert_true(pst_now_ns() - begin < 5000000000u);
    w.stop = true;
    assert_int_equal(partition(&w, "chain-dp", "", &err), PST_ERR_CANCELLED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_uniform_sizes),
        cmocka_unit_test(test_more_stages_than_nodes),
        cmocka_unit_test(test_wanted_stages),
        cmocka_unit_test(test_chain_dp_against_every_cut),
        cmocka_unit_test(test_transfers_decide),
        cmocka_unit_test(test_memory_moves_the_cut),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_large_graphs_are_quick),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
