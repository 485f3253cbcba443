/* SPDX-License-Identifier: Apache-2.0 */
#include "planner/eval_replays.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/saturate.h"
#include "plan/sequence.h"

/* --- what a memory optimizer hands over --------------------------------------------------------*/

const char *pst_replay_list_take(struct pst_replay_list *list, const struct pst_replay *replays,
                                 uint32_t n_replays, uint32_t n_nodes)
{
    uint32_t at = 0;
    const char *fault = n_replays > 0 && replays == NULL ? "there are no replays"
                        : list->n > 0                    ? "its replays were listed before"
                                      : pst_sequence_fault(replays, n_replays, n_nodes, &at);

    if (fault != NULL || n_replays == 0) {
        return fault;
    }
    list->at = pst_alloc(n_replays, sizeof *list->at);
    memcpy(list->at, replays, n_replays * sizeof *list->at);
    list->n = n_replays;
    return NULL;
}

void pst_replay_list_finish(struct pst_replay_list *list)
{
    free(list->at);
    *list = (struct pst_replay_list){.n = 0};
}

void pst_evaluate_list(struct pst_evaluator *evaluator, const struct pst_stage_view *view,
                       const struct pst_replay_list *list, struct pst_stage_value *ret_value)
{
    if (list->n > 0) {
        pst_evaluate_replays(view, list->at, list->n, ret_value, NULL);
    } else {
        pst_evaluate(evaluator, view, NULL, ret_value);
    }
}

/* --- evaluation --------------------------------------------------------------------------------*/

struct event {
    uint8_t kind; /* PST_MEMORY_* */
    bool skipped; /* a replay of which nothing is read */
    uint32_t node, before;
    uint32_t aux_until, out_until; /* the last event that reads what this one makes, or PST_NONE */
};

struct work {
    const struct pst_stage_view *view;
    struct event *events;
    uint32_t n, n_events;
    uint32_t *aux_last,
        *out_last;    /* [n] of the walk back: the last event that reads, not made yet */
    uint64_t *expire; /* [n_events] bytes that die with it */
    uint64_t *left;   /* [n] that a forward leaves for later, or NULL */
    struct pst_memory_sums sums;
    uint64_t live, most;
};

static const struct pst_stage_node *node_at(const struct work *w, uint32_t v)
{
    return pst_stage_node_at(w->view, v);
}

static bool output_saved(const struct work *w, uint32_t v)
{
    return !pst_stage_node_has_output(w->view) || node_at(w, v)->output_saved != 0;
}

static uint64_t output_of(const struct work *w, uint32_t v)
{
    return pst_stage_node_output(w->view, v);
}

/* Bytes that a node leaves beside its result. */
static uint64_t aux_of(const struct work *w, uint32_t v)
{
    uint64_t saved = node_at(w, v)->saved_bytes, out = output_saved(w, v) ? output_of(w, v) : 0;

    return saved > out ? saved - out : 0;
}

static bool may_replay(const struct work *w, uint32_t v)
{
    const struct pst_stage_node *node = node_at(w, v);

    return !pst_stage_node_decided(node) && (node->flags & PST_NODE_NO_RECOMPUTE) == 0;
}

/* --- rules -------------------------------------------------------------------------------------*/

static bool check_replays(const struct pst_stage_view *view, const struct pst_replay *replays,
                          uint32_t n, struct pst_stage_value *value)
{
    uint32_t at = PST_NONE;
    const char *fault = pst_sequence_fault(replays, n, view->n_nodes, &at);

    value->node = fault != NULL && replays[at].first < view->n_nodes ? replays[at].first : PST_NONE;
    for (uint32_t v = 0; fault == NULL && v < view->n_nodes; v++) {
        const struct pst_stage_node *node = pst_stage_node_at(view, v);

        if (pst_stage_node_decided(node) && node->action != PST_ACTION_OFFLOAD) {
            fault = "an earlier memory optimizer recomputes in this stage";
            value->node = v;
        } else if (node->action == PST_ACTION_OFFLOAD && view->link_bytes_per_s == 0) {
            fault = "there is no link to the host";
            value->node = v;
        }
    }
    value->rule = fault;
    value->legal = fault == NULL;
    return fault == NULL;
}

/* --- events ------------------------------------------------------------------------------------*/

static void add_event(struct work *w, uint8_t kind, uint32_t node, uint32_t before)
{
    w->events[w->n_events++] = (struct event){
        .kind = kind, .node = node, .before = before, .aux_until = PST_NONE, .out_until = PST_NONE};
}

