/* SPDX-License-Identifier: Apache-2.0 */
#include "planner/solo_job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/host_log.h"
#include "planner/state.h"
#include "planner/topology.h"

static bool ask_cancelled(void *impl)
{
    bool (*const *cancelled)(void) = impl;

    return *cancelled != NULL && (*cancelled)();
}

/* Two keys of a config's table are none of the plugin's. */
static pst_status check_options(struct pst_config *config, struct pst_error *err)
{
    static const char *const taken[] = {"use", "path"};

    for (size_t i = 0; i < sizeof taken / sizeof taken[0]; i++) {
        if (pst_config_get(config->root, taken[i]) != NULL) {
            return pst_fail(err, PST_ERR_CONFIG, "config.key",
                            "--options: \"%s\" is no parameter; NAME says which scheduler",
                            taken[i]);
        }
    }
    return PST_OK;
}

static pst_status open_scheduler(const struct pst_solo_job *job,
                                 const struct pst_host_context *context,
                                 struct pst_instance **ret_instance, struct pst_error *err)
{
    struct pst_config *config = NULL;
    const struct pst_plugin *plugin;
    pst_status st = pst_config_from_list(job->options == NULL ? "" : job->options, &config, err);

    if (st == PST_OK) {
        st = check_options(config, err);
    }
    if (st == PST_OK) {
        st = pst_plugin_find("scheduler", job->id, job->path, &plugin, err);
    }
    if (st == PST_OK) {
        st = pst_instance_create(plugin, config->root, context, ret_instance, err);
    }
    if (st != PST_OK && err != NULL && strcmp(err->file, "--set") == 0) {
        snprintf(err->file, sizeof err->file, "--options");
    }
    pst_config_destroy(config);
    return st;
}

/* Devices and micro-batches, where the scheduler answers one instance only. */
static pst_status complete(struct pst_solo_job *job, struct pst_instance *scheduler,
                           struct pst_error *err)
{
    struct pst_solo_shape shape = {0, 0, 0};
    bool fixed;
    pst_status st = pst_solo_shape(scheduler, &fixed, &shape, err);

    if (st != PST_OK) {
        return st;
    }
    if (fixed) {
        job->n_devices = job->n_devices == 0 ? shape.n_devices : job->n_devices;
        job->n_microbatches = job->n_microbatches == 0 ? shape.n_microbatches : job->n_microbatches;
        job->again = false;
    }
    if (job->n_devices == 0 || job->n_microbatches == 0) {
        return pst_fail(err, PST_ERR_CONFIG, "usage", "schedule: %s is missing",
                        job->n_devices == 0 ? "--devices" : "--microbatches");
    }
    return PST_OK;
}

/* The costs of the job in whole numbers of a unit that a device's stages can share. */
static pst_status scale_costs(const struct pst_solo_job *job, uint32_t n_devices,
                              uint32_t n_microbatches, uint64_t parts,
                              struct pst_solo_costs *ret_costs, struct pst_error *err)
{
    struct pst_solo_costs costs = job->costs;
    uint64_t *numbers[] = {&costs.forward_ns, &costs.backward_input_ns, &costs.backward_weight_ns,
                           &costs.latency_ns, &costs.saved_bytes,       &costs.saved_weight_bytes,
                           &costs.limit_bytes};
    /* All sums stay far from 64 bits. */
    uint64_t limit = ((uint64_t)1 << 61) / parts / n_microbatches / (n_devices + 1);
    size_t i, n = sizeof numbers / sizeof numbers[0];

    for (i = 0; i < n; i++) {
        if (numbers[i] == &costs.limit_bytes) {
            costs.limit_bytes = costs.limit_bytes > ((uint64_t)1 << 62) / parts
                                    ? UINT64_MAX
                                    : costs.limit_bytes * parts;
        } else if (*numbers[i] > limit) {
            return pst_fail(err, PST_ERR_CONFIG, "config.limit",
                            "costs are too large to be counted exactly for %u micro-batches on %u "
                            "devices; choose a larger unit",
                            n_microbatches, n_devices);
        } else {
            *numbers[i] *= parts;
        }
    }
    costs.barrier = job->barrier;
    *ret_costs = costs;
    return PST_OK;
}

/* Stages and links as the job has them, on as many devices. */
static pst_status copy_problem(const struct pst_solo_job *job, struct pst_solo *solo,
                               struct pst_error *err)
{
    const struct pst_solo *problem = job->problem;
    const struct pst_schedule_in *in = &problem->in;
    pst_status st = pst_solo_alloc(solo, in->n_devices, in->n_stages, in->n_links, err);

