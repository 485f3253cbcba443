/* SPDX-License-Identifier: Apache-2.0
 *
 * The planner of a problem file: it answers by the reference cost model, or by the scheduler and
 * the memory optimizer that the file names.
 */
#include "ask/problem_state.h"

#include <stdlib.h>

#include "base/json.h"
#include "base/memory.h"
#include "base/util.h"
#include "host/caps.h"
#include "host/search.h"

/* A rank is a logical device, whichever it is: all are alike. */
void pst_problem_planner_init(struct pst_problem_planner *self, const struct pst_problem *problem,
                              bool (*cancelled)(void))
{
    struct pst_planner *planner = &self->planner;

    *self = (struct pst_problem_planner){
        .cluster = {.node_size = problem->node_size},
        .cost = {.model = {.cluster = &self->cluster}, .problem = problem},
    };
    *planner = (struct pst_planner){
        .answers = &pst_reference_answers,
        .in = {.cluster = &self->cluster,
               .cost = &self->cost.model,
               .cancelled = cancelled,
               .deadline_ns = UINT64_MAX,
               .n_nodes = problem->graph->n_nodes,
               .n_ranks = UINT32_MAX},
        .view = &problem->graph->view,
        .devices = {.chooses = true,
                    .degree = 1,
                    .width = 1,
                    .n_logical = problem->n_devices,
                    .n_degrees = problem->n_degrees,
                    .degrees = problem->degrees,
                    .replicates = problem->degrees[problem->n_degrees - 1] > 1,
                    .places = {.n = problem->n_devices, .shared = 1}},
        .sizes = {.batch = problem->mini_batch,
                  .n_candidates = problem->n_micro_batches,
                  .candidates = problem->micro_batches},
        .attempt.capacity_bytes =
            problem->memory_bytes < 1.8e19 ? (uint64_t)problem->memory_bytes : UINT64_MAX,
    };
    planner->attempt.counted =
        pst_arena_array(&planner->arena, problem->graph->n_nodes, sizeof *planner->attempt.counted);
    pst_problem_figures(self);
    pst_rcm_init(&self->rcm, problem, &planner->arena);
}

/* By its id, or its file. */
static pst_status find(const char *kind, const char *name, const struct pst_plugin **ret_plugin,
                       struct pst_error *err)
{
    bool is_file = pst_search_is_file(name);
    pst_status status =
        pst_plugin_find(kind, is_file ? NULL : name, is_file ? name : NULL, NULL, ret_plugin, err);

    if (status != PST_OK) {
        pst_error_prefix(err, "\"%s\"", kind);
    }
    return status;
}

pst_status pst_order_question_check_options(struct pst_config *config, const char *what,
                                            const char *who, struct pst_error *err)
{
    static const char *const taken[] = {"use", "path"};

    for (size_t i = 0; i < sizeof taken / sizeof taken[0]; i++) {
        if (pst_config_get(config->root, taken[i]) != NULL) {
            return pst_fail(err, PST_ERR_CONFIG, "config.key", "%s: \"%s\" is no parameter; %s",
                            what, taken[i], who);
        }
    }
    return PST_OK;
}

pst_status pst_problem_create(struct pst_planner *planner, const struct pst_plugin *plugin,
                              const json_t *options, const char *what,
                              struct pst_instance **ret_instance, struct pst_error *err)
{
    struct pst_host_context context;
    struct pst_config *config = NULL;
    char *text = options == NULL ? pst_strdup("{}") : pst_json_text(options);
    pst_status status = pst_config_from_json(text, &config, err);

    free(text);
    PST_TRY(status, pst_order_question_check_options(config, what,
                                                     "it is said elsewhere which plugin", err));
    if (status == PST_OK) {
        pst_questions_context(planner, &context);
        status = pst_instance_create(plugin, config->root, &context, ret_instance, err);
    }
    pst_config_destroy(config);
    return status;
}

static pst_status open_strategies(struct pst_problem_planner *self,
                                  const struct pst_plugin *partitioner, struct pst_error *err)
{
    const struct pst_problem *problem = self->cost.problem;
    struct pst_planner *planner = &self->planner;
    const char *name = problem->scheduler != NULL ? problem->scheduler : PENSTOCK_DEFAULT_SCHEDULER;
    const struct pst_plugin *plugins[3] = {partitioner, NULL, NULL};
    pst_status status = find("scheduler", name, &plugins[1], err);

    if (status == PST_OK && problem->memopt != NULL) {
        status = find("memopt", problem->memopt, &plugins[2], err);
    }
    if (status == PST_OK) {
        status = pst_caps_match(plugins, problem->memopt != NULL ? 3 : 2, err);
    }
    PST_TRY(status, pst_problem_create(planner, plugins[1], problem->scheduler_options,
                                       "scheduler_options", &planner->strategies.scheduler, err));
    if (status == PST_OK && plugins[2] != NULL) {
        status = pst_problem_create(planner, plugins[2], problem->memopt_options, "memopt_options",
                                    &planner->strategies.memopt[0], err);
        planner->strategies.n_memopt = status == PST_OK;
    }
    return status;
}

pst_status pst_problem_open(struct pst_problem_planner *self, const struct pst_plugin *partitioner,
                            struct pst_error *err)
{
    struct pst_planner *planner = &self->planner;
    struct pst_planner_devices *devices = &planner->devices;
    struct pst_topology *topology = &devices->topology;
    struct pst_instance *scheduler = NULL;
    pst_status status;

    planner->answers = &pst_planned_answers;
    pst_costed_stage_init(&self->costed, self->cost.problem, &planner->arena);
    status = open_strategies(self, partitioner, err);
    if (status == PST_OK) {
        scheduler = planner->strategies.scheduler;
        status = pst_scheduler_topology(scheduler, devices->n_logical, topology, err);
        if (status == PST_OK && topology->n_copies > 1) {
            status =
                pst_fail(err, PST_ERR_UNSUPPORTED, "plan.mismatch",
                         "scheduler \"%s\" runs two copies of all stages; a problem file is about "
                         "one",
                         scheduler->plugin->id);
        }
    }
    if (status == PST_OK && topology->slices > 1) {
        status =
            pst_fail(err, PST_ERR_UNSUPPORTED, "plan.mismatch",
                     "scheduler \"%s\" needs slices of sequences, which a costed graph does not "
                     "have; set " PST_SLICES_PARAM " = 1 in scheduler_options",
                     scheduler->plugin->id);
    }
    if (status == PST_OK) {
        devices->chooses = topology->n_stages == 0;
        status = pst_places_ask(scheduler, topology, devices->n_logical, &planner->arena,
                                &devices->places, err);
    }
    return status;
}
