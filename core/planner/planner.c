/* SPDX-License-Identifier: Apache-2.0
 *
 * The run of a planning job: partition, memory actions, order of passes, lowering, programs, check.
 */
#include "planner/planner.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/util.h"
#include "planner/attempts.h"
#include "planner/state.h"
#include "plan/gathers.h"

#define PASS_WORK 2 /* a forward and a backward pass, as operators */

static void begin_run(struct pst_planner *planner, const struct pst_search *search)
{
    struct pst_graph *graph = search->graph;
    const struct pst_job_train *train = &search->job->train;

    *planner = (struct pst_planner){
        .answers = &pst_job_answers,
        .in = {.job = search->job,
               .graph = graph,
               .cluster = search->cluster,
               .cost = search->cost,
               .n_nodes = graph->n_ops,
               .n_ranks = (uint32_t)search->cluster->devices,
               .optimizer_slots = pst_job_optimizer_slots(search->job),
               .seed = (uint64_t)train->seed,
               .cancelled = search->cancelled,
               .clock = search->clock,
               .deadline_ns = search->deadline_ns,
               .search = search,
               .open = pst_planner_open,
               .tensors = search->job->parallel.tensors,
               .n_tensors = search->ways ? search->job->parallel.n_tensors : 0},
        .sizes = {.batch = pst_graph_samples(graph, (uint32_t)train->batch),
                  .microbatch = (uint32_t)train->microbatch},
        .attempt.capacity_bytes = pst_cluster_capacity(search->cluster),
    };
    planner->sizes.n_microbatches = planner->sizes.batch / planner->sizes.microbatch;
    planner->attempt.counted =
        pst_arena_array(&planner->arena, graph->n_ops, sizeof *planner->attempt.counted);
    planner->attempt.bias =
        pst_arena_array(&planner->arena, graph->n_ops, sizeof *planner->attempt.bias);
}

void pst_planner_finish(struct pst_planner *planner)
{
    const struct pst_strategies *strategies = &planner->strategies;

    while (planner->divided != NULL) {
        struct pst_divided *next = planner->divided->next;

        pst_planner_finish(&planner->divided->planner);
        free(planner->divided);
        planner->divided = next;
    }
    pst_instance_destroy(strategies->partitioner);
    pst_instance_destroy(strategies->scheduler);
    pst_instance_destroy(strategies->hasty);
    for (uint32_t i = 0; i < strategies->n_memopt; i++) {
        pst_instance_destroy(strategies->memopt[i]);
    }
    pst_memo_finish(&planner->memos.attempt);
    pst_memo_finish(&planner->memos.alike);
    pst_layouts_finish(&planner->memos.layouts);
    pst_evaluator_finish(&planner->evaluator);
    pst_region_finish(&planner->figures);
    pst_replay_list_finish(&planner->replays);
    pst_arena_finish(&planner->arena);
}

void pst_planned_finish(struct pst_planned *planned)
{
    uint32_t r;

    for (r = 0; planned->programs != NULL && r < planned->plan->n_devices; r++) {
        pst_program_destroy(planned->programs[r]);
    }
    free(planned->programs);
    pst_plan_destroy(planned->plan);
    memset(planned, 0, sizeof *planned);
}

static pst_status lower_orders(const struct pst_planner_in *in, const struct pst_orders *orders,
                               struct pst_plan *plan, struct pst_error *err)
{
    const struct pst_pass *const *passes[PST_PARTS];
    const uint32_t *n_passes[PST_PARTS];

    for (uint32_t part = 0; part < PST_PARTS; part++) {
        passes[part] = (const struct pst_pass *const *)orders->passes[part];
        n_passes[part] = orders->n_passes[part];
    }
    if (plan->asynchronous) {
        return pst_plan_lower_parts(plan, in->graph, in->cost, passes, n_passes, err);
    }
    return pst_plan_lower(plan, in->graph, in->cost, passes[PST_BODY], n_passes[PST_BODY], true,
                          err);
}

struct pst_plan *pst_planner_empty(const struct pst_planner *planner)
{
    const struct pst_planner_in *in = &planner->in;
    const struct pst_topology *topology = &planner->devices.topology;
    bool asynchronous = pst_rule_is_asynchronous(topology->version_rule);
    struct pst_plan *plan;

