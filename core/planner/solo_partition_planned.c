/* SPDX-License-Identifier: Apache-2.0
 *
 * A scheduler and a memory optimizer that answer for a costed graph, where a problem says
 * cost = "planned".
 */
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "planner/eval_replays.h"
#include "host/caps.h"
#include "planner/optimizer.h"
#include "planner/solo_partition_state.h"
#include "planner/state.h"
#include "planner/topology.h"

/* A name, or a file where it has a slash. */
static pst_status find(const char *kind, const char *name, const struct pst_plugin **ret_plugin,
                       struct pst_error *err)
{
    bool is_file = strchr(name, '/') != NULL;
    pst_status st =
        pst_plugin_find(kind, is_file ? NULL : name, is_file ? name : NULL, ret_plugin, err);

    if (st != PST_OK) {
        pst_error_prefix(err, "\"%s\"", kind);
    }
    return st;
}

static pst_status open_strategies(struct pst_partition_planned *planned,
                                  const struct pst_plugin *partitioner,
                                  const struct pst_host_context *context, struct pst_error *err)
{
    const struct pst_problem *problem = planned->problem;
    const char *name = problem->scheduler != NULL ? problem->scheduler : PENSTOCK_DEFAULT_SCHEDULER;
    const struct pst_plugin *plugins[3] = {partitioner, NULL, NULL};
    pst_status st = find("scheduler", name, &plugins[1], err);

    if (st == PST_OK && problem->memopt != NULL) {
        st = find("memopt", problem->memopt, &plugins[2], err);
    }
    if (st == PST_OK) {
        st = pst_caps_match(plugins, problem->memopt != NULL ? 3 : 2, err);
    }
    if (st == PST_OK) {
        st = pst_partition_create(plugins[1], problem->scheduler_options, "scheduler_options",
                                  context, &planned->scheduler, err);
    }
    if (st == PST_OK && plugins[2] != NULL) {
        st = pst_partition_create(plugins[2], problem->memopt_options, "memopt_options", context,
                                  &planned->memopt, err);
    }
    return st;
}

/* One place a device, or as many as the scheduler wants. */
static pst_status find_places(struct pst_partition_planned *planned, struct pst_error *err)
{
    uint32_t n_devices = planned->problem->n_devices, n = planned->topology.n_stages;
    struct pst_partition_places *places = &planned->places;
    uint32_t *device_of, *shared;
    pst_status st;

    *places = (struct pst_partition_places){.n_stages = n, .shared = 1};
    places->n_places = n == 0 ? n_devices : n;
    device_of = pst_arena_array(&planned->arena, places->n_places, sizeof *device_of);
    shared = pst_arena_array(&planned->arena, n_devices, sizeof *shared);
    if (device_of == NULL || shared == NULL) {
        return pst_fail_nomem(err);
    }
    st = pst_scheduler_devices(planned->scheduler, &planned->topology, n_devices, places->n_places,
                               device_of, err);
    for (uint32_t i = 0; st == PST_OK && i < places->n_places; i++) {
        uint32_t now = ++shared[device_of[i]];

        places->shared = now > places->shared ? now : places->shared;
    }
    places->device_of = n == 0 ? NULL : device_of;
    return st;
}

pst_status pst_partition_planned_init(struct pst_partition_planned *planned,
                                      const struct pst_problem *problem,
                                      const struct pst_plugin *partitioner,
                                      const struct pst_host_context *context, struct pst_error *err)
{
    pst_status st;

    memset(planned, 0, sizeof *planned);
    planned->problem = problem;
    st = pst_costed_stage_init(&planned->stage, problem, err);
    if (st == PST_OK) {
        st = open_strategies(planned, partitioner, context, err);
    }
    if (st == PST_OK) {
        st =
            pst_scheduler_topology(planned->scheduler, problem->n_devices, &planned->topology, err);
    }
    return st == PST_OK ? find_places(planned, err) : st;
}

void pst_partition_planned_finish(struct pst_partition_planned *planned)
{
    pst_instance_destroy(planned->scheduler);
    pst_instance_destroy(planned->memopt);
    pst_costed_stage_finish(&planned->stage);
    pst_evaluator_finish(&planned->evaluator);
    pst_arena_finish(&planned->arena);
    memset(planned, 0, sizeof *planned);
}

uint32_t pst_partition_planned_devices(const struct pst_partition_planned *planned,
                                       uint32_t n_stages)
{
    const struct pst_problem *problem = planned->problem;
    bool replicates = problem->degrees[problem->n_degrees - 1] > 1;

    return replicates && planned->topology.n_stages == 0 ? n_stages : problem->n_devices;
}

/* --- what a partitioner asks of them -----------------------------------------------------------*/

static pst_status topology(void *self, uint32_t n_devices, struct pst_topology *ret_topology,
                           struct pst_error *err)
{
    return pst_scheduler_topology(((struct pst_partition_planned *)self)->scheduler, n_devices,
                                  ret_topology, err);
}

/* Whatever place->n_devices says. */
static pst_status held(void *self, const struct pst_place *place, struct pst_held *ret_held,
                       struct pst_error *err)
{
    struct pst_partition_planned *planned = self;
    struct pst_place asked = *place;
    const struct pst_scheduler_use use = {.scheduler = planned->scheduler,
                                          .topology = &planned->topology,
                                          .device_of = planned->places.device_of,
                                          .n_places = planned->places.n_places};

    asked.size = sizeof asked;
    asked.n_devices = pst_partition_planned_devices(planned, place->n_stages);
    return pst_scheduler_held(&use, &asked, ret_held, err);
}

