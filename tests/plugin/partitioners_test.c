/* SPDX-License-Identifier: Apache-2.0
 *
 * uniform and chain-dp against enumeration of every cut, with a host whose prices the test makes
 * up.
 */
#include "plugin_rig.h"

#include "test.h"

#include "base/philox.h"
#include "base/util.h"
#include "partition_world.h"

/* --- uniform -----------------------------------------------------------------------------------*/

TEST(test_uniform_sizes)
{
    static const uint32_t expected[][6] = {/* nodes, stages, sizes */
                                           {6, 3, 2, 2, 2, 0},
                                           {7, 3, 2, 2, 3, 0},
                                           {8, 3, 2, 3, 3, 0},
                                           {4, 4, 1, 1, 1, 1},
                                           {5, 1, 5}};
    struct pst_error err;

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

TEST(test_more_stages_than_nodes)
{
    static const char *const ids[] = {"uniform", "chain-dp"};
    struct pst_error err;

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
TEST(test_wanted_stages)
{
    static const char *const ids[] = {"uniform", "chain-dp"};
    struct pst_error err;

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
        in *= slow_of(w, slow_of(w, s) > slow_of(w, s - 1) ? s : s - 1);
    }
    if (s + 1 < w->n_stages) {
        out = w->latency_ns +
              (goes_out(w, first, end) + w->link_bytes_per_ns - 1) / w->link_bytes_per_ns;
        out *= slow_of(w, slow_of(w, s) > slow_of(w, s + 1) ? s : s + 1);
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
        struct cost c = cost_on(w, s, cuts[s], cuts[s + 1], in_flight_of(w, s, w->n_stages), 1);
        uint64_t t = with_comm(w, comm, s, cuts[s], cuts[s + 1], c.period_ns);

        if (c.peak_bytes <=
            (w->cluster.n_devices > 0 ? w->devices[s].memory_bytes : w->in.capacity_bytes)) {
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

/* Devices of three speeds and as many sizes of memory; the partitioner is told the least. */
static void mix_devices(struct world *w, uint64_t seed, uint64_t *counter)
{
    uint64_t ample = w->in.capacity_bytes == UINT64_MAX ? 100000 : w->in.capacity_bytes;

    for (uint32_t d = 0; d < w->n_stages; d++) {
        struct pst_philox r = pst_philox(seed, 4, (*counter)++);

        w->devices[d] = (struct pst_cluster_device){.memory_bytes = ample * (1 + r.v[1] % 3) / 3,
                                                    .kind = r.v[0] % 3};
        w->in.capacity_bytes = w->devices[d].memory_bytes < w->in.capacity_bytes
                                   ? w->devices[d].memory_bytes
                                   : w->in.capacity_bytes;
    }
    w->cluster = (struct pst_cluster_view){.size = sizeof w->cluster,
                                           .n_devices = w->n_stages,
                                           .device_size = sizeof *w->devices,
                                           .devices = w->devices};
}

static void against_every_cut(bool mixed)
{
    static const char *const options[] = {"comm = \"none\"", "comm = \"sum\"", "comm = \"max\""};
    const uint64_t seed = 4711;
    uint64_t counter = 0;
    uint32_t infeasible = 0, feasible = 0;

    for (int round = 0; round < 3000; round++) {
        static struct world w;
        struct best best = {UINT64_MAX, UINT64_MAX, {0}};
        uint32_t cuts[9] = {0};
        struct pst_error err;
        pst_status st;
        int comm = round % 3;

        random_world(&w, seed, &counter);
        if (mixed) {
            mix_devices(&w, seed, &counter);
        }
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

TEST(test_chain_dp_against_every_cut)
{
    against_every_cut(false);
}

TEST(test_chain_dp_on_mixed_devices)
{
    against_every_cut(true);
}

/* With four nodes of equal time memory alone decides: 1f1b holds two on the first stage. */
TEST(test_memory_moves_the_cut)
{
    static struct world w;
    struct pst_error err;

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
                                        "after it is charged 30 bytes, a device has 29 bytes"));
    w.in.capacity_bytes = 19;
    assert_int_equal(partition(&w, "chain-dp", "", &err), PST_ERR_INFEASIBLE);
    assert_non_null(strstr(err.message,
                           "stage 0 of 2 does not fit: node \"n0\" alone is charged 20 bytes, "
                           "a device has 19 bytes"));
}

/* Of several sizes the one whose step is shortest: bottleneck x (m - 1) + sum. */
TEST(test_sizes)
{
    static struct world w;
    struct pst_error err;

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

TEST(test_large_graphs_are_quick)
{
    const uint64_t seed = 9;
    static struct world w;
    struct pst_error err;
    uint64_t peak = 0;

    world_init(&w, 16, 64);
    for (uint32_t v = 0; v < 1000; v++) {
        struct pst_philox q = pst_philox(seed, 1, v);

        world_node(&w, 100 + q.v[0] % 1000, 4, 1 + q.v[2] % 6);
        if (v > 0) {
            world_edge(&w, v - 1, v, 1 + v % 4);
        }
    }
    world_finish(&w);
    assert_int_equal(partition(&w, "chain-dp", "", &err), PST_OK);
    for (uint32_t s = 0; s < 16; s++) {
        struct cost c = cost_of(&w, w.cuts[s], w.cuts[s + 1], 16 - s, 1);

        peak = c.peak_bytes > peak ? c.peak_bytes : peak;
    }
    print_message("1000 nodes, 16 stages: %llu prices\n", (unsigned long long)w.n_prices);
    w.in.capacity_bytes = peak * 6 / 10; /* the cut must move a long way */
    assert_int_equal(partition(&w, "chain-dp", "", &err), PST_OK);
    print_message("with tight memory: %llu prices\n", (unsigned long long)w.n_prices);
    w.in.capacity_bytes = peak / 8; /* some stages fit, all together do not */
    assert_int_equal(partition(&w, "chain-dp", "", &err), PST_ERR_INFEASIBLE);
    print_message("with too little: %llu prices\n", (unsigned long long)w.n_prices);
    /* There are 1000 * 1001 / 2 ranges at each of 16 places; a tenth of one place's is plenty. */
    assert_true(w.n_prices < 1000 * 1001 / 2 / 10);
    w.stop = true;
    assert_int_equal(partition(&w, "chain-dp", "", &err), PST_ERR_CANCELLED);
}
