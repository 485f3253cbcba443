/* SPDX-License-Identifier: Apache-2.0
 *
 * The strategies of a job: matched, instantiated; and what the scheduler wants to be given.
 */
#include <penstock/memopt_global.h>

#include "planner/state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/caps.h"
#include "host/describe.h"
#include "planner/optimizer.h"
#include "planner/topology.h"

/* --- the plugin that a table names ------------------------------------------------------------*/

/* "use" and "path" of a strategy's table. */
struct choice {
    const char *id, *path;
};

static pst_status read_choice(const struct pst_job *job, struct pst_config_node *table,
                              const char *kind, struct choice *ret_choice, struct pst_error *err)
{
    struct pst_config_node *use = table == NULL ? NULL : pst_config_get(table, "use");
    struct pst_config_node *path = table == NULL ? NULL : pst_config_get(table, "path");

    if (use == NULL) {
        return pst_fail_at(
            err, PST_ERR_CONFIG, "config.key", table != NULL ? table->file : job->config->path,
            table != NULL ? table->line : 0, table != NULL ? table->column : 0,
            "[%s] must name one: use = \"...\"; \"penstock plugins\" lists them", kind);
    }
    if (use->kind != PST_CONFIG_STRING || (path != NULL && path->kind != PST_CONFIG_STRING)) {
        struct pst_config_node *node = use->kind != PST_CONFIG_STRING ? use : path;

        return pst_fail_at(err, PST_ERR_CONFIG, "config.value", node->file, node->line,
                           node->column, "\"%s\" in [%s] must be a string", node->key, kind);
    }
    if (path != NULL && path->value.string[0] == '\0') {
        return pst_fail_at(err, PST_ERR_CONFIG, "config.value", path->file, path->line,
                           path->column, "\"path\" in [%s] names no file", kind);
    }
    pst_config_resolve(job->config, table, "path");
    ret_choice->id = use->value.string;
    ret_choice->path = path != NULL ? path->value.string : NULL;
    return PST_OK;
}

pst_status pst_job_plugin(const struct pst_job *job, struct pst_config_node *table,
                          const char *kind, const struct pst_plugin **ret_plugin,
                          struct pst_error *err)
{
    struct choice choice = {NULL, NULL};
    pst_status status = read_choice(job, table, kind, &choice, err);

    if (status != PST_OK) {
        return status;
    }
    status = pst_plugin_find(kind, choice.id, choice.path, job->plugins.path, ret_plugin, err);
    if (status != PST_OK && err != NULL && err->file[0] == '\0') {
        const struct pst_config_node *at =
            pst_config_get(table, choice.path != NULL ? "path" : "use");

        snprintf(err->file, sizeof err->file, "%s", at->file != NULL ? at->file : "");
        err->line = at->line;
        err->column = at->column;
    }
    return status;
}

pst_status pst_job_plugin_is_foreign(const struct pst_job *job, struct pst_config_node *table,
                                     const char *kind, bool *ret_foreign, struct pst_error *err)
{
    struct choice choice = {.id = NULL};

    return read_choice(job, table, kind, &choice, NULL) != PST_OK
               ? PST_OK /* an error that opens nothing */
               : pst_plugin_is_foreign(kind, choice.id, choice.path, job->plugins.path, ret_foreign,
                                       err);
}

/* --- slices of sequences ----------------------------------------------------------------------*/

/* Slices by the plugin's table, or its default; 1 where that is not a valid number. */
static uint32_t read_slices(const struct pst_plugin *plugin, struct pst_config_node *table)
{
    const struct pst_config_node *node = pst_config_get(table, PST_SLICES_PARAM);
    int64_t slices = 1;

    for (uint32_t i = 0; i < plugin->n_params; i++) {
        const struct pst_param *row = pst_plugin_param(plugin, i);

        if (strcmp(row->key, PST_SLICES_PARAM) == 0 && row->initial != NULL) {
            slices = strtoll(row->initial, NULL, 10);
        }
    }
    slices = node != NULL && node->kind == PST_CONFIG_INT ? node->value.integer : slices;
    return slices < 1 || slices > UINT32_MAX ? 1 : (uint32_t)slices;
}

