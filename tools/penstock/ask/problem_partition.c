/* SPDX-License-Identifier: Apache-2.0
 *
 * The question that a problem states, put to a partitioner; its answer, held against the rules as
 * it comes, here or from another process.
 */
#include "ask/problem_partition.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "ask/problem_state.h"
#include "base/memory.h"
#include "base/text.h"
#include "base/util.h"
#include "host/call.h"
#include "planner/stage_rules.h"

/* --- the plugin --------------------------------------------------------------------------------*/

static bool has_parameter(const struct pst_plugin *plugin, const char *key)
{
    for (uint32_t i = 0; i < plugin->n_params; i++) {
        if (strcmp(pst_plugin_param(plugin, i)->key, key) == 0) {
            return true;
        }
    }
    return false;
}

/* A parameter that has the name of a key of the problem is as the problem says, unless `options`
   says otherwise. */
static pst_status create_partitioner(struct pst_problem_planner *planner,
                                     const struct pst_plugin *plugin,
                                     struct pst_instance **ret_instance, struct pst_error *err)
{
    static const char key[] = "swap_bandwidth";
    const struct pst_problem *problem = planner->cost.problem;
    json_t *options = problem->options == NULL ? json_object() : json_copy(problem->options);
    pst_status status;

    if (options == NULL ||
        (problem->swap_bandwidth > 0 && has_parameter(plugin, key) &&
         json_object_get(options, key) == NULL &&
         json_object_set_new(options, key, json_integer((json_int_t)problem->swap_bandwidth)) !=
             0)) {
        pst_out_of_memory();
    }
    status = pst_problem_create(&planner->planner, plugin, options, "options", ret_instance, err);
    json_decref(options);
    return status;
}

/* --- the answer --------------------------------------------------------------------------------*/

static uint32_t multiples_of(const struct pst_problem *problem)
{
    return problem->planned ? 0 : problem->mini_batch;
}

static void take_stage(void *self, const struct pst_stage_decl *decl)
{
    struct pst_partition_result *answer = self;
    struct pst_arena *arena = &answer->arena;

    answer->stages[answer->n_stages++] = (struct pst_partition_stage){
        .n_nodes = decl->n_nodes,
        .n_ranks = decl->n_ranks,
        .microbatch_size = decl->microbatch_size,
        .k = decl->k,
        .nodes = pst_arena_copy(arena, decl->nodes, decl->n_nodes, sizeof *decl->nodes),
        .ranks = pst_arena_copy(arena, decl->ranks, decl->n_ranks, sizeof *decl->ranks),
    };
}

/* Offers the degrees up to the number of places, but only 1 where the scheduler fixes stages. */
static pst_status offer_degrees(struct pst_problem_planner *self, struct pst_error *err)
{
    struct pst_planner_devices *devices = &self->planner.devices;
    const struct pst_problem *problem = self->cost.problem;
    uint32_t n = 0;

    while (n < problem->n_degrees && problem->degrees[n] <= devices->places.n &&
           (devices->places.n_stages == 0 || problem->degrees[n] == 1)) {
        n++;
    }
    devices->n_degrees = n;
    return n > 0 ? PST_OK
                 : pst_fail(err, PST_ERR_CONFIG, "config.value",
                            "degrees: the least is %u replicas of a stage, and there are %u "
                            "devices",
                            problem->degrees[0], devices->n_logical);
}

pst_status pst_partition_ask(struct pst_problem_planner *self, struct pst_instance *partitioner,
                             struct pst_partition_result *answer, struct pst_error *err)
{
    struct pst_planner *planner = &self->planner;
    const struct pst_places *places = &planner->devices.places;
    const struct pst_instance *scheduler = planner->strategies.scheduler;
    struct pst_stage_intake intake = {.partitioner = partitioner->plugin->id,
                                      .scheduler = scheduler == NULL ? NULL : scheduler->plugin->id,
                                      .remarks = &partitioner->remarks,
                                      .multiples_of = multiples_of(self->cost.problem),
                                      .take = take_stage,
                                      .self = answer};
    uint64_t begin_ns = pst_now_ns();
    pst_status status;

    snprintf(answer->id, sizeof answer->id, "%s", partitioner->plugin->id);
    snprintf(answer->version, sizeof answer->version, "%s", partitioner->plugin->version);
    answer->planned = self->cost.problem->planned;
    answer->places = *places;
    if (places->device_of != NULL) {
        answer->places.device_of =
            pst_arena_copy(&answer->arena, places->device_of, places->n, sizeof *places->device_of);
    }
    answer->stages = pst_arena_array(&answer->arena, places->n, sizeof *answer->stages);
    status = offer_degrees(self, err);
    PST_TRY(status, pst_planner_ask(planner, partitioner, &intake, err));
    answer->search_seconds = (double)(pst_now_ns() - begin_ns) / 1e9;
    answer->n_remarks = partitioner->remarks.n;
    pst_remarks_copy(&partitioner->remarks, &answer->arena, &answer->remarks);
    return status;
}

