/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls that are asked for at once, on devices that have captures: the calls of a pass between its
 * loads and its losses, the update of a stage. What has the same kernels and operands shares a
 * capture, so there are about as many as a stage has slots for micro-batches in flight. The first
 * run of each is call by call, which warms its kernels up; the second is captured.
 */
#include "exec/state.h"

#include <string.h>

#include "base/log.h"

#define SHORT_NS 20000u /* below, asking for a kernel takes longer than the kernel */

typedef void issue_fn(const void *context);

static const struct pst_device_ops *device_of(const struct exec_rank *rank)
{
    return rank->exec->config.device;
}

/* --- which calls ------------------------------------------------------------------------------ */

/* Returns true if both calls do the same work on the same buffers. */
static bool same_call(const struct exec_rank *rank, const struct exec_list *list, uint32_t a,
                      uint32_t b)
{
    const struct pst_program *program = list->program;
    const struct pst_program_call *one = &program->calls[a], *two = &program->calls[b];
    bool same = one->kind == two->kind && one->op == two->op && one->pass == two->pass &&
                one->samples == two->samples && one->replay == two->replay &&
                one->slice == two->slice && one->elems == two->elems;
    const uint32_t n =
        one->kind != PST_C_KERNEL ? 3 : pst_operands_of(&list->graph->ops[one->op]).count;

    for (uint32_t i = 0; i < n && same; i++) {
        same = exec_value(rank, program, program->operands[one->first_operand + i]) ==
               exec_value(rank, program, program->operands[two->first_operand + i]);
    }
    return same;
}

/* The calls from this one on that can be asked for at once; *ret_sampled: one that says of which
   samples, PST_NONE: none does. */
static uint32_t span_from(const struct exec_list *list, uint32_t first, uint32_t end,
                          uint32_t *ret_sampled)
{
    const struct pst_program *program = list->program;
    uint32_t at = first, sampled = PST_NONE;

    for (; at < end; at++) {
        const struct pst_program_call *call = &program->calls[at];

        if (call->kind == PST_C_LOAD || call->kind == PST_C_LOSS || list->parts[at] != NULL) {
            break;
        }
        if (call->kind == PST_C_KERNEL && sampled == PST_NONE) {
            sampled = at;
        } else if (call->kind == PST_C_KERNEL &&
                   call->first_sample != program->calls[sampled].first_sample) {
            break;
        }
    }
    *ret_sampled = sampled;
    return at - first;
}

/* Returns true if kernels take less than SHORT_NS on average, or if graphs are always on. */
static bool are_short(const struct exec_rank *rank, const struct exec_list *list, uint32_t first,
                      uint32_t n)
{
    const struct pst_device_times *times = rank->exec->config.predicted;
    uint64_t ns = 0, n_kernels = 0;

    if (rank->exec->config.graphs == PST_GRAPHS_ON) {
        return true;
    }
    for (uint32_t i = first; times != NULL && i < first + n; i++) {
        const struct pst_program_call *call = &list->program->calls[i];

        if (call->kind == PST_C_KERNEL) {
            ns += times->kernel_ns(times->context, rank->index, call->op, call->pass, call->samples,
                                   call->slice);
            n_kernels++;
        }
    }
    return n_kernels > 0 && ns < n_kernels * SHORT_NS;
}

/* NULL: there are too many. */
static struct exec_graph *add_graph(struct exec_graphs *graphs)
{
    return graphs->n < EXEC_GRAPHS ? &graphs->graphs[graphs->n++] : NULL;
}

static struct exec_graph *graph_for(struct exec_rank *rank, const struct exec_list *list,
                                    uint32_t first, uint32_t n, uint32_t sampled)
{
    struct exec_graphs *graphs = &rank->graphs;
    struct exec_graph *graph;

    for (uint32_t g = 0; g < graphs->n; g++) {
        uint32_t same = 0;

        while (graphs->graphs[g].n_calls == n && same < n &&
               same_call(rank, list, graphs->graphs[g].first_call + same, first + same)) {
            same++;
        }
        if (graphs->graphs[g].n_calls == n && same == n) {
            return &graphs->graphs[g];
        }
    }
    graph = add_graph(graphs);
    if (graph != NULL) {
        graph->first_call = first;
        graph->n_calls = n;
        graph->sampled = sampled == PST_NONE ? PST_NONE : sampled - first;
    }
    return graph;
}

