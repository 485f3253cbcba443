/* SPDX-License-Identifier: Apache-2.0 */
#include "planner/eval.h"

#include <string.h>

#include "base/saturate.h"

/* One evaluation. */
struct walk {
    struct pst_evaluator *e;
    const struct pst_stage_view *view;
    const uint8_t *actions;
    uint32_t n;
    uint64_t live, most;             /* of the active micro-batch, without its input */
    struct pst_memory_event *events; /* NULL: not wanted */
    uint32_t n_events;
};

void pst_evaluator_finish(struct pst_evaluator *evaluator)
{
    pst_arena_finish(&evaluator->arena);
    memset(evaluator, 0, sizeof *evaluator);
}

static void reserve(struct pst_evaluator *e, uint32_t n)
{
    size_t room = 2 * (size_t)n + 16;

    if (n <= e->room && e->room > 0) {
        return;
    }
    pst_evaluator_finish(e);
    e->last = pst_arena_array(&e->arena, room, sizeof *e->last);
    e->held = pst_arena_array(&e->arena, room, sizeof *e->held);
    e->next = pst_arena_array(&e->arena, room, sizeof *e->next);
    e->head = pst_arena_array(&e->arena, room, sizeof *e->head);
    e->room = (uint32_t)room;
}

static const struct pst_stage_node *node_at(const struct walk *w, uint32_t v)
{
    return pst_stage_node_at(w->view, v);
}

static uint32_t action_of(const struct walk *w, uint32_t v)
{
    return w->actions != NULL ? w->actions[v] : node_at(w, v)->action;
}

static bool is_dropped(const struct walk *w, uint32_t v)
{
    return action_of(w, v) == PST_ACTION_RECOMPUTE;
}

/* --- legality ----------------------------------------------------------------------------------*/

/* The rule that node i breaks by itself, or NULL. */
static const char *node_fault(const struct walk *w, uint32_t i)
{
    const struct pst_stage_node *node = node_at(w, i);
    uint32_t action = action_of(w, i);

    if (pst_stage_node_decided(node) && action != node->action) {
        return "an earlier memory optimizer decided about this node";
    }
    if (action == PST_ACTION_RECOMPUTE && (node->flags & PST_NODE_NO_RECOMPUTE) != 0) {
        return "this node must not be replayed";
    }
    if (action == PST_ACTION_OFFLOAD && (node->flags & PST_NODE_NO_OFFLOAD) != 0) {
        return "this node must not leave the device";
    }
    if (action == PST_ACTION_OFFLOAD && w->view->link_bytes_per_s == 0) {
        return "there is no link to the host";
    }
    return action > PST_ACTION_OFFLOAD ? "not an action that one stage can decide about" : NULL;
}

/* Fills last and held, and finds the first node that is illegal; true if all is well. */
static bool check_nodes(struct walk *w, struct pst_stage_value *value)
{
    uint32_t run = 0;

    for (uint32_t i = 0; i < w->n; i++) {
        const struct pst_stage_node *node = node_at(w, i);
        const char *fault = node_fault(w, i);
        bool dropped = is_dropped(w, i);

        w->e->last[i] = i;
        w->e->held[i] = node->saved_bytes;
        if (!dropped || i == 0 || !is_dropped(w, i - 1)) {
            run = i;
        }
        for (uint32_t j = 0; j < node->n_producers; j++) {
            uint32_t u = w->view->producers[node->first_producer + j];

            w->e->last[u] = i; /* ascending: the last one stays */
            if (dropped && !is_dropped(w, u)) {
                w->e->held[u] =
                    pst_sat_add(node_at(w, u)->saved_bytes, pst_stage_node_result(w->view, u));
            } else if (dropped && u < run) {
                fault = "its replay would read a node of another run that is not there";
            }
        }
        if (fault != NULL) {
            value->legal = 0;
            value->node = i;
            value->rule = fault;
            return false;
        }
    }
    return true;
}

/* --- the active micro-batch, moment by moment --------------------------------------------------*/

