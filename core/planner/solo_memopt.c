/* SPDX-License-Identifier: Apache-2.0 */
#include "planner/solo_memopt.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/saturate.h"
#include "base/util.h"
#include "planner/optimizer.h"
#include "planner/solo_partition_state.h"
#include "planner/state.h"

#define WORD       "pst-memo"
#define MOST_BYTES (1ull << 62) /* sums stay exact below */

/* What the plugin said; in the process apart, what comes back. */
struct answer {
    char id[64], version[32];
    double search_seconds;
    struct pst_stage_price price;
    uint32_t n;
    uint8_t *actions; /* [n] malloc'd; NULL where nothing fits */
    struct pst_replay_list replays;
};

static void finish_answer(struct answer *answer)
{
    free(answer->actions);
    pst_replay_list_finish(&answer->replays);
    memset(answer, 0, sizeof *answer);
}

/* --- the question ------------------------------------------------------------------------------*/

static uint64_t up(double number)
{
    return number >= 9e18 ? (uint64_t)9e18 : (uint64_t)ceil(number);
}

/* The whole graph as one stage. */
static pst_status state(const struct pst_problem *problem, struct pst_costed_stage *stage,
                        struct pst_stage_view *ret_view, struct pst_error *err)
{
    uint32_t n = problem->graph->n_nodes;
    uint32_t *nodes = calloc((size_t)n + 1, sizeof *nodes);
    pst_status st = nodes == NULL ? pst_fail_nomem(err) : PST_OK;

    if (st == PST_OK) {
        st = pst_costed_stage_init(stage, problem, err);
    }
    if (st == PST_OK) {
        for (uint32_t v = 0; v < n; v++) {
            nodes[v] = v;
        }
        pst_costed_stage_build(stage, nodes, n, problem->stage_samples, 1, ret_view);
        ret_view->in_flight = problem->in_flight;
        ret_view->static_bytes = up(problem->static_bytes);
        ret_view->input_bytes = up(problem->input_bytes);
        ret_view->capacity_bytes =
            problem->memory_bytes < 1.8e19 ? (uint64_t)floor(problem->memory_bytes) : UINT64_MAX;
    }
    free(nodes);
    return st;
}

/* --- the answer --------------------------------------------------------------------------------*/

static pst_status ask_plan(struct pst_instance *memopt, const struct pst_stage_view *view,
                           struct answer *answer, struct pst_error *err)
{
    static const struct pst_action_rules rules = {
        .most = PST_ACTION_OFFLOAD,
        .no_node = "it decided about a node that does not exist",
        .no_action = "it set an action that one stage cannot have"};
    const struct pst_optimizer optimizer = {.instance = memopt};
    struct pst_action_answer said;
    pst_status st;

    answer->actions = calloc((size_t)view->n_nodes + 1, 1);
    if (answer->actions == NULL) {
        return pst_fail_nomem(err);
    }
    st = pst_optimizer_plan(&optimizer, view, &rules, answer->actions, &answer->replays, &said);
    if (said.fault != NULL) {
        return pst_planner_illegal(err, memopt, "%s", said.fault);
    }
    if (st == PST_ERR_INFEASIBLE) {
        return pst_planner_illegal(err, memopt, "price() said that the stage fits, plan() not");
    }
    return st == PST_OK ? st : pst_instance_fail(memopt, st, "plan", err);
}

static pst_status ask_instance(struct pst_instance *memopt, const struct pst_stage_view *view,
                               struct answer *answer, struct pst_error *err)
{
    const struct pst_optimizer optimizer = {.instance = memopt};
    uint64_t begin_ns = pst_now_ns();
    pst_status st;

    snprintf(answer->id, sizeof answer->id, "%s", memopt->plugin->id);
    snprintf(answer->version, sizeof answer->version, "%s", memopt->plugin->version);
    answer->n = view->n_nodes;
    st = pst_optimizer_price(&optimizer, view, &answer->price, err);
    if (st == PST_OK && answer->price.fits) {
        st = ask_plan(memopt, view, answer, err);
    }
    answer->search_seconds = (double)(pst_now_ns() - begin_ns) / 1e9;
    return st;
}

