/* SPDX-License-Identifier: Apache-2.0
 *
 * The list of memory optimizers: each takes the decisions of those before it as fixed; price and
 * fit are those of the last. An empty list keeps everything.
 */
#include "planner/state.h"

#include <string.h>

#include "host/caps.h"
#include "plan/sequence.h"
#include "planner/optimizer.h"

static struct pst_optimizer optimizer_of(struct pst_planner *planner, uint32_t i)
{
    const struct pst_strategies *all = &planner->strategies;

    return (struct pst_optimizer){.instance = i < all->n_memopt ? all->memopt[i] : NULL,
                                  .evaluator = &planner->evaluator,
                                  .pending = &planner->pending};
}

/* Runs plan() of all but the last; their decisions become those of the view. */
static pst_status decide_earlier(struct pst_planner *planner, const struct pst_stage_view *view,
                                 struct pst_stage_node *nodes, struct pst_error *err)
{
    pst_status status = PST_OK;

    for (uint32_t i = 0; status == PST_OK && i + 1 < planner->strategies.n_memopt; i++) {
        const struct pst_optimizer optimizer = optimizer_of(planner, i);

        status = pst_optimizer_decide(&optimizer, planner->view, view, nodes, NULL, err);
    }
    return status;
}

/* The last of them; it keeps everything where there are none. */
static struct pst_optimizer last_optimizer(struct pst_planner *planner)
{
    uint32_t n = planner->strategies.n_memopt;

    return optimizer_of(planner, n == 0 ? 0 : n - 1);
}

/* Remembers a refusal of which its own figures do not give the reason. */
static void note_price(struct pst_planner *planner, const struct pst_stage_view *view,
                       const struct pst_stage_price *price)
{
    if (!price->fits && price->peak_bytes <= view->capacity_bytes &&
        price->peak_bytes != UINT64_MAX && planner->faults.price.memopt == NULL) {
        planner->faults.price = (struct pst_price_fault){
            last_optimizer(planner).instance, view->stage, price->peak_bytes, view->capacity_bytes};
    }
}

void pst_planner_explain_price(const struct pst_planner *planner, struct pst_error *err)
{
    const struct pst_price_fault *fault = &planner->faults.price;
    char takes[32], capacity[32];

    if (fault->memopt != NULL) {
        pst_error_detail(
            err,
            "memopt \"%s\": price() states that stage %u does not fit, and also that it "
            "needs %s of %s\n",
            fault->memopt->plugin->id, fault->stage, pst_format_bytes(takes, fault->peak_bytes),
            pst_format_bytes(capacity, fault->capacity_bytes));
    }
}

/* Price of a view whose earlier optimizers have decided, by the last one. Most stages that are
   thought of in a model of equal layers are like another one. */
static pst_status price_view(struct pst_planner *planner, const struct pst_stage_view *view,
                             struct pst_stage_price *ret_price, struct pst_error *err)
{
    const struct pst_optimizer last = last_optimizer(planner);
    struct pst_memo_key key;
    struct pst_memo_entry *entry;
    pst_status status;

    if (last.instance == NULL || !pst_caps_has(last.instance->plugin->provides, "alike")) {
        status = pst_optimizer_price(&last, view, ret_price, err);
        if (status == PST_OK) {
            note_price(planner, view, ret_price);
        }
        return status;
    }
    key = pst_memo_key_view(view);
    entry = pst_memo_find(&planner->memos.alike, key);
    if (!entry->used) {
        status = pst_optimizer_price(&last, view, &entry->answer.price, err);
        if (status != PST_OK) {
            return status;
        }
        pst_memo_keep(&planner->memos.alike, entry, key);
        note_price(planner, view, &entry->answer.price);
    }
    *ret_price = entry->answer.price;
    return PST_OK;
}

pst_status pst_planner_price(struct pst_planner *planner, const struct pst_stage_question *question,
                             struct pst_stage_price *ret_price, struct pst_error *err)
{
    struct pst_stage_node *nodes;
    struct pst_stage_view view;
    pst_status status = planner->answers->view(planner, question, &nodes, &view, err);

    PST_TRY(status, decide_earlier(planner, &view, nodes, err));
    if (status == PST_ERR_INFEASIBLE) {
        *ret_price = (struct pst_stage_price){.size = sizeof *ret_price};
        return PST_OK;
    }
    return status == PST_OK ? price_view(planner, &view, ret_price, err) : status;
}

struct pst_stage_question pst_planner_question(const struct pst_plan *plan, uint32_t s)
{
    const struct pst_plan_stage *stage = &plan->stages[s];

    return (struct pst_stage_question){.size = sizeof(struct pst_stage_question),
                                       .nodes = stage->nodes,
                                       .n_nodes = stage->n_nodes,
                                       .stage = s,
                                       .n_stages = plan->n_stages,
                                       .microbatch_size = stage->microbatch_size,
                                       .n_ranks = stage->n_ranks,
                                       .ranks = stage->ranks,
                                       .in_flight = stage->in_flight,
                                       .weight_versions = stage->weight_versions};
}

