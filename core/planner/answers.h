/* SPDX-License-Identifier: Apache-2.0
 *
 * Answers to the questions of strategies. A job answers by its cost model and its strategies
 * (job_answers.c), a problem file by the costs in it and by the reference cost model or its
 * strategies (tools/penstock/ask/problem_answers.c).
 *
 *     plugin --> questions.c: is something wrong with it? --> planner->answers --> the answer
 *
 * Nodes, counts and ranks are checked: a rank is one of the planner's, samples are those of a rank.
 * Every function runs on the planner's thread, inside the plugin's call, and keeps no pointer.
 * Errors go to planner->pending. Times are nanoseconds.
 */
#ifndef PST_PLANNER_ANSWERS_H
#define PST_PLANNER_ANSWERS_H

#include <penstock/ext/profile.h>

#include "graph/cost.h"
#include "host/plugin_host.h"

struct pst_planner;

struct pst_answers {
    /* Questions are allowed at any time, about any number of samples but 0. Otherwise they are
       allowed while the partitioner runs, within the batch and the places of the scheduler. */
    bool in_samples;

    /* pst.cost/1, pst.profile/1, by planner->in.cost; compute: by pst_cost_on of the ranks. */
    void (*compute)(const struct pst_cost_model *cost, const uint32_t *nodes, uint32_t n_nodes,
                    uint32_t samples, struct pst_times *ret_times);
    uint64_t (*transfer)(const struct pst_cost_model *cost, uint64_t bytes, uint32_t from,
                         uint32_t to);
    uint64_t (*allreduce)(const struct pst_cost_model *cost, uint64_t bytes, uint32_t n_ranks);
    void (*node_ns)(const struct pst_cost_model *cost, uint32_t node, uint32_t samples,
                    double ret_ns[3]);
    /* Returns the number of ways to run a node; fills ret_config where index is below it. NULL:
       every node runs in one way. */
    uint32_t (*config)(const struct pst_cost_model *cost, uint32_t node, uint32_t index,
                       struct pst_node_config *ret_config);

    /* pst.ask/1. The fields but for `size` are filled on success. */
    pst_status (*in_flight)(struct pst_planner *planner, const struct pst_place *place,
                            struct pst_held *ret_held);
    pst_status (*price)(struct pst_planner *planner, const struct pst_stage_question *question,
                        struct pst_stage_price *ret_price);
    pst_status (*bound)(struct pst_planner *planner, const struct pst_stage_question *question,
                        uint64_t *ret_period_ns);

    /* Makes the stage as memory optimizers see it. View and nodes are valid until the next call;
       the nodes may be given actions. NULL where no optimizer is asked. */
    pst_status (*view)(struct pst_planner *planner, const struct pst_stage_question *question,
                       struct pst_stage_node **ret_nodes, struct pst_stage_view *ret_view,
                       struct pst_error *err);
    /* Refuses a stage that takes so many bytes, more than its capacity. NULL: the layout of the
       plan decides instead. */
    pst_status (*refuse)(const struct pst_planner *planner,
                         const struct pst_stage_question *question, uint64_t bytes,
                         struct pst_error *err);
};

extern const struct pst_answers pst_job_answers;
/* Fills planner->figures, those of pst.profile/1, of a job whose view is there. */
void pst_job_figures(struct pst_planner *planner);

/* Answers of the planner's scheduler and memory optimizers; counts and prices are remembered. */
pst_status pst_strategies_in_flight(struct pst_planner *planner, const struct pst_place *place,
                                    struct pst_held *ret_held);
pst_status pst_strategies_price(struct pst_planner *planner,
                                const struct pst_stage_question *question,
                                struct pst_stage_price *ret_price);
pst_status pst_strategies_bound(struct pst_planner *planner,
                                const struct pst_stage_question *question, uint64_t *ret_period_ns);

#endif
