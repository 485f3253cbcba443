/* SPDX-License-Identifier: Apache-2.0
 *
 * The tensors that backward passes of a stage read, and the replays that make them again. A
 * recomputed operator that no backward pass reads, usually the last of a stage, is not replayed.
 * Also the rules of lists of replays, and the order of replays of a list or of runs.
 */
#include "plan/sequence.h"

#include <stdlib.h>
#include <string.h>

#include "base/util.h"

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
            return "it begins after its last operator, or replays operators after the one whose "
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
    const struct pst_replay *replays; /* of the stage, or else `runs` */
    uint32_t n_replays;
    struct pst_replay *runs;
    bool *wanted;                  /* [tensor] read later, and not made in between */
    bool *ever;                    /* [tensor] read at all; or NULL */
    uint32_t *times;               /* [node] or NULL */
    struct pst_replay_call *calls; /* [n], latest first; or NULL */
    bool *idle;                    /* [replay of the stage] makes nothing; or NULL */
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

/* Returns true if a result of the operator is wanted. */
static bool is_read(const struct walk *w, uint32_t node)
{
    const struct pst_op *op = &w->graph->ops[w->stage->nodes[node]];
    bool read = false;

    for (uint32_t k = 0; k < op->n_out; k++) {
        read |= w->wanted[op->out[k]];
    }
    return read;
}

