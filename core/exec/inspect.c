/* SPDX-License-Identifier: Apache-2.0
 *
 * Looking into a rank between steps: parameters, gradients, how far its arena was used.
 */
#include "exec/internal.h"

#define WORD 4u

/*
 * The arena starts out as 0xFF bytes, which no number is made of that a run writes: a NaN that
 * arithmetic makes has a zero in it, and no index is -1. But it may end in one (-infinity, NaN), so
 * the search goes by words. Workspace is counted as far as kernels got it: they need not fill it.
 */
uint64_t exec_scan_peak(struct exec_rank *rank)
{
    unsigned char chunk[16384];
    const struct pst_device_ops *device = rank->exec->config.device;
    uint64_t end = rank->arena_bytes;

    if (device->reached != NULL) {
        end = device->reached(rank->device);
        return end > rank->handed_bytes ? end : rank->handed_bytes;
    }

    while (end > 0) {
        uint64_t begin = end > sizeof chunk ? end - sizeof chunk : 0;

        rank->exec->config.device->download(rank->device, chunk, rank->base + begin, end - begin);
        while (end > begin && chunk[end - begin - 1] == 0xFF) {
            end--;
        }
        if (end > begin) {
            end = (end + WORD - 1) / WORD * WORD;
            end = end < rank->arena_bytes ? end : rank->arena_bytes;
            return end > rank->handed_bytes ? end : rank->handed_bytes;
        }
    }
    return rank->handed_bytes;
}

void exec_copy_parameter(struct exec_rank *rank, const struct exec_task *task)
{
    bool gradient = task->command == EXEC_GRADIENT;

    for (uint32_t i = 0; i < rank->n_params; i++) {
        const struct exec_param *param = &rank->params[i];
        uint64_t version = task->t * rank->exec->n_updates;
        const float *newest =
            param->dtype == PST_F32 ? param->versions[version % param->n_versions] : param->weights;

        if (param->parameter == task->parameter &&
            (task->of_rank == PST_NONE ? param->owner : task->of_rank == rank->index)) {
            rank->exec->config.device->download(rank->device, task->values,
                                                gradient ? param->grads[(task->t + 1) % 2] : newest,
                                                param->elems * sizeof *task->values);
        }
    }
}
