/* SPDX-License-Identifier: Apache-2.0
 *
 * The run of a planning job: partition, memory actions, order of passes, lowering, programs, check.
 * Whether a device has room is known only when its program is laid out; if one has not, all is done
 * again, and every stage is charged what its layout took beyond the estimate.
 */
#include "plugin/planner.h"

#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "plugin/advise.h"
#include "plugin/state.h"

#define MAX_ATTEMPTS       8
#define MARGIN             100 /* part of the memory that a stage which fails again must spare */
#define ON_NON_FINITE_SKIP 1   /* train.on_non_finite */

static uint32_t slots_of(uint32_t optimizer)
{
    return optimizer == 0 ? 0 : optimizer == 1 ? 1 : 2; /* sgd, momentum, adam and adamw */
}

static pst_status init(struct pst_planner *planner, const struct pst_search *search,
                       struct pst_error *err)
{
    const struct pst_cluster *cluster = search->cluster;
    const struct pst_graph *graph = search->graph;
    const struct pst_job *job = search->job;

    memset(planner, 0, sizeof *planner);
    planner->job = job;
    planner->graph = search->graph;
    planner->cluster = cluster;
    planner->cost = search->cost;
    planner->cancelled = search->cancelled;
    planner->clock = search->clock;
    planner->deadline_ns = search->deadline_ns;
    planner->n_ranks = (uint32_t)cluster->devices;
    planner->batch = (uint32_t)job->train.batch;
    planner->microbatch = (uint32_t)job->train.microbatch;
    planner->n_microbatches = planner->batch / planner->microbatch;
    planner->optimizer_slots = slots_of(job->train.optimizer);
    planner->capacity_bytes = cluster->memory == 0 ? UINT64_MAX : cluster->memory;
    planner->counted = pst_arena_array(&planner->arena, graph->n_ops, sizeof *planner->counted);
    planner->estimated = pst_arena_array(&planner->arena, graph->n_ops, sizeof *planner->estimated);
    planner->bias = pst_arena_array(&planner->arena, graph->n_ops, sizeof *planner->bias);
    return planner->counted != NULL && planner->estimated != NULL && planner->bias != NULL
               ? PST_OK
               : pst_fail_nomem(err);
}

