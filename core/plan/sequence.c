/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/sequence.h"

#include <stdlib.h>
#include <string.h>

#include "plan/pass_calls.h"

/* --- rules of the list alone -------------------------------------------------------------------*/

const char *pst_sequence_fault(const struct pst_replay *replays, uint32_t n_replays,
                               uint32_t n_nodes, uint32_t *ret_replay)
{
    uint64_t n = 0;

    for (uint32_t i = 0; i < n_replays; i++) {
        const struct pst_replay *r = &replays[i];

        *ret_replay = i;
        if (i >= n_nodes) {
            return "more replays than operators";
        }
        if (r->before >= n_nodes || r->last > r->before || r->first > r->last) {
            return "it begins behind its last operator, or replays what lies behind the one whose "
                   "backward comes next";
        }
        if (i > 0 && r->before > r[-1].before) {
            return "it is before a backward that is over by then";
        }
        n += r->last - r->first + 1;
        if (n > PST_MOST_REPLAYED) {
            return "the replays name too many operators";
        }
    }
    return NULL;
}

/* --- from the end of a backward pass to its beginning ------------------------------------------*/

struct walk {
    const struct pst_plan_stage *stage;
    const struct pst_graph *graph;
    bool *wanted;                  /* [tensor] read later, and not made in between */
    bool *ever;                    /* [tensor] read at all; or NULL */
    uint32_t *times;               /* [node] or NULL */
    struct pst_replay_call *calls; /* [n], latest first; or NULL */
    uint32_t n;
};

static void want(struct walk *w, const uint32_t *tensors, uint32_t n, uint64_t mask)
{
    for (uint32_t k = 0; k < n; k++) {
        if (k >= 64 ? mask == UINT64_MAX : (mask >> k & 1) != 0) {
            w->wanted[tensors[k]] = true;
            if (w->ever != NULL) {
                w->ever[tensors[k]] = true;
            }
        }
    }
}

/* W may come later; what it reads is there from the B on. */
static void want_backward(struct walk *w, uint32_t node)
{
    const struct pst_op *op = &w->graph->ops[w->stage->nodes[node]];
    struct pst_op_grad grad;

    pst_op_grad_info(w->graph, w->stage->nodes[node], &grad);
    want(w, op->in, op->n_in,
         (grad.has_b ? grad.b_reads_x : 0) | (grad.has_w ? grad.w_reads_x : 0));
    want(w, op->out, op->n_out,
         (grad.has_b ? grad.b_reads_y : 0) | (grad.has_w ? grad.w_reads_y : 0));
}

static void run_again(struct walk *w, uint32_t before, uint32_t node)
{
    const struct pst_op *op = &w->graph->ops[w->stage->nodes[node]];
    bool runs = false;

    for (uint32_t k = 0; w->stage->actions[node] != PST_ACTION_OFFLOAD && k < op->n_out; k++) {
        runs |= w->wanted[op->out[k]];
    }
    if (!runs) {
        return;
    }
    for (uint32_t k = 0; k < op->n_out; k++) {
        w->wanted[op->out[k]] = false;
    }
    want(w, op->in, op->n_in, UINT64_MAX);
    if (w->times != NULL) {
        w->times[node]++;
    }
    if (w->calls != NULL) {
        w->calls[w->n] = (struct pst_replay_call){before, node};
    }
    w->n++;
}

/* wanted: in the end what forward passes must leave. */
static void walk(struct walk *w)
{
    const struct pst_plan_stage *stage = w->stage;
    uint32_t i = stage->n_replays;

    for (uint32_t node = 0; node < stage->n_nodes; node++) {
        want_backward(w, node);
        for (; i > 0 && stage->replays[i - 1].before == node; i--) {
            const struct pst_replay *r = &stage->replays[i - 1];

            for (uint32_t u = r->last + 1; u-- > r->first;) {
                run_again(w, node, u);
            }
        }
    }
}

static bool walk_init(struct walk *w, const struct pst_plan_stage *stage,
                      const struct pst_graph *graph)
{
    *w = (struct walk){.stage = stage, .graph = graph};
    w->wanted = calloc((size_t)graph->n_tensors + 1, sizeof *w->wanted);
    return w->wanted != NULL;
}

bool pst_sequence_reads(const struct pst_plan_stage *stage, const struct pst_graph *graph,
                        bool *reads, uint32_t *ret_times)
{
    struct walk w;
    bool ok = walk_init(&w, stage, graph);

    if (ok) {
        memset(ret_times, 0, stage->n_nodes * sizeof *ret_times);
        w.ever = reads;
        w.times = ret_times;
        walk(&w);
    }
    free(w.wanted);
    return ok;
}

/* --- calls -------------------------------------------------------------------------------------*/

