/* SPDX-License-Identifier: Apache-2.0 */
#include "planner/memory_events.h"

#include <string.h>

#include "planner/eval.h"

struct ledger {
    const struct pst_stage_view *view;
    const uint8_t *actions;
    uint32_t *last; /* [n] largest reader of a node */
    uint32_t *next,
        *head; /* nodes by last reader; then begins of runs by where they are restored */
    uint64_t base, live;
    struct pst_memory_event *events;
    uint32_t n;
    uint64_t *held; /* [n] saved bytes, and the result where a replay of another node needs it */
};

static const struct pst_stage_node *node_at(const struct ledger *l, uint32_t v)
{
    return pst_stage_node_at(l->view, v);
}

static bool is_dropped(const struct ledger *l, uint32_t v)
{
    return l->actions[v] == PST_ACTION_RECOMPUTE;
}

static void note(struct ledger *l, uint32_t pass, uint32_t v, uint64_t work, uint64_t ns)
{
    l->events[l->n++] = (struct pst_memory_event){
        .pass = pass, .node = v, .bytes = l->base + l->live + work, .ns = ns};
}

static void clear(struct ledger *l)
{
    for (uint32_t v = 0; v < l->view->n_nodes; v++) {
        l->head[v] = l->next[v] = PST_NONE;
    }
}

static void put(struct ledger *l, uint32_t list, uint32_t v)
{
    l->next[v] = l->head[list];
    l->head[list] = v;
}

static void find_readers(struct ledger *l)
{
    for (uint32_t v = 0; v < l->view->n_nodes; v++) {
        const struct pst_stage_node *node = node_at(l, v);

        l->last[v] = v;
        l->held[v] = node->saved_bytes;
        for (uint32_t j = 0; j < node->n_producers; j++) {
            uint32_t u = l->view->producers[node->first_producer + j];

            l->last[u] = v; /* ascending */
            if (is_dropped(l, v) && !is_dropped(l, u)) {
                l->held[u] = node_at(l, u)->saved_bytes + pst_stage_node_result(l->view, u);
            }
        }
    }
}

static void run_forward(struct ledger *l)
{
    clear(l);
    for (uint32_t v = 0; v < l->view->n_nodes; v++) {
        if (is_dropped(l, v)) {
            put(l, l->last[v], v);
        }
    }
    for (uint32_t v = 0; v < l->view->n_nodes; v++) {
        const struct pst_stage_node *node = node_at(l, v);

        uint64_t also = l->held[v] - node->saved_bytes, work = node->forward_work_bytes;

        l->live += l->held[v];
        note(l, PST_MEMORY_FORWARD, v, work > also ? work - also : 0, node->forward_ns);
        for (uint32_t u = l->head[v]; u != PST_NONE; u = l->next[u]) {
            l->live -= node_at(l, u)->saved_bytes;
        }
    }
}

/* Ascending begins, so that of those restored together the later one heads the list. */
static void find_runs(struct ledger *l)
{
    uint32_t n = l->view->n_nodes, p = 0;

    clear(l);
    while (p < n) {
        uint32_t end = p, t = p;

        for (; end < n && is_dropped(l, end); end++) {
            t = l->last[end] > t ? l->last[end] : t;
        }
        if (end > p) {
            put(l, t > end - 1 ? t : end - 1, p);
        }
        p = end > p ? end : p + 1;
    }
}

static void run_backward(struct ledger *l)
{
    find_runs(l);
    for (uint32_t v = l->view->n_nodes; v-- > 0;) {
        const struct pst_stage_node *node = node_at(l, v);

        for (uint32_t p = l->head[v]; p != PST_NONE; p = l->next[p]) {
            for (uint32_t u = p; u < l->view->n_nodes && is_dropped(l, u); u++) {
                l->live += node_at(l, u)->saved_bytes;
                note(l, PST_MEMORY_REPLAY, u, node_at(l, u)->forward_work_bytes,
                     node_at(l, u)->forward_ns);
            }
        }
        note(l, PST_MEMORY_BACKWARD, v, node->backward_work_bytes, node->backward_ns);
        l->live -= l->held[v];
    }
}

static void sum_up(const struct ledger *l, struct pst_memory_sums *sums)
{
    const struct pst_stage_view *view = l->view;
    uint64_t k = view->in_flight > 0 ? view->in_flight : 1, kept = 0;
    uint64_t staged = view->staging_copies < k ? view->staging_copies : k;

    *sums = (struct pst_memory_sums){.static_bytes = view->static_bytes};
    for (uint32_t v = 0; v < view->n_nodes; v++) {
        const struct pst_stage_node *node = node_at(l, v);

        sums->total_ns += node->forward_ns + node->backward_ns;
        sums->replay_ns += is_dropped(l, v) ? node->forward_ns : 0;
        sums->dropped_bytes += is_dropped(l, v) ? node->saved_bytes : 0;
        sums->offloaded_bytes += l->actions[v] == PST_ACTION_OFFLOAD ? l->held[v] : 0;
        kept += l->actions[v] == PST_ACTION_KEEP ? l->held[v] : 0;
    }
    sums->kept_bytes = kept;
    sums->parked_bytes = (k - 1) * (view->input_bytes + kept) +
                         (staged > 0 ? staged - 1 : 0) * sums->offloaded_bytes;
    sums->link_ns = pst_eval_link_ns(view, sums->offloaded_bytes);
}

void pst_memory_events(const struct pst_stage_view *view, const uint8_t *actions,
                       struct pst_arena *arena, struct pst_memory_event **ret_events,
                       uint32_t *ret_n_events, struct pst_memory_sums *ret_sums)
{
    uint32_t n = view->n_nodes;
    struct ledger l = {
        .view = view,
        .actions = actions,
        .last = pst_arena_array(arena, (size_t)n + 1, sizeof *l.last),
        .held = pst_arena_array(arena, (size_t)n + 1, sizeof *l.held),
        .next = pst_arena_array(arena, (size_t)n + 1, sizeof *l.next),
        .head = pst_arena_array(arena, (size_t)n + 1, sizeof *l.head),
        .events = pst_arena_array(arena, 3 * (size_t)n + 1, sizeof *l.events),
    };

    find_readers(&l);
    sum_up(&l, ret_sums);
    l.base = ret_sums->static_bytes + ret_sums->parked_bytes + view->input_bytes;
    run_forward(&l);
    l.live = 0;
    for (uint32_t v = 0; v < n; v++) {
        l.live += is_dropped(&l, v) ? 0 : l.held[v];
    }
    run_backward(&l);
    for (uint32_t i = 0; i < l.n; i++) {
        uint64_t active = l.events[i].bytes - l.base + view->input_bytes;

        ret_sums->active_bytes = active > ret_sums->active_bytes ? active : ret_sums->active_bytes;
    }
    *ret_events = l.events;
    *ret_n_events = l.n;
}
