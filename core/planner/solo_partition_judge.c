/* SPDX-License-Identifier: Apache-2.0
 *
 * What a partition is worth by the reference cost model, or by what the strategies made of it.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "base/util.h"
#include "planner/solo_partition_state.h"
#include "planner/stage_rules.h"

struct judge {
    const struct pst_problem *problem;
    struct pst_partition_result *result;
    struct pst_stage_rules rules;
    struct pst_rcm rcm;
    const struct pst_partition_answer *answer;
    struct pst_rcm_cost *costs;       /* [n_stages] */
    struct pst_partition_edge *edges; /* by (from, to) */
    uint32_t n_edges;
};

static pst_status check_rules(struct judge *j, struct pst_error *err)
{
    const struct pst_partition_answer *answer = j->answer;
    struct pst_cluster_view cluster;
    struct pst_partition_in in;
    pst_status st =
        pst_partition_question(j->problem, &answer->places, &j->result->arena, &in, &cluster, err);

    if (st == PST_OK && !pst_stage_rules_init(&j->rules, &in)) {
        st = pst_fail_nomem(err);
    }
    j->rules.multiples_of = j->problem->planned ? 0 : j->problem->mini_batch;
    for (uint32_t s = 0; st == PST_OK && s < answer->n_stages; s++) {
        const struct pst_partition_decl *from = &answer->stages[s];
        const struct pst_stage_decl decl = {.size = sizeof decl,
                                            .nodes = from->nodes,
                                            .n_nodes = from->n_nodes,
                                            .ranks = from->ranks,
                                            .n_ranks = from->n_ranks,
                                            .microbatch_size = from->microbatch_size,
                                            .k = from->k};

        j->rules.own_width = pst_remarks_flag(answer->remarks, answer->n_remarks, "own_width");
        pst_stage_rules_add(&j->rules, &decl);
    }
    return st != PST_OK || pst_stage_rules_end(&j->rules)
               ? st
               : pst_partition_illegal(answer->id, j->rules.fault, err);
}

static pst_status copy_stages(struct judge *j, struct pst_error *err)
{
    const struct pst_partition_answer *answer = j->answer;
    const uint32_t *device_of = answer->places.device_of;
    struct pst_partition_result *result = j->result;
    struct pst_arena *arena = &result->arena;

    result->n_stages = answer->n_stages;
    result->stages = pst_arena_array(arena, answer->n_stages, sizeof *result->stages);
    if (result->stages == NULL) {
        return pst_fail_nomem(err);
    }
    for (uint32_t s = 0; s < answer->n_stages; s++) {
        const struct pst_partition_decl *from = &answer->stages[s];
        uint32_t *nodes = pst_arena_array(arena, from->n_nodes, sizeof *nodes);
        uint32_t *ranks = pst_arena_array(arena, from->n_ranks, sizeof *ranks);

        if (nodes == NULL || ranks == NULL) {
            return pst_fail_nomem(err);
        }
        memcpy(nodes, from->nodes, from->n_nodes * sizeof *nodes);
        for (uint32_t i = 0; i < from->n_ranks; i++) {
            ranks[i] = device_of == NULL ? from->ranks[i] : device_of[from->ranks[i]];
        }
        result->stages[s] = (struct pst_partition_stage){.n_nodes = from->n_nodes,
                                                         .n_ranks = from->n_ranks,
                                                         .microbatch_size = from->microbatch_size,
                                                         .k = from->k,
                                                         .nodes = nodes,
                                                         .ranks = ranks};
    }
    return PST_OK;
}

/* By bytes at last, so that they are always added up in the same order. */
static int by_ends(const void *a_, const void *b_)
{
    const struct pst_partition_edge *a = a_, *b = b_;

    return a->from != b->from     ? (a->from < b->from ? -1 : 1)
           : a->to != b->to       ? (a->to < b->to ? -1 : 1)
           : a->bytes != b->bytes ? (a->bytes < b->bytes ? -1 : 1)
                                  : 0;
}

/* One edge for every two stages that one feeds the other; bytes of all node edges between them. */
pst_status pst_partition_connect(const struct pst_costed *graph, const uint32_t *owner,
                                 struct pst_partition_edge **ret_edges, uint32_t *ret_n_edges,
                                 struct pst_error *err)
{
    struct pst_partition_edge *edges = calloc((size_t)graph->n_edges + 1, sizeof *edges);
    uint32_t n = 0, kept = 0;

