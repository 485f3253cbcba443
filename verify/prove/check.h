/* SPDX-License-Identifier: Apache-2.0
 *
 * The plan checker: proves a plan legal, whoever made it. Pure, no globals, no plugin header. Rules
 * and their names (FORM1 ... NUM1, STAT1) are listed in docs/plan.md.
 */
#ifndef PST_PROVE_CHECK_H
#define PST_PROVE_CHECK_H

#include "plan/judge.h"

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
