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
    pst_status st = PST_OK;

    if (o->instance == NULL) {
        const struct pst_stage_value value = keep_all(o, view);

        price.fits = value.peak_bytes <= view->capacity_bytes;
        price.period_ns = value.period_ns;
        price.peak_bytes = value.peak_bytes;
    } else {
        st = pst_call_price(o->instance, view, &price);
        st = pst_instance_blame(o->instance, o->pending, st, "price", err);
        st = st == PST_OK ? pst_instance_judge_price(o->instance, view, &price, err) : st;
    }
    if (st == PST_OK) {
        *ret_price = price;
    }
    return st;
}

pst_status pst_optimizer_bound(const struct pst_optimizer *o, const struct pst_stage_view *view,
                               uint64_t *ret_period_ns, struct pst_error *err)
{
    const struct pst_memopt *f =
        o->instance == NULL ? NULL : o->instance->plugin->get_interface(PST_MEMOPT);

    if (f != NULL && PST_CAN(f, bound)) {
        pst_status st = pst_call_bound(o->instance, view, ret_period_ns);

        return st == PST_OK ? st : pst_instance_fail(o->instance, st, "bound", err);
    }
    *ret_period_ns = keep_all(o, view).period_ns;
    return PST_OK;
}

struct collection {
    struct pst_action_out out;
    const struct pst_action_rules *rules;
    const struct pst_stage_view *view;
    uint8_t *actions;
    struct pst_replay_list *replays;
    struct pst_action_answer answer;
};

static const char *fault_of(const struct collection *c, uint32_t position, uint32_t action)
{
    const struct pst_stage_node *node;

    if (position >= c->view->n_nodes) {
        return c->rules->no_node;
    }
    node = pst_stage_node_at(c->view, position);
    if (action > c->rules->most) {
        return c->rules->no_action;
    }
    if (node->action != PST_ACTION_KEEP && action != node->action) {
        return "an earlier memory optimizer decided about it";
    }
    if (action == PST_ACTION_RECOMPUTE && (node->flags & PST_NODE_NO_RECOMPUTE) != 0) {
        return "it must not be replayed";
    }
    if (action == PST_ACTION_OFFLOAD && (node->flags & PST_NODE_NO_OFFLOAD) != 0) {
        return "it must not leave the device";
    }
    if (action == PST_ACTION_OFFLOAD && c->rules->runs && pst_caps_executor("offload") &&
        c->view->link_bytes_per_s == 0) {
        return "there is no link to the host";
    }
    return NULL;
}

static pst_status set_action(struct pst_action_out *out, uint32_t position, uint32_t action)
{
    struct collection *c = out->impl;
    const char *why = c->answer.fault == NULL ? fault_of(c, position, action) : NULL;

    if (why != NULL) {
        c->answer.fault = why;
        c->answer.position = position;
    }
    if (c->answer.fault != NULL) {
        return PST_ERR_BUG; /* one violation is enough */
    }
    c->actions[position] = (uint8_t)action;
    c->answer.set |= 1u << action;
    return PST_OK;
}

static pst_status set_replays(struct pst_action_out *out, const struct pst_replay *replays,
                              uint32_t n_replays)
{
    struct collection *c = out->impl;

    if (c->answer.fault == NULL) {
        c->answer.listed = true;
        c->answer.position = PST_NONE;
        c->answer.fault = c->replays == NULL ? "only the last memory optimizer may list them"
                                             : pst_replay_list_take(c->replays, replays, n_replays,
                                                                    c->view->n_nodes);
    }
    return c->answer.fault == NULL ? PST_OK : PST_ERR_BUG;
}

pst_status pst_optimizer_plan(const struct pst_optimizer *o, const struct pst_stage_view *view,
                              const struct pst_action_rules *rules, uint8_t *actions,
                              struct pst_replay_list *replays, struct pst_action_answer *ret_answer)
{
    struct collection c = {.rules = rules, .view = view, .actions = actions, .replays = replays};
    pst_status st;