static void list_events(struct work *w, struct pst_arena *arena, const struct pst_replay *replays,
                        uint32_t n_replays)
{
    size_t most = 2 * (size_t)w->n + 1;
    uint32_t next = 0;

    for (uint32_t i = 0; i < n_replays; i++) {
        most += replays[i].last - replays[i].first + 1;
    }
    w->events = pst_arena_array(arena, most, sizeof *w->events);
    w->expire = pst_arena_array(arena, most, sizeof *w->expire);
    w->aux_last = pst_arena_array(arena, (size_t)w->n + 1, sizeof *w->aux_last);
    w->out_last = pst_arena_array(arena, (size_t)w->n + 1, sizeof *w->out_last);
    for (uint32_t v = 0; v < w->n; v++) {
        add_event(w, PST_MEMORY_FORWARD, v, v);
    }
    for (uint32_t v = w->n; v-- > 0;) {
        for (; next < n_replays && replays[next].before == v; next++) {
            for (uint32_t u = replays[next].first; u <= replays[next].last; u++) {
                if (may_replay(w, u)) {
                    add_event(w, PST_MEMORY_REPLAY, u, v);
                }
            }
        }
        add_event(w, PST_MEMORY_BACKWARD, v, v);
    }
}

/* --- lives, from the end -----------------------------------------------------------------------*/

static void read_part(uint32_t *last, uint32_t v, uint32_t event)
{
    last[v] = last[v] == PST_NONE ? event : last[v];
}

/* Results of the producers: all of them, or those that some backward reads. */
static void read_producers(struct work *w, uint32_t v, uint32_t event, bool all)
{
    const struct pst_stage_node *node = node_at(w, v);

    for (uint32_t j = 0; j < node->n_producers; j++) {
        uint32_t u = w->view->producers[node->first_producer + j];

        if (all || output_saved(w, u)) {
            read_part(w->out_last, u, event);
        }
    }
}

static void find_lives(struct work *w)
{
    memset(w->aux_last, 0xFF, w->n * sizeof *w->aux_last);
    memset(w->out_last, 0xFF, w->n * sizeof *w->out_last);
    for (uint32_t e = w->n_events; e-- > 0;) {
        struct event *event = &w->events[e];
        uint32_t v = event->node;

        if (event->kind == PST_MEMORY_BACKWARD) {
            if (aux_of(w, v) > 0) {
                read_part(w->aux_last, v, e);
            }
            if (output_saved(w, v)) {
                read_part(w->out_last, v, e);
            }
            read_producers(w, v, e, false);
            continue;
        }
        event->aux_until = w->aux_last[v];
        event->out_until = w->out_last[v];
        event->skipped = event->kind == PST_MEMORY_REPLAY && event->aux_until == PST_NONE &&
                         event->out_until == PST_NONE;
        w->aux_last[v] = w->out_last[v] = PST_NONE;
        if (!event->skipped) {
            read_producers(w, v, e, true);
        }
    }
}

/* --- residency, from the beginning -------------------------------------------------------------*/

/* Returns the bytes that this forward or replay leaves, and notes when they die. */
static uint64_t save_results(struct work *w, uint32_t e)
{
    const struct event *event = &w->events[e];
    uint32_t until[2] = {event->aux_until, event->out_until};
    uint64_t bytes[2] = {aux_of(w, event->node), output_of(w, event->node)}, made = 0;
    bool offloaded = node_at(w, event->node)->action == PST_ACTION_OFFLOAD;

    for (int i = 0; i < 2; i++) {
        if (until[i] == PST_NONE) {
            continue;
        }
        made += bytes[i];
        w->expire[until[i]] += bytes[i];
        if (event->kind == PST_MEMORY_FORWARD && until[i] >= w->n) {
            *(offloaded ? &w->sums.offloaded_bytes : &w->sums.kept_bytes) += bytes[i];
            if (w->left != NULL) {
                w->left[event->node] += bytes[i];
            }
        }
    }
    return made;
}

/* Bytes of the active micro-batch while this event runs. */
static uint64_t run_event(struct work *w, uint32_t e)
{
    const struct event *event = &w->events[e];
    const struct pst_stage_node *node = node_at(w, event->node);
    uint64_t bytes, made;

    if (event->kind == PST_MEMORY_BACKWARD) {
        bytes = w->live + node->backward_work_bytes;
        w->sums.total_ns =
            pst_sat_add(w->sums.total_ns, pst_sat_add(node->forward_ns, node->backward_ns));
    } else {
        made = save_results(w, e);
        bytes = node->saved_bytes + node->forward_work_bytes;
        bytes = w->live + (made > bytes ? made : bytes);
        w->live += made;
        if (event->kind == PST_MEMORY_REPLAY) { /* the gradient of what comes next backward waits */
            bytes += output_of(w, event->before);
            w->sums.replay_ns = pst_sat_add(w->sums.replay_ns, node->forward_ns);
        }
    }
    w->live -= w->expire[e];
    w->most = bytes > w->most ? bytes : w->most;
    return bytes;
}

