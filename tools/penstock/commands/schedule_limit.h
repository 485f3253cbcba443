/* SPDX-License-Identifier: Apache-2.0
 *
 * `penstock schedule --memory-limit`: is it kept, and if not, which would do?
 */
#ifndef PST_COMMANDS_SCHEDULE_LIMIT_H
#define PST_COMMANDS_SCHEDULE_LIMIT_H

#include "commands/schedule_request.h"

/* A scheduler may not heed the limit. plan.infeasible: device and peak, and what would do, as the
   next function finds it. */
pst_status pst_schedule_limit_check(const struct pst_schedule_request *request,
                                    const struct pst_schedule_figures *figures,
                                    struct pst_error *err);

/*
 * After a refusal, PST_ERR_INFEASIBLE in *err: where memory is the reason, the message becomes one
 * that names --memory-limit and the smallest that works, found by asking the scheduler again. With
 * another reason, or without the option, *err is left alone. Returns its status, or that of
 * run.stopped after a signal.
 */
pst_status pst_schedule_limit_explain(const struct pst_schedule_request *request,
                                      struct pst_error *err);

#endif
