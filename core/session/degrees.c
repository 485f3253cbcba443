/* SPDX-License-Identifier: Apache-2.0 */
#include "session/degrees.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/memory.h"
#include "base/util.h"
#include "graph/split.h"
#include "session/groups.h"

bool pst_degrees_are_chosen(const struct pst_job *job)
{
    return job->parallel.n_tensors > 1 &&
           pst_job_provides(job, job->partitioner, "partitioner", "ways");
}

void pst_degrees_warn(const struct pst_job *job)
{
    char text[256];

    if (job->parallel.n_tensors > 1 && !pst_degrees_are_chosen(job)) {
        snprintf(text, sizeof text,
                 "parallel.tensor lists several degrees, but the partitioner chooses none: all "
                 "stages get the first, %u",
                 job->parallel.tensors[0]);
        pst_log_once(PST_LOG_WARN, "plan", text);
    }
}

/* --- the stages of the answer ------------------------------------------------------------------*/

/*
 * The stage of each operator of the session's graph: of those that serve an operator of the whole
 * graph, that operator's. A conversion may have readers in several stages; the first of these has
 * it, so that no stage reads a later one.
 */
static uint32_t *place_operators(const struct pst_graph *graph, const struct pst_cuts *cuts)
{
    const uint32_t n_whole = pst_graph_model(graph)->n_ops;
    uint32_t *of_whole = pst_alloc(n_whole, sizeof *of_whole);
    uint32_t *stage_of = pst_alloc(graph->n_ops, sizeof *stage_of);

    for (uint32_t s = 0; s < cuts->n_stages; s++) {
        for (uint32_t i = 0; i < cuts->stages[s].n_nodes; i++) {
            of_whole[cuts->stages[s].nodes[i]] = s;
        }
    }
    for (uint32_t o = 0; o < graph->n_ops; o++) {
        stage_of[o] = of_whole[graph->op_of != NULL ? graph->op_of[o] : o];
    }
    for (uint32_t o = graph->n_ops; o-- > 0;) { /* readers before their operands */
        const struct pst_op *op = &graph->ops[o];

        for (uint32_t i = 0; i < op->n_in; i++) {
            const uint32_t maker = graph->tensors[op->in[i]].producer;

            if (maker != PST_NONE && stage_of[maker] > stage_of[o]) {
                stage_of[maker] = stage_of[o];
            }
        }
    }
    free(of_whole);
    return stage_of;
}

/* The group of each rank, as pst_plan_expand gives groups their ranks again. */
static uint32_t number_groups(const struct pst_cuts *found, uint32_t n_ranks,
                              uint32_t *ret_group_of)
{
    for (uint32_t s = 0; s < found->n_stages; s++) {
        const struct pst_stage_decl *stage = &found->stages[s];

        for (uint32_t i = 0; i < stage->n_ranks; i += stage->tensor) {
            ret_group_of[stage->ranks[i]] = stage->tensor;
        }
    }
    return pst_plan_number_groups(n_ranks, ret_group_of);
}

static void settle_stage(const struct pst_graph *graph, const uint32_t *stage_of,
                         const uint32_t *group_of, uint32_t number, struct pst_arena *arena,
                         struct pst_stage_decl *io_stage)
{
    uint32_t *nodes = pst_arena_array(arena, graph->n_ops, sizeof *nodes);
    const uint32_t n = io_stage->n_ranks / io_stage->tensor;
    uint32_t *groups = pst_arena_array(arena, n, sizeof *groups);

    for (uint32_t r = 0; r < n; r++) {
        groups[r] = group_of[io_stage->ranks[r * io_stage->tensor]];
    }
    io_stage->n_nodes = 0;
    for (uint32_t o = 0; o < graph->n_ops; o++) {
        if (stage_of[o] == number) {
            nodes[io_stage->n_nodes++] = o;
        }
    }
    io_stage->nodes = nodes;
    io_stage->ranks = groups;
    io_stage->n_ranks = n;
    io_stage->tensor = 1;
}