    if (st == PST_OK) {
        memcpy(solo->stages, problem->stages, in->n_stages * sizeof *solo->stages);
        memcpy(solo->links, problem->links, in->n_links * sizeof *solo->links);
        memcpy(solo->activation_bytes, problem->activation_bytes,
               in->n_devices * sizeof *solo->activation_bytes);
        solo->in.barrier = job->barrier;
    }
    return st;
}

/* With every stage on its device. */
static void connect_problem(struct pst_solo *solo)
{
    for (uint32_t i = 0; i < solo->in.n_links; i++) {
        struct pst_schedule_link *link = &solo->links[i];

        if (solo->stages[link->from].device == solo->stages[link->to].device) {
            link->transfer_ns = 0;
        }
    }
    pst_solo_connect(solo);
}

/* Stages without a device go where the scheduler wants them; the others must be there. */
static pst_status place_problem(const struct pst_solo *problem, struct pst_instance *scheduler,
                                struct pst_solo_placement *at, uint32_t *device_of,
                                struct pst_error *err)
{
    uint32_t n = problem->in.n_stages, n_devices = problem->in.n_devices, s;
    bool fixed;
    pst_status st = pst_scheduler_topology(scheduler, n_devices, &at->topology, err);

    fixed = at->topology.n_stages != 0;
    if (st == PST_OK && fixed && at->topology.n_stages != n) {
        st = pst_fail(err, PST_ERR_UNSUPPORTED, "plan.mismatch",
                      "scheduler \"%s\" wants %u stages on %u devices; the problem has %u",
                      scheduler->plugin->id, at->topology.n_stages, n_devices, n);
    } else if (st == PST_OK) { /* beyond the devices of an open topology the file says where */
        st = pst_scheduler_devices(scheduler, &at->topology, n_devices,
                                   !fixed && n > n_devices ? n_devices : n, device_of, err);
    }
    for (s = 0; st == PST_OK && s < n; s++) {
        uint32_t wanted = fixed ? device_of[s] : s, stated = problem->stages[s].device;

        device_of[s] = stated == PST_NONE ? wanted : stated;
        if (device_of[s] >= n_devices) {
            st = pst_fail(err, PST_ERR_CONFIG, "config.value",
                          "stage %u is on device %u, but there are %u devices", s, device_of[s],
                          n_devices);
        } else if (fixed && device_of[s] != wanted) {
            st = pst_fail(err, PST_ERR_UNSUPPORTED, "plan.mismatch",
                          "scheduler \"%s\" wants stage %u on device %u; the problem has it on %u",
                          scheduler->plugin->id, s, wanted, device_of[s]);
        }
    }
    return st;
}

static pst_status restate_chain(const struct pst_solo_job *job, const struct pst_solo_placement *at,
                                uint64_t *ret_scale, struct pst_solo *ret_solo,
                                struct pst_error *err)
{
    struct pst_solo_costs costs;
    uint64_t parts;
    pst_status st = pst_solo_parts_of(at->n_devices, at->n_stages, at->device_of, &parts, err);

    if (st == PST_OK) {
        st = scale_costs(job, at->n_devices, at->n_microbatches, parts, &costs, err);
    }
    if (st == PST_OK) {
        st = pst_solo_shares(at->n_devices, at->n_stages, at->device_of, at->n_microbatches, &costs,
                             ret_solo, err);
    }
    *ret_scale = st == PST_OK ? PST_SOLO_SCALE * parts : 1;
    return st;
}

static pst_status restate_problem(const struct pst_solo_job *job,
                                  const struct pst_solo_placement *at, uint32_t times,
                                  struct pst_solo *ret_solo, struct pst_error *err)
{
    pst_status st = copy_problem(job, ret_solo, err);

    for (uint32_t s = 0; st == PST_OK && s < at->n_stages; s++) {
        ret_solo->stages[s].device = at->device_of[s];
        ret_solo->stages[s].n_microbatches *= times;
    }
    if (st == PST_OK) {
        connect_problem(ret_solo);
    }
    return st;
}

pst_status pst_solo_job_restate(const struct pst_solo_job *job, const struct pst_solo_placement *at,
                                uint32_t times, uint64_t *ret_scale, struct pst_solo *ret_solo,
                                struct pst_error *err)
{
    pst_status st = job->problem != NULL ? restate_problem(job, at, times, ret_solo, err)
                                         : restate_chain(job, at, ret_scale, ret_solo, err);

    ret_solo->topology = at->topology;
    return st;
}

