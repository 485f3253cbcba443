/* SPDX-License-Identifier: Apache-2.0
 *
 * The question that a problem states, put to a partitioner; its answer, copied as it comes.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "host/call.h"
#include "planner/optimizer.h"
#include "planner/solo_partition_state.h"
#include "planner/stage_rules.h"

struct collection {
    struct pst_partition_out out;
    struct pst_partition_answer *answer;
    const struct pst_remarks *remarks;
    struct pst_stage_rules rules;
    bool no_memory;
};

/* --- the question ------------------------------------------------------------------------------*/

static uint64_t whole_bytes(double bytes)
{
    return bytes < 1.8e19 ? (uint64_t)floor(bytes) : UINT64_MAX;
}

pst_status pst_partition_question(const struct pst_problem *problem,
                                  const struct pst_partition_places *places,
                                  struct pst_arena *arena, struct pst_partition_in *ret_in,
                                  struct pst_cluster_view *ret_cluster, struct pst_error *err)
{
    uint32_t n = places->n_places, n_degrees = 0;
    struct pst_cluster_device *devices = pst_arena_array(arena, n, sizeof *devices);
    uint64_t capacity = whole_bytes(problem->memory_bytes / places->shared);

    if (devices == NULL) {
        return pst_fail_nomem(err);
    }
    for (uint32_t i = 0; i < n; i++) {
        uint32_t device = places->device_of == NULL ? i : places->device_of[i];

        devices[i] = (struct pst_cluster_device){
            .memory_bytes = capacity,
            .node = problem->node_size > 0 ? device / problem->node_size : 0,
            .speed = 1.0,
        };
    }
    while (n_degrees < problem->n_degrees && problem->degrees[n_degrees] <= n &&
           (places->n_stages == 0 || problem->degrees[n_degrees] == 1)) {
        n_degrees++; /* stages that share devices have no replicas */
    }
    if (n_degrees == 0) {
        return pst_fail(err, PST_ERR_CONFIG, "config.value",
                        "degrees: the least is %u replicas of a stage, and there are %u devices",
                        problem->degrees[0], problem->n_devices);
    }
    *ret_cluster = (struct pst_cluster_view){.size = sizeof *ret_cluster,
                                             .n_devices = n,
                                             .device_size = sizeof *devices,
                                             .devices = devices};
    *ret_in = (struct pst_partition_in){
        .size = sizeof *ret_in,
        .graph = &problem->graph->view,
        .cluster = ret_cluster,
        .batch = problem->mini_batch,
        .micro_batches = problem->micro_batches,
        .degrees = problem->degrees,
        .n_micro_batches = problem->n_micro_batches,
        .n_degrees = n_degrees,
        .n_stages = places->n_stages,
        .n_devices = n,
        .capacity_bytes = capacity,
    };
    return PST_OK;
}

/* --- the plugin --------------------------------------------------------------------------------*/

static pst_status read_options(const json_t *options, const char *what,
                               struct pst_config **ret_config, struct pst_error *err)
{
    static const char *const taken[] = {"use", "path"};
    char *text;
    pst_status st;

    for (size_t i = 0; i < sizeof taken / sizeof taken[0]; i++) {
        if (json_object_get(options, taken[i]) != NULL) {
            return pst_fail(err, PST_ERR_CONFIG, "config.key",
                            "%s: \"%s\" is no parameter; it is said elsewhere which plugin", what,
                            taken[i]);
        }
    }
    text = options == NULL ? strdup("{}") : json_dumps(options, JSON_COMPACT);
    if (text == NULL) {
        return pst_fail_nomem(err);
    }
    st = pst_config_from_json(text, ret_config, err);
    free(text);
    return st;
}

pst_status pst_partition_create(const struct pst_plugin *plugin, const json_t *options,
                                const char *what, const struct pst_host_context *context,
                                struct pst_instance **ret_instance, struct pst_error *err)
{
    struct pst_config *config = NULL;
    pst_status st = read_options(options, what, &config, err);

    if (st == PST_OK) {
        st = pst_instance_create(plugin, config->root, context, ret_instance, err);
    }
    pst_config_destroy(config);
    return st;
}