static bool listed(const struct pst_plan_stage *stage, const struct pst_graph *graph,
                   struct pst_arena *arena, struct pst_replays *ret_replays)
{
    struct walk w;
    bool ok = walk_init(&w, stage, graph);

    if (ok) {
        walk(&w);
        ret_replays->n = w.n;
        ret_replays->calls = w.calls = pst_arena_array(arena, (size_t)w.n + 1, sizeof *w.calls);
        ok = w.calls != NULL;
    }
    if (ok) {
        memset(w.wanted, 0, graph->n_tensors * sizeof *w.wanted);
        w.n = 0;
        walk(&w);
    }
    for (uint32_t i = 0; ok && i < w.n / 2; i++) {
        struct pst_replay_call call = w.calls[i];

        w.calls[i] = w.calls[w.n - 1 - i];
        w.calls[w.n - 1 - i] = call;
    }
    free(w.wanted);
    return ok;
}

/* Runs, each right before the first backward that needs one of its results, or the first later run
   that does: of those that run at the same place the earliest comes first. */
static bool in_runs(const struct pst_plan_stage *stage, const struct pst_graph *graph,
                    struct pst_arena *arena, struct pst_replays *ret_replays)
{
    size_t n = (size_t)stage->n_nodes + 1;
    struct pst_replay_call *calls = pst_arena_array(arena, n, sizeof *calls);
    uint32_t *times = pst_arena_array(arena, n, sizeof *times);
    struct pst_run *runs = pst_arena_array(arena, n, sizeof *runs);
    uint32_t n_runs;

    if (calls == NULL || times == NULL || runs == NULL || !pst_plan_replayed(stage, graph, times)) {
        return false;
    }
    n_runs = pst_plan_runs(stage, graph, times, runs);
    *ret_replays = (struct pst_replays){.calls = calls};
    for (uint32_t node = stage->n_nodes; n_runs > 0 && node-- > 0;) {
        for (uint32_t r = n_runs; r-- > 0;) {
            for (uint32_t u = runs[r].first; runs[r].trigger == node && u <= runs[r].last; u++) {
                if (times[u] > 0) {
                    calls[ret_replays->n++] = (struct pst_replay_call){node, u};
                }
            }
        }
    }
    return true;
}

bool pst_plan_replays(const struct pst_plan_stage *stage, const struct pst_graph *graph,
                      struct pst_arena *arena, struct pst_replays *ret_replays)
{
    return (stage->n_replays > 0 ? listed : in_runs)(stage, graph, arena, ret_replays);
}

/* --- list and actions --------------------------------------------------------------------------*/

/* Nodes that a replay names, before a forward pass leaves anything. */
static bool find_named(const struct pst_plan_stage *stage, bool **ret_named)
{
    bool *named = calloc((size_t)stage->n_nodes + 1, sizeof *named);

    for (uint32_t i = 0; named != NULL && i < stage->n_replays; i++) {
        memset(named + stage->replays[i].first, true,
               stage->replays[i].last - stage->replays[i].first + 1);
    }
    *ret_named = named;
    return named != NULL;
}

static bool is_read(const struct walk *w, uint32_t node)
{
    const struct pst_op *op = &w->graph->ops[w->stage->nodes[node]];
    bool read = false;

    for (uint32_t k = 0; k < op->n_out; k++) {
        read |= w->wanted[op->out[k]];
    }
    return read;
}

bool pst_sequence_check(const struct pst_plan_stage *stage, const struct pst_graph *graph,
                        uint32_t *ret_node, const char **ret_what)
{
    struct walk w = {0};
    bool *named = NULL;
    bool ok = walk_init(&w, stage, graph) && find_named(stage, &named);

    *ret_node = PST_NONE;
    if (ok) {
        walk(&w);
    }
    for (uint32_t i = 0; ok && i < stage->n_nodes && *ret_node == PST_NONE; i++) {
        uint32_t action = stage->actions[i];

        *ret_what = action != PST_ACTION_RECOMPUTE ? NULL
                    : !named[i]                    ? "is dropped and in no replay"
                    : is_read(&w, i) ? "is dropped, and its result is read before a replay makes it"
                                     : NULL;
        *ret_node = *ret_what != NULL ? i : PST_NONE;
    }
    free(w.wanted);
    free(named);
    return ok;
}

bool pst_sequence_actions(const struct pst_plan_stage *stage, const struct pst_graph *graph,
                          uint8_t *actions)
{
    struct walk w = {0};
    bool *named = NULL;
    bool ok = walk_init(&w, stage, graph) && find_named(stage, &named);

    if (ok) {
        walk(&w);
    }
    for (uint32_t i = 0; ok && i < stage->n_nodes; i++) {
        if (named[i] && actions[i] == PST_ACTION_KEEP && !is_read(&w, i)) {
            actions[i] = PST_ACTION_RECOMPUTE;
        }
    }
    free(w.wanted);
    free(named);
    return ok;
}
