/* SPDX-License-Identifier: Apache-2.0
 *
 * Looking into a rank between steps: parameters, gradients, how far its arena was used.
 */
#include "exec/internal.h"

/*
 * The arena starts out as 0xFF bytes. A buffer that a run wrote does not end in one: as the last
 * byte of a number it would be a float beyond -1.7e38 or a negative index.
 */
uint64_t exec_scan_peak(struct exec_rank *rank)
{
    unsigned char chunk[16384];
    uint64_t end = rank->arena_bytes;

    while (end > 0) {
        uint64_t begin = end > sizeof chunk ? end - sizeof chunk : 0;

        rank->exec->config.device->download(rank->device, chunk, rank->base + begin, end - begin);
        while (end > begin && chunk[end - begin - 1] == 0xFF) {
            end--;
        }
        if (end > begin) {
            return end;
        }
    }
    return 0;
}

void exec_copy_parameter(struct exec_rank *rank, uint32_t parameter, bool gradient, float *values)
{
    for (uint32_t i = 0; i < rank->n_params; i++) {
        const struct exec_param *param = &rank->params[i];

        if (param->parameter == parameter && param->owner) {
            rank->exec->config.device->download(rank->device, values,
                                                gradient ? param->grad : param->weights,
                                                param->elems * sizeof *values);
        }
    }
}
