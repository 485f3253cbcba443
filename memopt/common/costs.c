/* SPDX-License-Identifier: Apache-2.0 */
#include "costs.h"
#include "mem_plugin.h"

#include <stdlib.h>
#include <string.h>

#define MOST ((uint64_t)1 << 61) /* sums beyond are not searched */

static uint64_t add(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static uint64_t multiply(uint64_t a, uint64_t b)
{
    return b != 0 && a > UINT64_MAX / b ? UINT64_MAX : a * b;
}

/* --- memory ------------------------------------------------------------------------------------*/

static void reserve(struct mem_costs *c, uint32_t n, uint32_t n_edges)
{
    uint32_t levels = 1;

    while (n >> levels != 0) {
        levels++;
    }
    CALL_TAKE(c->forward_ns, n);
    CALL_TAKE(c->backward_ns, n);
    CALL_TAKE(c->bytes, n);
    CALL_TAKE(c->forward_work, n);
    CALL_TAKE(c->backward_work, n);
    CALL_TAKE(c->results, n);
    CALL_TAKE(c->replay_ns, n);
    CALL_TAKE(c->sum, n + 1);
    CALL_TAKE(c->may, n);
    CALL_TAKE(c->first, n);
    CALL_TAKE(c->crossed, n);
    CALL_TAKE(c->last, n);
    CALL_TAKE(c->order, n);
    CALL_TAKE(c->by_forward, n);
    CALL_TAKE(c->first_source, n + 1);
    CALL_TAKE(c->first_reader, n + 1);
    CALL_TAKE(c->sources, n_edges);
    CALL_TAKE(c->readers, n_edges);
    CALL_TAKE(c->top_work, levels);
    CALL_TAKE(c->top_last, levels);
    for (uint32_t level = 0; level < levels; level++) {
        CALL_TAKE(c->top_work[level], n);
        CALL_TAKE(c->top_last[level], n);
    }
}

/* --- what is in the view -----------------------------------------------------------------------*/

static bool is_absurd(const struct pst_stage_view *view)
{
    uint64_t bytes = view->input_bytes, most = 0, ns = 0, k = view->in_flight + 1u;
    uint32_t v;

    for (v = 0; v < view->n_nodes; v++) {
        const struct pst_stage_node *node = pst_stage_node_at(view, v);

        bytes = add(bytes, add(node->saved_bytes, pst_stage_node_result(view, v)));
        most = node->forward_work_bytes > most ? node->forward_work_bytes : most;
        most = node->backward_work_bytes > most ? node->backward_work_bytes : most;
        ns = add(ns, add(multiply(2, node->forward_ns), node->backward_ns));
    }
    bytes = add(add(multiply(bytes, k == 0 ? UINT64_MAX : k), most), view->static_bytes);
    return bytes >= MOST || ns >= MOST;
}

static void load_scalars(struct mem_costs *c, const struct pst_stage_view *view,
                         const struct mem_rules *rules)
{
    uint32_t staging =
        view->staging_copies > rules->staging ? view->staging_copies : rules->staging;
    double host = (double)view->host_capacity_bytes * rules->host_part;

    c->n = view->n_nodes;
    c->held = view->in_flight > 0 ? view->in_flight : 1;
    staging = staging > 0 ? staging : 1;
    c->staged = staging < c->held ? staging : c->held;
    c->capacity = view->capacity_bytes;
    c->fixed = add(view->static_bytes, multiply(c->held, view->input_bytes));
    c->host_bytes = view->host_capacity_bytes == 0 || host >= 1.8e19 ? UINT64_MAX : (uint64_t)host;
    c->link_bytes_per_s = view->link_bytes_per_s;
    c->link_directions = view->link_directions > 0 ? view->link_directions : 1;
    c->link_target = rules->link_target;
    c->broken = false;
    c->any_offload = false;
}

static void load_nodes(struct mem_costs *c, const struct pst_stage_view *view)
{
    uint32_t v;

    c->total_ns = 0;
    c->any_results = false;
    c->sum[0] = 0;
    for (v = 0; v < c->n; v++) {
        const struct pst_stage_node *node = pst_stage_node_at(view, v);

        c->forward_ns[v] = node->forward_ns;
        c->backward_ns[v] = node->backward_ns;
        c->bytes[v] = (int64_t)node->saved_bytes;
        c->forward_work[v] = (int64_t)node->forward_work_bytes;
        c->backward_work[v] = (int64_t)node->backward_work_bytes;
        c->results[v] = (int64_t)pst_stage_node_result(view, v);
        c->any_results = c->any_results || c->results[v] > 0;
        c->first[v] = (uint8_t)node->action;
        c->sum[v + 1] = c->sum[v] + c->bytes[v];
        c->total_ns += node->forward_ns + node->backward_ns;
    }
}

/* Producers and readers as rows, last readers, and what edges pass over. */
static void load_edges(struct mem_costs *c, const struct pst_stage_view *view)
{
    uint32_t v, i, n_sources = 0, reach = 0;

    memset(c->first_reader, 0, ((size_t)c->n + 1) * sizeof *c->first_reader);
    c->chain = true;
    for (v = 0; v < c->n; v++) {
        const struct pst_stage_node *node = pst_stage_node_at(view, v);

        c->last[v] = v;
        c->first_source[v] = n_sources;
        for (i = 0; i < node->n_producers; i++) {
            uint32_t u = view->producers[node->first_producer + i];

            c->sources[n_sources++] = u;
            c->first_reader[u + 1]++;
            c->last[u] = v;
            c->chain = c->chain && u + 1 == v;
        }
    }
    c->first_source[c->n] = n_sources;
    for (v = 0; v < c->n; v++) {
        c->crossed[v] = reach > v;
        reach = c->last[v] > reach ? c->last[v] : reach;
        c->first_reader[v + 1] += c->first_reader[v];
    }
    for (v = 0; v < c->n; v++) {
        for (i = c->first_source[v]; i < c->first_source[v + 1]; i++) {
            c->readers[c->first_reader[c->sources[i]]++] = v;
        }
    }
    for (v = c->n; v > 0; v--) {
        c->first_reader[v] = c->first_reader[v - 1];
    }
    c->first_reader[0] = 0;
}

static void load_tops(struct mem_costs *c)
{
    uint32_t level, v;

    for (v = 0; v < c->n; v++) {
        c->top_work[0][v] = c->sum[v + 1] + c->forward_work[v];
        c->top_last[0][v] = c->last[v];
    }
    for (level = 1; (1u << level) <= c->n && level < 31; level++) {
        uint32_t half = 1u << (level - 1);

        for (v = 0; v + 2 * half <= c->n; v++) {
            int64_t a = c->top_work[level - 1][v], b = c->top_work[level - 1][v + half];
            uint32_t s = c->top_last[level - 1][v], t = c->top_last[level - 1][v + half];

            c->top_work[level][v] = a > b ? a : b;
            c->top_last[level][v] = s > t ? s : t;
        }
    }
}

/* --- what may become of a node -----------------------------------------------------------------*/

static double trip_ns(const struct mem_costs *c, uint32_t v)
{
    return (double)c->bytes[v] * 1e9 / (double)c->link_bytes_per_s;
}

/* Room in time for one trip out and one back, and for the slot to be free again. */
static bool fits_link(const struct mem_costs *c, const struct mem_rules *rules, uint32_t v,
                      double later_ns)
{
    double trip = trip_ns(c, v), busy = 0;
    uint32_t u;

    if ((c->held - 1.0) * (double)c->total_ns + later_ns < 2 * trip) {
        return false;
    }
    for (u = v; rules->slot_filter && u <= c->last[v]; u++) {
        busy += (double)c->backward_ns[u];
    }
    busy = busy > (double)c->forward_ns[v] ? busy : (double)c->forward_ns[v];
    return !rules->slot_filter || trip + busy <= rules->link_target * (double)c->total_ns;
}

static uint8_t choices(const struct mem_costs *c, const struct mem_rules *rules,
                       const struct pst_stage_node *node, uint32_t v, double later_ns)
{
    uint8_t may = MEM_MAY_KEEP;

    if (node->action != PST_ACTION_KEEP) {
        return (uint8_t)(1u << node->action);
    }
    if (rules->recompute && (node->flags & PST_NODE_NO_RECOMPUTE) == 0) {
        may |= MEM_MAY_RECOMPUTE;
    }
    if (rules->offload && c->link_bytes_per_s > 0 && c->held > c->staged &&
        (node->flags & PST_NODE_NO_OFFLOAD) == 0 && node->saved_bytes >= rules->min_bytes &&
        node->saved_bytes > 0 && fits_link(c, rules, v, later_ns)) {
        may |= MEM_MAY_OFFLOAD;
    }
    return may;
}

static void load_choices(struct mem_costs *c, const struct pst_stage_view *view,
                         const struct mem_rules *rules)
{
    double later_ns = 0;
    uint32_t v;

    for (v = c->n; v-- > 0;) {
        const struct pst_stage_node *node = pst_stage_node_at(view, v);

        c->may[v] = choices(c, rules, node, v, later_ns);
        c->any_offload =
            c->any_offload || (c->may[v] & ~MEM_MAY_RECOMPUTE) == (MEM_MAY_KEEP | MEM_MAY_OFFLOAD);
        c->broken =
            c->broken || node->action > PST_ACTION_OFFLOAD ||
            (node->action == PST_ACTION_OFFLOAD &&
             ((node->flags & PST_NODE_NO_OFFLOAD) != 0 || c->link_bytes_per_s == 0)) ||
            (node->action == PST_ACTION_RECOMPUTE && (node->flags & PST_NODE_NO_RECOMPUTE) != 0);
        later_ns += (double)c->forward_ns[v] + (double)c->backward_ns[v];
    }
}

struct ratio {
    uint32_t v;
    double cost;
};

static void load_replays(struct mem_costs *c)
{
    uint32_t v, i;

    for (v = 0; v < c->n; v++) {
        c->replay_ns[v] = (double)c->forward_ns[v];
        for (i = c->first_source[v]; i < c->first_source[v + 1]; i++) {
            uint32_t u = c->sources[i];

            if (c->results[u] > 0 && (c->may[u] & MEM_MAY_RECOMPUTE) != 0) {
                c->replay_ns[v] += c->replay_ns[u];
            }
        }
    }
}

static int by_ratio(const void *a_, const void *b_)
{
    const struct ratio *a = a_, *b = b_;

    if (a->cost != b->cost) {
        return a->cost < b->cost ? -1 : 1;
    }
    return a->v < b->v ? -1 : a->v > b->v;
}

/* Sorts the nodes that may be dropped or moved by ns per byte. */
static void sort_choices(struct mem_costs *c, bool replays, uint32_t *order)
{
    struct ratio *rows = call_alloc(c->n, sizeof *rows);

    c->n_order = 0;
    for (uint32_t v = 0; v < c->n; v++) {
        if ((c->may[v] & ~MEM_MAY_KEEP) != 0 && (c->may[v] & MEM_MAY_KEEP) != 0) {
            double ns = replays ? c->replay_ns[v] : (double)c->forward_ns[v];

            rows[c->n_order++] =
                (struct ratio){v, c->bytes[v] > 0 ? ns / (double)c->bytes[v] : 1e300};
        }
    }
    qsort(rows, c->n_order, sizeof *rows, by_ratio);
    for (uint32_t i = 0; i < c->n_order; i++) {
        order[i] = rows[i].v;
    }
    call_free(rows);
}

/* --- loading, and questions --------------------------------------------------------------------*/

void mem_costs_load(struct mem_costs *costs, const struct pst_host *host,
                    const struct pst_stage_view *view, const struct mem_rules *rules)
{
    uint64_t n_edges = 0;

    costs->host = host;
    for (uint32_t v = 0; v < view->n_nodes; v++) {
        n_edges += pst_stage_node_at(view, v)->n_producers;
    }
    if (n_edges > UINT32_MAX / 4 || view->n_nodes > UINT32_MAX / 4) {
        call_end(PST_ERR_NOMEM);
    }
    if (costs->sum == NULL) {
        reserve(costs, view->n_nodes, (uint32_t)n_edges);
    }
    load_scalars(costs, view, rules);
    costs->absurd = is_absurd(view);
    if (costs->absurd) {
        return;
    }
    load_nodes(costs, view);
    load_edges(costs, view);
    load_tops(costs);
    load_choices(costs, view, rules);
    load_replays(costs);
    sort_choices(costs, true, costs->order);
    sort_choices(costs, false, costs->by_forward);
}

static uint32_t level_of(uint32_t length)
{
    return 31u - (uint32_t)__builtin_clz(length);
}

int64_t mem_costs_top_work(const struct mem_costs *costs, uint32_t first, uint32_t end)
{
    uint32_t level = level_of(end - first);
    int64_t a = costs->top_work[level][first], b = costs->top_work[level][end - (1u << level)];

    return a > b ? a : b;
}

uint32_t mem_costs_top_last(const struct mem_costs *costs, uint32_t first, uint32_t end)
{
    uint32_t level = level_of(end - first);
    uint32_t a = costs->top_last[level][first], b = costs->top_last[level][end - (1u << level)];

    return a > b ? a : b;
}

uint64_t mem_costs_link_ns(const struct mem_costs *costs, uint64_t bytes, bool planned)
{
    __extension__ unsigned __int128 ns;
    uint64_t whole;

    if (bytes == 0 || costs->link_bytes_per_s == 0) {
        return 0;
    }
    ns = (__extension__(unsigned __int128) bytes) * 1000000000u * costs->link_directions;
    ns = (ns + costs->link_bytes_per_s - 1) / costs->link_bytes_per_s;
    whole = ns >= MOST ? MOST : (uint64_t)ns;
    if (planned && costs->link_target < 1) {
        double stretched = (double)whole / costs->link_target;

        whole = stretched >= (double)MOST ? MOST : (uint64_t)stretched + 1;
    }
    return whole;
}
