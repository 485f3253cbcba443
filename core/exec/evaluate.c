/* SPDX-License-Identifier: Apache-2.0
 *
 * What an evaluation leaves: the kept tensor of the last micro-batch, as f32.
 */
#include "exec/internal.h"

#include <string.h>

#define CHUNK 1024

pst_status exec_bind_output(struct exec_rank *rank, struct exec_list *list, struct pst_error *err)
{
    const struct pst_graph *graph = rank->exec->config.graph;
    const struct pst_program *program = list->program;
    const struct pst_value *kept;

    if (program->kept_output == PST_NONE) {
        return PST_OK;
    }
    kept = &program->values[program->kept_output];
    list->output_dtype = graph->tensors[kept->what].dtype;
    if (list->output_dtype != PST_F32 && list->output_dtype != PST_BF16) {
        return pst_fail(err, PST_ERR_UNSUPPORTED, "plan.mismatch",
                        "tensor %s: its type cannot be read as f32",
                        graph->tensors[kept->what].name);
    }
    list->output = rank->base + kept->offset;
    list->output_elems = kept->bytes / pst_dtype_bytes(list->output_dtype);
    return PST_OK;
}

void exec_copy_output(struct exec_rank *rank, const struct exec_list *list, float *values,
                      uint64_t n_values)
{
    const struct pst_device_ops *device = rank->exec->config.device;
    uint16_t halves[CHUNK];

    if (list->output_dtype == PST_F32) {
        device->download(rank->device, values, list->output, n_values * sizeof *values);
        return;
    }
    for (uint64_t at = 0; at < n_values; at += CHUNK) {
        uint64_t n = n_values - at < CHUNK ? n_values - at : CHUNK;

        device->download(rank->device, halves, (const uint16_t *)list->output + at,
                         n * sizeof *halves);
        for (uint64_t i = 0; i < n; i++) {
            uint32_t bits = (uint32_t)halves[i] << 16;

            memcpy(&values[at + i], &bits, sizeof bits);
        }
    }
}