static pst_status ask(const struct pst_problem_job *job, bool (*cancelled)(void),
                      struct answer *ret_answer, struct pst_error *err)
{
    struct pst_costed_stage stage = {.problem = NULL};
    struct pst_instance *memopt = NULL;
    const struct pst_plugin *plugin = NULL;
    struct answer answer = {.n = 0};
    struct pst_partition_host host;
    struct pst_host_context context;
    struct pst_stage_view view;
    pst_status st = pst_partition_host_init(&host, job->problem, cancelled, &context, err);

    if (st == PST_OK) {
        st = pst_plugin_find("memopt", job->id, job->path, &plugin, err);
    }
    if (st == PST_OK) {
        st = pst_partition_create(plugin, job->problem->options, "options", &context, &memopt, err);
    }
    if (st == PST_OK) {
        st = state(job->problem, &stage, &view, err);
    }
    if (st == PST_OK) {
        st = ask_instance(memopt, &view, &answer, err);
    }
    pst_instance_destroy(memopt);
    pst_costed_stage_finish(&stage);
    pst_partition_host_finish(&host);
    if (st != PST_OK) {
        finish_answer(&answer);
        return st;
    }
    *ret_answer = answer;
    return PST_OK;
}

/* --- what it is worth --------------------------------------------------------------------------*/

static pst_status broken(const struct answer *answer, const char *kind, const char *what,
                         struct pst_error *err)
{
    pst_fail(err, PST_ERR_BUG, kind, "memopt \"%s\" %s", answer->id, what);
    if (err != NULL) {
        err->exit_code = 3;
    }
    return PST_ERR_BUG;
}

static pst_status refuse(const struct answer *answer, const struct pst_stage_view *view,
                         struct pst_error *err)
{
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

static pst_status check(const struct answer *answer, const struct pst_memopt_result *result,
                        struct pst_error *err)
{
    const struct pst_stage_value *value = &result->value;
    const struct pst_costed *graph = result->stage.problem->graph;
    char text[256];

    if (!value->legal) {
        snprintf(text, sizeof text, "made an illegal plan: node \"%.100s\": %s",
                 value->node < result->view.n_nodes ? graph->nodes[value->node].name : "?",
                 value->rule);
        return broken(answer, "plan.illegal", text, err);
    }
    if (value->peak_bytes > answer->price.peak_bytes ||
        value->period_ns > answer->price.period_ns ||
        value->peak_bytes > result->view.capacity_bytes) {
        snprintf(text, sizeof text,
                 "broke its contract: price() promised %llu ns and %llu bytes, its plan takes %llu "
                 "ns and %llu bytes",
                 (unsigned long long)answer->price.period_ns,
                 (unsigned long long)answer->price.peak_bytes, (unsigned long long)value->period_ns,
                 (unsigned long long)value->peak_bytes);
        return broken(answer, "plugin.contract", text, err);
    }
    return PST_OK;
}

/* The answer's plan, by the evaluator: its replays if it listed any, else its actions. */
static pst_status evaluate(const struct answer *answer, struct pst_memopt_result *result,
                           struct pst_error *err)
{
    struct pst_evaluator evaluator = {0};
    const struct pst_replay_list *list = &answer->replays;
    bool ok;

    for (uint32_t v = 0; list->n > 0 && v < answer->n; v++) {
        result->stage.nodes[v].action = answer->actions[v];
    }
    ok = list->n > 0 ? pst_evaluate_replays(&result->view, list->at, list->n, &result->value, NULL)
                     : pst_evaluate(&evaluator, &result->view, answer->actions, &result->value);
    pst_evaluator_finish(&evaluator);
    if (ok && result->value.legal && result->value.peak_bytes >= MOST_BYTES) {
        return pst_fail(err, PST_ERR_CONFIG, "input.limit",
                        "in_flight: %u micro-batches of this stage take 2^62 bytes or more, which "
                        "cannot be counted",
                        result->view.in_flight);
    }
    return ok ? check(answer, result, err) : pst_fail_nomem(err);
}

/* Moment by moment; replays as actions of the nodes that they name. */
static pst_status find_events(struct answer *answer, struct pst_memopt_result *result,
                              struct pst_error *err)
{
    struct pst_replay_list *list = &answer->replays;

