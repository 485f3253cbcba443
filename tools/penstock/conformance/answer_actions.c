/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory actions: each allowed where it stands, the whole legal by the evaluator, and the plan as
 * good as its price.
 */
#include <string.h>

#include "conformance/answer.h"
#include "conformance/verdict.h"
#include "planner/eval_replays.h"
#include "host/plugin_host.h"

struct actions {
    struct pst_answer *answer;
    const struct pst_subject *subject;
    const struct pst_stage_view *view;
    uint8_t *at; /* [n_nodes] */
    struct pst_replay_list replays;
};

static const char *const names[] = {"keep", "recompute", "offload", "peer"};

static pst_status take_action(struct pst_action_out *out, uint32_t position, uint32_t action)
{
    struct actions *actions = out->impl;
    struct pst_answer *answer = actions->answer;
    const struct pst_stage_node *node;

    pst_answer_record(answer, (uint64_t)position << 32 | action);
    if (position >= actions->view->n_nodes) {
        pst_answer_break(answer, "set() was given position %u of a view of %u nodes", position,
                         actions->view->n_nodes);
        return PST_ERR_BUG;
    }
    node = pst_stage_node_at(actions->view, position);
    if (action > PST_ACTION_PEER) {
        pst_answer_break(answer, "set() was given the unknown action %u", action);
    } else if (node->action != PST_ACTION_KEEP && action != node->action) {
        pst_answer_break(answer, "set(%u, %s) changes what an earlier optimizer decided: %s",
                         position, names[action], names[node->action]);
    } else if (action == PST_ACTION_RECOMPUTE && (node->flags & PST_NODE_NO_RECOMPUTE) != 0) {
        pst_answer_break(answer, "set(%u, recompute) on a node that must not be replayed",
                         position);
    } else if (action == PST_ACTION_OFFLOAD && (node->flags & PST_NODE_NO_OFFLOAD) != 0) {
        pst_answer_break(answer, "set(%u, offload) on a node that must not leave the device",
                         position);
    } else if (action == PST_ACTION_OFFLOAD && actions->view->link_bytes_per_s == 0) {
        pst_answer_break(answer, "set(%u, offload) where there is no link to the host", position);
    } else if (action != node->action && action != PST_ACTION_KEEP &&
               !pst_subject_provides(actions->subject, names[action])) {
        pst_answer_break(answer, "set(%u, %s), but the plugin does not provide %s", position,
                         names[action], names[action]);
    }
    if (answer->broken[0] != '\0') {
        return PST_ERR_BUG;
    }
    actions->at[position] = (uint8_t)action;
    return PST_OK;
}

static pst_status take_replays(struct pst_action_out *out, const struct pst_replay *replays,
                               uint32_t n_replays)
{
    struct actions *actions = out->impl;
    struct pst_answer *answer = actions->answer;
    const char *fault =
        pst_replay_list_take(&actions->replays, replays, n_replays, actions->view->n_nodes);

    if (fault != NULL) {
        pst_answer_break(answer, "sequence() was given replays that break a rule: %s", fault);
    } else if (!pst_subject_provides(actions->subject, "nested")) {
        pst_answer_break(answer, "sequence(), but the plugin does not provide nested");
    }
    for (uint32_t i = 0; fault == NULL && i < n_replays; i++) {
        pst_answer_record(answer, (uint64_t)replays[i].before << 32 | replays[i].first);
        pst_answer_record(answer, replays[i].last);
    }
    return answer->broken[0] != '\0' ? PST_ERR_BUG : PST_OK;
}

/* Where replays are listed, what was set besides belongs to the stage. */
static bool evaluate_plan(struct pst_rig *rig, const struct actions *actions,
                          struct pst_stage_value *ret_value)
{
    struct pst_stage_view view = *actions->view;
    size_t size = view.node_size;
    char *nodes;

    if (actions->replays.n == 0) {
        pst_evaluate(&rig->evaluator, &view, actions->at, ret_value);
        return true;
    }
    nodes = pst_arena_alloc(&rig->arena, view.n_nodes * size, _Alignof(struct pst_stage_node));
    memcpy(nodes, view.nodes, view.n_nodes * size);
    for (uint32_t i = 0; i < view.n_nodes; i++) {
        ((struct pst_stage_node *)(void *)(nodes + i * size))->action = actions->at[i];
    }
    view.nodes = nodes;
    pst_evaluate_replays(&view, actions->replays.at, actions->replays.n, ret_value, NULL);
    return true;
}