    for (uint32_t v = 0; v < view->n_nodes; v++) {
        actions[v] = (uint8_t)pst_stage_node_at(view, v)->action;
    }
    c.out = (struct pst_action_out){
        .size = sizeof c.out, .impl = &c, .set = set_action, .sequence = set_replays};
    st = pst_call_plan(o->instance, view, &c.out);
    *ret_answer = c.answer;
    return st;
}

static const char *name_of(const struct pst_graph_view *graph, const struct pst_stage_view *view,
                           uint32_t position)
{
    return position < view->n_nodes
               ? pst_graph_node(graph, pst_stage_node_at(view, position)->node)->name
               : "?";
}

pst_status pst_optimizer_refuse(const struct pst_instance *memopt,
                                const struct pst_graph_view *graph,
                                const struct pst_stage_view *view,
                                const struct pst_action_answer *answer, struct pst_error *err)
{
    if (answer->position == PST_NONE) {
        return pst_planner_illegal(err, memopt, "stage %u, its replays: %s", view->stage,
                                   answer->fault);
    }
    return pst_planner_illegal(err, memopt, "stage %u, position %u (\"%s\"): %s", view->stage,
                               answer->position, name_of(graph, view, answer->position),
                               answer->fault);
}

/* Do the optimizer and the executor know what it decided? */
static pst_status check_words(const struct pst_instance *instance,
                              const struct pst_action_answer *answer, struct pst_error *err)
{
    static const char *const words[] = {NULL, "recompute", "offload", "peer"};
    pst_status st = PST_OK;

    for (uint32_t action = PST_ACTION_KEEP + 1; st == PST_OK && action <= PST_ACTION_PEER;
         action++) {
        if ((answer->set >> action & 1) != 0) {
            st = pst_caps_require(instance->plugin, words[action], words[action], err);
        }
    }
    return st == PST_OK && answer->listed
               ? pst_caps_require(instance->plugin, "nested", "replays within replays", err)
               : st;
}

pst_status pst_optimizer_decide(const struct pst_optimizer *o, const struct pst_graph_view *graph,
                                const struct pst_stage_view *view, struct pst_stage_node *nodes,
                                struct pst_replay_list *replays, struct pst_error *err)
{
    static const struct pst_action_rules rules = {.most = PST_ACTION_PEER,
                                                  .no_node = "there is no such node",
                                                  .no_action = "there is no such action",
                                                  .runs = true};
    uint8_t *actions = pst_alloc(view->n_nodes, 1);
    struct pst_action_answer answer;
    pst_status st = pst_optimizer_plan(o, view, &rules, actions, replays, &answer);

    if (answer.fault != NULL) {
        memset(o->pending, 0, sizeof *o->pending);
        st = pst_optimizer_refuse(o->instance, graph, view, &answer, err);
    } else {
        st = pst_instance_blame(o->instance, o->pending, st, "plan", err);
        st = st == PST_OK ? check_words(o->instance, &answer, err) : st;
    }
    for (uint32_t v = 0; st == PST_OK && v < view->n_nodes; v++) {
        nodes[v].action = actions[v];
    }
    free(actions);
    return st;
}

pst_status pst_optimizer_verify(const char *id, const struct pst_graph_view *graph,
                                const struct pst_stage_view *view,
                                const struct pst_stage_price *promised,
                                const struct pst_stage_value *value, struct pst_error *err)
{
    if (!value->legal) {
        pst_fail(err, PST_ERR_BUG, "plan.illegal",
                 "memopt \"%s\" made an illegal plan: stage %u, node \"%s\": %s", id, view->stage,
                 name_of(graph, view, value->node), value->rule);
    } else if (promised->fits && (value->peak_bytes > promised->peak_bytes ||
                                  value->period_ns > promised->period_ns)) {
        pst_fail(err, PST_ERR_BUG, "plugin.contract",
                 "memopt \"%s\" broke its contract: for stage %u price() promised %llu ns and %llu "
                 "bytes, its plan takes %llu ns and %llu bytes",
                 id, view->stage, (unsigned long long)promised->period_ns,
                 (unsigned long long)promised->peak_bytes, (unsigned long long)value->period_ns,
                 (unsigned long long)value->peak_bytes);
    } else {
        return PST_OK;
    }
    if (err != NULL) {
        err->exit_code = 3;
    }
    return PST_ERR_BUG;
}
