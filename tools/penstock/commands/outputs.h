/* SPDX-License-Identifier: Apache-2.0
 *
 * The options with which a command draws what it has: figures of a timeline or of stages, a trace.
 */
#ifndef PST_COMMANDS_OUTPUTS_H
#define PST_COMMANDS_OUTPUTS_H

#include "commands/options.h"
#include "figures/figure.h"

struct pst_cli_outputs {
    const char *figures[3]; /* by enum pst_figure_format; NULL: not wanted */
    const char *trace;
};

/* Rows of a table of options, for `field` of the request. */
#define PST_CLI_FIGURE_OPTIONS(field, prefix, doc)                                                 \
    {prefix "svg", 0, "FILE", doc, PST_AT(field.figures[PST_FIGURE_SVG]), 0},                      \
        {prefix "png", 0, "FILE", "the same as pixels", PST_AT(field.figures[PST_FIGURE_PNG]), 0}, \
    {                                                                                              \
        prefix "pdf", 0, "FILE", "the same as a page", PST_AT(field.figures[PST_FIGURE_PDF]), 0    \
    }
#define PST_CLI_TIMELINE_OPTIONS(field)                                                            \
    PST_CLI_FIGURE_OPTIONS(field, "", "draw the timeline there"),                                  \
    {                                                                                              \
        "trace", 't', "FILE", "write Chrome trace events there, for Perfetto",                     \
            PST_AT(field.trace), 0                                                                 \
    }

/* Ends the command by output.write; config.value for a timeline that no figure can show. */
void pst_cli_write_outputs(struct pst_cli *cli, const struct pst_cli_outputs *outputs,
                           const struct pst_timeline *timeline);

/* A length that an option has, 0 where it is NULL; ends the command by usage. */
double pst_cli_points(struct pst_cli *cli, const char *option, const char *text);

#endif