static pst_status ask_partitioner(const void *job_, bool (*cancelled)(void), void *ret_answer,
                                  struct pst_error *err)
{
    const struct pst_problem_job *job = job_;
    struct pst_instance *partitioner = NULL;
    const struct pst_plugin *plugin = NULL;
    struct pst_problem_planner planner;
    pst_status status;

    pst_host_log_begin();
    pst_problem_planner_init(&planner, job->problem, cancelled);
    planner.planner.in.deadline_ns = job->deadline_ns == 0 ? UINT64_MAX : job->deadline_ns;
    status = pst_plugin_find("partitioner", job->id, job->path, NULL, &plugin, err);
    if (status == PST_OK && job->problem->planned) {
        status = pst_problem_open(&planner, plugin, err);
    }
    PST_TRY(status, create_partitioner(&planner, plugin, &partitioner, err));
    PST_TRY(status, pst_partition_ask(&planner, partitioner, ret_answer, err));
    if (status == PST_OK && job->problem->planned) {
        status = pst_problem_arrange(&planner, ret_answer, err);
    }
    pst_instance_destroy(partitioner);
    pst_planner_finish(&planner.planner);
    pst_host_log_end();
    return status;
}

static void finish_answer(void *answer)
{
    pst_partition_result_finish(answer);
}

void pst_partition_result_finish(struct pst_partition_result *result)
{
    pst_arena_finish(&result->arena);
    memset(result, 0, sizeof *result);
}

/* --- from another process ----------------------------------------------------------------------*/

pst_status pst_partition_check(const struct pst_problem *problem,
                               const struct pst_partition_result *answer, struct pst_error *err)
{
    struct pst_remarks remarks = {.n = answer->n_remarks};
    struct pst_stage_intake intake = {
        .partitioner = answer->id, .remarks = &remarks, .multiples_of = multiples_of(problem)};
    struct pst_problem_planner planner;
    struct pst_partition_in in;
    pst_status status;

    for (uint32_t i = 0; i < answer->n_remarks; i++) {
        remarks.items[i] = answer->remarks[i];
    }
    pst_problem_planner_init(&planner, problem, NULL);
    planner.planner.devices.places = answer->places;
    status = offer_degrees(&planner, err);
    if (status == PST_OK) {
        pst_planner_state(&planner.planner, &planner.planner.arena, &in);
        pst_stage_intake_begin(&intake, &in);
    }
    for (uint32_t s = 0; status == PST_OK && s < answer->n_stages; s++) {
        const struct pst_partition_stage *from = &answer->stages[s];
        const struct pst_stage_decl decl = {.size = sizeof decl,
                                            .nodes = from->nodes,
                                            .n_nodes = from->n_nodes,
                                            .ranks = from->ranks,
                                            .n_ranks = from->n_ranks,
                                            .microbatch_size = from->microbatch_size,
                                            .k = from->k};

        (void)intake.out.stage(&intake.out, &decl);
    }
    PST_TRY(status, pst_stage_intake_end(&intake, err));
    pst_planner_finish(&planner.planner);
    return status;
}

static void pass_stages(struct pst_wire *w, struct pst_partition_result *answer)
{
    pst_wire_count(w, &answer->n_stages, 2 * sizeof(uint64_t));
    if (w->reads) {
        answer->stages = pst_arena_array(w->arena, answer->n_stages, sizeof *answer->stages);
        w->failed |= answer->n_stages == 0 ||
                     (answer->places.n_stages != 0 && answer->n_stages != answer->places.n_stages);
    }
    for (uint32_t s = 0; !w->failed && s < answer->n_stages; s++) {
        struct pst_partition_stage *stage = &answer->stages[s];

        pst_wire_uints(w, &stage->nodes, &stage->n_nodes);
        pst_wire_uints(w, &stage->ranks, &stage->n_ranks);
        pst_wire_uint(w, &stage->microbatch_size);
        pst_wire_uint(w, &stage->k);
        pst_wire_uint(w, &stage->in_flight);
        pst_wire_amount(w, &stage->compute_ns, PST_WIRE_COUNT);
        pst_wire_amount(w, &stage->memory_bytes, PST_WIRE_COUNT);
        w->failed |= w->reads && answer->planned && stage->in_flight == 0;
    }
}

