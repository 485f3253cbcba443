/* SPDX-License-Identifier: Apache-2.0
 *
 * What backward passes of a stage read, and what runs again for that: of the operators that a plan
 * recomputes what nothing reads backward stays forgotten, the last operator of a stage, as a rule.
 * Rules of lists of replays; the order of replays, of a list or of runs.
 */
#include "plan/sequence.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

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

static void walk_init(struct walk *w, const struct pst_plan_stage *stage,
                      const struct pst_graph *graph)
{
    *w = (struct walk){.stage = stage, .graph = graph};
    w->wanted = pst_alloc((size_t)graph->n_tensors + 1, sizeof *w->wanted);
}

/* Of a stage with a list. reads: [tensor], false before; ret_times: [node]. */
static void list_reads(const struct pst_plan_stage *stage, const struct pst_graph *graph,
                       bool *reads, uint32_t *ret_times)
{
    struct walk w;

    walk_init(&w, stage, graph);
    memset(ret_times, 0, stage->n_nodes * sizeof *ret_times);
    w.ever = reads;
    w.times = ret_times;
    walk(&w);
    free(w.wanted);
}

/* --- what is read ------------------------------------------------------------------------------*/

/* Marks the tensors that some B or W of the stage reads. */
static void mark_backward_reads(const struct pst_plan_stage *stage, const struct pst_graph *graph,
                                bool *reads)
{
    for (uint32_t i = 0; i < stage->n_nodes; i++) {
        const struct pst_op *op = &graph->ops[stage->nodes[i]];
        struct pst_op_grad grad;

        pst_op_grad_info(graph, stage->nodes[i], &grad);
        uint64_t x = (grad.has_b ? grad.b_reads_x : 0) | (grad.has_w ? grad.w_reads_x : 0);
        uint64_t y = (grad.has_b ? grad.b_reads_y : 0) | (grad.has_w ? grad.w_reads_y : 0);

        for (uint32_t k = 0; k < op->n_in; k++) {
            if (x >> k & 1) {
                reads[op->in[k]] = true;
            }
        }
        for (uint32_t k = 0; k < op->n_out; k++) {
            if (y >> k & 1) {
                reads[op->out[k]] = true;
            }
        }
    }
}

/* Marks what B, W and replays of the stage read; ret_times: n_nodes. */
static void mark(const struct pst_plan_stage *stage, const struct pst_graph *graph, bool *reads,
                 uint32_t *ret_times)
{
    mark_backward_reads(stage, graph, reads);
    for (uint32_t i = stage->n_nodes; i-- > 0;) {
        const struct pst_op *op = &graph->ops[stage->nodes[i]];
        bool needed = false;

        for (uint32_t k = 0; stage->actions[i] == PST_ACTION_RECOMPUTE && k < op->n_out; k++) {
            needed |= reads[op->out[k]];
        }
        ret_times[i] = needed;
        for (uint32_t k = 0; needed && k < op->n_in; k++) {
            reads[op->in[k]] = true;
        }
    }
}

/* Both ways at once; reads all false before. */
static void find_reads(const struct pst_plan_stage *stage, const struct pst_graph *graph,
                       bool *reads, uint32_t *ret_times)
{
    if (stage->n_replays > 0) {
        list_reads(stage, graph, reads, ret_times);
        return;
    }
    mark(stage, graph, reads, ret_times);
}

void pst_plan_replayed(const struct pst_plan_stage *stage, const struct pst_graph *graph,
                       uint32_t *ret_times)
{
    bool *reads = pst_alloc(graph->n_tensors + 1, sizeof *reads);

    find_reads(stage, graph, reads, ret_times);
    free(reads);
}

void pst_plan_saved(const struct pst_plan_stage *stage, const struct pst_graph *graph,
                    bool *ret_saved)
{
    uint32_t *times = pst_alloc((size_t)stage->n_nodes + 1, sizeof *times);

    memset(ret_saved, 0, graph->n_tensors * sizeof *ret_saved);
    find_reads(stage, graph, ret_saved, times);
    free(times);
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

            ret_bytes[i] += saved[op->out[k]]
                                ? tensor->bytes * (tensor->batched ? pst_plan_samples(stage) : 1)
                                : 0;
        }
    }
    free(saved);
}

/* --- runs --------------------------------------------------------------------------------------*/

/* A maximal block of consecutive recomputed nodes of a stage, replayed before node `trigger`. */
struct run {
    uint32_t first, last, trigger;
};

/* When a node is read backward: at its own place, or where the run that replays it is triggered.
   The runs behind it are known. */
static uint32_t read_at(const struct run *runs, uint32_t n_runs, const uint32_t *replayed,
                        uint32_t node)
{
    for (uint32_t r = 0; replayed[node] && r < n_runs; r++) {
        if (runs[r].first <= node && node <= runs[r].last) {
            return runs[r].trigger;
        }
    }
    return node;
}