/* Can all that there may be at once be counted? */
static bool is_countable(const struct walk *w)
{
    uint64_t sum = 0;

    for (uint32_t v = 0; v < w->n; v++) {
        const struct pst_stage_node *node = node_at(w, v);

        sum = pst_sat_add(sum, w->e->held[v]);
        sum = pst_sat_add(sum, pst_sat_add(node->forward_work_bytes, node->backward_work_bytes));
    }
    return sum < UINT64_MAX;
}

static void note_peak(struct walk *w, uint32_t pass, uint32_t v, uint64_t work)
{
    const struct pst_stage_node *node = node_at(w, v);
    uint64_t bytes = w->live + work;

    w->most = bytes > w->most ? bytes : w->most;
    if (w->events != NULL) {
        w->events[w->n_events++] = (struct pst_memory_event){
            .pass = pass,
            .node = v,
            .bytes = bytes,
            .ns = pass == PST_MEMORY_BACKWARD ? node->backward_ns : node->forward_ns};
    }
}

static void clear_lists(struct walk *w)
{
    memset(w->e->head, 0xFF, w->n * sizeof *w->e->head);
}

static void push_node(struct walk *w, uint32_t list, uint32_t v)
{
    w->e->next[v] = w->e->head[list];
    w->e->head[list] = v;
}

/* Dropped values are freed after their last reader. */
static void run_forward(struct walk *w)
{
    clear_lists(w);
    for (uint32_t v = 0; v < w->n; v++) {
        if (is_dropped(w, v)) {
            push_node(w, w->e->last[v], v);
        }
    }
    for (uint32_t v = 0; v < w->n; v++) {
        const struct pst_stage_node *node = node_at(w, v);
        uint64_t result = w->e->held[v] - node->saved_bytes, work = node->forward_work_bytes;

        w->live += w->e->held[v];
        note_peak(w, PST_MEMORY_FORWARD, v, work > result ? work - result : 0);
        for (uint32_t u = w->e->head[v]; u != PST_NONE; u = w->e->next[u]) {
            w->live -= node_at(w, u)->saved_bytes;
        }
    }
}

/* Ascending begins, so that of those restored together the later one heads the list. */
static void find_runs(struct walk *w)
{
    uint32_t n = w->n, p = 0;

    clear_lists(w);
    while (p < n) {
        uint32_t end = p, t = p;

        for (; end < n && is_dropped(w, end); end++) {
            t = w->e->last[end] > t ? w->e->last[end] : t;
        }
        if (end > p) {
            push_node(w, t > end - 1 ? t : end - 1, p);
        }
        p = end > p ? end : p + 1;
    }
}

static void run_backward(struct walk *w)
{
    find_runs(w);
    for (uint32_t v = w->n; v-- > 0;) {
        for (uint32_t p = w->e->head[v]; p != PST_NONE; p = w->e->next[p]) {
            for (uint32_t u = p; u < w->n && is_dropped(w, u); u++) {
                w->live += node_at(w, u)->saved_bytes;
                note_peak(w, PST_MEMORY_REPLAY, u, node_at(w, u)->forward_work_bytes);
            }
        }
        note_peak(w, PST_MEMORY_BACKWARD, v, node_at(w, v)->backward_work_bytes);
        w->live -= w->e->held[v];
    }
}

/* --- the sums ----------------------------------------------------------------------------------*/

static void add(uint64_t *sum, uint64_t more)
{
    *sum = pst_sat_add(*sum, more);
}

static void sum_up(const struct walk *w, struct pst_memory_sums *sums)
{
    for (uint32_t v = 0; v < w->n; v++) {
        const struct pst_stage_node *node = node_at(w, v);

        add(&sums->total_ns, pst_sat_add(node->forward_ns, node->backward_ns));
        switch (action_of(w, v)) {
        case PST_ACTION_RECOMPUTE:
            add(&sums->replay_ns, node->forward_ns);
            add(&sums->dropped_bytes, node->saved_bytes);
            break;
        case PST_ACTION_OFFLOAD:
            add(&sums->offloaded_bytes, w->e->held[v]);
            break;
        default:
            add(&sums->kept_bytes, w->e->held[v]);
            break;
        }
    }
}

