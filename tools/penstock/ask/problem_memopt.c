/* SPDX-License-Identifier: Apache-2.0 */
#include "ask/problem_memopt.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ask/problem_state.h"
#include "base/memory.h"
#include "base/saturate.h"
#include "base/util.h"
#include "planner/optimizer.h"
#include "planner/state.h"

#define MOST_BYTES (1ull << 62) /* sums stay exact below */

/* --- the question ------------------------------------------------------------------------------*/

/* The whole graph as one stage. */
static void state_stage(const struct pst_problem *problem, struct pst_memopt_result *result)
{
    uint32_t n = problem->graph->n_nodes;
    uint32_t *nodes = pst_alloc(n, sizeof *nodes);

    for (uint32_t v = 0; v < n; v++) {
        nodes[v] = v;
    }
    pst_costed_stage_init(&result->stage, problem, &result->arena);
    pst_costed_stage_build(&result->stage, nodes, n, problem->stage_samples, 1, &result->view);
    result->view.in_flight = problem->in_flight;
    result->view.static_bytes = pst_sat_up(problem->static_bytes);
    result->view.input_bytes = pst_sat_up(problem->input_bytes);
    result->view.capacity_bytes =
        problem->memory_bytes < 1.8e19 ? (uint64_t)floor(problem->memory_bytes) : UINT64_MAX;
    result->actions = pst_arena_array(&result->arena, n, 1);
    result->value.size = sizeof result->value;
    free(nodes);
}

/* --- the answer --------------------------------------------------------------------------------*/

static pst_status ask_plan(const struct pst_optimizer *memopt, struct pst_memopt_result *answer,
                           struct pst_error *err)
{
    struct pst_stage_node *nodes = answer->stage.nodes;
    pst_status status = pst_optimizer_decide(memopt, &answer->stage.problem->graph->view,
                                             &answer->view, nodes, &answer->replays, err);

    for (uint32_t v = 0; v < answer->view.n_nodes; v++) {
        answer->actions[v] = (uint8_t)nodes[v].action;
    }
    return status == PST_ERR_INFEASIBLE
               ? pst_planner_illegal(err, memopt->instance,
                                     "price() said that the stage fits, plan() not")
               : status;
}

static pst_status ask_instance(struct pst_planner *planner, struct pst_instance *instance,
                               struct pst_memopt_result *answer, struct pst_error *err)
{
    const struct pst_optimizer memopt = {
        .instance = instance, .pending = &planner->pending, .alone = true};
    uint64_t begin_ns = pst_now_ns();
    pst_status status;

    snprintf(answer->id, sizeof answer->id, "%s", instance->plugin->id);
    snprintf(answer->version, sizeof answer->version, "%s", instance->plugin->version);
    status = pst_optimizer_price(&memopt, &answer->view, &answer->price, err);
    if (status == PST_OK && answer->price.fits) {
        status = ask_plan(&memopt, answer, err);
    }
    answer->search_seconds = (double)(pst_now_ns() - begin_ns) / 1e9;
    return status;
}

static pst_status ask_memopt(const void *job_, bool (*cancelled)(void), void *ret_answer,
                             struct pst_error *err)
{
    const struct pst_problem_job *job = job_;
    const struct pst_plugin *plugin = NULL;
    struct pst_instance *memopt = NULL;
    struct pst_problem_planner planner;
    pst_status status;

    pst_host_log_begin();
    pst_problem_planner_init(&planner, job->problem, cancelled);
    status = pst_plugin_find("memopt", job->id, job->path, NULL, &plugin, err);
    PST_TRY(status, pst_problem_create(&planner.planner, plugin, job->problem->options, "options",
                                       &memopt, err));
    if (status == PST_OK) {
        state_stage(job->problem, ret_answer);
        status = ask_instance(&planner.planner, memopt, ret_answer, err);
    }
    pst_instance_destroy(memopt);
    pst_planner_finish(&planner.planner);
    pst_host_log_end();
    return status;
}

static void finish_answer(void *answer)
{
    pst_memopt_result_finish(answer);
}

void pst_memopt_result_finish(struct pst_memopt_result *result)
{
    pst_replay_list_finish(&result->replays);
    pst_arena_finish(&result->arena);
    memset(result, 0, sizeof *result);
}

/* One action a node where the stage fits, else none. Nobody's word is taken for the rules. */
static pst_status pass_answer(struct pst_wire *w, const void *job, void *answer_,
                              struct pst_error *err)
{
    struct pst_memopt_result *answer = answer_;
    struct pst_replay_list *list = &answer->replays;
    const struct pst_replay *replays;
    uint32_t n_replays = list->n, n;

    (void)err;
    if (w->reads) {
        state_stage(((const struct pst_problem_job *)job)->problem, answer);
    }
    pst_wire_name(w, answer->id, sizeof answer->id);
    pst_wire_name(w, answer->version, sizeof answer->version);
    pst_wire_amount(w, &answer->search_seconds, PST_WIRE_SECONDS);
    pst_wire_uint(w, &answer->price.fits);
    pst_wire_number(w, &answer->price.period_ns);
    pst_wire_number(w, &answer->price.peak_bytes);
    n = answer->price.fits ? answer->view.n_nodes : 0;
    pst_wire_bytes(w, answer->actions, n);
    for (uint32_t i = 0; i < n; i++) {
        w->failed |= answer->actions[i] > PST_ACTION_OFFLOAD;
    }
    pst_wire_count(w, &n_replays, sizeof *list->at);
    replays = pst_wire_array(w, list->at, n_replays, sizeof *list->at);
    if (w->reads && !w->failed) {
        w->failed = pst_replay_list_take(list, replays, n_replays, answer->view.n_nodes) != NULL;
    }
    return PST_OK;
}

