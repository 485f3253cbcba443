/* SPDX-License-Identifier: Apache-2.0
 *
 * What takes the space of a rank at its peak, for people.
 */
#include "base/util.h"
#include "plan/program.h"

static const char *const kind_names[PST_V_KINDS] = {
    [PST_V_WEIGHT] = "weights",
    [PST_V_WORKING] = "weights in working precision",
    [PST_V_GRAD] = "gradients",
    [PST_V_TIE] = "gradients of tied parameters",
    [PST_V_OPTIMIZER] = "optimizer state",
    [PST_V_STATE] = "running statistics",
    [PST_V_INPUT] = "input data",
    [PST_V_ACT] = "activations",
    [PST_V_RECV] = "receive buffers",
    [PST_V_DACT] = "activation gradients",
    [PST_V_Z] = "kept for weight gradients",
    [PST_V_SCRATCH] = "gradients of one micro-batch",
    [PST_V_WORKSPACE] = "kernel workspace",
    [PST_V_FETCHED] = "fetched from the host",
    [PST_V_HOST] = "in host memory",
    [PST_V_RETURNED] = "back from other devices",
    [PST_V_GUEST] = "kept for other devices",
    [PST_V_PAST] = "gradients of earlier slices",
    [PST_V_GATHERED] = "gathered parameters",
};

void pst_program_explain(const struct pst_program *program, struct pst_error *err)
{
    uint64_t bytes[PST_V_KINDS] = {0};
    char text[32];

    for (uint32_t i = 0; i < program->n_values; i++) {
        const struct pst_value *value = &program->values[i];
        bool lives = value->first <= program->peak_tick && program->peak_tick <= value->last;

        bytes[value->kind] += lives && value->kind != PST_V_HOST ? value->bytes : 0;
    }
    pst_error_detail(err, "device %u needs %s", program->rank,
                     pst_format_bytes(text, program->arena_bytes));
    pst_error_detail(err, " (%llu bytes), at its peak:\n",
                     (unsigned long long)program->arena_bytes);
    for (uint32_t k = 0; k < PST_V_KINDS; k++) {
        if (bytes[k] > 0) {
            pst_error_detail(err, "  %-30s %12s\n", kind_names[k],
                             pst_format_bytes(text, bytes[k]));
        }
    }
    if (program->arena_bytes > program->peak_bytes) {
        pst_error_detail(err, "  %-30s %12s\n", "gaps between buffers",
                         pst_format_bytes(text, program->arena_bytes - program->peak_bytes));
    }
    if (program->host_bytes > 0) {
        pst_error_detail(err, "offloaded: %s of host memory\n",
                         pst_format_bytes(text, program->host_bytes));
    }
}
