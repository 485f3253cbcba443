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

/* A run of dropped nodes, and the node before whose backward it is restored. */
struct run {
    uint32_t first, end, at;
    uint64_t ns;
};

/* The run that begins at or behind `from`; false: there is none. */
static bool next_run(const struct mem_opt *opt, const struct pst_stage_view *view,
                     const uint8_t *actions, uint32_t from, struct run *ret_run)
{
    struct run run = {.first = from};

    while (run.first < view->n_nodes && actions[run.first] != PST_ACTION_RECOMPUTE) {
        run.first++;
    }
    run.end = run.first;
    while (run.end < view->n_nodes && actions[run.end] == PST_ACTION_RECOMPUTE) {
        run.at = opt->last[run.end] > run.at ? opt->last[run.end] : run.at;
        run.ns += pst_stage_node_at(view, run.end)->forward_ns;
        run.end++;
    }
    *ret_run = run;
    return run.first < view->n_nodes;
}

static bool reads(const struct pst_stage_view *view, const struct run *run, uint32_t v)
{
    for (uint32_t i = run->first; i < run->end; i++) {
        const struct pst_stage_node *node = pst_stage_node_at(view, i);

        for (uint32_t j = 0; j < node->n_producers; j++) {
            if (view->producers[node->first_producer + j] == v) {
                return true;
            }
        }
    }
    return false;
}

uint64_t mem_occupied_ns(const struct mem_opt *opt, const struct pst_stage_view *view,
                         const uint8_t *actions, uint32_t v)
{
    uint32_t first = opt->last[v],
             replay = PST_NONE; /* first reader: a node, and its run or none */
    uint64_t ns = 0;
    struct run run;

    for (uint32_t i = 0; next_run(opt, view, actions, i, &run); i = run.end) {
        if (run.end > v && run.at >= first && reads(view, &run, v)) {
            first = run.at;
            replay = run.first; /* of those restored together the later one comes first */
        }
    }
    for (uint32_t u = v; u <= first; u++) {
        ns += pst_stage_node_at(view, u)->backward_ns;
    }
    for (uint32_t i = 0; next_run(opt, view, actions, i, &run); i = run.end) {
        if (run.at >= v &&
            (run.at < first || (run.at == first && replay != PST_NONE && run.first <= replay))) {
            ns += run.ns;
        }
    }
    return ns;
}

bool mem_slot_fits(const struct mem_opt *opt, const struct pst_stage_view *view,
                   const uint8_t *actions, const struct mem_link_rules *rules, uint32_t v)
{
    const struct pst_stage_node *node = pst_stage_node_at(view, v);
    uint64_t busy = mem_occupied_ns(opt, view, actions, v);

    busy = busy > node->forward_ns ? busy : node->forward_ns;
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
