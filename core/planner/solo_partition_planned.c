/* SPDX-License-Identifier: Apache-2.0
 *
 * A scheduler and a memory optimizer that answer for a costed graph, where a problem says
 * cost = "planned".
 */
#include <string.h>

#include "base/util.h"
#include "planner/eval_replays.h"
#include "host/call.h"
#include "host/caps.h"
#include "planner/solo_partition_state.h"
#include "planner/state.h"
#include "planner/topology.h"

/* A name, or a file where it has a slash. */
static pst_status find(const char *kind, const char *name, const struct pst_plugin **ret_plugin,
                       struct pst_error *err)
{
    pst_status st = strchr(name, '/') != NULL ? pst_plugin_open(name, kind, NULL, ret_plugin, err)
                                              : pst_plugin_find(kind, name, NULL, ret_plugin, err);

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
        planned->memopt_if = plugins[2]->get_interface(PST_MEMOPT);
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
    pst_memo_finish(&planned->memo);
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

pst_status pst_partition_planned_held(struct pst_partition_planned *planned,
                                      const struct pst_place *place, struct pst_held *ret_held,
                                      struct pst_error *err)
{
    struct pst_place asked = *place;
    const struct pst_scheduler_use use = {.scheduler = planned->scheduler,
                                          .topology = &planned->topology,
                                          .device_of = planned->places.device_of,
                                          .n_places = planned->places.n_places};
    struct pst_memo_key key = pst_memo_key_place(place);
    struct pst_memo_entry *entry = pst_memo_find(&planned->memo, key);
    struct pst_held held;
    pst_status st = entry == NULL ? pst_fail_nomem(err) : PST_OK;

    if (st == PST_OK && !entry->used) {
        asked.size = sizeof asked;
        asked.n_devices = pst_partition_planned_devices(planned, place->n_stages);
        st = pst_scheduler_held(&use, &asked, &held, err);
        if (st == PST_OK) {
            entry->answer.held = held;
            pst_memo_keep(&planned->memo, entry, key);
        }
    }
    if (st == PST_OK) {
        ret_held->microbatches = entry->answer.held.microbatches;
        ret_held->weight_versions = entry->answer.held.weight_versions;
    }
    return st;
}

static void view_of(struct pst_partition_planned *planned, const struct pst_stage_question *q,
                    struct pst_stage_view *ret_view)
{
    pst_costed_stage_build(&planned->stage, q->nodes, q->n_nodes, q->microbatch_size / q->n_ranks,
                           q->weight_versions, ret_view);
    ret_view->stage = q->stage;
    ret_view->n_stages = q->n_stages;
    ret_view->in_flight = q->in_flight;
    ret_view->capacity_bytes = q->capacity_bytes;
}

/* Of the view as it stands. */
static pst_status evaluate(struct pst_partition_planned *planned, const struct pst_stage_view *view,
                           struct pst_stage_value *ret_value, struct pst_error *err)
{
    *ret_value = (struct pst_stage_value){.size = sizeof *ret_value};
    return pst_evaluate(&planned->evaluator, view, NULL, ret_value) ? PST_OK : pst_fail_nomem(err);
}

static pst_status price(struct pst_partition_planned *planned, const struct pst_stage_view *view,
                        struct pst_stage_price *ret_price, struct pst_error *err)
{
    struct pst_stage_price price = {.size = sizeof price};
    struct pst_stage_value value;
    pst_status st;

