/* SPDX-License-Identifier: Apache-2.0 */
#include "planner/optimizer.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "host/call.h"
#include "host/caps.h"
#include "planner/state.h"

static struct pst_stage_value keep_all(const struct pst_optimizer *o,
                                       const struct pst_stage_view *view)
{
    struct pst_stage_value value = {.size = sizeof value};

    pst_evaluate(o->evaluator, view, NULL, &value);
    return value;
}

pst_status pst_optimizer_price(const struct pst_optimizer *o, const struct pst_stage_view *view,
                               struct pst_stage_price *ret_price, struct pst_error *err)
{
    struct pst_stage_price price = {.size = sizeof price};
    pst_status status = PST_OK;

    if (o->instance == NULL) {
        const struct pst_stage_value value = keep_all(o, view);

        price.fits = value.peak_bytes <= view->capacity_bytes;
        price.period_ns = value.period_ns;
        price.peak_bytes = value.peak_bytes;
    } else {
        status = pst_call_price(o->instance, view, &price);
        status = pst_instance_blame(o->instance, o->pending, status, "price", err);
        PST_TRY(status, pst_instance_judge_price(o->instance, view, &price, err));
    }
    if (status == PST_OK) {
        *ret_price = price;
    }
    return status;
}

/* It may keep what the host presets, too. */
static uint64_t least_period(const struct pst_optimizer *o, const struct pst_stage_view *view)
{
    uint8_t *actions = pst_alloc((size_t)view->n_nodes + 1, 1);
    struct pst_stage_value value = {.size = sizeof value};

    for (uint32_t v = 0; v < view->n_nodes; v++) {
        const struct pst_stage_node *node = pst_stage_node_at(view, v);

        actions[v] = pst_stage_node_decided(node) ? (uint8_t)node->action : PST_ACTION_KEEP;
    }
    pst_evaluate(o->evaluator, view, actions, &value);
    free(actions);
    return value.period_ns;
}

pst_status pst_optimizer_bound(const struct pst_optimizer *o, const struct pst_stage_view *view,
                               uint64_t *ret_period_ns, struct pst_error *err)
{
    const struct pst_memopt *f =
        o->instance == NULL ? NULL : o->instance->plugin->get_interface(PST_MEMOPT);

    if (f != NULL && PST_CAN(f, bound)) {
        pst_status status = pst_call_bound(o->instance, view, ret_period_ns);

        return status == PST_OK ? status : pst_instance_fail(o->instance, status, "bound", err);
    }
    *ret_period_ns = least_period(o, view);
    return PST_OK;
}

/* An answer as it comes in, and the first rule that it breaks. */
struct collection {
    struct pst_action_out out;
    const struct pst_optimizer *optimizer;
    const struct pst_stage_view *view;
    uint8_t *actions;
    bool *chosen; /* set by this optimizer */
    struct pst_replay_list *replays;
    uint32_t set; /* a bit for each kind of action */
    bool listed;  /* replays */
    const char *fault;
    uint32_t position; /* of the fault; PST_NONE: of replays */
};

static const char *fault_of(const struct collection *c, uint32_t position, uint32_t action)
{
    const struct pst_stage_node *node;
    bool alone = c->optimizer->alone;

    if (position >= c->view->n_nodes) {
        return alone ? "it decided about a node that does not exist" : "there is no such node";
    }
    node = pst_stage_node_at(c->view, position);
    if (action > (alone ? PST_ACTION_OFFLOAD : PST_ACTION_PEER)) {
        return alone ? "it set an action that one stage cannot have" : "there is no such action";
    }
    if (pst_stage_node_decided(node) && action != node->action) {
        return "an earlier memory optimizer decided about it";
    }
    if (action == PST_ACTION_RECOMPUTE && (node->flags & PST_NODE_NO_RECOMPUTE) != 0) {
        return "it must not be replayed";
    }
    if (action == PST_ACTION_OFFLOAD && (node->flags & PST_NODE_NO_OFFLOAD) != 0) {
        return "it must not leave the device";
    }
    if (action == PST_ACTION_OFFLOAD && !alone && pst_caps_executor("offload") &&
        c->view->link_bytes_per_s == 0) {
        return "there is no link to the host";
    }
    return NULL;
}

static pst_status set_action(struct pst_action_out *out, uint32_t position, uint32_t action)
{
    struct collection *c = out->impl;

    if (c->fault == NULL) {
        c->fault = fault_of(c, position, action);
        c->position = position;
    }
    if (c->fault != NULL) {
        return PST_ERR_BUG; /* one violation is enough */
    }
    c->actions[position] = (uint8_t)action;
    c->chosen[position] = true;
    c->set |= 1u << action;
    return PST_OK;
}

static pst_status set_replays(struct pst_action_out *out, const struct pst_replay *replays,
                              uint32_t n_replays)
{
    struct collection *c = out->impl;

    if (c->fault == NULL) {
        c->listed = true;
        c->position = PST_NONE;
        c->fault = c->replays == NULL
                       ? "only the last memory optimizer may list them"
                       : pst_replay_list_take(c->replays, replays, n_replays, c->view->n_nodes);
    }
    return c->fault == NULL ? PST_OK : PST_ERR_BUG;
}

