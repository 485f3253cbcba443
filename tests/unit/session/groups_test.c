/* SPDX-License-Identifier: Apache-2.0
 *
 * The cluster that plans of groups are searched for: a group is the devices of a replica, which
 * send at a time and share the link of their node.
 */
#include "test.h"

#include "session/groups.h"

static struct pst_session session_of(struct pst_graph *graph, uint32_t parts)
{
    *graph = (struct pst_graph){.parts = parts};
    return (struct pst_session){.graph = graph,
                                .cluster = {.devices = 8,
                                            .memory = 1000,
                                            .flops = 7,
                                            .link_bandwidth = 600,
                                            .link_latency = 5,
                                            .node_size = 4,
                                            .node_link_bandwidth = 100,
                                            .node_link_latency = 9,
                                            .collective_bandwidth = 80,
                                            .host_bandwidth = 50}};
}

TEST(test_groups_of_two)
{
    struct pst_graph graph;
    const struct pst_session session = session_of(&graph, 2);
    struct pst_cluster expected = session.cluster;
    struct pst_groups groups;

    expected.devices = 4;
    expected.node_size = 2;
    expected.node_link_bandwidth = 50;
    expected.collective_bandwidth = 40;
    pst_groups_describe(&session, 0, &groups);
    assert_ptr_equal(groups.cost.cluster, &groups.cluster);
    assert_true(pst_cluster_equal(&groups.cluster, &expected));
    pst_groups_describe(&session, 7, &groups);
    assert_int_equal(groups.cost.side_by_side, 3);
    pst_groups_describe(&session, 1, &groups);
    assert_int_equal(groups.cost.side_by_side, 1);
}

/* A quotient below 1 becomes 1, as 0 means "not modelled". A cluster in one node has no nodes. */
TEST(test_little)
{
    struct pst_graph graph;
    struct pst_session session = session_of(&graph, 4);
    struct pst_groups groups;

    session.cluster.node_link_bandwidth = 3;
    pst_groups_describe(&session, 0, &groups);
    assert_int_equal(groups.cluster.node_size, 1);
    assert_int_equal(groups.cluster.node_link_bandwidth, 1);
    session.cluster.node_link_bandwidth = 0;
    session.cluster.node_size = 0;
    pst_groups_describe(&session, 0, &groups);
    assert_int_equal(groups.cluster.node_size, 0);
    assert_int_equal(groups.cluster.node_link_bandwidth, 0);
    session.cluster.node_size = 9;
    pst_groups_describe(&session, 0, &groups);
    assert_int_equal(groups.cluster.devices, 2);
    assert_int_equal(groups.cluster.node_size, 0);
}

TEST(test_no_parts)
{
    struct pst_graph graph;
    const struct pst_session session = session_of(&graph, 1);
    struct pst_groups groups;

    pst_groups_describe(&session, 0, &groups);
    assert_ptr_equal(groups.cost.cluster, &session.cluster);
    pst_groups_describe(&session, 7, &groups);
    assert_int_equal(groups.cost.side_by_side, 7);
}

/* Groups of unlike sizes: one of four devices, one of two, two of one have the mean, two devices,
   of what is divided. */
TEST(test_groups_of_unlike_sizes)
{
    struct pst_graph graph;
    struct pst_session session = session_of(&graph, 4);
    const uint16_t degree_of[] = {4, 2, 1, 1};
    struct pst_groups groups;

    graph.degree_of = degree_of;
    session.cluster.node_size = 0;
    session.chooses = true;
    session.n_groups = 4;
    pst_groups_describe(&session, 7, &groups);
    assert_int_equal(groups.cluster.devices, 4);
    assert_int_equal(groups.cluster.link_bandwidth, 600);
    assert_int_equal(groups.cost.side_by_side, 3);
    pst_groups_describe(&session, 1, &groups);
    assert_int_equal(groups.cost.side_by_side, 1);
}