    if (planned->memopt == NULL) {
        st = evaluate(planned, view, &value, err);
        price.fits = st == PST_OK && value.peak_bytes <= view->capacity_bytes;
        price.period_ns = value.period_ns;
        price.peak_bytes = value.peak_bytes;
    } else {
        st = pst_call_price(planned->memopt, view, &price);
        st = st == PST_OK ? pst_instance_judge_price(planned->memopt, view, &price, err)
                          : pst_instance_fail(planned->memopt, st, "price", err);
    }
    *ret_price = price;
    return st;
}

pst_status pst_partition_planned_price(struct pst_partition_planned *planned,
                                       const struct pst_stage_question *question,
                                       struct pst_stage_price *ret_price, struct pst_error *err)
{
    struct pst_memo_key key = pst_memo_key_question(question);
    struct pst_memo_entry *entry = pst_memo_find(&planned->memo, key);
    struct pst_stage_view view;
    pst_status st = entry == NULL ? pst_fail_nomem(err) : PST_OK;

    if (st == PST_OK && !entry->used) {
        view_of(planned, question, &view);
        st = price(planned, &view, &entry->answer.price, err);
        if (st == PST_OK) {
            pst_memo_keep(&planned->memo, entry, key);
        }
    }
    if (st == PST_OK) {
        ret_price->fits = entry->answer.price.fits;
        ret_price->period_ns = entry->answer.price.period_ns;
        ret_price->peak_bytes = entry->answer.price.peak_bytes;
    }
    return st;
}

pst_status pst_partition_planned_bound(struct pst_partition_planned *planned,
                                       const struct pst_stage_question *question,
                                       uint64_t *ret_period_ns, struct pst_error *err)
{
    struct pst_stage_value value;
    struct pst_stage_view view;
    pst_status st;

    view_of(planned, question, &view);
    if (planned->memopt != NULL && PST_CAN(planned->memopt_if, bound)) {
        st = pst_call_bound(planned->memopt, &view, ret_period_ns);
        return st == PST_OK ? st : pst_instance_fail(planned->memopt, st, "bound", err);
    }
    st = evaluate(planned, &view, &value, err);
    if (st == PST_OK) {
        *ret_period_ns = value.period_ns; /* of everything kept */
    }
    return st;
}

/* --- the end of it -----------------------------------------------------------------------------*/

struct decision {
    struct pst_action_out out;
    struct pst_stage_node *nodes;
    uint32_t n_nodes;
    struct pst_replay_list *replays;
    const char *fault; /* the first */
};

static pst_status set_action(struct pst_action_out *out, uint32_t position, uint32_t action)
{
    struct decision *d = out->impl;

    if (d->fault == NULL && position >= d->n_nodes) {
        d->fault = "there is no such node";
    } else if (d->fault == NULL && action > PST_ACTION_PEER) {
        d->fault = "there is no such action";
    }
    if (d->fault != NULL) {
        return PST_ERR_BUG;
    }
    d->nodes[position].action = action;
    return PST_OK;
}

static pst_status set_replays(struct pst_action_out *out, const struct pst_replay *replays,
                              uint32_t n_replays)
{
    struct decision *d = out->impl;

    if (d->fault == NULL) {
        d->fault = pst_replay_list_take(d->replays, replays, n_replays, d->n_nodes);
    }
    return d->fault == NULL ? PST_OK : PST_ERR_BUG;
}

/* Sets the actions of the nodes that were built last, and takes replays. */
static pst_status run_plan(struct pst_partition_planned *planned, const struct pst_stage_view *view,
                           struct pst_replay_list *replays, struct pst_error *err)
{
    struct decision d = {
        .nodes = planned->stage.nodes, .n_nodes = view->n_nodes, .replays = replays};
    pst_status st;

    d.out = (struct pst_action_out){
        .size = sizeof d.out, .impl = &d, .set = set_action, .sequence = set_replays};
    st = pst_call_plan(planned->memopt, view, &d.out);
    if (d.fault != NULL) {
        return pst_planner_illegal(err, planned->memopt, "stage %u: %s", view->stage, d.fault);
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
    struct pst_replay_list replays = {.n = 0};
    struct pst_stage_price promised;
    struct pst_stage_value value;
    struct pst_stage_view view;
    pst_status st;

    view_of(planned, question, &view);
    st = price(planned, &view, &promised, err);
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
