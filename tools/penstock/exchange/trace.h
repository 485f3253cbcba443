/* SPDX-License-Identifier: Apache-2.0
 *
 * A timeline as Chrome trace events, which Perfetto and chrome://tracing open. A process is a rank,
 * a thread a row of it. Passes have the names that PyTorch gives them (2F0, 2I0 for the backward
 * for inputs, 2W0, 2B0 for both backwards), so traces of both lie beside each other; categories
 * are penstock's (F, B, W, BW, R, comm, copy, opt, wait). docs/commands.md describes the events.
 */
#ifndef PST_EXCHANGE_TRACE_H
#define PST_EXCHANGE_TRACE_H

#include "sim/timeline.h"

/* Facts about a trace, which the file states; any member may be NULL. */
struct pst_trace_meta {
    const char *plan; /* the file that it came from, or the config that it was made of */
    const char *plan_digest;
    const struct pst_timeline *predicted; /* laid over it, as ranks of their own */
    const char *sharing;                  /* how ranks shared devices */
};

/*
 * Writes the trace, whole or not at all; compressed where the name ends in ".gz". Times are
 * microseconds with three decimals; a unit of the user's own counts as a microsecond. meta may be
 * NULL. Errors: output.write.
 */
pst_status pst_trace_write(const struct pst_timeline *timeline, const char *path,
                           const struct pst_trace_meta *meta, struct pst_error *err);

/* The text that it writes; free() it. */
char *pst_trace_to_json(const struct pst_timeline *timeline, const struct pst_trace_meta *meta);

#endif