static void split_pass(struct exec_rank *rank, const struct exec_list *list,
                       const struct pst_program_instr *instr)
{
    const uint32_t end = instr->first_call + instr->n_calls;
    uint32_t at = instr->first_call, n, sampled;

    while (at < end) {
        n = span_from(list, at, end, &sampled);
        if (n > 1 && are_short(rank, list, at, n)) {
            rank->graphs.from[at] = graph_for(rank, list, at, n, sampled);
        }
        at += n > 0 ? n : 1;
    }
}

void exec_graphs_init(struct exec_rank *rank)
{
    struct exec_graphs *graphs = &rank->graphs;
    const struct exec_list *list = &rank->train;

    if (rank->exec->config.graphs == PST_GRAPHS_OFF || device_of(rank)->capture_begin == NULL) {
        return;
    }
    graphs->graphs = pst_arena_array(&rank->memory, EXEC_GRAPHS, sizeof *graphs->graphs);
    graphs->from = pst_arena_array(&rank->memory, list->program->n_calls, sizeof *graphs->from);
    /* Copies wait for calls, and calls for copies. */
    for (uint32_t i = 0; i < list->program->n_instrs && list->copies == NULL; i++) {
        if (list->program->instrs[i].op <= PST_I_R) {
            split_pass(rank, list, &list->program->lists[i]);
        }
    }
}

void exec_graphs_finish(struct exec_rank *rank)
{
    uint32_t n = 0;

    for (uint32_t g = 0; g < rank->graphs.n; g++) {
        struct exec_graph *graph = &rank->graphs.graphs[g];

        n += graph->replay != NULL;
        if (graph->replay != NULL) {
            device_of(rank)->replay_destroy(rank->device, graph->replay);
            graph->replay = NULL;
        }
    }
    if (n > 0) {
        pst_log(PST_LOG_INFO, "exec", "rank %u had %u graphs", rank->index, n);
    }
    rank->graphs.n = 0;
}

/* --- running them ----------------------------------------------------------------------------- */

/* Where captures are as one likes, a refused one is no failure. */
static pst_status refuse(struct exec_rank *rank, struct exec_graph *graph,
                         const struct pst_error *why, pst_status status, struct pst_error *err)
{
    graph->refused = true;
    if (rank->exec->config.graphs == PST_GRAPHS_ON) {
        if (err != NULL) {
            *err = *why;
            pst_error_prefix(err, "rank %u", rank->index);
            pst_error_detail(err,
                             "run.graphs = \"auto\" runs without graphs, \"off\" captures none\n");
            err->exit_code = 1;
        }
        return status;
    }
    if (!rank->graphs.told) {
        pst_log(PST_LOG_WARN, "exec", "rank %u: %s; running call by call", rank->index,
                why->message);
    }
    rank->graphs.told = true;
    return PST_OK;
}

static pst_status run_graph(struct exec_rank *rank, struct exec_graph *graph,
                            const struct pst_changes *changes, issue_fn *issue, const void *context,
                            struct pst_error *err)
{
    const struct pst_device_ops *device = device_of(rank);
    pst_status status = PST_OK;

    if (graph->replay == NULL && graph->has_run && !graph->refused) {
        struct pst_error why = {0};

        if (device->capture_begin(rank->device)) {
            issue(context);
        }
        status = device->capture_end(rank->device, &graph->replay, &why);
        if (status != PST_OK) {
            status = refuse(rank, graph, &why, status, err);
        }
    }
    graph->has_run = true;
    if (status == PST_OK && graph->replay != NULL) {
        device->replay(rank->device, graph->replay, changes);
    } else if (status == PST_OK) {
        issue(context);
    }
    return status;
}

struct issued_calls {
    struct exec_rank *rank;
    struct exec_list *list;
    const struct exec_task *task;
    uint32_t first, n, flags;
};

/* One of them, or two that the device does at once. */
static pst_status run_calls(const struct issued_calls *calls, uint32_t at, uint32_t *ret_n,
                            struct pst_error *err)
{
    const uint32_t index = calls->first + at;

