/* SPDX-License-Identifier: Apache-2.0
 *
 * Degrees of tensor parallelism that the partitioner chooses, or that a plan has: parallel.tensor
 * lists several. The graph is that of the whole model until they are known. The partitioner is
 * asked for stages of it and their degrees; then the graph is divided, and a plan is searched for
 * these stages, each on groups of as many ranks as its degree says:
 *
 *   stages of the answer    0: tensor 1    1: tensor 2    2: tensor 2, two replicas
 *   ranks                   0              1 2            3 4  5 6
 *   groups of the search    0              1              2    3
 */
#ifndef PST_SESSION_DEGREES_H
#define PST_SESSION_DEGREES_H

#include "session/session.h"

/* Does the job list several degrees, and a partitioner that provides "ways"? Every other one gets
   the first. */
bool pst_degrees_are_chosen(const struct pst_job *job);
/* Warns that all but the first degree are ignored. */
void pst_degrees_warn(const struct pst_job *job);

/*
 * Asks the partitioner, and searches plans: for the stages of its answer, and for each degree of
 * the list as though it was the only one, as far as they can be had and the partitioner chooses
 * them. Divides the session's graph for the plan with the shortest step, which comes without
 * programs. Errors: those of pst_planner_run, first of the partitioner's answer; plan.mismatch,
 * exit 2, where the degrees cannot run.
 */
pst_status pst_degrees_search(struct pst_session *session, bool (*cancelled)(void),
                              struct pst_planned *ret_planned, struct pst_error *err);

/* Divides the session's graph as the plan in this text has it; `name` is used in messages. Where
   degrees are not chosen, nothing. config.value: the job lists others. */
pst_status pst_degrees_adopt(struct pst_session *session, const char *name, const char *text,
                             size_t length, struct pst_error *err);

#endif