pst_status pst_job_read_slices(const struct pst_job *job, uint32_t *ret_slices,
                               struct pst_error *err)
{
    struct pst_arena arena = {0};
    struct choice choice = {NULL, NULL};
    const struct pst_plugin *plugin = NULL;
    struct pst_error why = {.status = PST_OK};

    *ret_slices = 1;

    if (read_choice(job, job->scheduler, "scheduler", &choice, NULL) == PST_OK) {
        const char *path = choice.path != NULL ? choice.path
                                               : pst_plugin_where(&arena, "scheduler", choice.id,
                                                                  job->plugins.path);

        if (path[0] != '\0' &&
            pst_plugin_describe(&arena, path, "scheduler", choice.id, job->plugins.time_limit,
                                &plugin, NULL, &why) == PST_OK &&
            pst_caps_has(plugin->provides, PST_SLICES_WORD)) {
            *ret_slices = read_slices(plugin, job->scheduler);
        }
    }
    pst_arena_finish(&arena);
    if (strcmp(why.kind, "plugin.timeout") != 0) {
        return PST_OK;
    }
    *err = why;
    return why.status;
}

uint32_t pst_job_slices(const struct pst_job *job)
{
    struct pst_error unused;
    uint32_t slices = 1;

    return pst_job_read_slices(job, &slices, &unused) == PST_OK ? slices : 1;
}

/* --- matched and instantiated -----------------------------------------------------------------*/

#define ON_NON_FINITE_SKIP 1 /* train.on_non_finite */

static pst_status instantiate(struct pst_planner *planner, const struct pst_plugin *plugin,
                              struct pst_config_node *table, struct pst_instance **ret_instance,
                              struct pst_error *err)
{
    struct pst_host_context context;

    for (uint32_t i = 0; i < plugin->n_params; i++) {
        const struct pst_param *row = pst_plugin_param(plugin, i);

        if (row->type == PST_PARAM_PATH) {
            pst_config_resolve(planner->job->config, table, row->key);
        }
    }
    pst_questions_context(planner, &context);
    return pst_instance_create(plugin, table, &context, ret_instance, err);
}

/*
 * Replays within replays settle a stage: nobody decides about it afterwards. So there is one
 * optimizer that lists them, and it is asked last, behind those that come after it in the config
 * and decide about all devices at once: their turn is when all stages are settled anyway.
 */
static pst_status find_turns(const struct pst_plugin *const *memopts, uint32_t n, uint32_t *turns,
                             struct pst_error *err)
{
    uint32_t nested = n, used = 0;

    for (uint32_t i = 0; i < n; i++) {
        bool lists = pst_caps_has(memopts[i]->provides, "nested");

        if (nested < n && lists) {
            return pst_fail(err, PST_ERR_CONFIG, "config.value",
                            "memopt \"%s\" and memopt \"%s\" both list replays, which settles a "
                            "stage: there may be one such [[memopt]]",
                            memopts[nested]->id, memopts[i]->id);
        }
        if (nested < n && memopts[i]->get_interface(PST_MEMOPT_GLOBAL) == NULL) {
            return pst_fail(err, PST_ERR_CONFIG, "config.value",
                            "memopt \"%s\" lists replays, which decides a stage: its [[memopt]] "
                            "must come after that of \"%s\"; only those that decide about all "
                            "devices at once may follow it",
                            memopts[nested]->id, memopts[i]->id);
        }
        if (lists) {
            nested = i;
        } else {
            turns[used++] = i;
        }
    }
    if (nested < n) {
        turns[used] = nested;
    }
    return PST_OK;
}

bool pst_planner_barrier(const struct pst_job *job)
{
    return job->train.clip > 0 || job->train.on_non_finite == ON_NON_FINITE_SKIP;
}

static pst_status add_hasty(struct pst_planner *planner, const struct pst_plugin *plugin,
                            struct pst_error *err)
{
    struct pst_config_node *table = planner->job->scheduler;
    struct pst_config_node *hasty = pst_hastened(&planner->arena, table, plugin);