static pst_status pass_answer(struct pst_wire *w, const void *job, void *answer_,
                              struct pst_error *err)
{
    const struct pst_problem *problem = ((const struct pst_problem_job *)job)->problem;
    struct pst_partition_result *answer = answer_;
    const uint32_t *device_of = answer->places.device_of;
    uint32_t n = device_of == NULL ? 0 : answer->places.n;

    if (w->reads) {
        w->arena = &answer->arena;
        answer->planned = problem->planned;
    }
    pst_wire_name(w, answer->id, sizeof answer->id);
    pst_wire_name(w, answer->version, sizeof answer->version);
    pst_wire_amount(w, &answer->search_seconds, PST_WIRE_SECONDS);
    pst_wire_amount(w, &answer->step_ns, DBL_MAX);
    pst_wire_uints(w, &device_of, &n);
    if (w->reads && !w->failed) {
        w->failed = (n > 0 && !problem->planned) ||
                    !pst_places_set(&answer->places, problem->n_devices, n, device_of);
    }
    pass_stages(w, answer);
    pst_remarks_pass(w, &answer->remarks, &answer->n_remarks);
    return w->reads && pst_wire_is_read(w) ? pst_partition_check(problem, answer, err) : PST_OK;
}

const struct pst_apart_kind pst_partition_kind = {
    .word = "pst-part",
    .plugin = "partitioner",
    .job_size = sizeof(struct pst_problem_job),
    .answer_size = sizeof(struct pst_partition_result),
    .pass_job = pst_problem_job_pass,
    .ask = ask_partitioner,
    .pass_answer = pass_answer,
    .finish = finish_answer,
};

/* --- both --------------------------------------------------------------------------------------*/

/* Least bytes of a device that has this node alone, one micro-batch in flight. */
static double alone_bytes(struct pst_rcm *rcm, uint32_t node)
{
    const struct pst_problem *problem = rcm->problem;
    double least = INFINITY;

    for (uint32_t i = 0; i < problem->n_micro_batches; i++) {
        for (uint32_t k = 0; k < problem->n_degrees; k++) {
            uint32_t size = problem->micro_batches[i], d = problem->degrees[k];
            const struct pst_rcm_stage stage = {&node, 1, d, size};
            struct pst_rcm_cost cost;

            if (size % d == 0) {
                pst_rcm_cost(rcm, &stage, &cost);
                least = fmin(least, pst_rcm_memory(problem, &cost, d, size, 1));
            }
        }
    }
    return least;
}

/* Whatever a partitioner says: is there a node that no device can hold, and does it say so? */
static pst_status explain(const struct pst_problem *problem, pst_status status,
                          struct pst_error *err)
{
    struct pst_arena arena = {0};
    struct pst_rcm rcm;
    uint32_t worst = PST_NONE;
    double most = 0;
    char name[160];

    if (status != PST_ERR_INFEASIBLE || err == NULL) {
        return status;
    }
    pst_rcm_init(&rcm, problem, &arena);
    for (uint32_t v = 0; v < problem->graph->n_nodes; v++) {
        const struct pst_costed_node *node = &problem->graph->nodes[v];
        double bytes = node->n_configs > 0 ? 0 : alone_bytes(&rcm, v);

        if (bytes > most && isfinite(bytes) && !pst_rcm_fits(problem->memory_bytes, bytes)) {
            worst = v;
            most = bytes;
        }
    }
    pst_arena_finish(&arena);
    if (worst != PST_NONE) {
        snprintf(name, sizeof name, "node \"%.140s\" alone", problem->graph->nodes[worst].name);
        if (strstr(err->message, name) == NULL) {
            pst_text_append(err->message, sizeof err->message,
                            "; %s is charged %.0f bytes, a device has %.0f", name, ceil(most),
                            problem->memory_bytes);
        }
    }
    return status;
}

pst_status pst_problem_partition(const struct pst_problem_job *job,
                                 const struct pst_worker_task *limits, bool (*cancelled)(void),
                                 struct pst_partition_result *ret_result, struct pst_error *err)
{
    pst_status status = pst_apart_ask(&pst_partition_kind, job, pst_problem_job_name(job), limits,
                                      cancelled, ret_result, err);

    if (status == PST_OK) {
        status = pst_partition_judge(job->problem, ret_result, err);
        if (status != PST_OK) {
            pst_partition_result_finish(ret_result);
        }
    }
    return explain(job->problem, status, err);
}