static struct pst_optimizer optimizer_of(struct pst_partition_planned *planned)
{
    return (struct pst_optimizer){.instance = planned->memopt, .evaluator = &planned->evaluator};
}

static void view_of(struct pst_partition_planned *planned, const struct pst_stage_question *q,
                    struct pst_stage_view *ret_view)
{
    pst_costed_stage_build(&planned->stage, q->nodes, q->n_nodes, q->microbatch_size / q->n_ranks,
                           q->weight_versions, ret_view);
    pst_view_state(q, ret_view);
}

static pst_status price(void *self, const struct pst_stage_question *question,
                        struct pst_stage_price *ret_price, struct pst_error *err)
{
    const struct pst_optimizer optimizer = optimizer_of(self);
    struct pst_stage_view view;

    view_of(self, question, &view);
    return pst_optimizer_price(&optimizer, &view, ret_price, err);
}

static pst_status bound(void *self, const struct pst_stage_question *question,
                        uint64_t *ret_period_ns, struct pst_error *err)
{
    const struct pst_optimizer optimizer = optimizer_of(self);
    struct pst_stage_view view;

    view_of(self, question, &view);
    return pst_optimizer_bound(&optimizer, &view, ret_period_ns, err);
}

const struct pst_strategist pst_partition_strategies = {topology, held, price, bound, false};

/* --- the end of it -----------------------------------------------------------------------------*/

/* Sets the actions of the nodes that were built last, and takes replays. */
static pst_status run_plan(struct pst_partition_planned *planned, const struct pst_stage_view *view,
                           struct pst_replay_list *replays, struct pst_error *err)
{
    static const struct pst_action_rules rules = {.most = PST_ACTION_PEER,
                                                  .no_node = "there is no such node",
                                                  .no_action = "there is no such action"};
    const struct pst_optimizer optimizer = optimizer_of(planned);
    uint8_t *actions = calloc((size_t)view->n_nodes + 1, 1);
    struct pst_action_answer said;
    pst_status st;

    if (actions == NULL) {
        return pst_fail_nomem(err);
    }
    st = pst_optimizer_plan(&optimizer, view, &rules, actions, replays, &said);
    for (uint32_t i = 0; i < view->n_nodes; i++) {
        planned->stage.nodes[i].action = actions[i];
    }
    free(actions);
    if (said.fault != NULL) {
        return pst_planner_illegal(err, planned->memopt, "stage %u: %s", view->stage, said.fault);
    }
    return st == PST_OK ? st : pst_instance_fail(planned->memopt, st, "plan", err);
}

static uint64_t kept_bytes(const struct pst_stage_view *view, const struct pst_replay_list *replays)
{
    struct pst_stage_value value = {.size = sizeof value};
    uint64_t bytes = view->input_bytes, kept;

    if (replays->n > 0 && pst_evaluate_replays(view, replays->at, replays->n, &value, &kept)) {
        return bytes + kept;
    }

    for (uint32_t i = 0; i < view->n_nodes; i++) {
        const struct pst_stage_node *node = pst_stage_node_at(view, i);

        bytes += node->action == PST_ACTION_KEEP ? node->saved_bytes : 0;
    }
    return bytes;
}

static pst_status too_large(const struct pst_partition_planned *planned,
                            const struct pst_stage_question *q, uint64_t bytes,
                            struct pst_error *err)
{
    const struct pst_graph_view *graph = &planned->problem->graph->view;
    char needed[32], capacity[32];

    return pst_fail(err, PST_ERR_INFEASIBLE, "plan.infeasible",
                    "stage %u (\"%s\" to \"%s\") with %u micro-batches of %u samples in flight "
                    "takes %s, more than the %s that are left on its device",
                    q->stage, pst_graph_node(graph, q->nodes[0])->name,
                    pst_graph_node(graph, q->nodes[q->n_nodes - 1])->name, q->in_flight,
                    q->microbatch_size, pst_format_bytes(needed, bytes),
                    pst_format_bytes(capacity, q->capacity_bytes));
}

pst_status pst_partition_planned_decide(struct pst_partition_planned *planned,
                                        const struct pst_stage_question *question,
                                        struct pst_stage_value *ret_value, uint64_t *ret_kept_bytes,
                                        struct pst_error *err)
{
    const struct pst_optimizer optimizer = optimizer_of(planned);
    struct pst_replay_list replays = {.n = 0};
    struct pst_stage_price promised;
    struct pst_stage_value value;
    struct pst_stage_view view;
    pst_status st;

    view_of(planned, question, &view);
    st = pst_optimizer_price(&optimizer, &view, &promised, err);
    if (st == PST_OK && !promised.fits) {
        st = too_large(planned, question, promised.peak_bytes, err);
    }
    if (st == PST_OK && planned->memopt != NULL) {
        st = run_plan(planned, &view, &replays, err);
    }
    if (st == PST_OK) {
        value = (struct pst_stage_value){.size = sizeof value};
        st = pst_evaluate_list(&planned->evaluator, &view, &replays, &value) ? PST_OK
                                                                             : pst_fail_nomem(err);
    }
    if (st == PST_OK && !value.legal) {
        st = pst_planner_illegal(err, planned->memopt, "stage %u: %s", view.stage, value.rule);
    }
    if (st == PST_OK && value.peak_bytes > question->capacity_bytes) {
        st = pst_planner_illegal(err, planned->memopt,
                                 "stage %u: price() promised that it fits, and it takes %llu bytes",
                                 view.stage, (unsigned long long)value.peak_bytes);
    }
    if (st == PST_OK) {
        *ret_value = value;
        *ret_kept_bytes = kept_bytes(&view, &replays);
    }
    pst_replay_list_finish(&replays);
    return st;
}