    return hasty == table ? PST_OK : instantiate(planner, plugin, hasty, &planner->hasty, err);
}

pst_status pst_planner_load(struct pst_planner *planner, struct pst_error *err)
{
    const struct pst_job *job = planner->job;
    const struct pst_plugin *plugins[2 + PST_MAX_MEMOPT] = {NULL};
    uint32_t turns[PST_MAX_MEMOPT], i, n = job->n_memopt;
    pst_status status = PST_OK;

    for (i = 0; status == PST_OK && i < 2 + n; i++) {
        struct pst_config_node *table;
        const char *kind = pst_job_strategy(job, i, &table);

        status = pst_job_plugin(job, table, kind, &plugins[i], err);
    }
    PST_TRY(status, pst_caps_match(plugins, 2 + n, err));
    PST_TRY(status, find_turns(&plugins[2], n, turns, err));
    if (status == PST_OK) {
        status = instantiate(planner, plugins[0], job->partitioner, &planner->partitioner, err);
        if (status == PST_OK && planner->cluster->n_kinds > 0 &&
            !pst_caps_has(plugins[0]->provides, "mixed-devices")) {
            pst_remark_functions.text(&planner->partitioner->host, "mixed_devices",
                                      "planned as if all devices were like the slowest");
        }
    }
    PST_TRY(status, instantiate(planner, plugins[1], job->scheduler, &planner->scheduler, err));
    PST_TRY(status, add_hasty(planner, plugins[1], err));
    for (i = 0; status == PST_OK && i < n; i++) {
        const struct pst_plugin *plugin = plugins[2 + turns[i]];

        planner->n_memopt = i + 1;
        status = instantiate(planner, plugin, job->memopt[turns[i]], &planner->memopt[i], err);
    }
    return status;
}

/* Are there as many micro-batches as the scheduler wants? */
static pst_status check_microbatches(const struct pst_planner *planner, struct pst_error *err)
{
    const struct pst_topology *topology = &planner->topology;
    uint32_t m = planner->n_microbatches * pst_topology_copies(topology);

    if (m < topology->min_microbatches) {
        return pst_fail(err, PST_ERR_CONFIG, "config.value",
                        "scheduler \"%s\" needs at least %u micro-batches, but batch %u in "
                        "micro-batches of %u gives %u; raise train.batch or lower train.microbatch",
                        planner->scheduler->plugin->id, topology->min_microbatches, planner->batch,
                        (uint32_t)planner->job->train.microbatch, m);
    }
    if (topology->microbatch_multiple > 1 && m % topology->microbatch_multiple != 0) {
        return pst_fail(err, PST_ERR_CONFIG, "config.value",
                        "scheduler \"%s\" needs a number of micro-batches that is a multiple of "
                        "%u, but batch %u in micro-batches of %u gives %u; change train.batch or "
                        "train.microbatch",
                        planner->scheduler->plugin->id, topology->microbatch_multiple,
                        planner->batch, (uint32_t)planner->job->train.microbatch, m);
    }
    return PST_OK;
}

/* --- logical devices --------------------------------------------------------------------------*/

/* Keeps the replica counts for which there are enough devices. */
static pst_status read_degrees(struct pst_planner *planner, struct pst_error *err)
{
    const struct pst_job_train *train = &planner->job->train;
    uint32_t *degrees = pst_arena_array(&planner->arena, train->n_degrees, sizeof *degrees);

    planner->degrees = degrees;
    for (uint32_t i = 0; i < train->n_degrees; i++) {
        if (train->degree[i] <= planner->n_ranks) {
            degrees[planner->n_degrees++] = train->degree[i];
            planner->replicates |= train->degree[i] > 1;
        }
    }
    return planner->n_degrees > 0
               ? PST_OK
               : pst_fail(err, PST_ERR_CONFIG, "config.value",
                          "train.degrees asks for at least %u replicas of every stage, but there "
                          "are %u devices",
                          train->degree[0], planner->n_ranks);
}

/* Two copies take every other micro-batch each: as much as replicas of a stage that take half of
   twice as large a one. */