static void finish(struct pst_planner *planner)
{
    uint32_t i;

    pst_instance_destroy(planner->partitioner);
    pst_instance_destroy(planner->scheduler);
    for (i = 0; i < planner->n_memopt; i++) {
        pst_instance_destroy(planner->memopt[i]);
    }
    pst_questions_finish(planner);
    pst_evaluator_finish(&planner->evaluator);
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

static pst_status build_programs(struct pst_planner *planner, struct pst_planned *planned,
                                 struct pst_error *err)
{
    struct pst_plan *plan = planned->plan;
    uint32_t r;
    pst_status st;

    planned->programs = calloc(plan->n_devices + 1, sizeof(struct pst_program *));
    if (planned->programs == NULL) {
        return pst_fail_nomem(err);
    }
    st = pst_programs_create(plan, planner->graph, planner->cost, planned->programs, err);
    for (r = 0; st == PST_OK && r < plan->n_devices; r++) {
        plan->devices[r].peak_bytes = planned->programs[r]->peak_bytes;
        plan->devices[r].arena_bytes = planned->programs[r]->arena_bytes;
        plan->devices[r].host_bytes = planned->programs[r]->host_bytes;
    }
    return st;
}

/* An illegal plan is blamed on the scheduler: stages and actions were checked as they came. */
static pst_status blame_scheduler(const struct pst_planner *planner, pst_status st,
                                  struct pst_error *err)
{
    if (st != PST_OK && err != NULL && strcmp(err->kind, "plan.illegal") == 0) {
        pst_error_prefix(err, "scheduler \"%s\" made an illegal plan",
                         planner->scheduler->plugin->id);
        err->exit_code = 3;
    }
    return st;
}

static const char *named(struct pst_arena *arena, const struct pst_instance *instance)
{
    return pst_arena_printf(arena, "%s %s", instance->plugin->id, instance->plugin->version);
}

static pst_status sign(const struct pst_planner *planner, struct pst_plan *plan,
                       struct pst_error *err)
{
    char *json = pst_config_to_json(planner->job->config);
    const char *memopt = "";
    uint32_t i;

    plan->config_json = json == NULL ? NULL : pst_arena_strdup(&plan->arena, json);
    free(json);
    plan->graph_digest = planner->graph->digest;
    plan->partitioner = named(&plan->arena, planner->partitioner);
    plan->scheduler = named(&plan->arena, planner->scheduler);
    for (i = 0; memopt != NULL && i < planner->n_memopt; i++) {
        const char *name = named(&plan->arena, planner->memopt[i]);

        memopt = name == NULL
                     ? NULL
                     : pst_arena_printf(&plan->arena, "%s%s%s", memopt, i > 0 ? ", " : "", name);
    }
    plan->memopt = memopt;
    return plan->config_json != NULL && plan->partitioner != NULL && plan->scheduler != NULL &&
                   plan->memopt != NULL
               ? PST_OK
               : pst_fail_nomem(err);
}

bool pst_planner_barrier(const struct pst_job *job)
{
    return job->train.clip > 0 || job->train.on_non_finite == ON_NON_FINITE_SKIP;
}

static pst_status lower(const struct pst_planner *planner, struct pst_plan *plan,
                        const struct pst_orders *orders, struct pst_error *err)
{
    const struct pst_pass *const *passes[PST_PARTS];
    const uint32_t *n_passes[PST_PARTS];

    for (uint32_t part = 0; part < PST_PARTS; part++) {
        passes[part] = (const struct pst_pass *const *)orders->passes[part];
        n_passes[part] = orders->n_passes[part];
    }
    if (plan->asynchronous) {
        return pst_plan_lower_parts(plan, planner->graph, planner->cost, passes, n_passes, err);
    }
    return pst_plan_lower(plan, planner->graph, planner->cost, passes[PST_BODY], n_passes[PST_BODY],
                          true, err);
}

pst_status pst_planner_empty(const struct pst_planner *planner, struct pst_plan **ret_plan,
                             struct pst_error *err)
{
    bool asynchronous = planner->topology.version_rule == PST_VERSION_DELAYED;
    struct pst_plan *plan = NULL;
    pst_status st = pst_plan_create(planner->graph, planner->batch, planner->n_ranks, &plan, err);

    if (st == PST_OK) {
        plan->optimizer_slots = planner->optimizer_slots;
        plan->capacity_bytes =
            planner->cluster->memory == 0 ? UINT64_MAX : planner->cluster->memory;
        plan->version_rule = planner->topology.version_rule;
        plan->asynchronous = asynchronous;
        plan->drain_every = asynchronous ? (uint32_t)planner->job->train.drain_every : 0;
        plan->barrier = pst_planner_barrier(planner->job);
        plan->spread_sends = !asynchronous && !planner->tight;
        *ret_plan = plan;
    }
    return st;
}

pst_status pst_planner_complete(struct pst_planner *planner, struct pst_plan *plan,
                                struct pst_error *err)
{
    struct pst_orders orders = {.arena = {NULL, 0, 0}};
    pst_status st = pst_planner_chosen(planner, plan, err);

    if (st == PST_OK) {
        st = pst_planner_hold(planner, plan, err);
    }
    if (st == PST_OK) {
        st = pst_planner_actions(planner, plan, err);
    }
    if (st == PST_OK) {
        st = pst_planner_order(planner, plan, &orders, err);
    }
    if (st == PST_OK) {
        st = blame_scheduler(planner, lower(planner, plan, &orders, err), err);
    }
    pst_orders_finish(&orders);
    return st;
}

static pst_status make_plan(struct pst_planner *planner, struct pst_planned *planned,
                            struct pst_error *err)
{
    pst_status st = pst_planner_empty(planner, &planned->plan, err);

    pst_questions_finish(planner); /* answers hold for one attempt */
    if (st == PST_OK) {
        st = pst_planner_partition(planner, planned->plan, err);
    }
    if (st == PST_OK) {
        st = pst_planner_complete(planner, planned->plan, err);
    }
    if (st == PST_OK) {
        st = build_programs(planner, planned, err);
    }
    return st == PST_OK ? sign(planner, planned->plan, err) : st;
}

static pst_status check(const struct pst_planner *planner, const struct pst_planned *planned,
                        struct pst_error *err)
{
    const struct pst_check_limits limits = {.channel_capacity = 0, .ordered = false};
    struct pst_check_report *report = malloc(sizeof *report);
    pst_status st;

    if (report == NULL) {
        return pst_fail_nomem(err);
    }
    st = pst_plan_check(planned->plan, planner->graph, &limits,
                        (const struct pst_program *const *)planned->programs, report, err);
    free(report);
    return blame_scheduler(planner, st, err);
}

/* Of the ranks of a stage the one that takes most. */
static uint64_t arena_of(const struct pst_plan *plan, uint32_t stage)
{
    const struct pst_plan_stage *s = &plan->stages[stage];
    uint64_t most = 0;

    for (uint32_t r = 0; r < s->n_ranks; r++) {
        uint64_t bytes = plan->devices[s->ranks[r]].arena_bytes;

        most = bytes > most ? bytes : most;
    }
    return most;
}

/* What the next attempt must know: how many micro-batches stages held in fact, and what each device
   took beyond the estimates, shared by its stages: plans that differ in cuts and actions are not
   wrong by the same bytes, so what has failed twice gets some room beside. */
static void learn(struct pst_planner *planner, const struct pst_planned *planned, uint32_t attempt,
                  uint64_t limit)
{
    const struct pst_plan *plan = planned->plan;
    uint32_t s, t;

    for (s = 0; s < plan->n_stages; s++) {
        uint32_t rank = plan->stages[s].ranks[0], n = 0;
        int64_t excess = (int64_t)arena_of(plan, s);

        for (t = 0; t < plan->n_stages; t++) {
            if (plan->stages[t].ranks[0] == rank) {
                excess -= (int64_t)planner->estimated[t];
                n++;
            }
        }
        if (excess > 0 || attempt == 0) {   /* later attempts become more careful, never less */
            planner->bias[s] += excess / n; /* estimates held the bias so far */
        }
        if (attempt > 0 && arena_of(plan, s) > limit) {
            planner->bias[s] += (int64_t)(limit / MARGIN);
        }
        if (plan->stages[s].in_flight > planner->counted[s]) {
            planner->counted[s] = plan->stages[s].in_flight;
        }
    }
    planner->capacity_bytes = plan->capacity_bytes;
}

/*
 * Nothing fits by the model that strategies are charged by, which may be a little dearer than the
 * layout turns out. One attempt with an eighth more shows that, or at least what takes the space.
 */
static bool relax(struct pst_planner *planner, pst_status st, uint32_t attempt)
{
    uint64_t more = planner->capacity_bytes / 8;

    if (st != PST_ERR_INFEASIBLE || attempt > 0 || planner->capacity_bytes > UINT64_MAX - more) {
        return false;
    }
    planner->capacity_bytes += more;
    return true;
}

/* Attempts until one fits; ret_best: that one, or the one that needs least. */
static pst_status find_plan(struct pst_planner *planner, struct pst_planned *ret_best,
                            struct pst_error *err)
{
    uint64_t limit = planner->capacity_bytes, last_need = 0;
    uint32_t attempt;
    pst_status st = PST_OK;

    for (attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
        struct pst_planned planned = {.plan = NULL};
        struct pst_error why = {.status = PST_OK};
        uint64_t need;

        st = make_plan(planner, &planned, &why);
        if (st != PST_OK) {
            pst_planned_finish(&planned);
            if (attempt == 0 || st != PST_ERR_INFEASIBLE) {
                *err = why;
            }
            if (relax(planner, st, attempt)) {
                continue;
            }
            break;
        }
        need = pst_planned_need(&planned);
        if (need > limit && planned.plan->spread_sends) {
            planner->tight = true;
            pst_planned_finish(&planned);
            attempt--; /* the same once more, which teaches nothing */
            continue;
        }
        if (need > limit) {
            learn(planner, &planned, attempt, limit);
        }
        if (ret_best->plan == NULL || need < pst_planned_need(ret_best)) {
            pst_planned_finish(ret_best);
            *ret_best = planned;
        } else {
            pst_planned_finish(&planned);
        }
        if (need <= limit || need == last_need) {
            break; /* it fits; or the strategies do not heed memory */
        }
        last_need = need;
    }
    /* With less memory than there is nothing may be possible: then the best so far counts. */
    return st == PST_ERR_INFEASIBLE && ret_best->plan != NULL ? PST_OK : st;
}

/* A search that the time limit ended is the plugin's fault, not the user's wish. */
static pst_status explain_stop(const struct pst_planner *planner, pst_status st,
                               struct pst_error *err)
{
    bool asked = planner->cancelled != NULL && planner->cancelled();

    if (st == PST_ERR_CANCELLED && !asked && planner->deadline_ns != UINT64_MAX) {
        pst_fail(err, PST_ERR_CANCELLED, "plugin.timeout",
                 "no plan after %.1f s, the plugins.time_limit; a cheaper partitioner, or a higher "
                 "limit",
                 (double)planner->job->plugins.time_limit / 1e9);
        if (err != NULL) {
            err->exit_code = 3;
        }
    }
    return st;
}

static pst_status keep_remarks(const struct pst_planner *planner, struct pst_planned *planned,
                               struct pst_error *err)
{
    const struct pst_remarks *remarks = &planner->partitioner->remarks;

    planned->n_remarks = remarks->n;
    return pst_remarks_copy(remarks, &planned->plan->arena, &planned->remarks)
               ? PST_OK
               : pst_fail_nomem(err);
}

pst_status pst_planner_try(const struct pst_search *search, struct pst_planned *ret_planned,
                           uint64_t *ret_need, struct pst_error *err)
{
    struct pst_planner planner;
    struct pst_planned planned = {.plan = NULL};
    uint64_t limit;
    pst_status st = init(&planner, search, err);

    limit = planner.capacity_bytes;
    if (st == PST_OK) {
        st = pst_planner_load(&planner, err);
    }
    if (st == PST_OK) {
        st = pst_planner_place(&planner, err);
    }
    if (st == PST_OK) {
        st = pst_views_init(&planner, err);
    }
    if (st == PST_OK) {
        st = pst_planner_figures(&planner, err);
    }
    if (st == PST_OK) {
        st = find_plan(&planner, &planned, err);
    }
    *ret_need = st == PST_OK ? pst_planned_need(&planned) : 0;
    if (*ret_need > limit) {
        st = pst_planned_too_large(&planner, &planned, limit, err);
    }
    if (st == PST_OK) {
        st = check(&planner, &planned, err);
    }
    if (st == PST_OK) {
        st = keep_remarks(&planner, &planned, err);
    }
    st = explain_stop(&planner, st, err);
    finish(&planner);
    if (st != PST_OK) {
        pst_planned_finish(&planned);
        return st;
    }
    *ret_planned = planned;
    return PST_OK;
}

pst_status pst_planner_run(const struct pst_job *job, struct pst_graph *graph,
                           const struct pst_cluster *cluster, const struct pst_cost_model *cost,
                           bool (*cancelled)(void), struct pst_planned *ret_planned,
                           struct pst_error *err)
{
    return pst_planner_run_timed(job, graph, cluster, cost, NULL, cancelled, ret_planned, err);
}

pst_status pst_planner_run_timed(const struct pst_job *job, struct pst_graph *graph,
                                 const struct pst_cluster *cluster,
                                 const struct pst_cost_model *cost, pst_planner_clock *clock,
                                 bool (*cancelled)(void), struct pst_planned *ret_planned,
                                 struct pst_error *err)
{
    struct pst_planned planned = {.plan = NULL};
    struct pst_error unused;
    uint64_t begin_ns = pst_now_ns(), time_limit = job->plugins.time_limit, found = 0;
    const struct pst_search search = {
        .job = job,
        .graph = graph,
        .cluster = cluster,
        .cost = cost,
        .cancelled = cancelled,
        .clock = clock,
        .deadline_ns = time_limit == 0 || time_limit > UINT64_MAX - begin_ns
                           ? UINT64_MAX
                           : begin_ns + time_limit,
    };
    pst_status st;

    err = err == NULL ? &unused : err;
    st = pst_planner_try(&search, &planned, &found, err);
    if (st == PST_ERR_INFEASIBLE) {
        st = pst_planner_advise(&search, found, &planned, err);
    }
    if (st == PST_OK) {
        planned.search_seconds = (double)(pst_now_ns() - begin_ns) / 1e9;
        *ret_planned = planned;
    }
    return st;
}
