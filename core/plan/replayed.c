/* SPDX-License-Identifier: Apache-2.0
 *
 * What backward passes of a stage read, and which of the operators that a plan recomputes run again
 * for that. What nothing reads backward stays forgotten: the last operator of a stage, as a rule.
 */
#include <stdlib.h>
#include <string.h>

#include "plan/sequence.h"

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
static bool find(const struct pst_plan_stage *stage, const struct pst_graph *graph, bool *reads,
                 uint32_t *ret_times)
{
    if (stage->n_replays > 0) {
        return pst_sequence_reads(stage, graph, reads, ret_times);
    }
    mark(stage, graph, reads, ret_times);
    return true;
}

bool pst_plan_replayed(const struct pst_plan_stage *stage, const struct pst_graph *graph,
                       uint32_t *ret_times)
{
    bool *reads = calloc(graph->n_tensors + 1, sizeof *reads);
    bool ok = reads != NULL && find(stage, graph, reads, ret_times);

    free(reads);
    return ok;
}

bool pst_plan_saved(const struct pst_plan_stage *stage, const struct pst_graph *graph,
                    bool *ret_saved)
{
    uint32_t *times = calloc((size_t)stage->n_nodes + 1, sizeof *times);
    bool ok = times != NULL;

    if (ok) {
        memset(ret_saved, 0, graph->n_tensors * sizeof *ret_saved);
        ok = find(stage, graph, ret_saved, times);
    }
    free(times);
    return ok;
}

bool pst_plan_offload_bytes(const struct pst_plan_stage *stage, const struct pst_graph *graph,
                            uint64_t *ret_bytes)
{
    bool *saved = calloc(graph->n_tensors + 1, sizeof *saved);
    bool ok = saved != NULL && pst_plan_saved(stage, graph, saved);

    for (uint32_t i = 0; ok && i < stage->n_nodes; i++) {
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
    return ok;
}