static pst_status join_copies(struct pst_planner *planner, struct pst_error *err)
{
    uint32_t copies = pst_topology_copies(&planner->topology);

    if (planner->n_microbatches % copies != 0) {
        return pst_fail(err, PST_ERR_CONFIG, "config.value",
                        "scheduler \"%s\" sends as many micro-batches one way as the other, but "
                        "batch %u in micro-batches of %u gives %u; change train.batch or "
                        "train.microbatch",
                        planner->scheduler->plugin->id, planner->batch, planner->microbatch,
                        planner->n_microbatches);
    }
    for (uint32_t i = 0; copies > 1 && i < planner->n_memopt; i++) {
        const struct pst_plugin *plugin = planner->memopt[i]->plugin;

        if (plugin->get_interface(PST_MEMOPT_GLOBAL) != NULL) {
            return pst_fail(err, PST_ERR_UNSUPPORTED, "plan.mismatch",
                            "memopt \"%s\" decides about all devices at once, which it knows to "
                            "hold one copy of a stage each; scheduler \"%s\" runs two copies",
                            plugin->id, planner->scheduler->plugin->id);
        }
    }
    planner->microbatch *= copies;
    planner->n_microbatches /= copies;
    planner->degree *= copies;
    return PST_OK;
}

/* Every logical device has as many ranks as the first degree says. */
static pst_status divide_evenly(struct pst_planner *planner, uint32_t degree, struct pst_error *err)
{
    const char *who = planner->topology.n_stages != 0 ? planner->scheduler->plugin->id
                                                      : planner->partitioner->plugin->id;

    if (planner->n_ranks % degree != 0 || planner->microbatch % degree != 0) {
        return pst_fail(err, PST_ERR_CONFIG, "config.value",
                        "with \"%s\" every stage has %u replicas, the first of train.degrees: that "
                        "must divide the %u devices and train.microbatch = %u",
                        who, degree, planner->n_ranks, planner->microbatch);
    }
    planner->degree = planner->width = degree;
    return join_copies(planner, err);
}

/* Where the partitioner knows replicas and the scheduler takes any stages, it is given all ranks
   and says which stage has which. Everybody else is given logical devices of equal size, as though
   each were one device, and the host deals their samples out. */
static pst_status find_devices(struct pst_planner *planner, struct pst_error *err)
{
    bool knows = pst_caps_has(planner->partitioner->plugin->provides, "replicas");
    struct pst_instance *scheduler = planner->scheduler;
    uint32_t n = planner->n_ranks, asked;
    pst_status status = read_degrees(planner, err);

    if (status != PST_OK) {
        return status;
    }
    asked = n % planner->degrees[0] == 0 ? n / planner->degrees[0] : n;
    status = pst_scheduler_topology(scheduler, asked, &planner->topology, err);
    if (status == PST_OK && knows && planner->topology.n_stages == 0) {
        planner->chooses = true;
        planner->degree = planner->width = 1;
        planner->n_devices = n;
        return asked == n ? PST_OK : pst_scheduler_topology(scheduler, n, &planner->topology, err);
    }
    planner->n_devices = asked;
    return status == PST_OK ? divide_evenly(planner, planner->degrees[0], err) : status;
}

/* --- places ------------------------------------------------------------------------------------*/

/* Every divisor of the batch where both strategies know stages of different sizes, else the one
   size of the job; as far as replicas can share them. */
static void offer_sizes(struct pst_planner *planner)
{
    static const char word[] = "per-stage-microbatch";
    bool several = planner->graph->slices == 1 && /* slices of a sequence stay together */
                   pst_caps_has(planner->partitioner->plugin->provides, word) &&
                   pst_caps_has(planner->scheduler->plugin->provides, word) &&
                   pst_caps_executor(word);
    uint32_t b, n = 1, *candidates;

    for (b = 1; several && b <= planner->batch; b++) {
        n += planner->batch % b == 0;
    }
    candidates = pst_arena_array(&planner->arena, n, sizeof *candidates);
    candidates[0] = planner->microbatch;
    planner->n_candidates = 1;
    for (b = 1; several && b <= planner->batch; b++) {
        if (planner->batch % b == 0 && b % planner->degree == 0 && b != planner->microbatch) {
            candidates[planner->n_candidates++] = b;
        }
    }
    planner->candidates = candidates;
}

