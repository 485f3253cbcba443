/* SPDX-License-Identifier: Apache-2.0 */
#include "optimizer.h"

#define NS_PER_S 1e9

static double trip_ns(const struct pst_stage_view *view, uint64_t bytes)
{
    return (double)bytes * NS_PER_S / (double)view->link_bytes_per_s;
}

bool mem_may_offload(const struct mem_opt *opt, const struct pst_stage_view *view,
                     const struct mem_link_rules *rules, uint32_t v)
{
    const struct pst_stage_node *node = pst_stage_node_at(view, v);
    double between;

    if (view->link_bytes_per_s == 0 || node->action != PST_ACTION_KEEP ||
        (node->flags & PST_NODE_NO_OFFLOAD) != 0 || node->saved_bytes < rules->min_bytes) {
        return false;
    }
    between = view->in_flight > 1 ? (view->in_flight - 1.0) * (double)opt->total_ns : 0.0;
    between += (double)opt->after_ns[v];
    return between >= (1.0 + rules->windows) * 2.0 * trip_ns(view, node->saved_bytes);
}

/* Runs of dropped nodes by the node before whose backward they are restored: order[t] is the first
   node of the last such run, or PST_NONE, and run[first] that of the one before it. */
static void list_runs(struct mem_opt *opt, const struct pst_stage_view *view,
                      const uint8_t *actions)
{
    uint32_t v, first, at;

    for (v = 0; v < view->n_nodes; v++) {
        opt->order[v] = PST_NONE;
    }
    for (v = 0; v < view->n_nodes; v++) {
        if (actions[v] == PST_ACTION_RECOMPUTE) {
            for (first = at = v; v < view->n_nodes && actions[v] == PST_ACTION_RECOMPUTE; v++) {
                at = opt->last[v] > at ? opt->last[v] : at;
            }
            opt->run[first] = opt->order[at];
            opt->order[at] = first;
        }
    }
}

/* Notes that the inputs of v are read at this time of the backward pass, if not before. */
static void note_reads(struct mem_opt *opt, const struct pst_stage_view *view, uint32_t v,
                       uint64_t now)
{
    const struct pst_stage_node *node = pst_stage_node_at(view, v);

    for (uint32_t j = 0; j < node->n_producers; j++) {
        uint64_t *read = &opt->scratch[view->producers[node->first_producer + j]];

        *read = now < *read ? now : *read;
    }
}

void mem_occupy(struct mem_opt *opt, const struct pst_stage_view *view, const uint8_t *actions)
{
    uint64_t now = 0; /* since the backward pass began */
    uint32_t v, u, first;

    list_runs(opt, view, actions);
    for (v = 0; v < view->n_nodes; v++) {
        opt->scratch[v] = UINT64_MAX;
    }
    for (v = view->n_nodes; v-- > 0;) {
        for (first = opt->order[v]; first != PST_NONE; first = opt->run[first]) {
            uint64_t begin = now;

            for (u = first; u < view->n_nodes && actions[u] == PST_ACTION_RECOMPUTE; u++) {
                note_reads(opt, view, u, begin);
                now += pst_stage_node_at(view, u)->forward_ns;
            }
        }
        note_reads(opt, view, v, now);
        opt->scratch[v] = now < opt->scratch[v] ? now : opt->scratch[v];
        now += pst_stage_node_at(view, v)->backward_ns;
        opt->scratch[v] = now - opt->scratch[v];
    }
}

bool mem_slot_fits(const struct mem_opt *opt, const struct pst_stage_view *view,
                   const struct mem_link_rules *rules, uint32_t v)
{
    const struct pst_stage_node *node = pst_stage_node_at(view, v);
    uint64_t busy = opt->scratch[v] > node->forward_ns ? opt->scratch[v] : node->forward_ns;

    return trip_ns(view, node->saved_bytes) + (double)busy <= rules->target * (double)opt->total_ns;
}

uint64_t mem_link_budget(const struct pst_stage_view *view, uint64_t period_ns, double target)
{
    uint64_t directions = view->link_directions > 1 ? view->link_directions : 1;
    __extension__ unsigned __int128 whole = period_ns;
    double part;

    whole = whole * view->link_bytes_per_s / (1000000000u * directions);
    if (target >= 1.0) {
        return whole > UINT64_MAX ? UINT64_MAX : (uint64_t)whole;
    }
    part = target * (double)whole;
    return part >= 1.8e19 ? UINT64_MAX : (uint64_t)part;
}