    if (at + 1 < calls->n && exec_run_both(calls->list, index, calls->task, calls->flags)) {
        *ret_n = 2;
        return PST_OK;
    }
    *ret_n = 1;
    return exec_run_call(calls->rank, calls->list, index, calls->task, calls->flags, err);
}

static void issue_calls(const void *context)
{
    const struct issued_calls *calls = context;
    uint32_t done = 0;

    for (uint32_t i = 0; i < calls->n; i += done) {
        run_calls(calls, i, &done, NULL);
    }
}

pst_status exec_graphs_pass(struct exec_rank *rank, struct exec_list *list, uint32_t call,
                            uint32_t n, const struct exec_task *task, uint32_t flags,
                            uint32_t *ret_n, struct pst_error *err)
{
    struct exec_graph *graph =
        rank->graphs.from != NULL && list == &rank->train ? rank->graphs.from[call] : NULL;
    struct pst_changes changes = {0};
    struct issued_calls calls = {rank, list, task, call, n, flags};

    if (graph == NULL) {
        return run_calls(&calls, 0, ret_n, err);
    }
    if (graph->sampled != PST_NONE) {
        uint32_t sample = list->program->calls[call + graph->sampled].first_sample;
        const uint32_t next = exec_batch_of(list->plan, &sample);

        changes.first_sample = task->batches[next].first_sample + sample;
    }
    *ret_n = calls.n = graph->n_calls;
    return run_graph(rank, graph, &changes, issue_calls, &calls, err);
}

/* --- updates ---------------------------------------------------------------------------------- */

/* Finds the key of a stage's update. Returns false if no graph is made for it. */
static bool find_key(const struct exec_rank *rank, const struct exec_update *update,
                     struct exec_update_key *ret_key)
{
    const struct pst_device_times *times = rank->exec->config.predicted;
    uint32_t n = 0, n_versions = 1;
    uint64_t ns = 0;

    memset(ret_key, 0, sizeof *ret_key);
    for (uint32_t i = 0; i < rank->n_params; i++) {
        const struct exec_param *param = &rank->params[i];

        if (param->stage != update->stage || param->shard.elems == 0) {
            continue;
        }
        if (n > 0 && param->n_versions != n_versions) {
            return false;
        }
        n_versions = param->n_versions;
        if (param->grads[0] != param->grads[1]) {
            ret_key->parity = update->task->t % 2;
        }
        if (times != NULL) {
            ns += times->update_ns(times->context, rank->index, param->shard.elems,
                                   (param->slots[0] != NULL) + (param->slots[1] != NULL), n == 0);
        }
        n++;
    }
    ret_key->stage = update->stage;
    ret_key->version = (uint32_t)(update->number % n_versions);
    ret_key->optimizer = update->task->update.optimizer;
    ret_key->decays = update->task->update.weight_decay != 0;
    return n > 1 && (rank->exec->config.graphs == PST_GRAPHS_ON ||
                     (times != NULL && ns < n * (uint64_t)SHORT_NS));
}

static struct exec_graph *graph_of_update(struct exec_rank *rank, const struct exec_update_key *key)
{
    struct exec_graph *graph;

    for (uint32_t g = 0; g < rank->graphs.n; g++) {
        graph = &rank->graphs.graphs[g];
        if (graph->n_calls == 0 && memcmp(&graph->key, key, sizeof *key) == 0) {
            return graph;
        }
    }
    graph = add_graph(&rank->graphs);
    if (graph != NULL) {
        graph->key = *key;
    }
    return graph;
}

static void issue_update(const void *context)
{
    exec_update_params(context);
}

pst_status exec_graphs_update(const struct exec_update *update, struct pst_error *err)
{
    struct exec_rank *rank = update->rank;
    struct pst_update updates[PST_UPDATE_KINDS];
    const uint32_t n = exec_update_kinds(rank);
    const struct pst_changes changes = {.updates = updates, .n_updates = n};
    struct exec_graph *graph = NULL;
    struct exec_update_key key;

    if (rank->graphs.graphs != NULL && update->finite && find_key(rank, update, &key)) {
        graph = graph_of_update(rank, &key);
    }
    if (graph == NULL) {
        exec_update_params(update);
        return PST_OK;
    }
    for (uint32_t kind = 0; kind < n; kind++) {
        updates[kind] = exec_own_update(update, kind);
    }
    return run_graph(rank, graph, &changes, issue_update, update, err);
}