/* Stages that share a device are chunks, which the scheduler must provide. */
static pst_status check_chunks(const struct pst_planner *planner, struct pst_error *err)
{
    uint32_t most = planner->places.shared / pst_places_copies(&planner->places);
    char word[32], what[64];

    if (most <= 1) {
        return PST_OK;
    }
    snprintf(word, sizeof word, "chunks=%u", most);
    snprintf(what, sizeof what, "%u stages on one device", most);
    return pst_caps_require(planner->scheduler->plugin, word, what, err);
}

/* The ranks of each place, copy by copy. */
static void deal_ranks(struct pst_planner *planner)
{
    const struct pst_places *places = &planner->places;
    uint32_t width = planner->width, degree = planner->degree;

    planner->ranks =
        pst_arena_array(&planner->arena, (size_t)places->n * degree, sizeof *planner->ranks);
    for (uint32_t p = 0; p < places->n; p++) {
        for (uint32_t i = 0; i < degree; i++) {
            uint32_t device = pst_places_device(places, i / width * places->n + p);

            planner->ranks[p * degree + i] = device * width + i % width;
        }
    }
}

/* The graph has been cut by what the scheduler's parameter says. */
static pst_status check_slices(const struct pst_planner *planner, struct pst_error *err)
{
    const struct pst_topology *topology = &planner->topology;
    const char *id = planner->scheduler->plugin->id;

    if (topology->slices > 1 && pst_rule_is_asynchronous(topology->version_rule)) {
        return pst_fail(err, PST_ERR_UNSUPPORTED, "plan.mismatch",
                        "scheduler \"%s\" wants slices of sequences in steps that overlap, which "
                        "this penstock does not execute",
                        id);
    }
    return topology->slices == planner->graph->slices
               ? PST_OK
               : pst_planner_illegal(
                     err, planner->scheduler,
                     "topology() states %u slices, its parameter \"" PST_SLICES_PARAM "\" %u",
                     topology->slices, planner->graph->slices);
}

pst_status pst_planner_place(struct pst_planner *planner, struct pst_error *err)
{
    const struct pst_topology *topology = &planner->topology;
    pst_status status = find_devices(planner, err);

    PST_TRY(status, check_slices(planner, err));
    if (status != PST_OK) {
        return status;
    }
    if (pst_rule_is_asynchronous(topology->version_rule)) {
        status = pst_caps_require(planner->scheduler->plugin, "async", "steps that overlap", err);
        if (status == PST_OK && topology->version_rule == PST_VERSION_STASHED &&
            pst_planner_barrier(planner->job)) {
            status =
                pst_fail(err, PST_ERR_UNSUPPORTED, "plan.mismatch",
                         "scheduler \"%s\" has each stage update its weights after every "
                         "micro-batch, so there is no norm of the whole gradient to clip by or to "
                         "look at; set train.clip = 0 and train.on_non_finite = \"stop\"",
                         planner->scheduler->plugin->id);
        }
        if (status != PST_OK) {
            return status;
        }
    }
    if (!planner->chooses || !planner->replicates) { /* else: once the stages are known */
        status = check_microbatches(planner, err);
    }
    if (status == PST_OK) {
        offer_sizes(planner);
        status = pst_places_ask(planner->scheduler, topology, planner->n_devices, &planner->arena,
                                &planner->places, err);
    }
    if (status == PST_OK) {
        deal_ranks(planner);
    }
    return status == PST_OK ? check_chunks(planner, err) : status;
}

pst_status pst_planner_chosen(struct pst_planner *planner, const struct pst_plan *plan,
                              struct pst_error *err)
{
    pst_status status;

    if (!planner->chooses || !planner->replicates) {
        return PST_OK;
    }
    status = pst_scheduler_topology(planner->scheduler, plan->n_stages, &planner->topology, err);
    return status == PST_OK ? check_microbatches(planner, err) : status;
}
