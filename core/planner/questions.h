/* SPDX-License-Identifier: Apache-2.0
 *
 * What plugins may ask the host: pst.cost/1, pst.ask/1, pst.profile/1, pst.eval/1, pst.rng/1. A
 * question is held against the rules here, and prices and in-flight counts are remembered; who
 * answers is a planning job with its strategies, the strategies of a problem file, or the reference
 * cost model.
 */
#ifndef PST_PLANNER_QUESTIONS_H
#define PST_PLANNER_QUESTIONS_H

#include "graph/problem.h"
#include "host/call.h"
#include "planner/eval.h"
#include "planner/memo.h"

/* How far questions may go, at the moment. */
struct pst_question_limits {
    bool open; /* pst.ask/1 is answered: strategies are there */
    uint32_t n_nodes;
    uint32_t batch;       /* samples of a step */
    uint32_t n_places;    /* that a partitioner may fill */
    uint32_t most_stages; /* whose places are known */
    uint32_t share;  /* ranks of every logical device, of which the asking plugin knows nothing */
    bool in_samples; /* of a problem file: places and costs are of some samples, sizes any */
};

/* Who knows costs. */
struct pst_coster {
    struct pst_question_limits (*limits)(const void *self);
    void (*compute)(const void *self, const struct pst_instance *who, const uint32_t *nodes,
                    uint32_t n_nodes, uint32_t samples, struct pst_times *ret_times);
    uint64_t (*transfer_ns)(const void *self, const struct pst_instance *who, uint64_t bytes,
                            uint32_t from, uint32_t to);
    uint64_t (*allreduce_ns)(const void *self, uint64_t bytes, uint32_t n_ranks);
    void (*node_ns)(const void *self, uint32_t node, uint32_t samples, double ret_ns[3]);
    bool (*cancelled)(const void *self);
};

/* Who knows what a scheduler holds, and what a memory optimizer makes of a stage; where questions
   are within the limits. */
struct pst_strategist {
    pst_status (*held)(void *self, const struct pst_place *place, struct pst_held *ret_held,
                       struct pst_error *err);
    pst_status (*price)(void *self, const struct pst_stage_question *question,
                        struct pst_stage_price *ret_price, struct pst_error *err);
    pst_status (*bound)(void *self, const struct pst_stage_question *question,
                        uint64_t *ret_period_ns, struct pst_error *err);
    bool forgets; /* an answer takes no longer than a look into the memo */
};

struct pst_questions {
    const struct pst_coster *costs;
    const struct pst_strategist *strategies;
    void *coster, *strategist;       /* self */
    struct pst_instance *scheduler;  /* NULL: one that takes any stages, in whole steps */
    const struct pst_costed *costed; /* NULL: its nodes run in one way each */
    const struct pst_region *figures;
    const struct pst_trial *trial; /* or NULL */
    struct pst_evaluator *evaluator;
    struct pst_error *pending; /* what a question failed with, inside a plugin's call */
    uint64_t seed;
    struct pst_memo memo;
};

/* The tables behind the host's extensions; `questions` is kept, whose figures and strategist
   may change. */
void pst_questions_context(struct pst_questions *questions, struct pst_host_context *ret_context);
void pst_questions_finish(struct pst_questions *questions);
/* The coster that a plugin asks. */
void *pst_questions_coster(const struct pst_host *host);

/* What the strategist says of a place, remembered. */
pst_status pst_questions_held(struct pst_questions *questions, const struct pst_place *place,
                              struct pst_held *ret_held, struct pst_error *err);

#endif