static bool has_parameter(const struct pst_plugin *plugin, const char *key)
{
    const char *row = (const char *)plugin->params;

    for (uint32_t i = 0; i < plugin->n_params; i++, row += plugin->param_size) {
        if (strcmp(((const struct pst_param *)(const void *)row)->key, key) == 0) {
            return true;
        }
    }
    return false;
}

/* A parameter that has the name of a key of the problem is as the problem says, unless `options`
   says otherwise. A new reference; NULL: no memory. */
static json_t *add_defaults(const struct pst_plugin *plugin, const struct pst_problem *problem)
{
    static const char key[] = "swap_bandwidth";
    json_t *options = problem->options == NULL ? json_object() : json_copy(problem->options);

    if (options != NULL && problem->swap_bandwidth > 0 && has_parameter(plugin, key) &&
        json_object_get(options, key) == NULL &&
        json_object_set_new(options, key, json_integer((json_int_t)problem->swap_bandwidth)) != 0) {
        json_decref(options);
        return NULL;
    }
    return options;
}

static pst_status create_partitioner(const struct pst_plugin *plugin,
                                     const struct pst_problem *problem,
                                     const struct pst_host_context *context,
                                     struct pst_instance **ret_instance, struct pst_error *err)
{
    json_t *options = add_defaults(plugin, problem);
    pst_status st = options == NULL ? pst_fail_nomem(err)
                                    : pst_partition_create(plugin, options, "options", context,
                                                           ret_instance, err);

    json_decref(options);
    return st;
}

/* --- the answer --------------------------------------------------------------------------------*/

static uint32_t *copy(struct pst_arena *arena, const uint32_t *from, uint32_t n)
{
    uint32_t *to = pst_arena_array(arena, n, sizeof *to);

    return to == NULL ? NULL : memcpy(to, from, n * sizeof *to);
}

static pst_status add_stage(struct pst_partition_out *out, const struct pst_stage_decl *decl)
{
    struct collection *c = out->impl;
    struct pst_partition_answer *answer = c->answer;
    struct pst_partition_decl *stage;

    c->rules.own_width = pst_remarks_flag(c->remarks->items, c->remarks->n, "own_width");
    if (!pst_stage_rules_add(&c->rules, decl)) {
        return PST_ERR_BUG;
    }
    if (!pst_grow(&answer->stages, &answer->capacity, answer->n_stages, sizeof *answer->stages)) {
        c->no_memory = true;
        return PST_ERR_NOMEM;
    }
    stage = &answer->stages[answer->n_stages++];
    *stage = (struct pst_partition_decl){
        .n_nodes = decl->n_nodes,
        .n_ranks = decl->n_ranks,
        .microbatch_size = decl->microbatch_size,
        .k = decl->k,
        .nodes = copy(&answer->arena, decl->nodes, decl->n_nodes),
        .ranks = copy(&answer->arena, decl->ranks, decl->n_ranks),
    };
    c->no_memory |= stage->nodes == NULL || stage->ranks == NULL;
    return c->no_memory ? PST_ERR_NOMEM : PST_OK;
}

pst_status pst_partition_illegal(const char *id, const char *fault, struct pst_error *err)
{
    pst_fail(err, PST_ERR_BUG, "plan.illegal", "partitioner \"%s\" made an illegal plan: %s", id,
             fault);
    if (err != NULL) {
        err->exit_code = 3;
    }
    return PST_ERR_BUG;
}

static pst_status check_number(const struct pst_partition_host *host,
                               const struct pst_partition_answer *answer, struct pst_error *err)
{
    char fault[128];

    if (answer->places.n_stages == 0 || answer->places.n_stages == answer->n_stages) {
        return PST_OK;
    }
    snprintf(fault, sizeof fault, "it has %u stages, but scheduler \"%s\" wants %u",
             answer->n_stages, host->planned->scheduler->plugin->id, answer->places.n_stages);
    return pst_partition_illegal(answer->id, fault, err);
}

static pst_status collect(struct pst_partition_host *host, struct pst_instance *partitioner,
                          const struct pst_partition_in *in, struct pst_partition_answer *answer,
                          struct pst_error *err)
{
    struct collection c = {.answer = answer, .remarks = &partitioner->remarks};
    uint64_t begin_ns = pst_now_ns();
    pst_status st;

