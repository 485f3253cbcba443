/* SPDX-License-Identifier: Apache-2.0
 *
 * Judges a partition by the reference cost model, or by the answers of the other strategies.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ask/problem_state.h"
#include "base/memory.h"
#include "base/number.h"
#include "base/util.h"
#include "planner/blame.h"

struct judge {
    const struct pst_problem *problem;
    struct pst_partition_result *result;
    struct pst_rcm rcm;
    struct pst_problem_run run; /* a device for each stage */
};

/* Successors, depth and what is held, from the last stage to the first. In a row the next stage is
   the one successor, whatever it reads. */
static pst_status count_held(struct judge *j, struct pst_error *err)
{
    struct pst_partition_result *result = j->result;
    const struct pst_problem_edge *edges = j->run.edges;
    uint32_t e = j->run.n_edges;
    uint32_t *list = pst_arena_array(&result->arena, e, sizeof *list);
    struct pst_successor *next = pst_arena_array(&result->arena, (size_t)e + 1, sizeof *next);
    bool in_row = pst_remarks_flag(result->remarks, result->n_remarks, "in_row");

    for (uint32_t s = result->n_stages; s-- > 0;) {
        struct pst_partition_stage *stage = &result->stages[s];
        struct pst_place place = pst_problem_run_place(&j->run, s, &e, next);
        uint64_t samples;

        stage->depth = 1;
        stage->n_successors = place.n_successors;
        stage->successors = list + e;
        for (uint32_t i = 0; i < place.n_successors; i++) {
            uint32_t to = edges[e + i].to, depth = result->stages[to].depth + 1;

            list[e + i] = to;
            stage->depth = depth > stage->depth ? depth : stage->depth;
        }
        if (in_row) {
            place.n_successors = s + 1 < result->n_stages;
            next[0] = place.n_successors > 0 ? pst_problem_successor(stage + 1) : next[0];
        }
        samples = result->planned ? (uint64_t)stage->in_flight * stage->microbatch_size
                                  : pst_rcm_in_flight(&place);
        if (samples > UINT32_MAX) {
            return pst_plan_illegal(err, "partitioner", result->id, "stage %u holds %llu samples",
                                    s, (unsigned long long)samples);
        }
        stage->in_flight_samples = (uint32_t)samples;
        stage->in_flight = stage->in_flight_samples / stage->microbatch_size;
    }
    return PST_OK;
}

/* Where a partitioner counts otherwise it says what each stage holds: its word takes the place. */
static void take_own_bytes(struct pst_partition_result *result)
{
    const struct pst_partition_remark *own =
        pst_remarks_find(result->remarks, result->n_remarks, "stage_bytes", PST_REMARK_TEXT);
    const char *text = own == NULL ? "" : own->text;
    uint32_t n = own == NULL ? 0 : result->n_stages;
    double *bytes = pst_arena_array(&result->arena, n, sizeof *bytes);

    for (uint32_t s = 0; s < n; s++) {
        if (!pst_number_parse(text, &text, &bytes[s]) || bytes[s] < 0 ||
            *text++ != (s + 1 < n ? ',' : '\0')) {
            return;
        }
    }
    for (uint32_t s = 0; s < n; s++) {
        result->stages[s].memory_bytes = bytes[s];
    }
}

static void price_stages(struct judge *j)
{
    struct pst_partition_result *result = j->result;

    for (uint32_t s = 0; s < result->n_stages; s++) {
        struct pst_partition_stage *stage = &result->stages[s];
        const struct pst_rcm_stage asked = pst_partition_rcm(stage);
        struct pst_rcm_cost cost;

        pst_rcm_cost(&j->rcm, &asked, &cost);
        stage->p2p_per_sample_ns = cost.transfer_ns;
        stage->sync_per_sample_ns = cost.reduce_ns;
        if (result->planned) {
            stage->compute_per_sample_ns = stage->compute_ns / stage->microbatch_size;
        } else {
            memcpy(stage->pass_ns, cost.pass_ns, sizeof stage->pass_ns);
            stage->compute_ns = cost.pass_ns[0] + cost.pass_ns[1] + cost.pass_ns[2];
            stage->compute_per_sample_ns = cost.compute_ns;
            stage->memory_bytes =
                pst_rcm_memory(j->problem, &cost, stage->n_ranks, stage->in_flight_samples, 1);
        }
        stage->total_per_sample_ns = pst_rcm_total(j->problem, stage->compute_per_sample_ns,
                                                   cost.transfer_ns, cost.reduce_ns);
    }
    if (!result->planned) {
        take_own_bytes(result);
    }
}