    if (edges == NULL) {
        return pst_fail_nomem(err);
    }
    for (uint32_t e = 0; e < graph->n_edges; e++) {
        uint32_t from = owner[graph->edges[e].from], to = owner[graph->edges[e].to];

        if (from != to) {
            edges[n++] = (struct pst_partition_edge){from, to, graph->edge_bytes[e]};
        }
    }
    qsort(edges, n, sizeof *edges, by_ends);
    for (uint32_t i = 0; i < n; i++) {
        struct pst_partition_edge *last = kept > 0 ? &edges[kept - 1] : NULL;

        if (last != NULL && last->from == edges[i].from && last->to == edges[i].to) {
            last->bytes += edges[i].bytes;
        } else {
            edges[kept++] = edges[i];
        }
    }
    *ret_edges = edges;
    *ret_n_edges = kept;
    return PST_OK;
}

static struct pst_successor successor(const struct pst_partition_stage *to)
{
    return (struct pst_successor){.microbatch_size = to->microbatch_size,
                                  .k = to->k,
                                  .in_flight = to->in_flight_samples / to->microbatch_size};
}

/* Successors, depth and what is held, from the last stage to the first. In a row the next stage is
   the one successor, whatever it reads. */
static pst_status hold(struct judge *j, struct pst_error *err)
{
    struct pst_partition_result *result = j->result;
    uint32_t *list = pst_arena_array(&result->arena, j->n_edges, sizeof *list);
    struct pst_successor *next = calloc((size_t)j->n_edges + 1, sizeof *next);
    pst_status st = list == NULL || next == NULL ? pst_fail_nomem(err) : PST_OK;
    bool in_row = pst_remarks_flag(result->remarks, result->n_remarks, "in_row");
    uint32_t e = j->n_edges;
    uint64_t samples;
    char fault[64];

    for (uint32_t s = result->n_stages; st == PST_OK && s-- > 0;) {
        struct pst_partition_stage *stage = &result->stages[s];
        struct pst_place place = {.size = sizeof place,
                                  .stage = s,
                                  .n_stages = result->n_stages,
                                  .n_devices = j->problem->n_devices,
                                  .n_microbatches =
                                      (j->problem->mini_batch - 1) / stage->microbatch_size + 1,
                                  .microbatch_size = stage->microbatch_size,
                                  .k = stage->k,
                                  .successor_size = sizeof *next,
                                  .successors = next};

        stage->depth = 1;
        for (; e > 0 && j->edges[e - 1].from == s; e--) {
            const struct pst_partition_stage *to = &result->stages[j->edges[e - 1].to];

            list[e - 1] = j->edges[e - 1].to;
            next[place.n_successors++] = successor(to);
            stage->depth = to->depth + 1 > stage->depth ? to->depth + 1 : stage->depth;
        }
        stage->n_successors = place.n_successors;
        stage->successors = list + e;
        if (in_row) {
            place.n_successors = s + 1 < result->n_stages;
            next[0] = place.n_successors > 0 ? successor(stage + 1) : next[0];
        }
        samples = j->answer->planned
                      ? (uint64_t)j->answer->stages[s].in_flight * stage->microbatch_size
                      : pst_rcm_in_flight(&place);
        stage->in_flight_samples = (uint32_t)samples;
        if (samples > UINT32_MAX) {
            snprintf(fault, sizeof fault, "stage %u holds %llu samples", s,
                     (unsigned long long)samples);
            st = pst_partition_illegal(j->answer->id, fault, err);
        }
    }
    free(next);
    return st;
}

/* By the communication model; a strategy's own time of a pass takes the place of compute. */
static double total_of(const struct pst_problem *problem, const struct pst_partition_stage *stage)
{
    double compute = stage->compute_per_sample_ns, reduce = stage->sync_per_sample_ns;

    switch (problem->comm_model) {
    case PST_COMM_SUM:
        return compute + stage->p2p_per_sample_ns + reduce;
    case PST_COMM_MAX:
        return fmax(compute, fmax(stage->p2p_per_sample_ns, reduce));
    default:
        return compute + reduce;
    }
}

/* Where a partitioner counts otherwise it says what each stage holds: its word takes the place. */
static void take_own_bytes(struct pst_partition_result *result)
{
    const struct pst_partition_remark *own =
        pst_remarks_find(result->remarks, result->n_remarks, "stage_bytes", PST_REMARK_TEXT);
    const char *text = own == NULL ? "" : own->text;
    double bytes;
    uint32_t n = 0;

    for (bool more = own != NULL; more; n++) {
        if (!pst_number_parse(text, &text, &bytes) || bytes < 0) {
            return;
        }
        more = *text++ == ',';
    }
    if (own == NULL || n != result->n_stages || text[-1] != '\0') {
        return;
    }
    text = own->text;
    for (uint32_t s = 0; s < n && pst_number_parse(text, &text, &bytes); s++, text++) {
        result->stages[s].memory_bytes = bytes;
    }
}