    pst_plan_create(in->graph, planner->sizes.batch, in->n_ranks, &plan);
    plan->optimizer_slots = in->optimizer_slots;
    plan->zero = (uint32_t)in->job->parallel.zero;
    plan->prefetch = pst_gathers_prefetch(in->job->parallel.zero, in->job->parallel.prefetch);
    plan->capacity_bytes = pst_cluster_capacity(in->cluster);
    for (uint32_t r = 0; r < plan->n_devices; r++) {
        plan->devices[r].lacks_bytes = pst_cluster_lacks(in->cluster, r);
        if (in->cluster->n_kinds > 0) {
            plan->devices[r].kind =
                pst_arena_strdup(&plan->arena, pst_cluster_kind(in->cluster, r)->name);
        }
    }
    plan->version_rule = topology->version_rule;
    plan->copies = pst_topology_copies(topology);
    plan->asynchronous = asynchronous;
    plan->drain_every = asynchronous ? (uint32_t)in->job->train.drain_every : 0;
    plan->barrier = pst_planner_barrier(in->job);
    plan->spread_sends = !asynchronous && !planner->attempt.tight;
    return plan;
}

pst_status pst_planner_complete(struct pst_planner *planner, struct pst_plan *plan,
                                struct pst_error *err)
{
    struct pst_orders orders = {.arena = {NULL, 0, 0}};
    pst_status status = pst_planner_chosen(planner, plan, err);

    for (uint32_t s = 0; s < plan->n_stages; s++) {
        planner->work += PASS_WORK * (planner->sizes.batch / plan->stages[s].microbatch_size);
    }
    PST_TRY(status, pst_planner_hold(planner, plan, err));
    PST_TRY(status, pst_planner_actions(planner, plan, err));
    PST_TRY(status, pst_planner_order(planner, plan, &orders, err));
    PST_TRY(status, pst_planner_global(planner, plan, &orders, err));
    PST_TRY(status, pst_scheduler_blame(planner->strategies.scheduler->plugin->id,
                                        lower_orders(&planner->in, &orders, plan, err), err));
    for (uint32_t s = 0; status == PST_OK && s < plan->n_stages; s++) {
        uint32_t held;

        /* a scheduler need not run as many in a row as the partitioner thought */
        pst_plan_count(plan, s, &held, &plan->stages[s].k);
    }
    pst_orders_finish(&orders);
    return status;
}

static pst_status check_plan(const struct pst_planner *planner, const struct pst_planned *planned,
                             struct pst_error *err)
{
    const struct pst_check_limits limits = {.cost = planner->in.cost};
    struct pst_check_report *report = pst_alloc(1, sizeof *report);
    pst_status status;

    status = pst_judge_check(planned->plan, planner->in.graph, &limits,
                             (const struct pst_program *const *)planned->programs, report, err);
    free(report);
    return pst_scheduler_blame(planner->strategies.scheduler->plugin->id, status, err);
}

/* A search that the time limit ended is the plugin's fault, not the user's wish. */
static pst_status explain_stop(const struct pst_planner *planner, pst_status status,
                               struct pst_error *err)
{
    bool asked = planner->in.cancelled != NULL && planner->in.cancelled();

    struct pst_blame blame;

    if (status != PST_ERR_CANCELLED || asked || planner->in.deadline_ns == UINT64_MAX) {
        return status;
    }
    pst_breadcrumb_read_late(NULL, &blame);
    return pst_blame_timeout(&blame, planner->in.job->plugins.time_limit, "plugins.time_limit",
                             pst_now_ns(), err);
}

/* Looks for a plan, in the way that the search says. */
static pst_status find_plan(struct pst_planner *planner, const struct pst_search *search,
                            struct pst_planned *ret_best, struct pst_error *err)
{
    struct pst_attempts a = {
        .planner = planner, .best = ret_best, .limit = planner->attempt.capacity_bytes};
    pst_status status;

    a.cut_bias = pst_arena_array(&planner->arena, planner->in.graph->n_ops, sizeof *a.cut_bias);
    status = search->attempts == NULL ? pst_attempts_find(&a, err)
                                      : search->attempts(&a, search->context, err);
    pst_plan_destroy(a.cuts);
    return status;
}