/* Places become devices, and what comes together on each is added up: one stage, or several that
   share it. */
static void add_up_devices(struct judge *j)
{
    struct pst_partition_result *result = j->result;
    struct {
        double ns, bytes;
        bool used;
    } *sums = pst_alloc(j->problem->n_devices, sizeof *sums);

    for (uint32_t s = 0; s < result->n_stages; s++) {
        struct pst_partition_stage *stage = &result->stages[s];
        uint32_t *devices = pst_arena_array(&result->arena, stage->n_ranks, sizeof *devices);

        for (uint32_t i = 0; i < stage->n_ranks; i++) {
            uint32_t d = pst_places_device(&result->places, stage->ranks[i]);

            devices[i] = d;
            result->n_devices += sums[d].used ? 0 : 1;
            sums[d].used = true;
            sums[d].ns += stage->total_per_sample_ns;
            sums[d].bytes += stage->memory_bytes;
            result->bottleneck_ns = fmax(result->bottleneck_ns, sums[d].ns);
            result->peak_bytes = fmax(result->peak_bytes, sums[d].bytes);
        }
        stage->ranks = devices;
    }
    free(sums);
}

/* As many forwards as it may hold, then k backwards and k forwards in turn, then what is left. */
static uint32_t order_stage(const struct pst_problem_run *run, uint32_t s, struct pst_pass *list)
{
    const struct pst_partition_stage *stage = &run->stages[s];
    uint32_t m = pst_problem_microbatches(run, s), f = 0, b = 0, n = 0;

    while (f < m && f < stage->in_flight) {
        list[n++] = (struct pst_pass){.op = PST_PASS_F, .stage = s, .microbatch = f++};
    }
    while (b < m) {
        for (uint32_t i = 0; i < stage->k && b < f; i++) {
            list[n++] = (struct pst_pass){.op = PST_PASS_BW, .stage = s, .microbatch = b++};
        }
        for (uint32_t i = 0; i < stage->k && f < m; i++) {
            list[n++] = (struct pst_pass){.op = PST_PASS_F, .stage = s, .microbatch = f++};
        }
    }
    return n;
}

/* One stage a device, in kFkB order. */
static pst_status simulate(struct judge *j, struct pst_error *err)
{
    struct pst_partition_result *result = j->result;
    const struct pst_problem_run *run = &j->run;
    struct pst_order_question asked = {.stages = NULL};
    struct pst_pass **passes = pst_arena_array(&asked.arena, result->n_stages, sizeof *passes);
    uint32_t *n_passes = pst_arena_array(&asked.arena, result->n_stages, sizeof *n_passes);
    double scale;
    pst_status status;

    for (uint32_t s = 0; s < result->n_stages; s++) {
        struct pst_partition_stage *stage = &result->stages[s];

        stage->device = s;
        stage->reduce_ns = stage->sync_per_sample_ns * j->problem->mini_batch;
    }
    scale = pst_problem_run_scale(run, 1);
    pst_problem_run_state(run, scale, &asked);
    for (uint32_t s = 0; s < result->n_stages; s++) {
        size_t n = 2 * (size_t)pst_problem_microbatches(run, s);

        passes[s] = pst_arena_array(&asked.arena, n, sizeof **passes);
        n_passes[s] = order_stage(run, s, passes[s]);
    }
    status = pst_problem_run_time(run, &asked.in, scale, passes, n_passes, &result->step_ns, err);
    pst_order_question_finish(&asked);
    return status;
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

pst_status pst_partition_judge(const struct pst_problem *problem,
                               struct pst_partition_result *answer, struct pst_error *err)
{
    struct judge j = {.problem = problem, .result = answer};
    pst_status status;

    pst_rcm_init(&j.rcm, problem, &answer->arena);
    j.run = (struct pst_problem_run){.problem = problem,
                                     .n_devices = answer->n_stages,
                                     .n_stages = answer->n_stages,
                                     .stages = answer->stages};
    j.run.edges = pst_problem_connect(problem->graph, answer, &answer->arena, &j.run.n_edges);
    status = count_held(&j, err);
    if (status == PST_OK) {
        price_stages(&j);
        add_up_devices(&j);
    }
    if (status == PST_OK && answer->planned) { /* memory was seen to */
        answer->least_bytes = answer->peak_bytes;
    } else if (status == PST_OK) {
        status = check_memory(&j, err);
        PST_TRY(status, simulate(&j, err));
    }
    return status;
}
