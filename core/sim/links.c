/* SPDX-License-Identifier: Apache-2.0
 *
 * Links. Two ranks of one node have a link of their own in each direction; who asks first is known
 * from the lists. All transfers between nodes share the way out of the sender's node and the way
 * into the receiver's; there requests are served in the order of their times.
 */
#include "sim/state.h"

/* Peers of a rank are few and sorted. */
static struct pst_sim_link *link_of(const struct pst_sim *sim, uint32_t from, uint32_t to)
{
    uint32_t low = 0, high = sim->n_links[from];
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (sim->links[from][middle].peer < to) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    PST_ASSERT(low < sim->n_links[from] && sim->links[from][low].peer == to);
    return &sim->links[from][low];
}

uint64_t pst_sim_link_free(const struct pst_sim *sim, uint32_t from, uint32_t to)
{
    if (!pst_sim_is_far(sim, from, to)) {
        return link_of(sim, from, to)->free_ns;
    }
    uint64_t out = sim->node_out[pst_cost_node(sim->durations.cost, from)];
    uint64_t in = sim->node_in[pst_cost_node(sim->durations.cost, to)];
    return out > in ? out : in;
}

void pst_sim_take_link(struct pst_sim *sim, uint32_t from, uint32_t to, uint64_t until)
{
    if (!pst_sim_is_far(sim, from, to)) {
        link_of(sim, from, to)->free_ns = until;
    } else {
        sim->node_out[pst_cost_node(sim->durations.cost, from)] = until;
        sim->node_in[pst_cost_node(sim->durations.cost, to)] = until;
    }
}
