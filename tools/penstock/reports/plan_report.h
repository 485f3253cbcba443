/* SPDX-License-Identifier: Apache-2.0
 *
 * A plan for people and tools: which stage does what, where, for how long and in how much memory.
 * Memory is counted from the buffers of the lowered programs, so the stages of a device add up to
 * its peak to the byte.
 */
#ifndef PST_REPORTS_PLAN_REPORT_H
#define PST_REPORTS_PLAN_REPORT_H

#include <stdio.h>

#include "base/json.h"
#include "session/session.h"

/* One stage on one of its ranks. */
struct pst_stage_report {
    struct pst_plan_stage plan; /* its arrays are the plan's */
    char kinds[256];            /* of its devices, each once; "" if all devices are alike */
    uint32_t stage, n_operators;
    const char *first_operator, *last_operator; /* names */
    uint64_t parameters;                        /* values */
    uint64_t forward_ns, backward_ns;   /* of one micro-batch on one rank, replays not counted */
    uint32_t n_recomputed, n_offloaded; /* operators whose saved tensors are not kept */
    uint64_t kept_bytes, recomputed_bytes, offloaded_bytes; /* saved by one micro-batch */
    uint32_t n_peers;      /* operators whose saved tensors of guests are on another device */
    uint64_t peer_bytes;   /* of one micro-batch */
    uint64_t guest_bytes;  /* kept for other devices at the peak, of the first stage of a device */
    uint64_t recompute_ns; /* of replays, per micro-batch */
    uint64_t link_ns;      /* of the host link, per micro-batch */
    uint64_t static_bytes; /* weights, gradients, optimizer state, statistics */
    uint64_t activation_bytes; /* everything else alive at the peak of the device */
    uint64_t total_bytes;      /* of both */
    const char *limited_by; /* of what its device has least left: "memory"; else the largest part of
                               its time: "compute", "transfers", "all-reduce" */
};

/* The figures of every stage (n_stages of them) on its first rank; free() them. */
void pst_plan_report_stages(const struct pst_session *session,
                            struct pst_stage_report **ret_stages);

#define PST_GRID_TEXT 32
/* Replicas of a stage, and the devices that share each operator: "2", or "1-4" where stages
   differ. */
void pst_report_grid(const struct pst_plan *plan, char replicas[PST_GRID_TEXT],
                     char tensor[PST_GRID_TEXT]);

/* Table and summary. file: where the plan was written, or NULL. */
void pst_plan_report_print(const struct pst_session *session, const char *file, bool color,
                           FILE *out);

/* Members of the object that is open. */
void pst_plan_report_json(const struct pst_session *session, const char *file,
                          struct pst_json *json);

/* "predicted step  75.1 ms, operators measured here (4 devices share 2 cores)": `text` and what it
   rests on. If it does not count shared cores, a second line has the step on this machine. */
void pst_report_prediction(const struct pst_session *session, const char *text, FILE *out);

#endif
