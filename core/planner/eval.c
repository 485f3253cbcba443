/* SPDX-License-Identifier: Apache-2.0 */
#include "planner/eval.h"

#include <string.h>

#include "base/saturate.h"

/* One evaluation. */
struct work {
    struct pst_evaluator *e;
    const struct pst_stage_view *view;
    const uint8_t *actions;
    uint32_t n;
    uint64_t most; /* largest residency so far */
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
    e->kept = pst_arena_array(&e->arena, room + 1, sizeof *e->kept);
    e->dropped = pst_arena_array(&e->arena, room + 1, sizeof *e->dropped);
    e->expire = pst_arena_array(&e->arena, room + 1, sizeof *e->expire);
    e->later = pst_arena_array(&e->arena, room + 1, sizeof *e->later);
    e->same = pst_arena_array(&e->arena, room, sizeof *e->same);
    e->also = pst_arena_array(&e->arena, room, sizeof *e->also);
    e->room = (uint32_t)room;
}

static uint32_t action_of(const struct work *w, uint32_t i)
{
    return w->actions != NULL ? w->actions[i] : pst_stage_node_at(w->view, i)->action;
}

static bool is_dropped(const struct work *w, uint32_t i)
{
    return action_of(w, i) == PST_ACTION_RECOMPUTE;
}

/* --- legality ----------------------------------------------------------------------------------*/