/* Stages of the whole graph on ranks become stages of the session's graph on groups. */
static pst_status settle_stages(struct pst_session *session, const struct pst_cuts *found,
                                struct pst_arena *arena, struct pst_cuts *ret_cuts,
                                struct pst_error *err)
{
    const struct pst_graph *graph = session->graph;
    const uint32_t n_ranks = (uint32_t)session->cluster.devices;
    struct pst_stage_decl *stages =
        pst_arena_copy(arena, found->stages, found->n_stages, sizeof *stages);
    uint32_t *stage_of = place_operators(graph, found);
    uint32_t *group_of = pst_alloc(n_ranks, sizeof *group_of);
    pst_status status;

    session->n_groups = number_groups(found, n_ranks, group_of);
    status = pst_config_place(session->job->config, "parallel", "tensor",
                              pst_groups_check_nodes(session, err), err);
    for (uint32_t s = 0; s < found->n_stages && status == PST_OK; s++) {
        settle_stage(graph, stage_of, group_of, s, arena, &stages[s]);
    }
    free(group_of);
    free(stage_of);
    *ret_cuts = *found;
    ret_cuts->stages = stages;
    ret_cuts->n_ranks = n_ranks;
    return status;
}

/* The degree of each operator of the whole graph: that of its stage; without stages, `tensor`. */
static uint16_t *list_degrees(const struct pst_graph *whole, const struct pst_cuts *found,
                              uint32_t tensor)
{
    uint16_t *degree_of = pst_alloc(whole->n_ops, sizeof *degree_of);

    for (uint32_t v = 0; v < whole->n_ops; v++) {
        degree_of[v] = (uint16_t)tensor;
    }
    for (uint32_t s = 0; found != NULL && s < found->n_stages; s++) {
        const struct pst_stage_decl *stage = &found->stages[s];

        for (uint32_t i = 0; i < stage->n_nodes; i++) {
            degree_of[stage->nodes[i]] = (uint16_t)stage->tensor;
        }
    }
    return degree_of;
}

/* --- graphs of parts ---------------------------------------------------------------------------*/

struct part {
    struct part *next;
    struct pst_session session; /* shares all but the graph and its costs */
    struct pst_groups groups;
};

struct divider {
    const struct pst_session *whole;
    struct part *parts;
};

/* The part has the graph of the whole model, until it is divided. */
static pst_status add_part(struct divider *divider, struct part **ret_part, struct pst_error *err)
{
    struct part *part = pst_alloc(1, sizeof *part);
    struct pst_session *session = &part->session;
    pst_status status;

    *ret_part = part;
    part->next = divider->parts;
    *session = *divider->whole;
    session->graph = NULL;
    session->cost.workspace_context = session;
    divider->parts = part;
    status = pst_session_graph(session->job, &session->graph, err);
    PST_TRY(status, pst_rules_make(session->job, session->graph, &session->rules, err));
    return status;
}

/* The devices of the cluster may be those of other degrees, too. */
static pst_status divide_evenly(struct pst_session *part, uint32_t tensor, struct pst_error *err)
{
    uint16_t *degree_of = list_degrees(part->graph, NULL, tensor);
    pst_status status;

    part->n_groups = (uint32_t)part->cluster.devices / tensor;
    if (part->n_groups == 0) {
        pst_fail(err, PST_ERR_CONFIG, "config.value",
                 "parallel.tensor = %u needs as many devices, and there are %lld", tensor,
                 (long long)part->cluster.devices);
        status = pst_config_place(part->job->config, "parallel", "tensor", PST_ERR_CONFIG, err);
    } else {
        status = pst_session_divide(part, degree_of, err);
    }
    free(degree_of);
    return status;
}

/* Searches as though all stages had the degree. */
static pst_status divide_search(void *divider, uint32_t tensor, struct pst_search *ret_search,
                                struct pst_error *err)
{
    struct part *part;
    pst_status status = add_part(divider, &part, err);

    PST_TRY(status, divide_evenly(&part->session, tensor, err));
    if (status == PST_OK) {
        pst_groups_describe(&part->session, 0, &part->groups);
        ret_search->graph = part->session.graph;
        ret_search->cluster = part->groups.cost.cluster;
        ret_search->cost = &part->groups.cost;
    }
    pst_doing("searching", "a plan");
    return status;
}