pst_status pst_planner_open(struct pst_planner *planner, const struct pst_search *search,
                            struct pst_error *err)
{
    pst_status status;

    begin_run(planner, search);
    status = pst_planner_load(planner, err);
    PST_TRY(status, pst_planner_place(planner, err));
    if (status == PST_OK) {
        pst_views_init(planner);
        pst_job_figures(planner);
    }
    return status;
}

pst_status pst_search_cut(const struct pst_search *search, struct pst_arena *arena,
                          struct pst_cuts *ret_cuts, struct pst_error *err)
{
    struct pst_planner planner;
    pst_status status = pst_planner_open(&planner, search, err);

    PST_TRY(status, pst_planner_cut(&planner, arena, ret_cuts, err));
    status = explain_stop(&planner, status, err);
    pst_planner_finish(&planner);
    return status;
}

pst_status pst_search_plan(const struct pst_search *search, struct pst_planned *ret_planned,
                           uint64_t *ret_need, struct pst_error *err)
{
    struct pst_planner planner;
    struct pst_planned planned = {.plan = NULL};
    uint64_t limit;
    pst_status status;

    status = pst_planner_open(&planner, search, err);
    limit = planner.attempt.capacity_bytes;
    PST_TRY(status, find_plan(&planner, search, &planned, err));
    if (status == PST_ERR_INFEASIBLE) {
        pst_planner_explain_price(&planner, err);
    }
    *ret_need = status == PST_OK ? pst_planned_need(&planned) : 0;
    if (*ret_need > limit && *ret_need > search->worth_bytes) {
        status = pst_planned_too_large(&planner, &planned, limit, err);
    } else if (*ret_need > limit) {
        planned.plan->capacity_bytes = *ret_need;
    }
    PST_TRY(status, check_plan(&planner, &planned, err));
    if (status == PST_OK && search->worth_bytes == 0) {
        pst_held_warn(planner.strategies.scheduler, &planner.faults.held);
    }
    if (status == PST_OK && search->least_bytes != NULL) {
        status = pst_planner_least(&planner, planned.plan, search->least_bytes, err);
    }
    status = explain_stop(&planner, status, err);
    if (search->work != NULL) {
        *search->work += planner.work;
    }
    pst_planner_finish(&planner);
    if (status != PST_OK) {
        pst_planned_finish(&planned);
        return status;
    }
    *ret_planned = planned;
    return PST_OK;
}

void pst_search_begin(const struct pst_job *job, struct pst_graph *graph,
                      const struct pst_cluster *cluster, const struct pst_cost_model *cost,
                      pst_planner_clock *clock, bool (*cancelled)(void),
                      struct pst_search *ret_search)
{
    uint64_t begin_ns = job->begin_ns > 0 ? job->begin_ns : pst_now_ns();
    uint64_t time_limit = job->plugins.time_limit;

    *ret_search = (struct pst_search){
        .job = job,
        .graph = graph,
        .cluster = cluster,
        .cost = cost,
        .cancelled = cancelled,
        .clock = clock,
        .begin_ns = begin_ns,
        .deadline_ns = time_limit == 0 || time_limit > UINT64_MAX - begin_ns
                           ? UINT64_MAX
                           : begin_ns + time_limit,
    };
    pst_breadcrumb_begin();
    pst_host_log_begin();
}

void pst_search_end(const struct pst_search *search, struct pst_planned *planned)
{
    pst_host_log_end();
    planned->search_seconds = (double)(pst_now_ns() - search->begin_ns) / 1e9;
}

pst_status pst_planner_run(const struct pst_job *job, struct pst_graph *graph,
                           const struct pst_cluster *cluster, const struct pst_cost_model *cost,
                           pst_planner_clock *clock, bool (*cancelled)(void),
                           struct pst_planned *ret_planned, struct pst_error *err)
{
    struct pst_planned planned = {.plan = NULL};
    struct pst_error unused;
    struct pst_search search;
    uint64_t unused_need;
    pst_status status;

    pst_search_begin(job, graph, cluster, cost, clock, cancelled, &search);
    status = pst_search_plan(&search, &planned, &unused_need, err == NULL ? &unused : err);
    pst_search_end(&search, &planned);
    if (status == PST_OK) {
        *ret_planned = planned;
    }
    return status;
}
