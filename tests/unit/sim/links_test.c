/* SPDX-License-Identifier: Apache-2.0
 *
 * Links that several ranks want at once: those of nodes. By hand: a transfer of 2 samples moves
 * 2000 bytes; between nodes these leave in 2 us, and arrive 3 us later.
 */
#include "hand_times.h"

#define RANKS 6

static struct pst_instr send_to(uint32_t peer)
{
    return transfer(PST_I_SEND, PST_PAYLOAD_ACT, 0, 2, peer);
}

static struct pst_instr recv_from(uint32_t peer)
{
    return transfer(PST_I_RECV, PST_PAYLOAD_ACT, 0, 2, peer);
}

/* Nodes {0, 1}, {2, 3}, {4, 5}. */
static void open_nodes(void)
{
    open_ranks(RANKS);
    rig.cluster.node_size = 2;
    rig.cluster.node_link_bandwidth = 1000000000;
    rig.cluster.node_link_latency = 3000;
}

/* Both ranks of node 0 send to node 1. */
TEST(the_way_out)
{
    open_nodes();
    const struct pst_instr f = pass(PST_I_F, 0, 0), f1 = pass(PST_I_F, 0, 1);
    const struct pst_instr at_once[] = {send_to(2)}, later[] = {f, send_to(3)};
    const struct pst_instr latest[] = {f, f1, send_to(2)};
    const struct pst_instr from0[] = {recv_from(0)}, from1[] = {recv_from(1)};
    set_list(&rig, 0, at_once, 1);
    set_list(&rig, 1, later, 2);
    set_list(&rig, 2, from0, 1);
    set_list(&rig, 3, from1, 1);
    must_run();
    EXPECT(0, 0, 0, 5000);
    EXPECT(1, 1, 2000, 7000); /* asked for at 1000 */
    EXPECT(3, 0, 2000, 7000);

    /* who asks first is served first: rank 1 at 1000, rank 0 at 2000 */
    set_list(&rig, 0, latest, 3);
    must_run();
    EXPECT(1, 1, 1000, 6000);
    EXPECT(0, 2, 3000, 8000);

    /* at the same time the lower rank: both at 1000 */
    const struct pst_instr same[] = {f, send_to(2)};
    set_list(&rig, 0, same, 2);
    must_run();
    EXPECT(0, 1, 1000, 6000);
    EXPECT(1, 1, 3000, 8000);

    /* and nobody waits where all is one node */
    rig.cluster.node_size = 0;
    must_run();
    EXPECT(0, 1, 1000, 5000);
    EXPECT(1, 1, 1000, 5000);
    rig_close(&rig);
}

/* Ranks 0 of node 0 and 2 of node 1 send to node 2; rank 4 sends back; rank 0 to its neighbour. */
TEST(the_way_in)
{
    open_nodes();
    const struct pst_instr a[] = {send_to(4), send_to(1), recv_from(4)}, b[] = {recv_from(0)};
    const struct pst_instr c[] = {send_to(5)};
    const struct pst_instr d[] = {recv_from(0), send_to(0)}, e[] = {recv_from(2)};
    set_list(&rig, 0, a, 3);
    set_list(&rig, 1, b, 1);
    set_list(&rig, 2, c, 1);
    set_list(&rig, 4, d, 2);
    set_list(&rig, 5, e, 1);
    must_run();
    EXPECT(0, 0, 0, 5000);
    EXPECT(2, 0, 2000, 7000); /* another node, the same way in */
    EXPECT(0, 1, 0, 4000);     /* a link of its own: 2 + 2 us */
    EXPECT(4, 1, 0, 5000);     /* the other direction is free */
    EXPECT(5, 0, 2000, 7000);
    rig_close(&rig);
}

/* What waits for a way stays at the head of its queue; the next of that queue starts behind it. */
TEST(heads_stay)
{
    open_nodes();
    const struct pst_instr b[] = {send_to(2), send_to(0)};
    const struct pst_instr from0[] = {recv_from(0)}, from1[] = {recv_from(1)};
    const struct pst_instr both[] = {send_to(4), recv_from(1)};
    set_list(&rig, 0, both, 2);
    set_list(&rig, 1, b, 2);
    set_list(&rig, 2, from1, 1);
    set_list(&rig, 4, from0, 1);
    must_run();
    EXPECT(0, 0, 0, 5000);
    EXPECT(1, 0, 2000, 7000);
    EXPECT(1, 1, 2000, 6000); /* inside the node, but not before the one ahead has started */
    rig_close(&rig);
}

/* A ring over more ranks than a node has goes over the links of nodes. */
TEST(norm_between_nodes)
{
    open_nodes();
    const struct pst_instr norm[] = {{.op = PST_I_NORM}};
    for (uint32_t d = 0; d < RANKS; d++) {
        set_list(&rig, d, norm, 1);
    }
    must_run();
    /* 10 steps of 3 us; 2 * 5 / 6 of 56 bytes is 93.3, 94 ns at 1 byte/ns */
    EXPECT(3, 0, 0, 30094);
    rig_close(&rig);
}

/* Replicas in one node, and in two. Stage 0 has 1250 parameters: 5000 bytes. */
TEST(sums_over_replicas)
{
    static const uint32_t near[] = {3, 2}, far[] = {1, 2};
    const struct pst_instr reduce[] = {{.op = PST_I_REDUCE}};
    open_nodes();
    rig.plan->stages[0].n_ranks = 2;
    rig.plan->stages[0].ranks = near;
    set_list(&rig, 2, reduce, 1);
    set_list(&rig, 3, reduce, 1);
    must_run();
    EXPECT(2, 0, 0, 2 * 2000 + 5000);
    EXPECT(3, 0, 0, 2 * 2000 + 5000);
    rig.plan->stages[0].ranks = far;
    set_list(&rig, 1, reduce, 1);
    set_list(&rig, 3, NULL, 0);
    must_run();
    EXPECT(1, 0, 0, 2 * 3000 + 5000);
    EXPECT(2, 0, 0, 2 * 3000 + 5000);
    rig_close(&rig);
}
