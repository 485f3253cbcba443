/* SPDX-License-Identifier: Apache-2.0
 *
 * Times of transfers and reductions: a link has a latency and a bandwidth; 0 bytes/s means that the
 * bandwidth is not modelled (free).
 */
#include "cost/cost.h"

/* ceil(bytes * 1e9 / bandwidth), exact, saturating. */
static uint64_t move_ns(unsigned __int128 bytes, uint64_t bandwidth)
{
    if (bandwidth == 0) {
        return 0;
    }
    unsigned __int128 ns = (bytes * 1000000000u + bandwidth - 1) / bandwidth;
    return ns > UINT64_MAX / 2 ? UINT64_MAX / 2 : (uint64_t)ns;
}

static uint64_t add_ns(uint64_t a, uint64_t b)
{
    uint64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

uint64_t pst_cost_transfer_ns(const struct pst_cost_model *cost, uint64_t bytes, uint32_t from,
                              uint32_t to)
{
    if (from == to) {
        return 0;
    }
    return add_ns(cost->cluster->link_latency, move_ns(bytes, cost->cluster->link_bandwidth));
}

/*
 * Ring: n - 1 steps of reduce-scatter and n - 1 of all-gather, each moving 1/n of the bytes
 * (Patarasuk and Yuan, 2009).
 */
uint64_t pst_cost_allreduce_ns(const struct pst_cost_model *cost, uint64_t bytes, uint32_t n_ranks)
{
    if (n_ranks < 2) {
        return 0;
    }
    unsigned __int128 steps = 2 * ((unsigned __int128)n_ranks - 1);
    unsigned __int128 moved = (steps * bytes + n_ranks - 1) / n_ranks;
    unsigned __int128 latency = steps * cost->cluster->link_latency;
    uint64_t latency_ns = latency > UINT64_MAX / 2 ? UINT64_MAX / 2 : (uint64_t)latency;
    return add_ns(latency_ns, move_ns(moved, cost->cluster->link_bandwidth));
}