    c.out = (struct pst_partition_out){.size = sizeof c.out, .impl = &c, .stage = add_stage};
    if (!pst_stage_rules_init(&c.rules, in)) {
        pst_stage_rules_finish(&c.rules);
        return pst_fail_nomem(err);
    }
    c.rules.multiples_of = host->problem->planned ? 0 : host->problem->mini_batch;
    st = pst_call_partition(partitioner, in, &c.out);
    answer->search_seconds = (double)(pst_now_ns() - begin_ns) / 1e9;
    if (c.no_memory) {
        st = pst_fail_nomem(err);
    } else if (c.rules.fault[0] != '\0' || (st == PST_OK && !pst_stage_rules_end(&c.rules))) {
        st = pst_partition_illegal(partitioner->plugin->id, c.rules.fault, err);
    } else if (st != PST_OK) {
        st = pst_instance_blame(partitioner, &host->pending, st, "partition", err);
    } else {
        st = check_number(host, answer, err);
    }
    if (st == PST_OK && host->planned != NULL) {
        st = pst_partition_arrange(host, answer, c.rules.owner, err);
    }
    pst_stage_rules_finish(&c.rules);
    return st;
}

static pst_status copy_places(const struct pst_partition_places *places,
                              struct pst_partition_answer *answer, struct pst_error *err)
{
    answer->places = *places;
    if (places->device_of != NULL) {
        answer->places.device_of = copy(&answer->arena, places->device_of, places->n_places);
    }
    return places->device_of != NULL && answer->places.device_of == NULL ? pst_fail_nomem(err)
                                                                         : PST_OK;
}

/* With an instance and a question at hand. */
static pst_status run(struct pst_partition_host *host, struct pst_instance *partitioner,
                      struct pst_partition_answer *answer, struct pst_error *err)
{
    const struct pst_partition_places devices = {.n_places = host->problem->n_devices, .shared = 1};
    const struct pst_partition_places *places =
        host->planned != NULL ? &host->planned->places : &devices;
    struct pst_cluster_view cluster;
    struct pst_partition_in in;
    struct pst_arena arena = {0};
    pst_status st = copy_places(places, answer, err);

    snprintf(answer->id, sizeof answer->id, "%s", partitioner->plugin->id);
    snprintf(answer->version, sizeof answer->version, "%s", partitioner->plugin->version);
    answer->planned = host->planned != NULL;
    if (st == PST_OK) {
        st = pst_partition_question(host->problem, places, &arena, &in, &cluster, err);
    }
    if (st == PST_OK) {
        st = collect(host, partitioner, &in, answer, err);
    }
    answer->n_remarks = partitioner->remarks.n;
    if (st == PST_OK &&
        !pst_remarks_copy(&partitioner->remarks, &answer->arena, &answer->remarks)) {
        st = pst_fail_nomem(err);
    }
    pst_arena_finish(&arena);
    return st;
}

pst_status pst_partition_ask(const struct pst_problem_job *job, bool (*cancelled)(void),
                             struct pst_partition_answer *ret_answer, struct pst_error *err)
{
    struct pst_partition_planned planned = {.problem = NULL};
    struct pst_partition_answer answer = {.n_stages = 0};
    struct pst_instance *partitioner = NULL;
    const struct pst_plugin *plugin = NULL;
    struct pst_partition_host host;
    struct pst_host_context context;
    pst_status st = pst_partition_host_init(&host, job->problem, cancelled, &context, err);

    host.deadline_ns = job->deadline_ns;
    if (st == PST_OK) {
        st = pst_plugin_find("partitioner", job->id, job->path, &plugin, err);
    }
    if (st == PST_OK && job->problem->planned) {
        pst_partition_host_plan(&host, &planned);
        st = pst_partition_planned_init(&planned, job->problem, plugin, &context, err);
    }
    if (st == PST_OK) {
        st = create_partitioner(plugin, job->problem, &context, &partitioner, err);
    }
    if (st == PST_OK) {
        st = run(&host, partitioner, &answer, err);
    }
    pst_instance_destroy(partitioner);
    pst_partition_planned_finish(&planned);
    pst_partition_host_finish(&host);
    if (st != PST_OK) {
        pst_partition_answer_finish(&answer);
        return st;
    }
    *ret_answer = answer;
    return PST_OK;
}

void pst_partition_answer_finish(struct pst_partition_answer *answer)
{
    free(answer->stages);
    pst_arena_finish(&answer->arena);
    memset(answer, 0, sizeof *answer);
}
