/* SPDX-License-Identifier: Apache-2.0
 *
 * A schedule problem from a file: stages with costs and sizes of their own, and the links between
 * them. docs/commands.md describes the file.
 */
#ifndef PST_COMMANDS_SCHEDULE_PROBLEM_H
#define PST_COMMANDS_SCHEDULE_PROBLEM_H

#include "planner/order_question.h"

struct pst_schedule_problem {
    struct pst_order_question
        asked; /* not connected; a device of PST_NONE: where the scheduler wants it */
    uint64_t samples;
    bool has_bytes; /* it states what stages keep; else a sample counts as one */
};

/* Errors: input.path, input.limit, input.syntax, config.key, config.value; they name file and
   field. */
pst_status pst_schedule_problem_read(const char *path, struct pst_schedule_problem *ret_problem,
                                     struct pst_error *err);
void pst_schedule_problem_finish(struct pst_schedule_problem *problem);

#endif
