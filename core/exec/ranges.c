/* SPDX-License-Identifier: Apache-2.0
 *
 * Names of instructions for tools that watch a device (NVTX), those of traces. They are made once:
 * while nobody watches a range is a call that does nothing.
 */
#include "exec/state.h"

#include <stdio.h>

static void name(const struct pst_instr *instr, char *text, size_t size)
{
    static const char letters[] = {
        [PST_I_F] = 'F', [PST_I_B] = 'I', [PST_I_W] = 'W', [PST_I_BW] = 'B', [PST_I_R] = 'R'};

    if (instr->op <= PST_I_R) {
        snprintf(text, size, "%u%c%u", instr->stage, letters[instr->op], instr->microbatch);
    } else if (instr->op == PST_I_TIE || instr->op == PST_I_NORM) {
        snprintf(text, size, "%s", pst_instr_name(instr->op));
    } else {
        snprintf(text, size, "%s %u", pst_instr_name(instr->op), instr->stage);
    }
}

void exec_ranges_init(struct exec_rank *rank)
{
    const struct pst_program *program = rank->train.program;
    struct exec_apart *apart = &rank->apart;

    if (rank->exec->config.device->range == NULL) {
        return;
    }
    apart->names = pst_arena_array(&rank->memory, program->n_instrs, sizeof *apart->names);
    for (uint32_t i = 0; i < program->n_instrs; i++) {
        name(&program->instrs[i], apart->names[i], sizeof apart->names[i]);
    }
}

void exec_range_begin(const struct exec_rank *rank, const struct exec_list *list, uint32_t instr)
{
    if (rank->apart.names != NULL && list == &rank->train) {
        rank->exec->config.device->range(rank->device, rank->apart.names[instr]);
    }
}

void exec_range_end(const struct exec_rank *rank, const struct exec_list *list)
{
    if (rank->apart.names != NULL && list == &rank->train) {
        rank->exec->config.device->range(rank->device, NULL);
    }
}
