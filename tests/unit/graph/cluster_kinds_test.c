/* SPDX-License-Identifier: Apache-2.0
 *
 * [[cluster.device]] and [[cluster.node]]: what each device is, what some of them have in common,
 * what links between them cost, and what is refused.
 */
#include "graph/cost.h"

#include <string.h>

#include "test.h"

static pst_status mix(const char *text, struct pst_config **ret_config, struct pst_arena *arena,
                      struct pst_cluster *ret_cluster, struct pst_error *err)
{
    struct pst_config_node *section;
    pst_status st = pst_config_parse(text, strlen(text), "c.toml", ret_config, err);

    assert_int_equal(st, PST_OK);
    memset(ret_cluster, 0, sizeof *ret_cluster);
    section = pst_config_get((*ret_config)->root, "cluster");
    st = pst_params_fill(pst_cluster_params, pst_cluster_n_params, sizeof *pst_cluster_params,
                         section, "[cluster]", pst_cluster_tables, arena, ret_cluster, err);
    return st == PST_OK ? pst_cluster_mix(section, ret_cluster, arena, err) : st;
}

static const char eight[] = "[cluster]\n"
                            "devices = 7\n"
                            "node_size = 2\n"
                            "memory = 1000\n"
                            "flops = 100\n"
                            "link_bandwidth = 100\n"
                            "link_latency = \"1 us\"\n"
                            "node_link_bandwidth = 10\n"
                            "node_link_latency = \"2 us\"\n"
                            "[[cluster.node]]\n"
                            "nodes = [1, 3]\n"
                            "name = \"old\"\n"
                            "flops = 50\n"
                            "node_link_bandwidth = 5\n"
                            "node_link_latency = \"3 us\"\n"
                            "[[cluster.device]]\n"
                            "ranks = \"3, 5 - 6\"\n"
                            "memory = 800\n"
                            "reserve = 100\n"
                            "link_bandwidth = 20\n";

/* Nodes 1 and 3 are ranks 2, 3 and 6; tables of devices are about 3, 5, 6. */
TEST(each_device_is_what_the_tables_say)
{
    static const struct {
        const char *name;
        double flops;
        uint64_t capacity, link;
    } wanted[7] = {{"kind 0", 100, 1000, 100}, {"kind 0", 100, 1000, 100}, {"old", 50, 1000, 100},
                   {"old", 50, 700, 20},       {"kind 0", 100, 1000, 100}, {"kind 3", 100, 700, 20},
                   {"old", 50, 700, 20}};
    FINISHED_BY(pst_arena_finish) struct pst_arena arena = {0};
    struct pst_config *config = NULL;
    struct pst_cluster cluster, room;
    struct pst_error err = {0};

    assert_int_equal(mix(eight, &config, &arena, &cluster, &err), PST_OK);
    assert_int_equal(cluster.n_kinds, 4);
    for (uint32_t r = 0; r < 7; r++) {
        const struct pst_cluster *device = pst_cluster_on(&cluster, &r, 1, &room);

        assert_string_equal(device->name, wanted[r].name);
        assert_true(device->flops == wanted[r].flops);
        assert_int_equal(device->link_bandwidth, wanted[r].link);
        assert_int_equal(pst_cluster_capacity_of(&cluster, r), wanted[r].capacity);
    }
    assert_int_equal(pst_cluster_capacity(&cluster), 1000);
    assert_true(cluster.flops == 50); /* as slow as any */
    assert_int_equal(cluster.link_bandwidth, 20);
    assert_int_equal(cluster.node_link_latency, 3000);
    pst_config_destroy(config);
}