static void judge_plan(struct pst_rig *rig, const struct actions *actions,
                       const struct pst_stage_price *price)
{
    struct pst_stage_value value = {.size = sizeof value};
    struct pst_answer *answer = actions->answer;

    if (!evaluate_plan(rig, actions, &value)) {
        pst_verdict_skip("the checker ran out of memory");
    }
    if (!value.legal) {
        pst_answer_break(answer, "plan() is illegal at position %u: %s", value.node, value.rule);
    } else if (price->fits && value.peak_bytes > actions->view->capacity_bytes) {
        pst_answer_break(answer,
                         "price() says that the stage fits, but its plan takes %llu bytes of %llu",
                         (unsigned long long)value.peak_bytes,
                         (unsigned long long)actions->view->capacity_bytes);
    } else if (price->fits && value.period_ns > price->period_ns) {
        pst_answer_break(answer, "price() promises a period of %llu ns, the plan takes %llu",
                         (unsigned long long)price->period_ns, (unsigned long long)value.period_ns);
    }
}

static bool ask_price(struct pst_rig *rig, const struct pst_memopt *memopt,
                      const struct pst_stage_view *view, const struct pst_region *region,
                      struct pst_answer *answer, struct pst_stage_price *ret_price)
{
    char fault[160];
    pst_status st;

    *ret_price = (struct pst_stage_price){.size = sizeof *ret_price};
    pst_ask_begin(answer, "price()");
    st = memopt->price(rig->self, view, ret_price);
    if (!pst_ask_end(answer, rig, region, st)) {
        return false;
    }
    pst_answer_record(answer, ret_price->fits);
    pst_answer_record(answer, ret_price->period_ns);
    pst_answer_record(answer, ret_price->peak_bytes);
    if (ret_price->size != sizeof *ret_price) {
        pst_answer_break(answer, "price() changed the size of ret_price");
    } else if (!pst_price_holds(view, ret_price, fault, sizeof fault)) {
        pst_answer_break(answer, "%s", fault);
    }
    return answer->broken[0] == '\0';
}

static bool ask_bound(struct pst_rig *rig, const struct pst_memopt *memopt,
                      const struct pst_stage_view *view, const struct pst_region *region,
                      struct pst_answer *answer, uint64_t *ret_bound)
{
    pst_status st;

    *ret_bound = 0;
    if (!PST_CAN(memopt, bound)) {
        return true;
    }
    pst_ask_begin(answer, "bound()");
    st = memopt->bound(rig->self, view, ret_bound);
    if (!pst_ask_end(answer, rig, region, st)) {
        return false;
    }
    pst_answer_record(answer, *ret_bound);
    return true;
}

void pst_ask_memopt(struct pst_rig *rig, const struct pst_case *question, struct pst_region *region,
                    struct pst_answer *answer)
{
    const struct pst_memopt *memopt = pst_subject_interface(rig->subject);
    struct actions actions = {.answer = answer, .subject = rig->subject};
    struct pst_action_out out = {
        .size = sizeof out, .impl = &actions, .set = take_action, .sequence = take_replays};
    struct pst_stage_price price;
    struct pst_stage_view *view;
    uint64_t bound;
    pst_status st;
    uint32_t i;

    if (!pst_stage_problem_make(question, question->seed % 3 == 0, region, &view)) {
        pst_verdict_skip("the checker ran out of memory");
    }
    pst_region_seal(region);
    if (!ask_bound(rig, memopt, view, region, answer, &bound) ||
        !ask_price(rig, memopt, view, region, answer, &price)) {
        return;
    }
    if (price.fits && bound > price.period_ns) {
        pst_answer_break(answer, "bound() says %llu ns, more than price()'s %llu",
                         (unsigned long long)bound, (unsigned long long)price.period_ns);
        return;
    }
    actions.view = view;
    actions.at = pst_arena_alloc(&rig->arena, question->n_nodes, 1);
    for (i = 0; i < question->n_nodes; i++) {
        actions.at[i] = (uint8_t)pst_stage_node_at(view, i)->action;
    }
    pst_ask_begin(answer, "plan()");
    st = memopt->plan(rig->self, view, &out);
    if (pst_ask_end(answer, rig, region, st)) {
        judge_plan(rig, &actions, &price);
    } else if (st == PST_ERR_INFEASIBLE && price.fits) {
        pst_answer_break(answer, "price() says that the stage fits, but plan() refuses it: %s",
                         rig->said);
    }
    pst_replay_list_finish(&actions.replays);
}