    memcpy(result->actions, answer->actions, answer->n);
    if (list->n == 0) {
        return pst_memory_events(&result->view, result->actions, &result->arena, &result->events,
                                 &result->n_events, &result->sums, err);
    }
    for (uint32_t i = 0; i < list->n; i++) {
        for (uint32_t v = list->at[i].first; v <= list->at[i].last; v++) {
            const struct pst_stage_node *node = pst_stage_node_at(&result->view, v);
            bool stays = (node->flags & PST_NODE_NO_RECOMPUTE) != 0;

            result->actions[v] = node->action == PST_ACTION_KEEP && !stays ? PST_ACTION_RECOMPUTE
                                                                           : result->actions[v];
        }
    }
    result->replays = *list;
    *list = (struct pst_replay_list){.n = 0};
    return pst_replays_events(&result->view, result->replays.at, result->replays.n, &result->arena,
                              &result->events, &result->n_events, &result->sums, &result->left,
                              err);
}

static pst_status judge(const struct pst_problem_job *job, struct answer *answer,
                        struct pst_memopt_result *ret_result, struct pst_error *err)
{
    struct pst_memopt_result result = {.value = {.size = sizeof result.value}};
    uint32_t n = job->problem->graph->n_nodes;
    pst_status st = state(job->problem, &result.stage, &result.view, err);

    memcpy(result.id, answer->id, sizeof result.id);
    memcpy(result.version, answer->version, sizeof result.version);
    result.search_seconds = answer->search_seconds;
    if (st == PST_OK && !answer->price.fits) {
        st = refuse(answer, &result.view, err);
    }
    if (st == PST_OK) {
        result.actions = pst_arena_array(&result.arena, (size_t)n + 1, 1);
        st = result.actions == NULL ? pst_fail_nomem(err) : PST_OK;
    }
    if (st == PST_OK) {
        st = evaluate(answer, &result, err);
    }
    if (st == PST_OK) {
        st = find_events(answer, &result, err);
    }
    if (st != PST_OK) {
        pst_memopt_result_finish(&result);
        return st;
    }
    *ret_result = result;
    return PST_OK;
}

void pst_memopt_result_finish(struct pst_memopt_result *result)
{
    pst_costed_stage_finish(&result->stage);
    pst_replay_list_finish(&result->replays);
    pst_arena_finish(&result->arena);
    memset(result, 0, sizeof *result);
}

static pst_status run_here(const struct pst_problem_job *job, bool (*cancelled)(void),
                           struct pst_memopt_result *ret_result, struct pst_error *err)
{
    struct answer answer = {.n = 0};
    pst_status st = ask(job, cancelled, &answer, err);

    if (st == PST_OK) {
        st = judge(job, &answer, ret_result, err);
    }
    finish_answer(&answer);
    return st;
}

/* --- in a process apart ------------------------------------------------------------------------*/

/* One a node where the stage fits, else none. Nobody's word is taken for the rules. */
static void pass_actions(struct pst_wire *w, struct answer *answer)
{
    size_t n = answer->price.fits ? answer->n : 0;

    if (w->reads) {
        w->failed |= n > w->left;
        answer->actions = w->failed ? NULL : calloc(n + 1, 1);
        w->failed |= answer->actions == NULL;
    }
    if (!w->failed) {
        pst_wire_bytes(w, answer->actions, n);
    }
    for (size_t i = 0; !w->failed && i < n; i++) {
        w->failed = answer->actions[i] > PST_ACTION_OFFLOAD;
    }
}

static void pass_answer(struct pst_wire *w, struct answer *answer)
{
    struct pst_replay_list *list = &answer->replays;
    const struct pst_replay *replays;
    uint32_t n = list->n;

    pst_wire_word(w, WORD);
    pst_wire_name(w, answer->id, sizeof answer->id);
    pst_wire_name(w, answer->version, sizeof answer->version);
    pst_wire_amount(w, &answer->search_seconds, PST_WIRE_SECONDS);
    pst_wire_uint(w, &answer->price.fits);
    pst_wire_number(w, &answer->price.period_ns);
    pst_wire_number(w, &answer->price.peak_bytes);
    pass_actions(w, answer);
    pst_wire_count(w, &n, sizeof *list->at);
    replays = pst_wire_array(w, list->at, n, sizeof *list->at);
    if (w->reads && !w->failed) {
        w->failed = pst_replay_list_take(list, replays, n, answer->n) != NULL;
    }
}

static pst_status put(const struct pst_problem_job *job, bool (*cancelled)(void),
                      struct pst_wire *w, struct pst_error *err)
{
    struct answer answer = {.n = 0};
    pst_status st = ask(job, cancelled, &answer, err);

