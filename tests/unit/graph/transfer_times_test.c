/* SPDX-License-Identifier: Apache-2.0 */
/* before cmocka.h, whose macro fail() would rewrite host->fail */
#include "graph/cost.h"

#include "test.h"

/* 3 bytes/s: one byte takes a third of a second, which is no whole number of nanoseconds. */
static const struct pst_cluster slow = {.link_bandwidth = 3, .link_latency = 7};
static const struct pst_cluster unlimited = {.link_bandwidth = 0, .link_latency = 5};

TEST(transfer_rounds_up_and_adds_latency)
{
    struct pst_cost_model cost = {.cluster = &slow};
    assert_int_equal(pst_cost_transfer_ns(&cost, 0, 0, 1), 7);
    assert_int_equal(pst_cost_transfer_ns(&cost, 1, 0, 1), 333333334 + 7);
    assert_int_equal(pst_cost_transfer_ns(&cost, 3, 0, 1), 1000000000 + 7);
    assert_int_equal(pst_cost_transfer_ns(&cost, 3, 2, 2), 0);
}

TEST(no_bandwidth_means_latency_only)
{
    struct pst_cost_model cost = {.cluster = &unlimited};
    assert_int_equal(pst_cost_transfer_ns(&cost, UINT64_MAX, 0, 1), 5);
    assert_int_equal(pst_cost_allreduce_ns(&cost, UINT64_MAX, 4), 2 * 3 * 5);
}

TEST(huge_transfers_saturate)
{
    struct pst_cost_model cost = {.cluster = &slow};
    assert_true(pst_cost_transfer_ns(&cost, UINT64_MAX, 0, 1) >= UINT64_MAX / 2);
    assert_true(pst_cost_allreduce_ns(&cost, UINT64_MAX, UINT32_MAX) >= UINT64_MAX / 2);
}

/* n ranks move 2(n-1)/n of the bytes in 2(n-1) steps. */
TEST(ring_moves_its_share)
{
    struct pst_cost_model cost = {.cluster = &slow};
    assert_int_equal(pst_cost_allreduce_ns(&cost, 1000, 0), 0);
    assert_int_equal(pst_cost_allreduce_ns(&cost, 1000, 1), 0);
    /* 2 ranks: 2 steps, the bytes once: 6 bytes at 3 bytes/s */
    assert_int_equal(pst_cost_allreduce_ns(&cost, 6, 2), 2000000000u + 2 * 7);
    /* 4 ranks: 6 steps, 1.5 times the bytes: 12 bytes */
    assert_int_equal(pst_cost_allreduce_ns(&cost, 8, 4), 4000000000u + 6 * 7);
}

/* Ranks 0 to 2 in one node, 3 to 5 in the next: 2 bytes/s and 11 ns between them. */
TEST(nodes_have_links_of_their_own)
{
    struct pst_cluster cluster = slow;
    struct pst_cost_model cost = {.cluster = &cluster};
    cluster.node_size = 3;
    cluster.node_link_bandwidth = 2;
    cluster.node_link_latency = 11;
    assert_int_equal(pst_cost_node(&cost, 2), 0);
    assert_int_equal(pst_cost_node(&cost, 3), 1);
    assert_int_equal(pst_cost_transfer_ns(&cost, 6, 0, 2), 2000000000u + 7);
    assert_int_equal(pst_cost_transfer_ns(&cost, 6, 2, 3), 3000000000u + 11);
    /* 3 ranks may be in one node, 4 cannot */
    assert_int_equal(pst_cost_allreduce_ns(&cost, 9, 3), 4000000000u + 4 * 7);
    assert_int_equal(pst_cost_allreduce_ns(&cost, 8, 4), 6000000000u + 6 * 11);
    /* two ranks that are not */
    const uint32_t apart[] = {3, 2}, together[] = {5, 3, 4};
    const struct pst_meet_bytes six = {6, 6};
    const uint32_t three[] = {0, 3, 6, 1, 4};

    assert_int_equal(pst_cost_count_nodes(&cost, apart, 2), 2);
    assert_int_equal(pst_cost_count_nodes(&cost, together, 3), 1);
    assert_int_equal(pst_cost_count_nodes(&cost, apart, 1), 1);
    assert_int_equal(pst_cost_count_nodes(&cost, three, 5), 3);
    assert_int_equal(pst_cost_ring_ns(&cost, six, 2, 1), 2000000000u + 2 * 7);
    assert_int_equal(pst_cost_ring_ns(&cost, six, 2, 2), 3000000000u + 2 * 11);
    assert_int_equal(pst_cost_ring_ns(&cost, six, 1, 2), 0);
}

/* Collectives have a rate of their own, which falls with the number of nodes: on 8 nodes a quarter
   to the power of a half of what it is on 2. Transfers keep that of the link. */
TEST(collectives_slow_down)
{
    struct pst_cluster cluster = {.node_size = 1,
                                  .node_link_bandwidth = 9,
                                  .collective_bandwidth = 4,
                                  .collective_decay = 0.5};
    struct pst_cost_model cost = {.cluster = &cluster};
    const struct pst_meet_bytes eight = {8, 8};

    assert_int_equal(pst_cost_ring_ns(&cost, eight, 2, 2), 2000000000u);
    assert_int_equal(pst_cost_ring_ns(&cost, eight, 2, 8), 4000000000u);
    assert_int_equal(pst_cost_allreduce_ns(&cost, 8, 8), 7000000000u); /* 14 bytes, 2 bytes/s */
    assert_int_equal(pst_cost_transfer_ns(&cost, 18, 0, 7), 2000000000u);
    cluster.collective_bandwidth = 0;
    assert_int_equal(pst_cost_ring_ns(&cost, (struct pst_meet_bytes){9, 9}, 2, 2), 1000000000u);
}

TEST(host_copies_take_their_bytes)
{
    struct pst_cluster cluster = {.host_bandwidth = 4};
    struct pst_cost_model cost = {.cluster = &cluster};
    assert_int_equal(pst_cost_host_ns(&cost, 8), 2000000000u);
    cluster.host_bandwidth = 0;
    assert_int_equal(pst_cost_host_ns(&cost, 8), 0);
}
