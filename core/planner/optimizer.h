/* SPDX-License-Identifier: Apache-2.0
 *
 * One memory optimizer, asked about one stage.
 */
#ifndef PST_PLANNER_OPTIMIZER_H
#define PST_PLANNER_OPTIMIZER_H

#include "host/plugin_host.h"
#include "planner/blame.h"
#include "planner/eval_replays.h"

struct pst_optimizer {
    struct pst_instance *instance; /* NULL: everything is kept */
    struct pst_evaluator *evaluator;
    struct pst_error *pending; /* as in pst_instance_blame */
    bool alone; /* a stage on its own, of which nothing is run: there are no others */
};

/* Where the stage that is asked about stands, and what it has. */
static inline void pst_view_state(const struct pst_stage_question *question,
                                  struct pst_stage_view *view)
{
    view->stage = question->stage;
    view->n_stages = question->n_stages;
    view->in_flight = question->in_flight;
    view->capacity_bytes = question->capacity_bytes;
}

/* Errors: of the plugin; plugin.contract for a price that cannot be. */
pst_status pst_optimizer_price(const struct pst_optimizer *optimizer,
                               const struct pst_stage_view *view, struct pst_stage_price *ret_price,
                               struct pst_error *err);
/* Its own bound, or without one the time of everything kept. */
pst_status pst_optimizer_bound(const struct pst_optimizer *optimizer,
                               const struct pst_stage_view *view, uint64_t *ret_period_ns,
                               struct pst_error *err);

/* plan(): its decisions become those of the view, whose nodes these are. replays NULL: another
   optimizer comes after it, so it may list none. `graph` names nodes; `pending` is there. Errors:
   as the plugin fails; plan.illegal. */
pst_status pst_optimizer_decide(const struct pst_optimizer *optimizer,
                                const struct pst_graph_view *graph,
                                const struct pst_stage_view *view, struct pst_stage_node *nodes,
                                struct pst_replay_list *replays, struct pst_error *err);

/* All of it for a stage with memory to decide about: plan(), or everything kept, held against what
   price() promised. Errors: both of decide and of verify. */
pst_status pst_optimizer_settle(const struct pst_optimizer *optimizer,
                                const struct pst_graph_view *graph,
                                const struct pst_stage_view *view, struct pst_stage_node *nodes,
                                const struct pst_stage_price *promised,
                                struct pst_replay_list *replays, struct pst_stage_value *ret_value,
                                struct pst_error *err);

/* A finished stage, as the evaluator values it: it must be legal, and no worse than what price()
   promised where that said that it fits. Errors: plan.illegal, plugin.contract, both exit code 3,
   naming the optimizer. */
pst_status pst_optimizer_verify(const char *id, const struct pst_graph_view *graph,
                                const struct pst_stage_view *view,
                                const struct pst_stage_price *promised,
                                const struct pst_stage_value *value, struct pst_error *err);

#endif