/* The rule that node i breaks by itself, or NULL. */
static const char *node_fault(const struct work *w, uint32_t i)
{
    const struct pst_stage_node *node = pst_stage_node_at(w->view, i);
    uint32_t action = action_of(w, i);

    if (node->action != PST_ACTION_KEEP && action != node->action) {
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

/* Fills last and also, and finds the first node that is illegal; true if all is well. */
static bool check(struct work *w, struct pst_stage_value *value)
{
    uint32_t i, j, run = 0;

    for (i = 0; i < w->n; i++) {
        const struct pst_stage_node *node = pst_stage_node_at(w->view, i);
        const char *fault = node_fault(w, i);
        bool dropped = is_dropped(w, i);

        w->e->last[i] = i;
        w->e->also[i] = 0;
        if (!dropped || i == 0 || !is_dropped(w, i - 1)) {
            run = i;
        }
        for (j = 0; j < node->n_producers; j++) {
            uint32_t u = w->view->producers[node->first_producer + j];

            w->e->last[u] = i; /* ascending: the last one stays */
            if (dropped && !is_dropped(w, u)) {
                w->e->also[u] = pst_stage_node_result(w->view, u);
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

/* --- residency of the active micro-batch -------------------------------------------------------*/

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static void visit(struct work *w, uint64_t bytes)
{
    w->most = bytes > w->most ? bytes : w->most;
}

/* Prefix sums, and what becomes of dropped bytes. */
static void prepare(struct work *w)
{
    struct pst_evaluator *e = w->e;
    uint32_t i;

    e->kept[0] = 0;
    e->dropped[0] = 0;
    memset(e->expire, 0, (w->n + 1) * sizeof *e->expire);
    memset(e->later, 0, (w->n + 1) * sizeof *e->later);
    memset(e->same, 0, w->n * sizeof *e->same);
    for (i = 0; i < w->n; i++) {
        uint64_t a = pst_sat_add(pst_stage_node_at(w->view, i)->saved_bytes, e->also[i]);
        bool dropped = is_dropped(w, i);

        e->kept[i + 1] = pst_sat_add(e->kept[i], dropped ? 0 : a);
        e->dropped[i + 1] = pst_sat_add(e->dropped[i], dropped ? a : 0);
        if (dropped) {
            e->expire[e->last[i] + 1] = pst_sat_add(e->expire[e->last[i] + 1], a);
        }
    }
}

static void visit_forward(struct work *w)
{
    uint64_t gone = 0;
    uint32_t v;

    for (v = 0; v < w->n; v++) {
        const struct pst_stage_node *node = pst_stage_node_at(w->view, v);
        uint64_t before, own; /* own: with what is held of the result, which is work until then */

        gone = pst_sat_add(gone, w->e->expire[v]);
        before = pst_sat_add(w->e->kept[v], w->e->dropped[v] - gone);
        own = larger(node->forward_work_bytes, w->e->also[v]);
        visit(w, pst_sat_add(before, pst_sat_add(node->saved_bytes, own)));
    }
}

/* The node before whose backward the run p..q is restored. */
static uint32_t restore_at(const struct work *w, uint32_t p, uint32_t q)
{
    uint32_t i, t = q;

    for (i = p; i <= q; i++) {
        t = w->e->last[i] > t ? w->e->last[i] : t;
    }
    return t;
}

/* Position behind the run that begins at p. */
static uint32_t run_end(const struct work *w, uint32_t p)
{
    while (p < w->n && is_dropped(w, p)) {
        p++;
    }
    return p;
}

/* later[v] := bytes of the runs that lie before v and are restored at or after it. */
static void sum_later(struct work *w)
{
    uint64_t *later = w->e->later;
    uint32_t p, v;

    for (p = 0; p < w->n; p++) {
        uint32_t end = run_end(w, p);

        if (end > p) {
            uint32_t t = restore_at(w, p, end - 1);
            uint64_t bytes = w->e->dropped[end] - w->e->dropped[p];

            later[end] += bytes; /* modulo 2^64: the sums come out right */
            later[t + 1] -= bytes;
            p = end;
        }
    }
    for (v = 1; v <= w->n; v++) {
        later[v] += later[v - 1];
    }
}

/* Bytes of restored runs in the backward of v: earlier runs, and the part up to v of its own. */
static uint64_t restored(const struct work *w, uint32_t v, uint32_t run_begin)
{
    uint64_t own = is_dropped(w, v) ? w->e->dropped[v + 1] - w->e->dropped[run_begin] : 0;

    return pst_sat_add(w->e->later[v], own);
}

static void visit_backward(struct work *w)
{
    uint32_t v, begin = 0;

    for (v = 0; v < w->n; v++) {
        if (v == 0 || !is_dropped(w, v) || !is_dropped(w, v - 1)) {
            begin = v;
        }
        visit(w, pst_sat_add(pst_sat_add(w->e->kept[v + 1], restored(w, v, begin)),
                             pst_stage_node_at(w->view, v)->backward_work_bytes));
    }
}

static uint32_t begin_of_run_at(const struct work *w, uint32_t v)
{
    while (v > 0 && is_dropped(w, v) && is_dropped(w, v - 1)) {
        v--;
    }
    return v;
}

static void visit_replays(struct work *w)
{
    const struct pst_evaluator *e = w->e;
    uint32_t p, u;

    for (p = 0; p < w->n; p++) {
        uint32_t end = run_end(w, p), t;
        uint64_t base;

        if (end == p) {
            continue;
        }
        t = restore_at(w, p, end - 1);
        /* Ascending begins: what is in same[t] was not there yet, this run included. */
        w->e->same[t] = pst_sat_add(e->same[t], e->dropped[end] - e->dropped[p]);
        base = restored(w, t, begin_of_run_at(w, t));
        base = pst_sat_add(base - (e->same[t] < base ? e->same[t] : base), e->kept[t + 1]);
        for (u = p; u < end; u++) {
            visit(w, pst_sat_add(pst_sat_add(base, e->dropped[u + 1] - e->dropped[p]),
                                 pst_stage_node_at(w->view, u)->forward_work_bytes));
        }
        p = end;
    }
}

/* --- the sums ----------------------------------------------------------------------------------*/

struct sums {
    uint64_t kept, offloaded, period_ns, replay_ns;
};

static struct sums sum_up(const struct work *w)
{
    struct sums s = {0, 0, 0, 0};
    uint32_t i;

    for (i = 0; i < w->n; i++) {
        const struct pst_stage_node *node = pst_stage_node_at(w->view, i);

        s.period_ns = pst_sat_add(s.period_ns, pst_sat_add(node->forward_ns, node->backward_ns));
        switch (action_of(w, i)) {
        case PST_ACTION_RECOMPUTE:
            s.replay_ns = pst_sat_add(s.replay_ns, node->forward_ns);
            break;
        case PST_ACTION_OFFLOAD:
            s.offloaded = pst_sat_add(s.offloaded, pst_sat_add(node->saved_bytes, w->e->also[i]));
            break;
        default:
            s.kept = pst_sat_add(s.kept, pst_sat_add(node->saved_bytes, w->e->also[i]));
            break;
        }
    }
    return s;
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

static void fill_value(const struct work *w, struct pst_stage_value *value)
{
    const struct pst_stage_view *view = w->view;
    struct sums s = sum_up(w);
    uint64_t k = view->in_flight > 0 ? view->in_flight : 1;
    uint64_t staged = view->staging_copies < k ? view->staging_copies : k;
    uint64_t busy = pst_sat_add(s.period_ns, s.replay_ns);
    uint64_t link = pst_eval_link_ns(view, s.offloaded);
    uint64_t peak = view->static_bytes;

    peak = pst_sat_add(peak, pst_sat_mul(k - 1, pst_sat_add(view->input_bytes, s.kept)));
    peak = pst_sat_add(peak, pst_sat_mul(staged > 0 ? staged - 1 : 0, s.offloaded));
    value->peak_bytes = pst_sat_add(peak, pst_sat_add(view->input_bytes, w->most));
    value->period_ns = busy > link ? busy : link;
    value->extra_ns = value->period_ns - s.period_ns;
    if (view->host_capacity_bytes > 0 && pst_sat_mul(k, s.offloaded) > view->host_capacity_bytes) {
        value->legal = 0;
        value->rule = "more bytes are offloaded than there is host memory for";
    }
}

void pst_evaluate(struct pst_evaluator *evaluator, const struct pst_stage_view *view,
                  const uint8_t *actions, struct pst_stage_value *ret_value)
{
    struct work w = {evaluator, view, actions, view->n_nodes, 0};
    struct pst_stage_value value = {.size = ret_value->size, .legal = 1, .node = PST_NONE};

    reserve(evaluator, view->n_nodes);
    if (check(&w, &value)) {
        prepare(&w);
        visit_forward(&w);
        sum_later(&w);
        visit_backward(&w);
        visit_replays(&w);
        fill_value(&w, &value);
    }
    *ret_value = value;
}