/* Do all sums stay far below 2^64? */
static bool is_sane(const struct work *w)
{
    uint64_t sum = 0, most = 0;

    for (uint32_t v = 0; v < w->n; v++) {
        const struct pst_stage_node *node = node_at(w, v);

        sum = pst_sat_add(sum, pst_sat_add(node->saved_bytes, output_of(w, v)));
        sum = pst_sat_add(sum, pst_sat_add(node->forward_work_bytes, node->backward_work_bytes));
        most = output_of(w, v) > most ? output_of(w, v) : most;
    }
    return pst_sat_add(pst_sat_add(sum, sum), most) < UINT64_MAX / 4;
}

/* --- the sums ----------------------------------------------------------------------------------*/

/* events, left NULL: not wanted. */
static void evaluate(const struct pst_stage_view *view, const struct pst_replay *replays,
                     uint32_t n_replays, struct pst_arena *arena, struct pst_memory_event *events,
                     uint32_t *ret_n_events, uint64_t *left, struct pst_memory_sums *ret_sums,
                     struct pst_stage_value *value)
{
    struct work w = {.view = view, .n = view->n_nodes, .left = left};
    uint64_t saved = 0, gone;
    bool sane;

    list_events(&w, arena, replays, n_replays);
    find_lives(&w);
    sane = is_sane(&w);
    *ret_n_events = 0;
    for (uint32_t e = 0; sane && e < w.n_events; e++) {
        const struct event *event = &w.events[e];
        const struct pst_stage_node *node = node_at(&w, event->node);
        uint64_t bytes = event->skipped ? 0 : run_event(&w, e);

        if (events != NULL && !event->skipped) {
            events[(*ret_n_events)++] = (struct pst_memory_event){
                .pass = event->kind,
                .node = event->node,
                .bytes = bytes,
                .ns = event->kind == PST_MEMORY_BACKWARD ? node->backward_ns : node->forward_ns};
        }
    }
    for (uint32_t v = 0; v < w.n; v++) {
        saved = pst_sat_add(saved, node_at(&w, v)->saved_bytes);
    }
    gone = pst_sat_add(w.sums.kept_bytes, w.sums.offloaded_bytes);
    w.sums.dropped_bytes = saved > gone ? saved - gone : 0;
    pst_memory_settle(view, sane ? w.most : UINT64_MAX, &w.sums, value);
    pst_memory_lift(view, &w.sums, events, *ret_n_events);
    *ret_sums = w.sums;
}

void pst_evaluate_replays(const struct pst_stage_view *view, const struct pst_replay *replays,
                          uint32_t n_replays, struct pst_stage_value *ret_value,
                          uint64_t *ret_kept_bytes)
{
    struct pst_stage_value value = {.size = ret_value->size, .legal = 1, .node = PST_NONE};
    struct pst_memory_sums sums = {0};
    struct pst_arena arena = {0};
    uint32_t n_events;

    if (check_replays(view, replays, n_replays, &value)) {
        evaluate(view, replays, n_replays, &arena, NULL, &n_events, NULL, &sums, &value);
    }
    pst_arena_finish(&arena);
    *ret_value = value;
    if (ret_kept_bytes != NULL) {
        *ret_kept_bytes = sums.kept_bytes;
    }
}

void pst_replays_events(const struct pst_stage_view *view, const struct pst_replay *replays,
                        uint32_t n_replays, struct pst_arena *arena,
                        struct pst_memory_event **ret_events, uint32_t *ret_n_events,
                        struct pst_memory_sums *ret_sums, uint64_t **ret_left)
{
    struct pst_stage_value value = {.size = sizeof value};
    size_t most = 2 * (size_t)view->n_nodes + 1;
    struct pst_memory_event *events;
    uint64_t *left = pst_arena_array(arena, (size_t)view->n_nodes + 1, sizeof *left);

    for (uint32_t i = 0; i < n_replays; i++) {
        most += replays[i].last - replays[i].first + 1;
    }
    events = pst_arena_array(arena, most, sizeof *events);
    evaluate(view, replays, n_replays, arena, events, ret_n_events, left, ret_sums, &value);
    *ret_events = events;
    *ret_left = left;
}
