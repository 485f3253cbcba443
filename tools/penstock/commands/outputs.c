/* SPDX-License-Identifier: Apache-2.0 */
#include "commands/outputs.h"

#include "base/number.h"
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

double pst_cli_points(struct pst_cli *cli, const char *option, const char *text)
{
    const char *end;
    double points = 0;

    if (text != NULL && (!pst_number_parse(text, &end, &points) || *end != '\0' || !(points > 0))) {
        pst_cli_usage(cli, "%s must be a number of points, not \"%s\"", option, text);
    }
    return points;
}