uint64_t pst_eval_link_ns(const struct pst_stage_view *view, uint64_t bytes)
{
    __extension__ unsigned __int128 ns;

    if (bytes == 0 || view->link_bytes_per_s == 0) {
        return 0;
    }
    ns = (__extension__(unsigned __int128) bytes) * 1000000000u * view->link_directions;
    ns = (ns + view->link_bytes_per_s - 1) / view->link_bytes_per_s;
    return ns > UINT64_MAX ? UINT64_MAX : (uint64_t)ns;
}

void pst_memory_settle(const struct pst_stage_view *view, uint64_t most,
                       struct pst_memory_sums *sums, struct pst_stage_value *value)
{
    uint64_t k = view->in_flight > 0 ? view->in_flight : 1;
    uint64_t staged = view->staging_copies < k ? view->staging_copies : k;
    uint64_t busy = pst_sat_add(sums->total_ns, sums->replay_ns);

    sums->static_bytes = view->static_bytes;
    sums->active_bytes = pst_sat_add(view->input_bytes, most);
    sums->parked_bytes =
        pst_sat_add(pst_sat_mul(k - 1, pst_sat_add(view->input_bytes, sums->kept_bytes)),
                    pst_sat_mul(staged > 0 ? staged - 1 : 0, sums->offloaded_bytes));
    sums->link_ns = pst_eval_link_ns(view, sums->offloaded_bytes);
    value->peak_bytes =
        pst_sat_add(pst_sat_add(sums->static_bytes, sums->parked_bytes), sums->active_bytes);
    value->period_ns = busy > sums->link_ns ? busy : sums->link_ns;
    value->extra_ns = value->period_ns - sums->total_ns;
    if (view->host_capacity_bytes > 0 &&
        pst_sat_mul(k, sums->offloaded_bytes) > view->host_capacity_bytes) {
        value->legal = 0;
        value->rule = "more bytes are offloaded than there is host memory for";
    }
}

void pst_memory_lift(const struct pst_stage_view *view, const struct pst_memory_sums *sums,
                     struct pst_memory_event *events, uint32_t n_events)
{
    for (uint32_t i = 0; i < n_events; i++) {
        events[i].bytes += sums->static_bytes + sums->parked_bytes + view->input_bytes;
    }
}

static void evaluate(struct walk *w, struct pst_memory_sums *sums, struct pst_stage_value *value)
{
    w->n = w->view->n_nodes;
    reserve(w->e, w->n);
    if (!check_nodes(w, value)) {
        return;
    }
    sum_up(w, sums);
    if (is_countable(w)) {
        run_forward(w);
        run_backward(w);
    } else {
        w->most = UINT64_MAX;
    }
    pst_memory_settle(w->view, w->most, sums, value);
}

void pst_evaluate(struct pst_evaluator *evaluator, const struct pst_stage_view *view,
                  const uint8_t *actions, struct pst_stage_value *ret_value)
{
    struct walk w = {.e = evaluator, .view = view, .actions = actions};
    struct pst_stage_value value = {.size = ret_value->size, .legal = 1, .node = PST_NONE};
    struct pst_memory_sums sums = {0};

    evaluate(&w, &sums, &value);
    *ret_value = value;
}

void pst_memory_events(const struct pst_stage_view *view, const uint8_t *actions,
                       struct pst_arena *arena, struct pst_memory_event **ret_events,
                       uint32_t *ret_n_events, struct pst_memory_sums *ret_sums)
{
    struct pst_evaluator evaluator = {0};
    struct walk w = {.e = &evaluator,
                     .view = view,
                     .actions = actions,
                     .events =
                         pst_arena_array(arena, 3 * (size_t)view->n_nodes + 1, sizeof *w.events)};
    struct pst_stage_value value = {.legal = 1};

    memset(ret_sums, 0, sizeof *ret_sums);
    evaluate(&w, ret_sums, &value);
    pst_memory_lift(view, ret_sums, w.events, w.n_events);
    pst_evaluator_finish(&evaluator);
    *ret_events = w.events;
    *ret_n_events = w.n_events;
}
