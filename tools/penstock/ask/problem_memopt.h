/* SPDX-License-Identifier: Apache-2.0
 *
 * A memory optimizer on its own: the graph of a problem file as one stage, and what becomes of each
 * node's saved bytes, checked and evaluated. For `penstock memopt` and for tests.
 */
#ifndef PST_ASK_PROBLEM_MEMOPT_H
#define PST_ASK_PROBLEM_MEMOPT_H

#include "ask/problem_job.h"
#include "ask/costed_stage.h"
#include "planner/eval_replays.h"

struct pst_memopt_result {
    struct pst_arena arena;
    struct pst_costed_stage stage; /* what `view` shows */
    struct pst_stage_view view;
    char id[64], version[32];
    double search_seconds;
    struct pst_stage_price price; /* as the optimizer promised */
    uint8_t *actions; /* [view.n_nodes] PST_ACTION_*; of a node that a replay names: RECOMPUTE */
    struct pst_replay_list replays; /* where the optimizer listed any */
    struct pst_stage_value value;
    struct pst_memory_sums sums;
    uint32_t n_events;
    struct pst_memory_event *events;
    uint64_t *left; /* where replays are listed: [view.n_nodes] what a forward leaves for later */
};

/*
 * Opens the memory optimizer, states the stage, takes its plan, evaluates it. Errors: of opening
 * and of options; plan.infeasible with the least memory that it can do with; plan.illegal or
 * plugin.contract, exit code 3, for a plan that breaks a rule or takes more than price() said.
 * limits: those of a process of its own, by the rules of pst_worker_ask; NULL: in this one, where
 * `cancelled` may be NULL as well. The result is finished by pst_memopt_result_finish and refers to
 * the problem.
 */
pst_status pst_problem_memopt(const struct pst_problem_job *job,
                              const struct pst_worker_task *limits, bool (*cancelled)(void),
                              struct pst_memopt_result *ret_result, struct pst_error *err);

/* The question before anybody judges the answer, and that. */
extern const struct pst_apart_kind pst_memopt_kind;
pst_status pst_memopt_judge(struct pst_memopt_result *answer, struct pst_error *err);

void pst_memopt_result_finish(struct pst_memopt_result *result);

#endif
