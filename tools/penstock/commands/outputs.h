/* SPDX-License-Identifier: Apache-2.0
 *
 * The options with which a command draws what it has: figures of a timeline or of stages, a trace.
 */
#ifndef PST_COMMANDS_OUTPUTS_H
#define PST_COMMANDS_OUTPUTS_H

#include "commands/options.h"
#include "exchange/trace.h"
#include "figures/figure.h"
#include "session/session.h"

struct pst_cli_outputs {
    const char *figures[3]; /* by enum pst_figure_format; NULL: not wanted */
    const char *trace;
};

/* Rows of a table of options, for `field` of the request. */
#define PST_CLI_FIGURE_OPTIONS(field, prefix, doc)                                                 \
    {prefix "svg", 0, "FILE", doc, PST_AT(field.figures[PST_FIGURE_SVG]), 0},                      \
        {prefix "png", 0, "FILE", "the same as PNG", PST_AT(field.figures[PST_FIGURE_PNG]), 0},    \
    {                                                                                              \
        prefix "pdf", 0, "FILE", "the same as PDF", PST_AT(field.figures[PST_FIGURE_PDF]), 0       \
    }
#define PST_CLI_TIMELINE_OPTIONS(field)                                                            \
    PST_CLI_FIGURE_OPTIONS(field, "", "draw the timeline as SVG"),                                 \
    {                                                                                              \
        "trace", 't', "FILE", "write Chrome trace events, for Perfetto", PST_AT(field.trace), 0    \
    }

/* Describes a session's plan for a trace; source: the file that it came from, or its config. */
#define PST_CLI_DIGEST 24
struct pst_trace_meta pst_cli_trace_meta(const struct pst_session *session, const char *source,
                                         char digest[PST_CLI_DIGEST]);

/* A signal ends it from here on. meta: of the trace, or NULL. Ends the command by output.write;
 * config.value for a timeline that no figure can show. */
void pst_cli_write_outputs(struct pst_cli *cli, const struct pst_cli_outputs *outputs,
                           const struct pst_timeline *timeline, const struct pst_trace_meta *meta);

/* A length that an option has, 0 where it is NULL; ends the command by usage. */
double pst_cli_points(struct pst_cli *cli, const char *option, const char *text);

#endif
