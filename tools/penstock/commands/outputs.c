/* SPDX-License-Identifier: Apache-2.0 */
#include "commands/outputs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/number.h"
#include "base/signals.h"
#include "commands/commands.h"
#include "commands/searching.h"

struct pst_trace_meta pst_cli_trace_meta(const struct pst_session *session, const char *source,
                                         char digest[PST_CLI_DIGEST])
{
    char *text = pst_plan_to_json(session->planned.plan, session->graph);

    snprintf(digest, PST_CLI_DIGEST, "%016llx",
             (unsigned long long)XXH3_64bits(text, strlen(text)));
    free(text);
    return (struct pst_trace_meta){.plan = source, .plan_digest = digest};
}

void pst_cli_write_outputs(struct pst_cli *cli, const struct pst_cli_outputs *outputs,
                           const struct pst_timeline *timeline, const struct pst_trace_meta *meta)
{
    pst_stop_grace(0); /* nothing here looks whether it is to stop */
    pst_searching_begin(cli, "drawing");
    for (uint32_t f = PST_FIGURE_SVG; f <= PST_FIGURE_PDF; f++) {
        if (outputs->figures[f] != NULL) {
            pst_cli_must(cli, pst_figure_write(timeline, outputs->figures[f],
                                               (enum pst_figure_format)f, NULL, &cli->err));
        }
    }
    if (outputs->trace != NULL) {
        pst_cli_must(cli, pst_trace_write(timeline, outputs->trace, meta, &cli->err));
    }
    pst_searching_end();
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