static pst_status price(struct judge *j, struct pst_error *err)
{
    struct pst_partition_result *result = j->result;

    j->costs = calloc((size_t)result->n_stages + 1, sizeof *j->costs);
    if (j->costs == NULL) {
        return pst_fail_nomem(err);
    }
    for (uint32_t s = 0; s < result->n_stages; s++) {
        struct pst_partition_stage *stage = &result->stages[s];
        const struct pst_rcm_stage asked = {.nodes = stage->nodes,
                                            .n_nodes = stage->n_nodes,
                                            .n_ranks = stage->n_ranks,
                                            .microbatch_size = stage->microbatch_size};
        struct pst_rcm_cost *cost = &j->costs[s];

        pst_rcm_cost(&j->rcm, &asked, cost);
        stage->compute_ns = cost->pass_ns[0] + cost->pass_ns[1] + cost->pass_ns[2];
        stage->compute_per_sample_ns = cost->compute_ns;
        stage->p2p_per_sample_ns = cost->transfer_ns;
        stage->sync_per_sample_ns = cost->reduce_ns;
        stage->memory_bytes =
            pst_rcm_memory(j->problem, cost, stage->n_ranks, stage->in_flight_samples, 1);
        if (j->answer->planned) {
            stage->compute_ns = j->answer->stages[s].compute_ns;
            stage->compute_per_sample_ns = stage->compute_ns / stage->microbatch_size;
            stage->memory_bytes = j->answer->stages[s].memory_bytes;
        }
        stage->total_per_sample_ns = total_of(j->problem, stage);
    }
    if (!j->answer->planned) {
        take_own_bytes(result);
    }
    return PST_OK;
}

/* What comes together on each device: one stage, or several that share it. */
static pst_status add_up(struct judge *j, struct pst_error *err)
{
    struct pst_partition_result *result = j->result;
    double *ns = calloc((size_t)j->problem->n_devices + 1, sizeof *ns);
    double *bytes = calloc((size_t)j->problem->n_devices + 1, sizeof *bytes);
    bool *used = calloc((size_t)j->problem->n_devices + 1, sizeof *used);
    pst_status st = ns == NULL || bytes == NULL || used == NULL ? pst_fail_nomem(err) : PST_OK;

    for (uint32_t s = 0; st == PST_OK && s < result->n_stages; s++) {
        const struct pst_partition_stage *stage = &result->stages[s];

        for (uint32_t i = 0; i < stage->n_ranks; i++) {
            uint32_t d = stage->ranks[i];

            result->n_devices += used[d] ? 0 : 1;
            used[d] = true;
            ns[d] += stage->total_per_sample_ns;
            bytes[d] += stage->memory_bytes;
            result->bottleneck_ns = fmax(result->bottleneck_ns, ns[d]);
            result->peak_bytes = fmax(result->peak_bytes, bytes[d]);
        }
    }
    free(ns);
    free(bytes);
    free(used);
    return st;
}

/* One stage a device, in kFkB order. */
static pst_status simulate(struct judge *j, struct pst_error *err)
{
    struct pst_partition_result *result = j->result;
    struct pst_partition_line *lines = calloc((size_t)result->n_stages + 1, sizeof *lines);
    const struct pst_partition_run run = {.problem = j->problem,
                                          .n_devices = result->n_stages,
                                          .n_stages = result->n_stages,
                                          .n_edges = j->n_edges,
                                          .lines = lines,
                                          .edges = j->edges};
    struct pst_solo solo = {.stages = NULL};
    struct pst_pass **passes;
    uint32_t *n_passes;
    double scale;
    pst_status st;

    if (lines == NULL) {
        return pst_fail_nomem(err);
    }
    for (uint32_t s = 0; s < result->n_stages; s++) {
        const struct pst_partition_stage *stage = &result->stages[s];

        lines[s] = (struct pst_partition_line){
            .device = s,
            .microbatch_size = stage->microbatch_size,
            .k = stage->k,
            .n_ranks = stage->n_ranks,
            .in_flight = stage->in_flight_samples / stage->microbatch_size,
            .reduce_ns = stage->sync_per_sample_ns * j->problem->mini_batch,
        };
        memcpy(lines[s].ns, j->costs[s].pass_ns, sizeof lines[s].ns);
    }
    scale = pst_partition_run_scale(&run, 1);
    st = pst_partition_run_state(&run, scale, &solo, err);
    if (st == PST_OK) {
        st = pst_partition_run_order(&run, &solo, &passes, &n_passes, err);
    }
    if (st == PST_OK) {
        st = pst_partition_run_time(&run, &solo.in, scale, passes, n_passes, &result->step_ns, err);
    }
    pst_solo_finish(&solo);
    free(lines);
    return st;
}

