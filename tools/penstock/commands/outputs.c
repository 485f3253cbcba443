/* SPDX-License-Identifier: Apache-2.0 */
#include "commands/outputs.h"

#include "commands/commands.h"
#include "exchange/trace.h"

void pst_cli_write_outputs(struct pst_cli *cli, const struct pst_cli_outputs *outputs,
                           const struct pst_timeline *timeline)
{
    for (uint32_t f = PST_FIGURE_SVG; f <= PST_FIGURE_PDF; f++) {
        if (outputs->figures[f] != NULL) {
            pst_cli_must(cli, pst_figure_write(timeline, outputs->figures[f],
                                               (enum pst_figure_format)f, NULL, &cli->err));
        }
    }
    if (outputs->trace != NULL) {
        pst_cli_must(cli, pst_trace_write(timeline, outputs->trace, NULL, &cli->err));
    }
}