static const char *name_of(const struct pst_graph_view *graph, const struct pst_stage_view *view,
                           uint32_t position)
{
    return position < view->n_nodes
               ? pst_graph_node(graph, pst_stage_node_at(view, position)->node)->name
               : "?";
}

static pst_status refuse(const struct collection *c, const struct pst_graph_view *graph,
                         struct pst_error *err)
{
    const struct pst_instance *memopt = c->optimizer->instance;

    return c->position == PST_NONE
               ? pst_planner_illegal(err, memopt, "stage %u, its replays: %s", c->view->stage,
                                     c->fault)
               : pst_planner_illegal(err, memopt, "stage %u, position %u (\"%s\"): %s",
                                     c->view->stage, c->position,
                                     name_of(graph, c->view, c->position), c->fault);
}

/* Do the optimizer and the executor know what it decided? */
static pst_status check_words(const struct collection *c, struct pst_error *err)
{
    static const char *const words[] = {NULL, "recompute", "offload", "peer"};
    const struct pst_plugin *plugin = c->optimizer->instance->plugin;
    pst_status status = PST_OK;

    for (uint32_t action = PST_ACTION_KEEP + 1; status == PST_OK && action <= PST_ACTION_PEER;
         action++) {
        if ((c->set >> action & 1) != 0) {
            status = pst_caps_require(plugin, words[action], words[action], err);
        }
    }
    return status == PST_OK && c->listed
               ? pst_caps_require(plugin, "nested", "replays within replays", err)
               : status;
}

/* A list says of all nodes what becomes of them, so presets end there. */
static void take_action(const struct collection *c, struct pst_stage_node *node, uint32_t v)
{
    const bool preset = (node->flags & PST_NODE_PRESET) != 0 && !c->chosen[v];

    node->action = preset && c->listed ? PST_ACTION_KEEP : c->actions[v];
    if (!preset || c->listed) {
        node->flags &= ~(uint32_t)PST_NODE_PRESET;
    }
}

pst_status pst_optimizer_decide(const struct pst_optimizer *o, const struct pst_graph_view *graph,
                                const struct pst_stage_view *view, struct pst_stage_node *nodes,
                                struct pst_replay_list *replays, struct pst_error *err)
{
    struct collection c = {.optimizer = o, .view = view, .replays = replays};
    pst_status status;

    c.actions = pst_alloc(view->n_nodes, 1);
    c.chosen = pst_alloc(view->n_nodes, sizeof *c.chosen);
    for (uint32_t v = 0; v < view->n_nodes; v++) {
        c.actions[v] = (uint8_t)nodes[v].action;
    }
    c.out = (struct pst_action_out){
        .size = sizeof c.out, .impl = &c, .set = set_action, .sequence = set_replays};
    status = pst_call_plan(o->instance, view, &c.out);
    if (c.fault != NULL) {
        memset(o->pending, 0, sizeof *o->pending);
        status = refuse(&c, graph, err);
    } else {
        status = pst_instance_blame(o->instance, o->pending, status, "plan", err);
        status = status == PST_OK && !o->alone ? check_words(&c, err) : status;
    }
    for (uint32_t v = 0; status == PST_OK && v < view->n_nodes; v++) {
        take_action(&c, &nodes[v], v);
    }
    free(c.chosen);
    free(c.actions);
    return status;
}

pst_status pst_optimizer_settle(const struct pst_optimizer *o, const struct pst_graph_view *graph,
                                const struct pst_stage_view *view, struct pst_stage_node *nodes,
                                const struct pst_stage_price *promised,
                                struct pst_replay_list *replays, struct pst_stage_value *ret_value,
                                struct pst_error *err)
{
    pst_status status =
        o->instance == NULL ? PST_OK : pst_optimizer_decide(o, graph, view, nodes, replays, err);

    if (status != PST_OK) {
        return status;
    }
    pst_evaluate_list(o->evaluator, view, replays, ret_value);
    return o->instance == NULL ? PST_OK
                               : pst_optimizer_verify(o->instance->plugin->id, graph, view,
                                                      promised, ret_value, err);
}

pst_status pst_optimizer_verify(const char *id, const struct pst_graph_view *graph,
                                const struct pst_stage_view *view,
                                const struct pst_stage_price *promised,
                                const struct pst_stage_value *value, struct pst_error *err)
{
    if (!value->legal) {
        return pst_plan_illegal(err, "memopt", id, "stage %u, node \"%s\": %s", view->stage,
                                name_of(graph, view, value->node), value->rule);
    }
    if (promised->fits &&
        (value->peak_bytes > promised->peak_bytes || value->period_ns > promised->period_ns)) {
        return pst_fail(err, PST_ERR_BUG, "plugin.contract",
                        "memopt \"%s\" broke its contract: for stage %u price() promised %llu ns "
                        "and %llu bytes, its plan takes %llu ns and %llu bytes",
                        id, view->stage, (unsigned long long)promised->period_ns,
                        (unsigned long long)promised->peak_bytes,
                        (unsigned long long)value->period_ns,
                        (unsigned long long)value->peak_bytes);
    }
    return PST_OK;
}
