/* SPDX-License-Identifier: Apache-2.0 */
#include "commands/outputs.h"

#include "exchange/trace.h"

pst_status pst_cli_write_outputs(const struct pst_cli_outputs *outputs,
                                 const struct pst_timeline *timeline, struct pst_error *err)
{
    pst_status st = PST_OK;

    for (uint32_t f = PST_FIGURE_SVG; f <= PST_FIGURE_PDF && st == PST_OK; f++) {
        if (outputs->figures[f] != NULL) {
            st = pst_figure_write(timeline, outputs->figures[f], (enum pst_figure_format)f, NULL,
                                  err);
        }
    }
    if (st == PST_OK && outputs->trace != NULL) {
        st = pst_trace_write(timeline, outputs->trace, NULL, err);
    }
    return st;
}
