/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels of a rank: one per operator, pass and number of samples, whatever stage or list asks.
 */
#include "exec/internal.h"

pst_status exec_kernel_get(struct exec_rank *rank, uint32_t op, uint32_t pass, uint32_t samples,
                           const struct pst_kernel **ret_kernel, struct pst_error *err)
{
    const struct pst_exec_config *config = &rank->exec->config;
    struct exec_kernel *entry = rank->kernels[op];
    pst_status status;

    while (entry != NULL && (entry->pass != pass || entry->samples != samples)) {
        entry = entry->next;
    }
    if (entry == NULL) {
        entry = pst_arena_alloc(&rank->memory, sizeof *entry, 0);
        entry->pass = pass;
        entry->samples = samples;
        status = config->device->compile(rank->device, config->graph, op, pass, samples,
                                         &entry->kernel, err);
        if (status != PST_OK) {
            pst_error_prefix(err, "operator %s, %u samples", config->graph->ops[op].name, samples);
            return status;
        }
        entry->next = rank->kernels[op];
        rank->kernels[op] = entry;
    }
    *ret_kernel = entry->kernel;
    return PST_OK;
}

void exec_kernels_destroy(struct exec_rank *rank)
{
    if (rank->kernels == NULL) {
        return;
    }
    for (uint32_t op = 0; op < rank->exec->config.graph->n_ops; op++) {
        for (struct exec_kernel *entry = rank->kernels[op]; entry != NULL; entry = entry->next) {
            entry->kernel->destroy(entry->kernel);
        }
        rank->kernels[op] = NULL;
    }
}