pst_status pst_planner_least(struct pst_planner *planner, const struct pst_plan *plan,
                             uint64_t *ret_bytes, struct pst_error *err)
{
    pst_status status = PST_OK;

    for (uint32_t s = 0; status == PST_OK && s < plan->n_stages; s++) {
        const struct pst_stage_question question = pst_planner_question(plan, s);
        struct pst_stage_price price = {.size = sizeof price};

        status = pst_planner_price(planner, &question, &price, err); /* nothing fits into nothing */
        ret_bytes[s] = status == PST_OK ? price.peak_bytes : 0;
        status = status == PST_ERR_UNSUPPORTED ? PST_OK : status;
    }
    return status;
}

/* Listed replays into the plan, and the actions that follow from them. */
static void keep_replays(const struct pst_replay_list *list, const struct pst_graph *graph,
                         struct pst_plan *plan, uint32_t s, uint8_t *actions)
{
    struct pst_plan_stage *stage = &plan->stages[s];
    struct pst_replay *replays = pst_arena_array(&plan->arena, list->n, sizeof *replays);

    stage->n_replays = list->n;
    stage->replays = replays;
    if (list->n > 0) {
        memcpy(replays, list->at, list->n * sizeof *replays);
        stage->n_replays = pst_sequence_prune(stage, graph, replays);
    }
    if (stage->n_replays > 0) {
        pst_sequence_actions(stage, graph, actions);
    }
}

/* A capacity of the least that the last optimizer can do with. */
static pst_status least_of_view(struct pst_planner *planner, struct pst_stage_view *view,
                                struct pst_error *err)
{
    struct pst_stage_price price = {.size = sizeof price};
    pst_status status;

    view->capacity_bytes = 0;
    status = price_view(planner, view, &price, err);
    view->capacity_bytes = price.peak_bytes;
    return status;
}

pst_status pst_planner_settle(struct pst_planner *planner,
                              const struct pst_stage_question *question,
                              struct pst_stage_view *ret_view, struct pst_stage_value *ret_value,
                              struct pst_error *err)
{
    const struct pst_optimizer last = last_optimizer(planner);
    struct pst_stage_price promised = {.size = sizeof promised};
    struct pst_stage_node *nodes;
    pst_status status;

    *ret_value = (struct pst_stage_value){.size = sizeof *ret_value};
    pst_replay_list_finish(&planner->replays);
    status = planner->answers->view(planner, question, &nodes, ret_view, err);
    PST_TRY(status, decide_earlier(planner, ret_view, nodes, err));
    if (status == PST_OK && planner->attempt.least) {
        status = least_of_view(planner, ret_view, err);
    }
    PST_TRY(status, price_view(planner, ret_view, &promised, err));
    if (status == PST_OK && planner->answers->refuse != NULL && !promised.fits) {
        status = planner->answers->refuse(planner, question, promised.peak_bytes, err);
        pst_planner_explain_price(planner, err);
    }
    return status == PST_OK ? pst_optimizer_settle(&last, planner->view, ret_view, nodes, &promised,
                                                   &planner->replays, ret_value, err)
                            : status;
}

/* Writes the actions of a stage into the plan. `left`: bytes on its device that are kept for no
   later stage; the bytes of this stage are subtracted. */
static pst_status plan_stage(struct pst_planner *planner, struct pst_plan *plan, uint32_t s,
                             uint64_t *left, struct pst_error *err)
{
    struct pst_stage_question question = pst_planner_question(plan, s);
    struct pst_stage_value value;
    struct pst_stage_view view;
    uint8_t *actions;
    pst_status status;

    question.capacity_bytes = *left;
    status = pst_planner_settle(planner, &question, &view, &value, err);
    if (status != PST_OK) {
        return status;
    }
    actions = pst_arena_array(&plan->arena, view.n_nodes, 1);
    for (uint32_t i = 0; i < view.n_nodes; i++) {
        actions[i] = (uint8_t)pst_stage_node_at(&view, i)->action;
    }
    plan->stages[s].actions = actions;
    keep_replays(&planner->replays, planner->in.graph, plan, s, actions);
    plan->stages[s].estimated_bytes = value.peak_bytes;
    if (*left != UINT64_MAX) {
        *left = value.peak_bytes < *left ? *left - value.peak_bytes : 0;
    }
    return PST_OK;
}

pst_status pst_planner_actions(struct pst_planner *planner, struct pst_plan *plan,
                               struct pst_error *err)
{
    struct pst_arena arena = {0};
    uint64_t *left = pst_arena_array(&arena, planner->in.n_ranks, sizeof *left);
    uint64_t *share = pst_arena_array(&arena, plan->n_stages, sizeof *share);
    pst_status status = PST_OK;

    for (uint32_t s = 0; s < plan->n_stages; s++) { /* equal for all stages of a device */
        const struct pst_plan_stage *stage = &plan->stages[s];

        left[stage->ranks[0]] = pst_planner_capacity(planner, stage->ranks, stage->n_ranks);
    }
    status = pst_planner_divide(planner, plan, share, err);
    for (uint32_t s = 0; s < plan->n_stages; s++) { /* what is not kept for others is the first's */
        uint64_t *of = &left[pst_plan_lowest(&plan->stages[s])];

        *of -= share[s] < *of ? share[s] : *of;
    }
    for (uint32_t s = 0; status == PST_OK && s < plan->n_stages; s++) {
        uint64_t *of = &left[pst_plan_lowest(&plan->stages[s])];

        *of += *of != UINT64_MAX ? share[s] : 0;
        status = plan_stage(planner, plan, s, of, err);
    }
    pst_arena_finish(&arena);
    return status;
}
