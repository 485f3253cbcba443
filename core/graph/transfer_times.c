/* SPDX-License-Identifier: Apache-2.0
 *
 * Times of transfers and reductions: a link has a latency and a bandwidth; 0 bytes/s means that the
 * bandwidth is not modelled (free).
 */
#include "graph/cost.h"

#include <math.h>

#include "base/saturate.h"

/* ceil(bytes * 1e9 / bandwidth), exact, saturating. */
static uint64_t move_ns(unsigned __int128 bytes, uint64_t bandwidth)
{
    if (bandwidth == 0) {
        return 0;
    }
    unsigned __int128 ns = (bytes * 1000000000u + bandwidth - 1) / bandwidth;
    return ns > UINT64_MAX / 2 ? UINT64_MAX / 2 : (uint64_t)ns;
}

uint32_t pst_cost_node(const struct pst_cost_model *cost, uint32_t rank)
{
    int64_t size = cost->cluster->node_size;

    return size > 0 ? (uint32_t)(rank / (uint64_t)size) : 0;
}

uint32_t pst_cost_link(const struct pst_cost_model *cost, uint32_t from, uint32_t to)
{
    const struct pst_cluster *cluster = cost->cluster;
    uint32_t far = pst_cost_node(cost, from) != pst_cost_node(cost, to) ? 1 : 0;

    if (cluster->n_kinds == 0) {
        return far;
    }
    return far +
           2 * ((uint32_t)(pst_cluster_kind(cluster, from) - cluster->kinds) * cluster->n_kinds +
                (uint32_t)(pst_cluster_kind(cluster, to) - cluster->kinds));
}

uint64_t pst_cost_transfer_ns(const struct pst_cost_model *cost, uint64_t bytes, uint32_t from,
                              uint32_t to)
{
    const uint32_t ends[] = {from, to};
    struct pst_cluster room;
    const struct pst_cluster *cluster = pst_cluster_on(cost->cluster, ends, 2, &room);

    if (from == to) {
        return 0;
    }
    if (pst_cost_node(cost, from) != pst_cost_node(cost, to)) {
        return pst_sat_add(cluster->node_link_latency,
                           move_ns(bytes, cluster->node_link_bandwidth));
    }
    return pst_sat_add(cluster->link_latency, move_ns(bytes, cluster->link_bandwidth));
}

uint64_t pst_cost_post_ns(const struct pst_cost_model *cost, uint32_t rank)
{
    const struct pst_cluster *cluster = cost->cluster;

    return (cluster->n_kinds > 0 ? pst_cluster_kind(cluster, rank) : cluster)->transfer_overhead;
}

uint64_t pst_cost_host_ns(const struct pst_cost_model *cost, uint64_t bytes)
{
    return move_ns(bytes, cost->cluster->host_bandwidth);
}

struct pst_meet_bytes pst_cost_shared_bytes(struct pst_meet_bytes bytes, uint32_t n_nodes,
                                            uint32_t n_parts)
{
    const uint64_t rings = n_nodes > 1 ? n_parts : 1;

    return (struct pst_meet_bytes){pst_sat_mul(bytes.added, rings),
                                   pst_sat_mul(bytes.copied, rings)};
}

/* More nodes reach less of their links in a collective. */
static uint64_t collective_rate(const struct pst_cluster *cluster, uint32_t n_nodes)
{
    const uint64_t rate = cluster->collective_bandwidth > 0 ? cluster->collective_bandwidth
                                                            : cluster->node_link_bandwidth;

    return cluster->collective_decay > 0
               ? (uint64_t)ceil((double)rate * pow(n_nodes / 2.0, -cluster->collective_decay))
               : rate;
}

/*
 * Ring: n - 1 steps of reduce-scatter and n - 1 of all-gather, each moving 1/n of the bytes
 * (Patarasuk and Yuan, 2009). Its slowest link sets the pace.
 */
uint64_t pst_cost_ring_ns(const struct pst_cost_model *cost, struct pst_meet_bytes bytes,
                          uint32_t n_ranks, uint32_t n_nodes)
{
    const struct pst_cluster *cluster = cost->cluster;
    const uint64_t hop = n_nodes > 1 ? cluster->node_link_latency : cluster->link_latency;
    const unsigned phases = (bytes.added == 0) != (bytes.copied == 0) ? 1 : 2;
    unsigned __int128 steps, moved, latency;

    if (n_ranks < 2) {
        return 0;
    }
    steps = (unsigned __int128)n_ranks - 1;
    moved = (steps * ((unsigned __int128)bytes.added + bytes.copied) + n_ranks - 1) / n_ranks;
    latency = steps * phases * hop;
    return pst_sat_add(
        latency > UINT64_MAX / 2 ? UINT64_MAX / 2 : (uint64_t)latency,
        move_ns(moved, n_nodes > 1 ? collective_rate(cluster, n_nodes) : cluster->link_bandwidth));
}

uint64_t pst_cost_allreduce_ns(const struct pst_cost_model *cost, uint64_t bytes, uint32_t n_ranks)
{
    const uint64_t size = (uint64_t)cost->cluster->node_size;

    return pst_cost_ring_ns(cost, (struct pst_meet_bytes){bytes, bytes}, n_ranks,
                            size > 0 && n_ranks > size ? (uint32_t)((n_ranks + size - 1) / size)
                                                       : 1);
}

uint32_t pst_cost_count_nodes(const struct pst_cost_model *cost, const uint32_t *ranks,
                              uint32_t n_ranks)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < n_ranks; i++) {
        uint32_t before = i; /* neighbours in the list are mostly of one node */

        while (before > 0 &&
               pst_cost_node(cost, ranks[before - 1]) != pst_cost_node(cost, ranks[i])) {
            before--;
        }
        n += before == 0;
    }
    return n;
}