static char *bytes_text(char text[32], double bytes)
{
    return pst_format_bytes(text, bytes < 1.8e19 ? (uint64_t)bytes : UINT64_MAX);
}

/* The stage that goes furthest beyond what a device has. A stage has its devices alone. */
static pst_status check_memory(const struct judge *j, struct pst_error *err)
{
    struct pst_partition_result *result = j->result;
    const struct pst_partition_stage *worst = &result->stages[0];
    const struct pst_graph_view *graph = &j->problem->graph->view;
    const struct pst_partition_remark *own = pst_remarks_find(
        result->remarks, result->n_remarks, "worst_stage_bytes", PST_REMARK_NUMBER);
    char needed[32], capacity[32];

    for (uint32_t s = 1; s < result->n_stages; s++) {
        const struct pst_partition_stage *stage = &result->stages[s];

        worst = stage->memory_bytes > worst->memory_bytes ? stage : worst;
    }
    result->least_bytes = worst->memory_bytes;
    if (own != NULL) { /* by a memory model of its own */
        result->least_bytes = fmin(result->least_bytes, own->number);
    }
    if (pst_rcm_fits(j->problem->memory_bytes, result->least_bytes)) {
        return PST_OK;
    }
    return pst_fail(
        err, PST_ERR_INFEASIBLE, "plan.infeasible",
        "partitioner \"%s\": stage %u (\"%s\" to \"%s\") holds %u samples and takes %s, more "
        "than the %s of a device",
        result->id, (uint32_t)(worst - result->stages),
        pst_graph_node(graph, worst->nodes[0])->name,
        pst_graph_node(graph, worst->nodes[worst->n_nodes - 1])->name, worst->in_flight_samples,
        bytes_text(needed, worst->memory_bytes), bytes_text(capacity, j->problem->memory_bytes));
}

static pst_status keep_words(const struct pst_partition_answer *answer,
                             struct pst_partition_result *result, struct pst_error *err)
{
    struct pst_remarks said = {.n = answer->n_remarks};

    memcpy(result->id, answer->id, sizeof result->id);
    memcpy(result->version, answer->version, sizeof result->version);
    result->search_seconds = answer->search_seconds;
    result->n_remarks = answer->n_remarks;
    if (answer->n_remarks > 0) {
        memcpy(said.items, answer->remarks, answer->n_remarks * sizeof *said.items);
    }
    return pst_remarks_copy(&said, &result->arena, &result->remarks) ? PST_OK : pst_fail_nomem(err);
}

static pst_status judge(struct judge *j, struct pst_error *err)
{
    pst_status st = check_rules(j, err);

    if (st == PST_OK) {
        pst_rcm_init(&j->rcm, j->problem);
    }
    if (st == PST_OK) {
        st = copy_stages(j, err);
    }
    if (st == PST_OK) {
        st = pst_partition_connect(j->problem->graph, j->rules.owner, &j->edges, &j->n_edges, err);
    }
    if (st == PST_OK) {
        st = hold(j, err);
    }
    if (st == PST_OK) {
        st = price(j, err);
    }
    if (st == PST_OK) {
        st = add_up(j, err);
    }
    if (st == PST_OK && j->answer->planned) {
        j->result->step_ns = j->answer->step_ns; /* and memory was seen to */
        j->result->least_bytes = j->result->peak_bytes;
    } else if (st == PST_OK) {
        st = check_memory(j, err);
        st = st == PST_OK ? simulate(j, err) : st;
    }
    return st;
}

pst_status pst_partition_judge(const struct pst_problem_job *job,
                               const struct pst_partition_answer *answer,
                               struct pst_partition_result *ret_result, struct pst_error *err)
{
    struct pst_partition_result result = {.n_stages = 0};
    struct judge j = {.problem = job->problem, .result = &result, .answer = answer};
    pst_status st = keep_words(answer, &result, err);

    if (st == PST_OK) {
        st = judge(&j, err);
    }
    pst_stage_rules_finish(&j.rules);
    pst_rcm_finish(&j.rcm);
    free(j.costs);
    free(j.edges);
    if (st != PST_OK) {
        pst_partition_result_finish(&result);
        return st;
    }
    *ret_result = result;
    return PST_OK;
}