static void finish_divider(struct divider *divider)
{
    while (divider->parts != NULL) {
        struct part *next = divider->parts->next;

        pst_graph_destroy(divider->parts->session.graph);
        free(divider->parts);
        divider->parts = next;
    }
}

/* --- the choice --------------------------------------------------------------------------------*/

struct choice {
    struct pst_job job; /* of the searches, which share its time limit */
    bool (*cancelled)(void);
    struct pst_planned planned; /* the plan with the shortest step so far, of ranks */
    uint16_t *degree_of;        /* in it, of the whole graph's operators; NULL: there is none */
    uint64_t step_ns;
};

static pst_status ask_partitioner(struct pst_session *session, const struct choice *choice,
                                  struct pst_arena *arena, struct pst_cuts *ret_found,
                                  struct pst_error *err)
{
    struct pst_planned none = {.plan = NULL};
    struct divider divider = {.whole = session};
    struct pst_search search;
    struct pst_groups ranks;
    pst_status status;

    pst_groups_describe(session, 0, &ranks);
    pst_search_begin(&choice->job, session->graph, ranks.cost.cluster, &ranks.cost, NULL,
                     choice->cancelled, &search);
    search.ways = true;
    search.divide = divide_search;
    search.divider = &divider;
    status = pst_search_cut(&search, arena, ret_found, err);
    pst_search_end(&search, &none);
    finish_divider(&divider);
    return status;
}

static pst_status time_plan(const struct pst_session *part, const struct pst_plan *plan,
                            uint64_t *ret_ns, struct pst_error *err)
{
    struct pst_cost_model cost = part->cost;

    cost.side_by_side = pst_groups_cores(part);
    return pst_predict_step(plan, part->graph, &cost, false, ret_ns, err);
}

/* Plans with the stages found; without, as though the job listed one degree. */
static pst_status try_degrees(struct pst_session *session, const struct pst_cuts *found,
                              uint32_t tensor, struct choice *io_choice, struct pst_error *err)
{
    struct divider divider = {.whole = session};
    struct pst_job job = io_choice->job;
    struct pst_arena arena = {0};
    struct pst_planned planned = {.plan = NULL};
    uint16_t *degree_of = list_degrees(session->graph, found, tensor);
    struct pst_cuts cuts;
    struct part *part;
    uint64_t ns = UINT64_MAX;
    pst_status status = add_part(&divider, &part, err);

    if (found != NULL) {
        PST_TRY(status, pst_session_divide(&part->session, degree_of, err));
        PST_TRY(status, settle_stages(&part->session, found, &arena, &cuts, err));
        job.cuts = &cuts;
        job.advice = PST_ADVICE_NONE; /* for other micro-batches there may be other stages */
    } else {
        PST_TRY(status, divide_evenly(&part->session, tensor, err));
    }
    PST_TRY(status, pst_groups_search(&part->session, &job, io_choice->cancelled, &planned, err));
    PST_TRY(status, time_plan(&part->session, planned.plan, &ns, err));
    if (status == PST_OK && ns < io_choice->step_ns) {
        const struct pst_planned worse = io_choice->planned;
        uint16_t *other = io_choice->degree_of;

        io_choice->step_ns = ns;
        io_choice->planned = planned;
        io_choice->degree_of = degree_of;
        planned = worse;
        degree_of = other;
    }
    pst_planned_finish(&planned);
    pst_arena_finish(&arena);
    finish_divider(&divider);
    free(degree_of);
    return status;
}

static bool is_refusal(pst_status status)
{
    return status == PST_ERR_INFEASIBLE || status == PST_ERR_CONFIG ||
           status == PST_ERR_UNSUPPORTED;
}

/* Unless the degrees are the user's (ways=given). A number that the job may not give alone is none
   of these. */
static pst_status try_numbers(struct pst_session *session, struct choice *io_choice,
                              struct pst_error *err)
{
    const struct pst_job *job = session->job;
    const struct pst_job_parallel *parallel = &job->parallel;
    const bool chooses = pst_job_provides(job, job->partitioner, "partitioner", "ways=chosen");
    pst_status status = PST_OK;

