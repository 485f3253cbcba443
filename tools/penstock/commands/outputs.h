/* SPDX-License-Identifier: Apache-2.0
 *
 * The options with which a command writes the timeline that it has: figures and a trace.
 */
#ifndef PST_COMMANDS_OUTPUTS_H
#define PST_COMMANDS_OUTPUTS_H

#include "commands/options.h"
#include "figures/figure.h"

struct pst_cli_outputs {
    const char *figures[3]; /* by enum pst_figure_format; NULL: not wanted */
    const char *trace;
};

/* Rows of a table of options. */
#define PST_CLI_OUTPUT_OPTIONS(o)                                                                  \
    {"svg", 0, "FILE", "draw the timeline there", NULL, &(o).figures[PST_FIGURE_SVG]},             \
        {"png", 0, "FILE", "the same as pixels", NULL, &(o).figures[PST_FIGURE_PNG]},              \
        {"pdf", 0, "FILE", "the same as a page", NULL, &(o).figures[PST_FIGURE_PDF]},              \
    {                                                                                              \
        "trace", 't', "FILE", "write Chrome trace events there, for Perfetto", NULL, &(o).trace    \
    }

/* Figures of stages: rows for a command that has no timeline, and for one that might have one. */
struct pst_cli_stage_outputs {
    const char *figures[3]; /* by enum pst_figure_format; NULL: not wanted */
};

#define PST_CLI_STAGE_OPTIONS(o, prefix)                                                           \
    {prefix "svg", 0,                                                                              \
     "FILE",       "draw the stages and their edges there",                                        \
     NULL,         &(o).figures[PST_FIGURE_SVG]},                                                  \
        {prefix "png", 0, "FILE", "the same as pixels", NULL, &(o).figures[PST_FIGURE_PNG]},       \
    {                                                                                              \
        prefix "pdf", 0, "FILE", "the same as a page", NULL, &(o).figures[PST_FIGURE_PDF]          \
    }

/* Errors: output.write; config.value for a timeline that no figure can show. */
pst_status pst_cli_write_outputs(const struct pst_cli_outputs *outputs,
                                 const struct pst_timeline *timeline, struct pst_error *err);

#endif
