/* SPDX-License-Identifier: Apache-2.0 */
#include "session/degrees.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/memory.h"
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

static pst_status refuse_unlike(uint32_t stage, uint32_t of_first, uint32_t of_stage,
                                struct pst_error *err)
{
    return pst_fail(err, PST_ERR_UNSUPPORTED, "plan.mismatch",
                    "stages of unlike tensor degrees cannot run yet, and stage 0 has %u, stage %u "
                    "%u; give all stages one degree",
                    of_first, stage, of_stage);
}

/* The degree of all stages. */
static pst_status find_degree(const struct pst_cuts *cuts, uint32_t *ret_tensor,
                              struct pst_error *err)
{
    const uint32_t tensor = cuts->stages[0].tensor;

    for (uint32_t s = 1; s < cuts->n_stages; s++) {
        if (cuts->stages[s].tensor != tensor) {
            return refuse_unlike(s, tensor, cuts->stages[s].tensor, err);
        }
    }
    *ret_tensor = tensor;
    return PST_OK;
}

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

/* Ranks of a stage as groups, which are numbered like their first ranks. */
static pst_status find_groups(const struct pst_stage_decl *of_ranks, uint32_t stage,
                              struct pst_arena *arena, struct pst_stage_decl *of_groups,
                              struct pst_error *err)
{
    const uint32_t tensor = of_ranks->tensor, n = of_ranks->n_ranks / tensor;
    uint32_t *groups = pst_arena_array(arena, n, sizeof *groups);

    for (uint32_t r = 0; r < n; r++) {
        const uint32_t first = of_ranks->ranks[r * tensor];

        if (first % tensor != 0) {
            return pst_fail(err, PST_ERR_UNSUPPORTED, "plan.mismatch",
                            "the partitioner gives stage %u devices %u to %u; the first of %u that "
                            "share operators must be a multiple of their number",
                            stage, first, first + tensor - 1, tensor);
        }
        groups[r] = first / tensor;
    }
    of_groups->ranks = groups;
    of_groups->n_ranks = n;
    of_groups->tensor = 1;
    return PST_OK;
}

/* Stages of the whole graph on ranks become stages of the session's graph on groups. */
static pst_status settle_stages(const struct pst_graph *graph, const struct pst_cuts *found,
                                struct pst_arena *arena, struct pst_cuts *ret_cuts,
                                struct pst_error *err)
{
    struct pst_stage_decl *stages = pst_arena_array(arena, found->n_stages, sizeof *stages);
    uint32_t *stage_of = place_operators(graph, found);
    pst_status status = PST_OK;

    for (uint32_t s = 0; s < found->n_stages && status == PST_OK; s++) {
        uint32_t *nodes = pst_arena_array(arena, graph->n_ops, sizeof *nodes);

        stages[s] = found->stages[s];
        stages[s].n_nodes = 0;
        for (uint32_t o = 0; o < graph->n_ops; o++) {
            if (stage_of[o] == s) {
                nodes[stages[s].n_nodes++] = o;
            }
        }
        stages[s].nodes = nodes;
        status = find_groups(&found->stages[s], s, arena, &stages[s], err);
    }
    free(stage_of);
    *ret_cuts = *found;
    ret_cuts->stages = stages;
    return status;
}

/* --- graphs of parts, for the partitioner's questions ------------------------------------------*/

struct part {
    struct part *next;
    struct pst_session session; /* shares all but the graph and its costs */
    struct pst_groups groups;
};

struct divider {
    const struct pst_session *whole;
    struct part *parts;
};

/* Searches as though all stages had the degree. */
static pst_status divide_search(void *divider_, uint32_t tensor, struct pst_search *ret_search,
                                struct pst_error *err)
{
    struct divider *divider = divider_;
    struct part *part = pst_alloc(1, sizeof *part);
    pst_status status;

    part->next = divider->parts;
    part->session = *divider->whole;
    part->session.graph = NULL;
    part->session.cost.workspace_context = &part->session;
    divider->parts = part;
    status = pst_session_graph(part->session.job, &part->session.graph, err);
    PST_TRY(status, pst_session_divide(&part->session, tensor, err));
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

pst_status pst_degrees_choose(struct pst_session *session, bool (*cancelled)(void),
                              struct pst_arena *arena, struct pst_job *ret_job,
                              struct pst_error *err)
{
    struct pst_cuts *cuts = pst_arena_array(arena, 1, sizeof *cuts), found;
    struct pst_planned none = {.plan = NULL};
    struct divider divider = {.whole = session};
    struct pst_search search;
    struct pst_groups ranks;
    uint32_t tensor = 1;
    pst_status status;

    pst_groups_describe(session, 0, &ranks);
    pst_search_begin(session->job, session->graph, ranks.cost.cluster, &ranks.cost, NULL, cancelled,
                     &search);
    search.ways = true;
    search.divide = divide_search;
    search.divider = &divider;
    status = pst_search_cut(&search, arena, &found, err);
    pst_search_end(&search, &none);
    finish_divider(&divider);
    PST_TRY(status, pst_config_place(session->job->config, "parallel", "tensor",
                                     find_degree(&found, &tensor, err), err));
    PST_TRY(status, pst_session_divide(session, tensor, err));
    PST_TRY(status, settle_stages(session->graph, &found, arena, cuts, err));
    if (status == PST_OK) {
        *ret_job = *session->job;
        ret_job->cuts = cuts;
        ret_job->advice = PST_ADVICE_NONE; /* for other micro-batches there may be other stages */
    }
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
        if (degree_of[v] != degree_of[0]) {
            return pst_fail_at(err, PST_ERR_UNSUPPORTED, "plan.mismatch", name, 0, 0,
                               "stages of unlike tensor degrees cannot run yet, and %s has %u, %s "
                               "%u; plan again with one degree",
                               whole->ops[0].name, degree_of[0], whole->ops[v].name, degree_of[v]);
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
    PST_TRY(status, pst_session_divide(session, degree_of[0], err));
    free(degree_of);
    return status;
}