/* The place in the stage, in forward order, whose backward first needs the node's result. */
static uint32_t last_reader(const struct pst_plan_stage *stage, const struct pst_graph *graph,
                            const uint32_t *replayed, const struct run *runs, uint32_t n_runs,
                            uint32_t node)
{
    const struct pst_tensor *tensor = &graph->tensors[graph->ops[stage->nodes[node]].out[0]];
    uint32_t last = node;

    for (uint32_t i = 0; i < tensor->n_consumers; i++) {
        uint32_t reader = pst_plan_node(stage, tensor->consumers[i]);

        if (reader != PST_NONE) {
            uint32_t at = read_at(runs, n_runs, replayed, reader);

            last = at > last ? at : last;
        }
    }
    return last;
}

/* The runs of a stage, descending by first. replayed: from pst_plan_replayed. ret_runs: room for
   n_nodes. Returns how many. */
static uint32_t find_runs(const struct pst_plan_stage *stage, const struct pst_graph *graph,
                          const uint32_t *replayed, struct run *ret_runs)
{
    uint32_t n_runs = 0;

    for (uint32_t last = stage->n_nodes; last-- > 0;) {
        struct run run = {last, last, last};

        if (stage->actions[last] != PST_ACTION_RECOMPUTE) {
            continue;
        }
        while (run.first > 0 && stage->actions[run.first - 1] == PST_ACTION_RECOMPUTE) {
            run.first--;
        }
        for (uint32_t u = run.first; u <= run.last; u++) {
            uint32_t reader = last_reader(stage, graph, replayed, ret_runs, n_runs, u);

            run.trigger = reader > run.trigger ? reader : run.trigger;
        }
        ret_runs[n_runs++] = run;
        last = run.first;
    }
    return n_runs;
}

/* --- calls -------------------------------------------------------------------------------------*/

static bool listed(const struct pst_plan_stage *stage, const struct pst_graph *graph,
                   struct pst_arena *arena, struct pst_replays *ret_replays)
{
    struct walk w;
    bool ok = true;

    walk_init(&w, stage, graph);
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
static void in_runs(const struct pst_plan_stage *stage, const struct pst_graph *graph,
                    struct pst_arena *arena, struct pst_replays *ret_replays)
{
    size_t n = (size_t)stage->n_nodes + 1;
    struct pst_replay_call *calls = pst_arena_array(arena, n, sizeof *calls);
    uint32_t *times = pst_arena_array(arena, n, sizeof *times);
    struct run *runs = pst_arena_array(arena, n, sizeof *runs);
    uint32_t n_runs;

    pst_plan_replayed(stage, graph, times);
    n_runs = find_runs(stage, graph, times, runs);
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
}

void pst_plan_replays(const struct pst_plan_stage *stage, const struct pst_graph *graph,
                      struct pst_arena *arena, struct pst_replays *ret_replays)
{
    if (stage->n_replays > 0) {
        listed(stage, graph, arena, ret_replays);
    } else {
        in_runs(stage, graph, arena, ret_replays);
    }
}

/* --- list and actions --------------------------------------------------------------------------*/

/* Nodes that a replay names, before a forward pass leaves anything. */
static void find_named(const struct pst_plan_stage *stage, bool **ret_named)
{
    bool *named = pst_alloc((size_t)stage->n_nodes + 1, sizeof *named);

    for (uint32_t i = 0; i < stage->n_replays; i++) {
        memset(named + stage->replays[i].first, true,
               stage->replays[i].last - stage->replays[i].first + 1);
    }
    *ret_named = named;
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

void pst_sequence_check(const struct pst_plan_stage *stage, const struct pst_graph *graph,
                        uint32_t *ret_node, const char **ret_what)
{
    struct walk w = {0};
    bool *named = NULL;

    walk_init(&w, stage, graph);
    find_named(stage, &named);
    *ret_node = PST_NONE;
    walk(&w);
    for (uint32_t i = 0; i < stage->n_nodes && *ret_node == PST_NONE; i++) {
        uint32_t action = stage->actions[i];

        *ret_what = action != PST_ACTION_RECOMPUTE ? NULL
                    : !named[i]                    ? "is dropped and in no replay"
                    : is_read(&w, i) ? "is dropped, and its result is read before a replay makes it"
                                     : NULL;
        *ret_node = *ret_what != NULL ? i : PST_NONE;
    }
    free(w.wanted);
    free(named);
}

void pst_sequence_actions(const struct pst_plan_stage *stage, const struct pst_graph *graph,
                          uint8_t *actions)
{
    struct walk w = {0};
    bool *named = NULL;

    walk_init(&w, stage, graph);
    find_named(stage, &named);
    walk(&w);
    for (uint32_t i = 0; i < stage->n_nodes; i++) {
        if (named[i] && actions[i] == PST_ACTION_KEEP && !is_read(&w, i)) {
            actions[i] = PST_ACTION_RECOMPUTE;
        }
    }
    free(w.wanted);
    free(named);
}
