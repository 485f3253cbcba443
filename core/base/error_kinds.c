/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error_kinds.h"

#include <string.h>

const struct pst_kind pst_kinds[] = {
    {"usage", PST_OK, 2},
    {"config.file", PST_OK, 2},
    {"config.syntax", PST_OK, 2},
    {"config.limit", PST_OK, 2},
    {"config.key", PST_OK, 2},
    {"config.value", PST_OK, 2},
    {"input.path", PST_OK, 2},
    {"input.syntax", PST_OK, 2},
    {"input.limit", PST_OK, 2},
    {"input.unsupported", PST_OK, 2},
    {"graph.empty", PST_OK, 2},
    {"graph.edge", PST_OK, 2},
    {"graph.duplicate", PST_OK, 2},
    {"graph.cycle", PST_OK, 2},
    {"model.shape", PST_OK, 2},
    {"model.dtype", PST_OK, 2},
    {"model.build", PST_OK, PST_EXIT_BUG},
    {"plugin.not-found", PST_OK, 2},
    {"plugin.insecure", PST_OK, 2},
    {"plugin.load", PST_OK, 3},
    {"plugin.abi", PST_OK, 3},
    {"plugin.descriptor", PST_OK, 3},
    {"plugin.contract", PST_OK, 3},
    {"plugin.crash", PST_OK, 3},
    {"plugin.memory", PST_OK, 3},
    {"plugin.timeout", PST_OK, 3},
    {"plan.illegal", PST_ERR_CONFIG, 2}, /* read from a file */
    {"plan.illegal", PST_OK, PST_EXIT_BUG},
    {"plan.infeasible", PST_OK, 1},
    {"plan.mismatch", PST_OK, 2},
    {"plan.unsupported", PST_OK, 2},
    {"device.kernel", PST_OK, 2},
    {"weights.mismatch", PST_OK, 2},
    {"machine.missing", PST_OK, 4},
    {"machine.memory", PST_OK, 4},
    {"machine.threads", PST_OK, 4},
    {"machine.process", PST_OK, 4},
    {"checkpoint.none", PST_OK, 2},
    {"checkpoint.damaged", PST_OK, 2},
    {"checkpoint.mismatch", PST_OK, 2},
    {"output.write", PST_OK, 2},
    {"output.locked", PST_OK, 2},
    {"output.form", PST_OK, 1},
    {"run.device", PST_ERR_DEVICE, 4}, /* before the first step */
    {"run.device", PST_OK, 1},
    {"run.non-finite", PST_OK, 1},
    {"run.stalled", PST_OK, 1},
    {"run.died", PST_OK, 1},
    {"run.aborted", PST_OK, 1},
    {"run.copy", PST_OK, 1},
    {"run.graph", PST_OK, 1},
    {"run.fault", PST_OK, 1},
    {"run.cancelled", PST_OK, 1},
    {"run.stopped", PST_OK, 1}, /* 128 + the signal where that ended the run */
    {"transport.config", PST_OK, PST_EXIT_BUG},
    {"transport.order", PST_OK, PST_EXIT_BUG},
    {"transport.request", PST_OK, PST_EXIT_BUG},
    {"transport.size", PST_OK, PST_EXIT_BUG},
    {"internal", PST_OK, PST_EXIT_BUG},
    /* Other kinds, from a plugin's process, get the row of their status. */
    {NULL, PST_ERR_CONFIG, 2},
    {NULL, PST_ERR_IO, 2},
    {NULL, PST_ERR_UNSUPPORTED, 2},
    {NULL, PST_ERR_INFEASIBLE, 1},
    {NULL, PST_ERR_NOMEM, 4},
    {NULL, PST_ERR_DEVICE, 4},
    {NULL, PST_OK, PST_EXIT_BUG},
};
const size_t pst_n_kinds = sizeof pst_kinds / sizeof *pst_kinds;

int pst_error_exit_code(const struct pst_error *err)
{
    const struct pst_kind *row = pst_kinds;

    if (err->exit_code != 0 || err->status == PST_OK) {
        return err->exit_code;
    }
    while ((row->kind != NULL && strcmp(row->kind, err->kind) != 0) ||
           (row->status != PST_OK && row->status != err->status)) {
        row++;
    }
    return row->exit_code;
}
