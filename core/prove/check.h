/* SPDX-License-Identifier: Apache-2.0
 *
 * The plan checker: proves a plan legal, whoever made it. Pure, no globals, no plugin header. Rules
 * and their names (FORM1 ... NUM1, STAT1) are listed in docs/plan.md.
 */
#ifndef PST_PROVE_CHECK_H
#define PST_PROVE_CHECK_H

#include "plan/plan.h"
#include "plan/program.h"

#define PST_CHECK_MAX 100 /* violations reported */

struct pst_violation {
    char rule[8];           /* "PASS1" */
    uint32_t device, instr; /* PST_NONE where it belongs to none */
    char text[240];         /* found and expected */
};

struct pst_check_report {
    uint32_t n_violations; /* at most PST_CHECK_MAX are kept */
    struct pst_violation violations[PST_CHECK_MAX];
};

/* One violation more. */
void pst_check_report_add(struct pst_check_report *report, const char *rule, uint32_t device,
                          const char *format, ...) __attribute__((format(printf, 4, 5)));

/* What the transport can do, and what the plan is for. All zero: rendezvous, training. */
struct pst_check_limits {
    uint32_t channel_capacity; /* messages that a channel holds beyond posted receives */
    bool ordered;              /* send and recv of a rank are one FIFO (nccl) */
    bool async_reductions;     /* TIE and NORM, too, run beside the list; else it stays at one
                                  until it has ended */
    bool forward_only;         /* an evaluation plan: F alone, no reduction, no update */
    const struct pst_cost_model *cost; /* of slim programs, which are built again with it; else it
                                          may be NULL */
};

/*
 * programs: one per rank, or NULL to leave out the memory rules that need buffers. Programs are
 * made of plans that hold without them. Returns PST_OK with an empty report; PST_ERR_BUG kind
 * "plan.illegal" with err->details listing the violations, one line each.
 */
pst_status pst_plan_check(const struct pst_plan *plan, const struct pst_graph *graph,
                          const struct pst_check_limits *limits,
                          const struct pst_program *const *programs,
                          struct pst_check_report *ret_report, struct pst_error *err);

#endif