/* The instance where the scheduler wants its stages, and whether it takes as many micro-batches. */
static pst_status state(const struct pst_solo_job *job, struct pst_instance *scheduler,
                        uint32_t times, uint64_t *ret_scale, struct pst_solo *ret_solo,
                        struct pst_error *err)
{
    struct pst_solo_placement at = {.n_devices = job->n_devices,
                                    .n_microbatches = job->n_microbatches * times};
    uint32_t *device_of = NULL;
    pst_status st;

    if (job->problem != NULL) {
        at.n_devices = job->problem->in.n_devices;
        at.n_stages = job->problem->in.n_stages;
        device_of = calloc(at.n_stages, sizeof *device_of);
        st = device_of == NULL ? pst_fail_nomem(err)
                               : place_problem(job->problem, scheduler, &at, device_of, err);
    } else {
        st = pst_solo_place(scheduler, at.n_devices, &at.topology, &at.n_stages, &device_of, err);
    }
    at.device_of = device_of;
    if (st == PST_OK) {
        st = pst_solo_job_restate(job, &at, times, ret_scale, ret_solo, err);
    }
    if (st == PST_OK && job->problem == NULL) {
        st = pst_solo_check_shape(scheduler, at.n_devices, at.n_microbatches, err);
    }
    for (uint32_t s = 0; st == PST_OK && s < at.n_stages; s++) {
        st = pst_solo_check_microbatches(scheduler, &at.topology,
                                         ret_solo->stages[s].n_microbatches, err);
    }
    free(device_of);
    return st;
}

static pst_status answer(const struct pst_solo_job *job, struct pst_instance *scheduler,
                         uint32_t times, uint64_t *ret_scale, struct pst_solo *ret_solo,
                         struct pst_orders *ret_answer, struct pst_error *err)
{
    pst_status st;

    if ((uint64_t)job->n_microbatches * times >= PST_NONE) {
        return pst_fail(err, PST_ERR_CONFIG, "config.limit", "%u micro-batches are too many",
                        job->n_microbatches);
    }
    *ret_scale = 1;
    st = state(job, scheduler, times, ret_scale, ret_solo, err);
    return st == PST_OK ? pst_solo_schedule(scheduler, &ret_solo->in, ret_answer, err) : st;
}

pst_status pst_solo_job_run(const struct pst_solo_job *job_, bool (*cancelled)(void),
                            struct pst_solo_result *ret_result, struct pst_error *err)
{
    const struct pst_host_context context = {.impl = &cancelled, .cancelled = ask_cancelled};
    struct pst_solo_result result = {.scale = 1};
    struct pst_instance *scheduler = NULL;
    struct pst_solo_job job = *job_;
    struct pst_error unused;
    uint64_t scale;
    pst_status st;

    pst_host_log_begin();
    st = open_scheduler(&job, &context, &scheduler, err);

    if (st == PST_OK && job.problem == NULL) {
        st = complete(&job, scheduler, err);
    }
    if (st == PST_OK) {
        st = answer(&job, scheduler, 1, &result.scale, &result.solo, &result.answer, err);
    }
    if (st == PST_OK && job.again) {
        /* Its own reasons not to are no failure of what was asked for. */
        pst_status again =
            answer(&job, scheduler, 2, &scale, &result.twice, &result.twice_answer, &unused);

        result.has_twice = again == PST_OK;
        st = again == PST_ERR_NOMEM ? pst_fail_nomem(err) : PST_OK;
    }
    if (st == PST_OK) {
        snprintf(result.id, sizeof result.id, "%s", scheduler->plugin->id);
        snprintf(result.version, sizeof result.version, "%s", scheduler->plugin->version);
    }
    pst_instance_destroy(scheduler);
    pst_host_log_end();
    if (st != PST_OK) {
        pst_solo_result_finish(&result);
        return st;
    }
    *ret_result = result;
    return PST_OK;
}

void pst_solo_result_finish(struct pst_solo_result *result)
{
    pst_orders_finish(&result->twice_answer);
    pst_solo_finish(&result->twice);
    pst_orders_finish(&result->answer);
    pst_solo_finish(&result->solo);
    memset(result, 0, sizeof *result);
}

pst_status pst_solo_ask_apart(const struct pst_solo_limits *limits, struct pst_wire *question,
                              char **ret_reply, size_t *ret_length, struct pst_error *err)
{
    struct pst_worker_task task = {.time_limit_ns = limits->time_ns,
                                   .memory_limit_bytes = limits->memory_bytes,
                                   .cancelled = limits->cancelled,
                                   .time_limit_name = "--time-limit"};

    return pst_worker_ask(&task, question, ret_reply, ret_length, err);
}
