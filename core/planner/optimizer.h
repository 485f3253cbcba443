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

/* What an action may be, and what is said of others. */
struct pst_action_rules {
    uint32_t most;
    const char *no_node, *no_action;
    bool runs; /* the executor does what is decided: it must have a link to offload over */
};

/* What the answer held, and the first rule that it broke. */
struct pst_action_answer {
    uint32_t set; /* a bit for each kind of action */
    bool listed;  /* replays */
    const char *fault;
    uint32_t position; /* of the fault; PST_NONE: of replays */
};

/* plan(): actions[view->n_nodes], from those of the view, and a list of replays (NULL: another
   optimizer comes behind, so there may be none). Returns what the plugin did. */
pst_status pst_optimizer_plan(const struct pst_optimizer *optimizer,
                              const struct pst_stage_view *view,
                              const struct pst_action_rules *rules, uint8_t *actions,
                              struct pst_replay_list *replays,
                              struct pst_action_answer *ret_answer);

/* The rule that the answer broke, as an error: plan.illegal, exit code 3. `graph` names nodes. */
pst_status pst_optimizer_refuse(const struct pst_instance *memopt,
                                const struct pst_graph_view *graph,
                                const struct pst_stage_view *view,
                                const struct pst_action_answer *answer, struct pst_error *err);

/* plan(), which may do all that the executor can; its decisions become those of the view, whose
   nodes these are. `pending` is there. Errors: as the plugin fails; plan.illegal. */
pst_status pst_optimizer_decide(const struct pst_optimizer *optimizer,
                                const struct pst_graph_view *graph,
                                const struct pst_stage_view *view, struct pst_stage_node *nodes,
                                struct pst_replay_list *replays, struct pst_error *err);

/* A finished stage, as the evaluator values it: it must be legal, and no worse than what price()
   promised where that said that it fits. Errors: plan.illegal, plugin.contract, both exit code 3,
   naming the optimizer. */
pst_status pst_optimizer_verify(const char *id, const struct pst_graph_view *graph,
                                const struct pst_stage_view *view,
                                const struct pst_stage_price *promised,
                                const struct pst_stage_value *value, struct pst_error *err);

#endif
