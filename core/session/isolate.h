/* SPDX-License-Identifier: Apache-2.0
 *
 * Where a search runs: in this process, or in one of its own that hands a plan back. Either way the
 * same plan comes out; what came from the other process is checked as though anybody had sent it.
 */
#ifndef PST_SESSION_ISOLATE_H
#define PST_SESSION_ISOLATE_H

#include "host/apart.h"
#include "session/session.h"

/* Does the job plan in a process of its own? Errors: a plugin that is not there. */
pst_status pst_isolate_is_wanted(const struct pst_job *job, bool *ret_wanted,
                                 struct pst_error *err);

/*
 * Searches the session's plan, by the rules of plugins.isolate. Errors: those of pst_planner_run,
 * the same in both places; and those of pst_worker_ask.
 */
pst_status pst_isolate_search(struct pst_session *session, bool (*cancelled)(void),
                              struct pst_error *err);

/* A search as a question to that process. The answer is the session's plan: what comes back is
   proven, and has its programs. plugin.contract or plan.illegal, exit code 3, where it is none for
   this session. */
struct pst_plan_job {
    struct pst_session *session; /* where the question is asked; a process makes its own */
    struct pst_config *config;
    uint32_t advice; /* of the job */
};
extern const struct pst_apart_kind pst_plan_kind;

/* The process itself: argv[1] is PST_WORKER_FLAG, planner that of the jobs; it answers questions of
   these kinds. Returns false where pst_worker_ask did not start it; otherwise it does not return.
 */
bool pst_isolate_child(int argc, char **argv, pst_job_planner *planner,
                       const struct pst_apart_kind *const *kinds, size_t n_kinds);

#endif