TEST(the_slower_end_of_a_link_counts)
{
    FINISHED_BY(pst_arena_finish) struct pst_arena arena = {0};
    struct pst_config *config = NULL;
    struct pst_cluster cluster;
    struct pst_error err = {0};
    struct pst_cost_model cost = {.cluster = &cluster};
    struct pst_cost_at at;
    const uint32_t fast[] = {0, 1}, both[] = {0, 1, 5};

    assert_int_equal(mix(eight, &config, &arena, &cluster, &err), PST_OK);
    assert_int_equal(pst_cost_transfer_ns(&cost, 100, 0, 1), 1000000000u + 1000);
    assert_int_equal(pst_cost_transfer_ns(&cost, 100, 4, 5), 5000000000u + 1000);
    assert_int_equal(pst_cost_transfer_ns(&cost, 100, 5, 4), 5000000000u + 1000);
    assert_int_equal(pst_cost_transfer_ns(&cost, 100, 1, 4), 10000000000u + 2000);
    assert_int_equal(pst_cost_transfer_ns(&cost, 100, 1, 2), 20000000000u + 3000);
    assert_int_equal(pst_cost_transfer_ns(&cost, 100, 3, 3), 0);
    assert_true(pst_cost_link(&cost, 0, 1) != pst_cost_link(&cost, 4, 5));
    assert_true(pst_cost_link(&cost, 0, 2) != pst_cost_link(&cost, 0, 4));
    /* two ranks move the bytes once in two steps, three 4/3 of them in four */
    assert_int_equal(pst_cost_ring_ns(pst_cost_on(&cost, fast, 2, &at), (struct pst_meet_bytes){100, 100}, 2, 1),
                     1000000000u + 2 * 1000);
    assert_int_equal(pst_cost_ring_ns(pst_cost_on(&cost, both, 3, &at), (struct pst_meet_bytes){300, 300}, 3, 1),
                     20000000000u + 4 * 1000);
    pst_config_destroy(config);
}

/* A copy may be changed, and the rest stays. */
TEST(copies_are_apart)
{
    FINISHED_BY(pst_arena_finish) struct pst_arena arena = {0};
    struct pst_config *config = NULL;
    struct pst_cluster cluster, copy;
    struct pst_error err = {0};

    assert_int_equal(mix(eight, &config, &arena, &cluster, &err), PST_OK);
    pst_cluster_copy(&cluster, &arena, &copy);
    copy.kinds[0].flops = 1;
    assert_true(cluster.kinds[0].flops == 100);
    assert_true(copy.kinds[1].kinds == copy.kinds);
    pst_config_destroy(config);
}

TEST(refusals)
{
    static const struct {
        const char *tables, *says;
    } rows[] = {
        {"[[cluster.device]]\nranks = 4\n", "there is no device 4; the last is 3"},
        {"[[cluster.device]]\nranks = \"1-9\"\n", "there is no device 9"},
        {"[[cluster.device]]\nranks = \"1-99999999999999999999\"\n", "there is no device"},
        {"[[cluster.device]]\nranks = \"2-1\"\n", "a list such as"},
        {"[[cluster.device]]\nranks = \"\"\n", "a list such as"},
        {"[[cluster.device]]\nranks = \"1,\"\n", "a list such as"},
        {"[[cluster.device]]\nranks = \"one\"\n", "a list such as"},
        {"[[cluster.device]]\nranks = 0\n[[cluster.device]]\nranks = [1, 0]\n",
         "an earlier table describes device 0"},
        {"[[cluster.device]]\nranks = \"0,0\"\n", "an earlier table describes device 0"},
        {"[[cluster.device]]\nflops = 5\n", "needs the key \"ranks\""},
        {"[[cluster.device]]\nranks = 1\nflop = 5\n", "did you mean \"flops\""},
        {"[[cluster.device]]\nranks = 1\nnode_size = 5\n", "unknown key \"node_size\""},
        {"[[cluster.device]]\nranks = 1\nnode_link_latency = 5\n", "unknown key"},
        {"[[cluster.device]]\nranks = 1\nflops = 0\n", "flops"},
        {"[[cluster.device]]\nranks = 1\nmemory = 5\nreserve = 5\n", "leaves nothing"},
        {"[[cluster.device]]\nranks = 1\nmemory = 5\n", "the memory of some devices only"},
        {"[[cluster.node]]\nnodes = 0\nflops = 5\n", "cluster.node_size"},
        {"[cluster.node]\nnodes = 0\n", "cluster.node_size"},
        {"device = 3\n", "must be a table"},
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[256];
        FINISHED_BY(pst_arena_finish) struct pst_arena arena = {0};
        struct pst_config *config = NULL;
        struct pst_cluster cluster;
        struct pst_error err = {0};

        snprintf(text, sizeof text, "[cluster]\ndevices = 4\n%s", rows[i].tables);
        if (mix(text, &config, &arena, &cluster, &err) != PST_ERR_CONFIG ||
            strstr(err.message, rows[i].says) == NULL) {
            fail_msg("%s\n%s", rows[i].tables, err.message);
        }
        assert_true(err.line >= 1);
        pst_config_destroy(config);
    }
}