const struct pst_apart_kind pst_memopt_kind = {
    .word = "pst-memo",
    .plugin = "memopt",
    .job_size = sizeof(struct pst_problem_job),
    .answer_size = sizeof(struct pst_memopt_result),
    .pass_job = pst_problem_job_pass,
    .ask = ask_memopt,
    .pass_answer = pass_answer,
    .finish = finish_answer,
};

/* --- what it is worth --------------------------------------------------------------------------*/

static pst_status refuse_answer(const struct pst_memopt_result *answer, struct pst_error *err)
{
    const struct pst_stage_view *view = &answer->view;
    uint64_t least = answer->price.peak_bytes, floor_bytes;
    char misses[32], has[32], alone[128] = "";

    floor_bytes = pst_sat_add(view->static_bytes, pst_sat_mul(view->in_flight, view->input_bytes));
    pst_format_bytes(has, view->capacity_bytes);
    if (least == UINT64_MAX) {
        pst_fail(err, PST_ERR_INFEASIBLE, "plan.infeasible",
                 "memopt \"%s\" finds no plan that fits memory_bytes, %s, and names no capacity "
                 "that would do; fewer micro-batches in flight need less",
                 answer->id, has);
    } else if (least <= view->capacity_bytes) {
        pst_fail(err, PST_ERR_INFEASIBLE, "plan.infeasible",
                 "memopt \"%s\" finds no plan that fits memory_bytes, %s", answer->id, has);
    } else {
        pst_fail(err, PST_ERR_INFEASIBLE, "plan.infeasible",
                 "memopt \"%s\" finds no plan that fits memory_bytes, %s: it misses %s", answer->id,
                 has, pst_format_bytes(misses, least - view->capacity_bytes));
    }
    if (floor_bytes > view->capacity_bytes) {
        snprintf(alone, sizeof alone,
                 "static bytes and the inputs of %u micro-batches take %s by themselves",
                 view->in_flight, pst_format_bytes(has, floor_bytes));
    }
    if (least != UINT64_MAX && least > view->capacity_bytes) {
        pst_error_enough(err, "memory_bytes", least, alone);
    } else {
        pst_error_hint(err, "%s", alone);
    }
    return PST_ERR_INFEASIBLE;
}

/* The answer's plan, by the evaluator: its replays if it listed any, else its actions. */
static pst_status evaluate(struct pst_memopt_result *result, struct pst_error *err)
{
    struct pst_evaluator evaluator = {0};

    for (uint32_t v = 0; v < result->view.n_nodes; v++) {
        result->stage.nodes[v].action = result->actions[v];
    }
    pst_evaluate_list(&evaluator, &result->view, &result->replays, &result->value);
    pst_evaluator_finish(&evaluator);
    if (result->value.legal && result->value.peak_bytes >= MOST_BYTES) {
        return pst_fail(err, PST_ERR_CONFIG, "input.limit",
                        "in_flight: %u micro-batches of this stage take 2^62 bytes or more, which "
                        "cannot be counted",
                        result->view.in_flight);
    }
    return pst_optimizer_verify(result->id, &result->stage.problem->graph->view, &result->view,
                                &result->price, &result->value, err);
}

/* Moment by moment; replays as actions of the nodes that they name. */
static void find_events(struct pst_memopt_result *result)
{
    const struct pst_replay_list *list = &result->replays;

    if (list->n == 0) {
        pst_memory_events(&result->view, result->actions, &result->arena, &result->events,
                          &result->n_events, &result->sums);
        return;
    }
    for (uint32_t i = 0; i < list->n; i++) {
        for (uint32_t v = list->at[i].first; v <= list->at[i].last; v++) {
            const struct pst_stage_node *node = pst_stage_node_at(&result->view, v);
            bool stays = (node->flags & PST_NODE_NO_RECOMPUTE) != 0;

            result->actions[v] = node->action == PST_ACTION_KEEP && !stays ? PST_ACTION_RECOMPUTE
                                                                           : result->actions[v];
        }
    }
    pst_replays_events(&result->view, list->at, list->n, &result->arena, &result->events,
                       &result->n_events, &result->sums, &result->left);
}

pst_status pst_memopt_judge(struct pst_memopt_result *answer, struct pst_error *err)
{
    pst_status status = answer->price.fits ? evaluate(answer, err) : refuse_answer(answer, err);

    if (status == PST_OK) {
        find_events(answer);
    }
    return status;
}

pst_status pst_problem_memopt(const struct pst_problem_job *job,
                              const struct pst_worker_task *limits, bool (*cancelled)(void),
                              struct pst_memopt_result *ret_result, struct pst_error *err)
{
    pst_status status = pst_apart_ask(&pst_memopt_kind, job, pst_problem_job_name(job), limits,
                                      cancelled, ret_result, err);

    if (status == PST_OK) {
        status = pst_memopt_judge(ret_result, err);
        if (status != PST_OK) {
            pst_memopt_result_finish(ret_result);
        }
    }
    return status;
}
