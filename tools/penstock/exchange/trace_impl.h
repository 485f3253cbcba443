/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of the trace writer share. Private to trace*.c.
 */
#ifndef PST_EXCHANGE_TRACE_IMPL_H
#define PST_EXCHANGE_TRACE_IMPL_H

#include "base/json.h"
#include "exchange/trace.h"

#define TRACE_PREDICTED 100000u /* pids of predicted ranks begin here */
#define TRACE_OVERFLOW  100u    /* tid of the second row of a lane: + this */

/* A stretch in which a rank computes nothing. */
struct pst_trace_gap {
    uint64_t from_ns, to_ns;
    uint32_t before; /* span that runs next; PST_NONE: none */
    uint32_t cause;  /* span of the rank that ended last before it, if it ended in the gap */
};

struct pst_trace {
    struct pst_json *json;
    const struct pst_timeline *timeline;
    uint32_t pid_base;
    const char *prefix;         /* of process names and flow ids */
    struct pst_arena arena;     /* of this timeline */
    uint32_t *tid;              /* of each span */
    uint32_t *peer;             /* of each transfer: the span at the other end; else PST_NONE */
    struct pst_trace_gap *gaps; /* of the rank at work */
    uint32_t n_gaps;
};

/* trace_rows.c */
void pst_trace_assign_rows(struct pst_trace *trace);
void pst_trace_pair(struct pst_trace *trace);
void pst_trace_find_gaps(struct pst_trace *trace, uint32_t rank);
/* Part of the span during which its rank computes nothing. */
uint64_t pst_trace_exposed(const struct pst_trace *trace, const struct pst_span *span);

/* trace_events.c */
void pst_trace_put_rank(struct pst_trace *trace, uint32_t rank);
void pst_trace_put_steps(struct pst_trace *trace);

#endif