    if (st == PST_OK) {
        pass_answer(w, &answer);
    }
    finish_answer(&answer);
    return st;
}

pst_status pst_memopt_solo_adopt(const struct pst_problem_job *job, const char *bytes,
                                 size_t length, struct pst_memopt_result *ret_result,
                                 struct pst_error *err)
{
    struct answer answer = {.n = job->problem->graph->n_nodes};
    struct pst_arena arena = {0};
    struct pst_wire r = pst_wire_read(bytes, length, &arena);
    pst_status st;

    pass_answer(&r, &answer);
    st = pst_wire_is_read(&r) ? judge(job, &answer, ret_result, err)
                              : pst_wire_refuse("memopt", job->id, job->path, err);
    finish_answer(&answer);
    pst_arena_finish(&arena);
    return st;
}

static pst_status run_apart(const struct pst_problem_job *job, const struct pst_solo_limits *limits,
                            struct pst_memopt_result *ret_result, struct pst_error *err)
{
    char *reply = NULL;
    size_t length = 0;
    pst_status st = pst_problem_ask_apart(WORD, job, limits, &reply, &length, err);

    if (st == PST_OK) {
        st = pst_memopt_solo_adopt(job, reply, length, ret_result, err);
    }
    free(reply);
    return st;
}

pst_status pst_memopt_solo_answer(const struct pst_problem_job *job, bool (*cancelled)(void),
                                  char **ret_bytes, size_t *ret_length, struct pst_error *err)
{
    struct pst_wire w = {.reads = false};
    pst_status st = put(job, cancelled, &w, err);

    return st == PST_OK ? pst_wire_end(&w, ret_bytes, ret_length, err) : st;
}

static pst_status serve(struct pst_wire *question, struct pst_wire *answer, struct pst_error *err)
{
    struct pst_problem_job job;
    struct pst_problem problem;
    pst_status st = pst_problem_take(question, &problem, &job, err);

    return st == PST_OK ? put(&job, pst_worker_stopped_or_late, answer, err) : st;
}

const struct pst_worker_service pst_memopt_service = {WORD, serve};

pst_status pst_memopt_solo_run(const struct pst_problem_job *job,
                               const struct pst_solo_limits *limits, bool (*cancelled)(void),
                               struct pst_memopt_result *ret_result, struct pst_error *err)
{
    return limits == NULL ? run_here(job, cancelled, ret_result, err)
                          : run_apart(job, limits, ret_result, err);
}

pst_status pst_memopt_solo_confirm(const struct pst_problem_job *job,
                                   const struct pst_solo_limits *limits, bool (*cancelled)(void),
                                   struct pst_error *err)
{
    struct pst_problem problem = *job->problem;
    const struct pst_problem_job asked = {.id = job->id, .path = job->path, .problem = &problem};
    struct pst_memopt_result result;
    struct pst_error why;
    pst_status st;

    if (err->enough_bytes == 0) {
        return err->status;
    }
    problem.memory_bytes = (double)err->enough_bytes;
    st = pst_memopt_solo_run(&asked, limits, cancelled, &result, &why);
    if (st == PST_OK) {
        pst_memopt_result_finish(&result);
    } else if (st == PST_ERR_CANCELLED) {
        *err = why;
    } else {
        pst_error_hint(err, "it names a capacity that it cannot do with");
        err->enough_bytes = 0;
    }
    return err->status;
}