    for (uint32_t i = 0; chooses && i < parallel->n_tensors && status == PST_OK; i++) {
        if (session->cluster.devices % parallel->tensors[i] == 0) {
            struct pst_error why = {.status = PST_OK};

            status = try_degrees(session, NULL, parallel->tensors[i], io_choice, &why);
            if (is_refusal(status)) {
                status = PST_OK;
            } else if (status != PST_OK && err != NULL) {
                *err = why;
            }
        }
    }
    return status;
}

static pst_status divide_session(struct pst_session *session, const uint16_t *degree_of,
                                 struct pst_error *err)
{
    const struct pst_job *job = session->job;
    pst_status status = pst_session_divide(session, degree_of, err);

    if (status == PST_OK && session->graph->parts == 1 &&
        (job->parallel.sequence || job->parallel.ways != PST_WAYS_AUTO || job->n_ways > 0)) {
        pst_log(PST_LOG_WARN, "plan",
                "the partitioner chose parallel.tensor = 1, which divides nothing: sequence, ways "
                "and [[parallel.way]] do not count");
    }
    return status;
}

pst_status pst_degrees_search(struct pst_session *session, bool (*cancelled)(void),
                              struct pst_planned *ret_planned, struct pst_error *err)
{
    const uint64_t begin_ns = pst_now_ns();
    struct choice choice = {.job = *session->job, .cancelled = cancelled, .step_ns = UINT64_MAX};
    struct pst_arena arena = {0};
    struct pst_cuts found;
    pst_status status, numbers = PST_OK;

    choice.job.begin_ns = begin_ns;
    choice.job.advice =
        choice.job.advice == PST_ADVICE_FASTER ? PST_ADVICE_FASTER : PST_ADVICE_NONE;
    status = ask_partitioner(session, &choice, &arena, &found, err);
    if (status == PST_OK || status == PST_ERR_INFEASIBLE) {
        PST_TRY(status, try_degrees(session, &found, 0, &choice, err));
        numbers =
            status == PST_OK || is_refusal(status) ? try_numbers(session, &choice, err) : PST_OK;
    }
    status = numbers != PST_OK ? numbers : choice.degree_of != NULL ? PST_OK : status;
    PST_TRY(status, divide_session(session, choice.degree_of, err));
    if (status == PST_OK) {
        *ret_planned = choice.planned;
        ret_planned->search_seconds = (double)(pst_now_ns() - begin_ns) / 1e9;
    } else {
        pst_planned_finish(&choice.planned);
    }
    free(choice.degree_of);
    pst_arena_finish(&arena);
    return status;
}

/* --- the degrees of a plan ---------------------------------------------------------------------*/

static bool is_listed(const struct pst_job_parallel *parallel, uint32_t tensor)
{
    uint32_t i = 0;

    while (i < parallel->n_tensors && parallel->tensors[i] != tensor) {
        i++;
    }
    return i < parallel->n_tensors;
}

static pst_status check_listed(const struct pst_session *session, const char *name,
                               const uint16_t *degree_of, struct pst_error *err)
{
    const struct pst_graph *whole = session->graph;

    for (uint32_t v = 0; v < whole->n_ops; v++) {
        if (!is_listed(&session->job->parallel, degree_of[v])) {
            return pst_fail_at(err, PST_ERR_CONFIG, "config.value", name, 0, 0,
                               "the plan has %s on %u devices that share it, parallel.tensor lists "
                               "[%s]; plan again",
                               whole->ops[v].name, degree_of[v], session->job->parallel.tensor);
        }
    }
    return PST_OK;
}

pst_status pst_degrees_adopt(struct pst_session *session, const char *name, const char *text,
                             size_t length, struct pst_error *err)
{
    uint16_t *degree_of;
    pst_status status;

    if (!session->chooses) {
        return PST_OK;
    }
    degree_of = pst_alloc(session->graph->n_ops, sizeof *degree_of);
    status = pst_plan_read_degrees(name, text, length, session->graph, degree_of, err);
    PST_TRY(status, check_listed(session, name, degree_of, err));
    if (status == PST_OK) {
        status = divide_session(session, degree_of, err);
        if (status == PST_ERR_CONFIG && err != NULL) { /* the degrees are the plan's */
            snprintf(err->file, sizeof err->file, "%s", name);
            err->line = err->column = 0;
        }
    }
    free(degree_of);
    return status;
}