static void run_again(struct walk *w, uint32_t before, uint32_t node)
{
    const struct pst_op *op = &w->graph->ops[w->stage->nodes[node]];

    if (w->stage->actions[node] == PST_ACTION_OFFLOAD || !is_read(w, node) ||
        pst_op_stays(w->graph, w->stage->nodes[node])) {
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
    uint32_t i = w->n_replays;

    for (uint32_t node = 0; node < w->stage->n_nodes; node++) {
        want_backward(w, node);
        for (; i > 0 && w->replays[i - 1].before == node; i--) {
            const struct pst_replay *r = &w->replays[i - 1];
            const uint32_t n = w->n;

            for (uint32_t u = r->last + 1; u-- > r->first;) {
                run_again(w, node, u);
            }
            if (w->idle != NULL && w->stage->n_replays > 0) {
                w->idle[i - 1] = w->n == n;
            }
        }
    }
}

/* --- runs --------------------------------------------------------------------------------------*/

/* The place in the stage, in forward order, whose backward first needs the node's result; read_at:
   [node] when it is read backward itself. */
static uint32_t last_reader(const struct walk *w, const uint32_t *read_at, uint32_t node)
{
    const struct pst_op *op = &w->graph->ops[w->stage->nodes[node]];
    const struct pst_tensor *tensor = &w->graph->tensors[op->out[0]];
    uint32_t last = node;

    for (uint32_t i = 0; i < tensor->n_consumers; i++) {
        uint32_t reader = pst_plan_node(w->stage, tensor->consumers[i]);

        if (reader != PST_NONE) {
            last = read_at[reader] > last ? read_at[reader] : last;
        }
    }
    return last;
}

/* As lists have them: latest backward first; of those that run at one place the earliest. */
static int compare_runs(const void *a, const void *b)
{
    const struct pst_replay *x = a, *y = b;

    return PST_COMPARE_KEYS({y->before, x->before}, {x->first, y->first});
}

/* The list of a stage without one: maximal blocks of consecutive recomputed operators, each right
   before the first backward that needs one of its results, or the first later run that does. */
static void find_runs(struct walk *w)
{
    const uint8_t *actions = w->stage->actions;
    uint32_t n = w->stage->n_nodes, *read_at = pst_alloc((size_t)n + 1, sizeof *read_at);

    w->runs = pst_alloc((size_t)n + 1, sizeof *w->runs);
    for (uint32_t node = 0; node < n; node++) {
        want_backward(w, node);
        read_at[node] = node;
    }
    for (uint32_t last = n; last-- > 0;) {
        struct pst_replay run = {.before = last, .first = last, .last = last};

        if (actions[last] != PST_ACTION_RECOMPUTE) {
            continue;
        }
        while (run.first > 0 && actions[run.first - 1] == PST_ACTION_RECOMPUTE) {
            run.first--;
        }
        for (uint32_t u = last + 1; u-- > run.first;) {
            uint32_t reader = last_reader(w, read_at, u);

            run.before = reader > run.before ? reader : run.before;
            if (is_read(w, u)) {
                want(w, w->graph->ops[w->stage->nodes[u]].in,
                     w->graph->ops[w->stage->nodes[u]].n_in, UINT64_MAX);
            }
        }
        for (uint32_t u = run.first; u <= run.last; u++) {
            read_at[u] = is_read(w, u) ? run.before : u;
        }
        w->runs[w->n_replays++] = run;
        last = run.first;
    }
    qsort(w->runs, w->n_replays, sizeof *w->runs, compare_runs);
    free(read_at);
    memset(w->wanted, 0, w->graph->n_tensors * sizeof *w->wanted);
}

static void walk_init(struct walk *w, const struct pst_plan_stage *stage,
                      const struct pst_graph *graph)
{
    *w = (struct walk){.stage = stage, .graph = graph};
    w->wanted = pst_alloc((size_t)graph->n_tensors + 1, sizeof *w->wanted);
    if (stage->n_replays == 0) {
        find_runs(w);
    }
    w->n_replays = stage->n_replays > 0 ? stage->n_replays : w->n_replays;
    w->replays = stage->n_replays > 0 ? stage->replays : w->runs;
}

static void walk_finish(struct walk *w)
{
    free(w->wanted);
    free(w->runs);
}

/* --- what is read, what runs again -------------------------------------------------------------*/

void pst_plan_replayed(const struct pst_plan_stage *stage, const struct pst_graph *graph,
                       uint32_t *ret_times)
{
    struct walk w;

    walk_init(&w, stage, graph);
    memset(ret_times, 0, stage->n_nodes * sizeof *ret_times);
    w.times = ret_times;
    walk(&w);
    walk_finish(&w);
}

void pst_plan_saved(const struct pst_plan_stage *stage, const struct pst_graph *graph,
                    bool *ret_saved)
{
    struct walk w;

    walk_init(&w, stage, graph);
    memset(ret_saved, 0, graph->n_tensors * sizeof *ret_saved);
    w.ever = ret_saved;
    walk(&w);
    walk_finish(&w);
}

void pst_plan_offload_bytes(const struct pst_plan_stage *stage, const struct pst_graph *graph,
                            uint64_t *ret_bytes)
{
    bool *saved = pst_alloc(graph->n_tensors + 1, sizeof *saved);
    pst_plan_saved(stage, graph, saved);

    for (uint32_t i = 0; i < stage->n_nodes; i++) {
        const struct pst_op *op = &graph->ops[stage->nodes[i]];

        ret_bytes[i] = 0;
        for (uint32_t k = 0; stage->actions[i] == PST_ACTION_OFFLOAD && k < op->n_out; k++) {
            const struct pst_tensor *tensor = &graph->tensors[op->out[k]];

            ret_bytes[i] +=
                saved[op->out[k]] ? pst_tensor_bytes(tensor, pst_plan_samples(stage)) : 0;
        }
    }
    free(saved);
}

void pst_plan_replays(const struct pst_plan_stage *stage, const struct pst_graph *graph,
                      struct pst_arena *arena, struct pst_replays *ret_replays)
{
    struct walk w;

    walk_init(&w, stage, graph);
    walk(&w);
    ret_replays->n = w.n;
    ret_replays->calls = w.calls = pst_arena_array(arena, (size_t)w.n + 1, sizeof *w.calls);
    memset(w.wanted, 0, graph->n_tensors * sizeof *w.wanted);
    w.n = 0;
    walk(&w);
    for (uint32_t i = 0; i < w.n / 2; i++) {
        struct pst_replay_call call = w.calls[i];

        w.calls[i] = w.calls[w.n - 1 - i];
        w.calls[w.n - 1 - i] = call;
    }
    walk_finish(&w);
}

/* --- list and actions --------------------------------------------------------------------------*/

/* Nodes that a replay names; free() them. */
static bool *find_named(const struct pst_plan_stage *stage)
{
    bool *named = pst_alloc((size_t)stage->n_nodes + 1, sizeof *named);

    for (uint32_t i = 0; i < stage->n_replays; i++) {
        memset(named + stage->replays[i].first, true,
               stage->replays[i].last - stage->replays[i].first + 1);
    }
    return named;
}

void pst_sequence_check(const struct pst_plan_stage *stage, const struct pst_graph *graph,
                        uint32_t *ret_node, const char **ret_what)
{
    struct walk w;
    bool *named = find_named(stage), *idle = pst_alloc((size_t)stage->n_replays + 1, sizeof *idle);

    walk_init(&w, stage, graph);
    *ret_node = PST_NONE;
    w.idle = idle;
    walk(&w);
    for (uint32_t i = 0; i < stage->n_nodes && *ret_node == PST_NONE; i++) {
        uint32_t action = stage->actions[i];

        *ret_what = action != PST_ACTION_RECOMPUTE ? NULL
                    : !named[i]                    ? "is dropped and in no replay"
                    : is_read(&w, i) ? "is dropped, and its result is read before a replay makes it"
                                     : NULL;
        *ret_node = *ret_what != NULL ? i : PST_NONE;
    }
    for (uint32_t i = 0; i < stage->n_replays && *ret_node == PST_NONE; i++) {
        if (idle[i]) {
            *ret_node = stage->replays[i].first;
            *ret_what = "begins a replay that makes nothing which is read; remove the replay";
        }
    }
    walk_finish(&w);
    free(named);
    free(idle);
}

uint32_t pst_sequence_prune(const struct pst_plan_stage *stage, const struct pst_graph *graph,
                            struct pst_replay *replays)
{
    bool *idle = pst_alloc((size_t)stage->n_replays + 1, sizeof *idle);
    struct walk w;
    uint32_t n = 0;

    walk_init(&w, stage, graph);
    w.idle = idle;
    walk(&w);
    walk_finish(&w);
    for (uint32_t i = 0; i < stage->n_replays; i++) {
        replays[n] = replays[i];
        n += !idle[i];
    }
    free(idle);
    return n;
}

void pst_sequence_actions(const struct pst_plan_stage *stage, const struct pst_graph *graph,
                          uint8_t *actions)
{
    struct walk w;
    bool *named = find_named(stage);

    walk_init(&w, stage, graph);
    walk(&w);
    for (uint32_t i = 0; i < stage->n_nodes; i++) {
        if (named[i] && actions[i] == PST_ACTION_KEEP && !is_read(&w, i) &&
            !pst_op_stays(graph, stage->nodes[i])) {
            actions[i] = PST_ACTION_RECOMPUTE;
        }
    }
    walk_finish(&w);
    free(named);
}
