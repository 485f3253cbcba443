/* SPDX-License-Identifier: Apache-2.0
 *
 * What plugins may ask the host: pst.cost/1, pst.ask/1, pst.profile/1, pst.eval/1, pst.rng/1. A
 * question is held against the rules here, and prices and in-flight counts are remembered; who
 * answers is a planning job with its strategies, the strategies of a problem file, or the reference
 * cost model.
 */
#ifndef PST_PLANNER_QUESTIONS_H
#define PST_PLANNER_QUESTIONS_H

#include "host/plugin_host.h"

struct pst_planner;

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

/* answers.c: who knows costs. */
struct pst_question_limits pst_answer_limits(const struct pst_planner *planner);
void pst_answer_compute(const struct pst_planner *planner, const struct pst_instance *who,
                        const uint32_t *nodes, uint32_t n_nodes, uint32_t samples,
                        struct pst_times *ret_times);
uint64_t pst_answer_transfer_ns(const struct pst_planner *planner, const struct pst_instance *who,
                                uint64_t bytes, uint32_t from, uint32_t to);
uint64_t pst_answer_allreduce_ns(const struct pst_planner *planner, uint64_t bytes,
                                 uint32_t n_ranks);
void pst_answer_node_ns(const struct pst_planner *planner, uint32_t node, uint32_t samples,
                        double ret_ns[3]);
bool pst_answer_cancelled(const struct pst_planner *planner);

/* answers.c: what a scheduler holds, and what a memory optimizer makes of a stage; where questions
   are within the limits. */
pst_status pst_answer_held(struct pst_planner *planner, const struct pst_place *place,
                           struct pst_held *ret_held, struct pst_error *err);
pst_status pst_answer_price(struct pst_planner *planner, const struct pst_stage_question *question,
                            struct pst_stage_price *ret_price, struct pst_error *err);
pst_status pst_answer_bound(struct pst_planner *planner, const struct pst_stage_question *question,
                            uint64_t *ret_period_ns, struct pst_error *err);

/* The tables behind the host's extensions; `planner` is kept. */
void pst_questions_context(struct pst_planner *planner, struct pst_host_context *ret_context);
/* Who answers a plugin. */
struct pst_planner *pst_questions_planner(const struct pst_host *host);

/* What the strategies say of a place, remembered. */
pst_status pst_questions_held(struct pst_planner *planner, const struct pst_place *place,
                              struct pst_held *ret_held, struct pst_error *err);

#endif
