/* SPDX-License-Identifier: Apache-2.0 */
#include "ask/schedule_job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/util.h"
#include "planner/state.h"
#include "planner/topology.h"

#define MAX_PARTS 1000000

/* The part of an instance that the scheduler decides. n_microbatches: of all copies of a chain. */
struct placement {
    struct pst_topology topology;
    uint32_t n_devices, n_microbatches, n_stages;
    uint32_t *device_of; /* [n_stages] */
};

static bool ask_cancelled(void *impl)
{
    bool (*const *cancelled)(void) = impl;

    return *cancelled != NULL && (*cancelled)();
}

static pst_status open_scheduler(const struct pst_schedule_job *job,
                                 const struct pst_host_context *context,
                                 struct pst_instance **ret_instance, struct pst_error *err)
{
    struct pst_config *config = NULL;
    const struct pst_plugin *plugin;
    pst_status status =
        pst_config_from_list(job->options == NULL ? "" : job->options, &config, err);

    PST_TRY(status, pst_order_question_check_options(config, "--options",
                                                     "NAME says which scheduler", err));
    PST_TRY(status, pst_plugin_find("scheduler", job->id, job->path, NULL, &plugin, err));
    PST_TRY(status, pst_instance_create(plugin, config->root, context, ret_instance, err));
    if (status != PST_OK && err != NULL && strcmp(err->file, "--set") == 0) {
        snprintf(err->file, sizeof err->file, "--options");
    }
    pst_config_destroy(config);
    return status;
}

/* Devices and micro-batches, where the scheduler answers one instance only. */
static pst_status complete(struct pst_schedule_job *job, struct pst_instance *scheduler,
                           struct pst_error *err)
{
    struct pst_order_question_shape shape = {0, 0, 0};
    bool fixed;
    pst_status status = pst_order_question_shape(scheduler, &fixed, &shape, err);

    if (status != PST_OK) {
        return status;
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
static pst_status scale_costs(const struct pst_schedule_job *job, uint32_t n_devices,
                              uint32_t n_microbatches, uint64_t parts, uint32_t slices,
                              struct pst_order_question_costs *ret_costs, struct pst_error *err)
{
    struct pst_order_question_costs costs = job->costs;
    /* A slice of a micro-batch costs its part of it; what is not divided among them is as many
       times the smaller unit. */
    const uint64_t whole = parts * slices;
    uint64_t *numbers[] = {&costs.forward_ns, &costs.backward_input_ns, &costs.backward_weight_ns,
                           &costs.latency_ns, &costs.saved_bytes,       &costs.saved_weight_bytes,
                           &costs.limit_bytes};
    /* All sums stay far from 64 bits. */
    uint64_t limit = ((uint64_t)1 << 61) / whole / n_microbatches / (n_devices + 1);
    size_t i, n = sizeof numbers / sizeof numbers[0];

    for (i = 0; i < n; i++) {
        if (numbers[i] == &costs.limit_bytes) {
            costs.limit_bytes = costs.limit_bytes > ((uint64_t)1 << 62) / whole
                                    ? UINT64_MAX
                                    : costs.limit_bytes * whole;
        } else if (*numbers[i] > limit) {
            return pst_fail(err, PST_ERR_CONFIG, "config.limit",
                            "costs are too large to be counted exactly for %u micro-batches on %u "
                            "devices; choose a larger unit",
                            n_microbatches, n_devices);
        } else {
            *numbers[i] *= numbers[i] == &costs.latency_ns ? whole : parts;
        }
    }
    costs.barrier = job->barrier;
    *ret_costs = costs;
    return PST_OK;
}

/* With every stage on its device. */
static void connect_problem(struct pst_order_question *asked)
{
    for (uint32_t i = 0; i < asked->in.n_links; i++) {
        struct pst_schedule_link *link = &asked->links[i];

        if (asked->stages[link->from].device == asked->stages[link->to].device) {
            link->transfer_ns = 0;
        }
    }
    pst_order_question_connect(asked);
}

/* A chain of as many stages as the scheduler wants. */
static pst_status place_chain(struct pst_instance *scheduler, struct pst_arena *arena,
                              struct placement *at, struct pst_error *err)
{
    uint32_t n = at->n_devices;
    pst_status status = pst_scheduler_topology(scheduler, n, &at->topology, err);

    at->n_stages = at->topology.n_stages != 0 ? at->topology.n_stages : n;
    at->device_of = pst_arena_array(arena, at->n_stages, sizeof *at->device_of);
    return status == PST_OK ? pst_scheduler_devices(scheduler, &at->topology, n, at->n_stages,
                                                    at->device_of, err)
                            : status;
}

/* Stages without a device go where the scheduler wants them; the others must be there. */
static pst_status place_problem(const struct pst_order_question *problem,
                                struct pst_instance *scheduler, struct pst_arena *arena,
                                struct placement *at, struct pst_error *err)
{
    uint32_t n = problem->in.n_stages, n_devices = problem->in.n_devices, s;
    uint32_t *device_of = pst_arena_array(arena, n, sizeof *device_of);
    bool fixed;
    pst_status status = pst_scheduler_topology(scheduler, n_devices, &at->topology, err);

    at->n_devices = n_devices;
    at->n_stages = n;
    at->device_of = device_of;
    fixed = at->topology.n_stages != 0;
    if (status == PST_OK && fixed && at->topology.n_stages != n) {
        status = pst_fail(err, PST_ERR_UNSUPPORTED, "plan.mismatch",
                          "scheduler \"%s\" needs %u stages on %u devices; the problem has %u",
                          scheduler->plugin->id, at->topology.n_stages, n_devices, n);
    } else if (status == PST_OK && at->topology.n_copies > 1) {
        status =
            pst_fail(err, PST_ERR_UNSUPPORTED, "plan.mismatch",
                     "scheduler \"%s\" runs two copies of all stages in opposite directions; the "
                     "stages of a problem file are one copy",
                     scheduler->plugin->id);
    } else if (status == PST_OK) { /* beyond the devices of an open topology the file says where */
        status = pst_scheduler_devices(scheduler, &at->topology, n_devices,
                                       !fixed && n > n_devices ? n_devices : n, device_of, err);
    }
    for (s = 0; status == PST_OK && s < n; s++) {
        uint32_t wanted = fixed ? device_of[s] : s, stated = problem->stages[s].device;

        device_of[s] = stated == PST_NONE ? wanted : stated;
        if (device_of[s] >= n_devices) {
            status = pst_fail(err, PST_ERR_CONFIG, "config.value",
                              "stage %u is on device %u, but there are %u devices", s, device_of[s],
                              n_devices);
        } else if (fixed && device_of[s] != wanted) {
            status =
                pst_fail(err, PST_ERR_UNSUPPORTED, "plan.mismatch",
                         "scheduler \"%s\" needs stage %u on device %u; the problem has it on %u",
                         scheduler->plugin->id, s, wanted, device_of[s]);
        }
    }
    return status;
}

/* The least number by which every stage's part of a device's share becomes whole: the least common
   multiple of the devices' numbers of stages. config.limit beyond 1e6. */
static pst_status count_parts(const struct placement *at, uint64_t *ret_parts,
                              struct pst_error *err)
{
    uint32_t *counts = pst_alloc(at->n_devices, sizeof *counts);
    uint64_t parts = 1;

    for (uint32_t s = 0; s < at->n_stages; s++) {
        counts[at->device_of[s]]++;
    }
    for (uint32_t d = 0; d < at->n_devices && parts <= MAX_PARTS; d++) {
        parts = counts[d] == 0 ? parts : parts / pst_gcd(parts, counts[d]) * counts[d];
    }
    free(counts);
    if (parts > MAX_PARTS) {
        return pst_fail(err, PST_ERR_UNSUPPORTED, "config.limit",
                        "the devices' numbers of stages differ too much to divide costs evenly");
    }
    *ret_parts = parts;
    return PST_OK;
}

static pst_status restate_chain(const struct pst_schedule_job *job, const struct placement *at,
                                uint64_t *ret_scale, struct pst_order_question *ret_asked,
                                struct pst_error *err)
{
    struct pst_order_question_costs costs;
    uint64_t parts = 1;
    pst_status status = count_parts(at, &parts, err);

    PST_TRY(status, scale_costs(job, at->n_devices, at->n_microbatches, parts, at->topology.slices,
                                &costs, err));
    costs.copies = pst_topology_copies(&at->topology);
    if (status == PST_OK) {
        *ret_asked = pst_order_question_shares(at->n_devices, at->n_stages, at->device_of,
                                               at->n_microbatches, &costs);
        *ret_scale = PST_SCHEDULE_SCALE * parts * at->topology.slices;
    }
    return status;
}

/* Stages and links as the job has them. */
static void restate_problem(const struct pst_schedule_job *job, const struct placement *at,
                            uint32_t times, struct pst_order_question *asked)
{
    const struct pst_order_question *problem = job->problem;
    const struct pst_schedule_in *in = &problem->in;

    pst_order_question_alloc(asked, in->n_devices, in->n_stages, in->n_links);
    memcpy(asked->stages, problem->stages, in->n_stages * sizeof *asked->stages);
    memcpy(asked->links, problem->links, in->n_links * sizeof *asked->links);
    memcpy(asked->activation_bytes, problem->activation_bytes,
           in->n_devices * sizeof *asked->activation_bytes);
    asked->in.barrier = job->barrier;
    for (uint32_t s = 0; s < at->n_stages; s++) {
        asked->stages[s].device = at->device_of[s];
        asked->stages[s].n_microbatches *= times;
    }
    connect_problem(asked);
}

/* The instance of a placement that is sound, without the scheduler. */
static pst_status restate(const struct pst_schedule_job *job, const struct placement *at,
                          uint32_t times, uint64_t *ret_scale, struct pst_order_question *ret_asked,
                          struct pst_error *err)
{
    pst_status status = PST_OK;

    *ret_scale = 1;
    if (job->problem != NULL) {
        restate_problem(job, at, times, ret_asked);
    } else {
        status = restate_chain(job, at, ret_scale, ret_asked, err);
    }
    ret_asked->topology = at->topology;
    ret_asked->in.slices = at->topology.slices;
    return status;
}

/* The instance where the scheduler wants its stages, and whether it takes as many micro-batches. */
static pst_status state_instance(const struct pst_schedule_job *job, struct pst_instance *scheduler,
                                 uint32_t times, uint64_t *ret_scale,
                                 struct pst_order_question *ret_asked, struct pst_error *err)
{
    struct placement at = {.n_devices = job->n_devices,
                           .n_microbatches = job->n_microbatches * times};
    struct pst_arena arena = {0};
    pst_status status = job->problem != NULL
                            ? place_problem(job->problem, scheduler, &arena, &at, err)
                            : place_chain(scheduler, &arena, &at, err);

    if (status == PST_OK && job->problem == NULL &&
        at.n_microbatches > PST_NONE / at.topology.slices) {
        status = pst_fail(err, PST_ERR_CONFIG, "config.limit",
                          "%u slices of %u micro-batches are too many", at.topology.slices,
                          at.n_microbatches);
    }
    if (status == PST_OK) {
        at.n_microbatches *= job->problem == NULL ? at.topology.slices : 1;
        status = restate(job, &at, times, ret_scale, ret_asked, err);
    }
    if (status == PST_OK && job->problem == NULL) {
        status = pst_order_question_check_shape(scheduler, at.n_devices, at.n_microbatches, err);
    }
    if (status == PST_OK && job->problem == NULL) {
        status =
            pst_order_question_check_microbatches(scheduler, &at.topology, at.n_microbatches, err);
    }
    for (uint32_t s = 0; status == PST_OK && job->problem != NULL && s < at.n_stages; s++) {
        status = pst_order_question_check_microbatches(scheduler, &at.topology,
                                                       ret_asked->stages[s].n_microbatches, err);
    }
    pst_arena_finish(&arena);
    return status;
}

static pst_status ask_order(const struct pst_schedule_job *job, struct pst_instance *scheduler,
                            uint32_t times, uint64_t *ret_scale,
                            struct pst_order_question *ret_asked, struct pst_orders *ret_answer,
                            struct pst_error *err)
{
    pst_status status;

    if ((uint64_t)job->n_microbatches * times >= PST_NONE) {
        return pst_fail(err, PST_ERR_CONFIG, "config.limit", "%u micro-batches are too many",
                        job->n_microbatches);
    }
    status = state_instance(job, scheduler, times, ret_scale, ret_asked, err);
    return status == PST_OK ? pst_orders_ask(scheduler, &ret_asked->in, NULL, NULL, ret_answer, err)
                            : status;
}

static pst_status ask_scheduler(const void *job_, bool (*cancelled)(void), void *ret_result,
                                struct pst_error *err)
{
    const struct pst_host_context context = {.impl = &cancelled, .cancelled = ask_cancelled};
    struct pst_schedule_job job = *(const struct pst_schedule_job *)job_;
    struct pst_schedule_result *result = ret_result;
    struct pst_instance *scheduler = NULL;
    struct pst_error unused;
    uint64_t scale;
    pst_status status;

    pst_host_log_begin();
    status = open_scheduler(&job, &context, &scheduler, err);
    if (status == PST_OK && job.problem == NULL) {
        status = complete(&job, scheduler, err);
    }
    PST_TRY(status,
            ask_order(&job, scheduler, 1, &result->scale, &result->asked, &result->answer, err));
    if (status == PST_OK && job.again) {
        /* Its own reasons not to are no failure of what was asked for. */
        pst_status again =
            ask_order(&job, scheduler, 2, &scale, &result->twice, &result->twice_answer, &unused);

        result->has_twice = again == PST_OK;
        status = again == PST_ERR_NOMEM ? pst_fail_nomem(err) : PST_OK;
    }
    if (status == PST_OK) {
        struct pst_held_fault fault = {.held = 0};

        if (pst_topology_copies(&result->asked.topology) == 1) {
            fault = pst_held_judge(scheduler, &result->asked.in, &result->answer);
        }

        pst_held_warn(scheduler, &fault);
        snprintf(result->id, sizeof result->id, "%s", scheduler->plugin->id);
        snprintf(result->version, sizeof result->version, "%s", scheduler->plugin->version);
    }
    pst_instance_destroy(scheduler);
    pst_host_log_end();
    return status;
}

static void finish_answer(void *result)
{
    pst_schedule_result_finish(result);
}

void pst_schedule_result_finish(struct pst_schedule_result *result)
{
    pst_orders_finish(&result->twice_answer);
    pst_order_question_finish(&result->twice);
    pst_orders_finish(&result->answer);
    pst_order_question_finish(&result->asked);
    memset(result, 0, sizeof *result);
}

/* --- on the way to another process: what comes back is where stages are, and passes. The instance
   is stated again from the job, and the passes are taken in by the rules for a scheduler's own.
   ---*/

static void pass_problem(struct pst_wire *w, struct pst_order_question *asked)
{
    uint32_t n_devices = asked->in.n_devices, n_stages = asked->in.n_stages;
    uint32_t n_links = asked->in.n_links;

    pst_wire_count(w, &n_devices, sizeof *asked->activation_bytes);
    pst_wire_count(w, &n_stages, sizeof *asked->stages);
    pst_wire_count(w, &n_links, sizeof *asked->links);
    if (w->reads && !w->failed) {
        pst_order_question_alloc(asked, n_devices, n_stages, n_links);
    }
    if (!w->failed) {
        pst_wire_bytes(w, asked->stages, n_stages * sizeof *asked->stages);
        pst_wire_bytes(w, asked->links, n_links * sizeof *asked->links);
        pst_wire_bytes(w, asked->activation_bytes, n_devices * sizeof *asked->activation_bytes);
    }
}

static void pass_job(struct pst_wire *w, void *job_)
{
    struct pst_schedule_job *job = job_;
    bool has_problem = job->problem != NULL;

    pst_wire_text(w, &job->id);
    pst_wire_text(w, &job->path);
    pst_wire_text(w, &job->options);
    pst_wire_uint(w, &job->n_devices);
    pst_wire_uint(w, &job->n_microbatches);
    pst_wire_flag(w, &job->barrier);
    pst_wire_flag(w, &job->again);
    pst_wire_bytes(w, &job->costs, sizeof job->costs);
    pst_wire_flag(w, &has_problem);
    if (has_problem) {
        struct pst_order_question *problem = pst_arena_alloc(w->arena, sizeof *problem, 0);

        if (!w->reads) {
            *problem = *job->problem;
        }
        pass_problem(w, problem);
        job->problem = problem;
    }
}

/* --- answers -----------------------------------------------------------------------------------*/

static void pass_head(struct pst_wire *w, struct pst_schedule_result *result)
{
    pst_wire_name(w, result->id, sizeof result->id);
    pst_wire_name(w, result->version, sizeof result->version);
    pst_wire_flag(w, &result->has_twice);
}

static void pass_placement(struct pst_wire *w, struct placement *at)
{
    pst_wire_count(w, &at->n_devices, PST_PARTS * sizeof(uint64_t)); /* of numbers of passes */
    pst_wire_uint(w, &at->n_microbatches);
    pst_wire_uint(w, &at->topology.n_stages);
    pst_wire_uint(w, &at->topology.version_rule);
    pst_wire_uint(w, &at->topology.min_microbatches);
    pst_wire_uint(w, &at->topology.microbatch_multiple);
    pst_wire_uint(w, &at->topology.n_copies);
    pst_wire_uint(w, &at->topology.slices);
    pst_wire_uints(w, (const uint32_t **)&at->device_of, &at->n_stages);
}

static void put_answer(struct pst_wire *w, const struct pst_order_question *asked,
                       const struct pst_orders *answer)
{
    uint32_t *device_of = pst_alloc(asked->in.n_stages, sizeof *device_of);
    struct placement at = {.topology = asked->topology,
                           .n_devices = asked->in.n_devices,
                           .n_microbatches = pst_order_question_microbatches(asked),
                           .n_stages = asked->in.n_stages,
                           .device_of = device_of};
    bool asynchronous = answer->asynchronous;
    struct pst_claimed claim = answer->claim;

    for (uint32_t s = 0; s < at.n_stages; s++) {
        device_of[s] = asked->stages[s].device;
    }
    pass_placement(w, &at);
    free(device_of);
    pst_wire_flag(w, &asynchronous);
    pst_wire_bytes(w, &claim, sizeof claim);
    for (uint32_t part = 0; part < PST_PARTS; part++) {
        for (uint32_t d = 0; d < answer->n_devices; d++) {
            uint32_t n = answer->n_passes[part] == NULL ? 0 : answer->n_passes[part][d];

            pst_wire_count(w, &n, sizeof ***answer->passes);
            pst_wire_array(w, n == 0 ? NULL : answer->passes[part][d], n, sizeof ***answer->passes);
        }
    }
}

/* Devices, stages and micro-batches of the job, as far as it says. */
static bool placement_is_sound(const struct pst_schedule_job *job, uint32_t times,
                               const struct placement *at)
{
    const struct pst_topology *t = &at->topology;
    const struct pst_order_question *problem = job->problem;
    uint32_t n_devices = problem != NULL ? problem->in.n_devices : job->n_devices;
    uint32_t n_stages = problem != NULL    ? problem->in.n_stages
                        : t->n_stages != 0 ? t->n_stages
                                           : at->n_devices;
    bool sound = (n_devices == 0 || at->n_devices == n_devices) && at->n_stages == n_stages &&
                 n_stages > 0 && (t->n_stages == 0 || t->n_stages == n_stages) &&
                 at->n_microbatches > 0 && pst_rule_is_known(t->version_rule) && t->n_copies > 0 &&
                 n_stages % t->n_copies == 0 && at->n_microbatches % t->n_copies == 0 &&
                 t->slices > 0 && (problem == NULL || t->n_copies == 1) &&
                 (problem != NULL || job->n_microbatches == 0 ||
                  at->n_microbatches == job->n_microbatches * times);

    for (uint32_t s = 0; sound && s < n_stages; s++) {
        uint32_t stated = problem != NULL ? problem->stages[s].device : PST_NONE;

        sound =
            at->device_of[s] < at->n_devices && (stated == PST_NONE || stated == at->device_of[s]);
    }
    return sound;
}

/* The instance, which has room for no more passes than there are bytes. */
static void take_instance(struct pst_wire *r, const struct pst_schedule_job *job, uint32_t times,
                          uint64_t *scale, struct pst_order_question *asked)
{
    struct placement at = {.topology = {.size = sizeof at.topology}};
    uint64_t n = 0;

    pass_placement(r, &at);
    r->failed = r->failed || !placement_is_sound(job, times, &at);
    for (uint32_t s = 0; !r->failed && s < at.n_stages; s++) { /* each has passes that follow */
        n += job->problem != NULL ? job->problem->stages[s].n_microbatches
                                  : at.n_microbatches / pst_topology_copies(&at.topology);
    }
    r->failed = r->failed || n > r->left || restate(job, &at, times, scale, asked, NULL) != PST_OK;
}

static void emit_part(struct pst_wire *r, uint32_t part, bool asynchronous,
                      struct pst_emission *emission)
{
    struct pst_schedule_out *out = &emission->out;

    if (asynchronous) {
        out->part(out, PST_PART_FILL + part);
    }
    for (uint32_t d = 0; !r->failed && d < emission->in->n_devices; d++) {
        uint32_t n = 0;

        pst_wire_count(r, &n, sizeof(struct pst_pass));
        r->failed |= n > 0 && part != PST_BODY && !asynchronous;
        for (uint32_t i = 0; !r->failed && i < n; i++) {
            struct pst_pass pass;

            pst_wire_bytes(r, &pass, sizeof pass);
            r->failed |= out->emit(out, d, pass.op, pass.stage, pass.microbatch) != PST_OK;
        }
    }
}

static void take_answer(struct pst_wire *r, const struct pst_schedule_job *job, uint32_t times,
                        uint64_t *scale, struct pst_order_question *asked,
                        struct pst_orders *answer)
{
    struct pst_emission emission;
    struct pst_claimed claim;
    bool asynchronous = false;

    take_instance(r, job, times, scale, asked);
    if (r->failed) {
        return;
    }
    pst_wire_flag(r, &asynchronous);
    pst_wire_bytes(r, &claim, sizeof claim);
    pst_emission_init(&emission, &asked->in);
    for (uint32_t part = 0; !r->failed && part < PST_PARTS; part++) {
        emit_part(r, part, asynchronous, &emission);
    }
    r->failed = r->failed || !pst_emission_complete(&emission);
    if (!r->failed) {
        *answer = pst_orders_take(&emission, &claim);
    }
    pst_emission_finish(&emission);
}

static pst_status pass_answer(struct pst_wire *w, const void *job_, void *result_,
                              struct pst_error *err)
{
    const struct pst_schedule_job *job = job_;
    struct pst_schedule_result *result = result_;

    (void)err;
    pass_head(w, result);
    if (!w->reads) {
        put_answer(w, &result->asked, &result->answer);
        if (result->has_twice) {
            put_answer(w, &result->twice, &result->twice_answer);
        }
        return PST_OK;
    }
    w->failed |= result->has_twice && !job->again;
    take_answer(w, job, 1, &result->scale, &result->asked, &result->answer);
    if (!w->failed && result->has_twice) {
        uint64_t scale;

        take_answer(w, job, 2, &scale, &result->twice, &result->twice_answer);
    }
    return PST_OK;
}

const struct pst_apart_kind pst_schedule_kind = {
    .word = "pst-asked",
    .plugin = "scheduler",
    .job_size = sizeof(struct pst_schedule_job),
    .answer_size = sizeof(struct pst_schedule_result),
    .pass_job = pass_job,
    .ask = ask_scheduler,
    .pass_answer = pass_answer,
    .finish = finish_answer,
};

pst_status pst_schedule_job_run(const struct pst_schedule_job *job,
                                const struct pst_worker_task *limits, bool (*cancelled)(void),
                                struct pst_schedule_result *ret_result, struct pst_error *err)
{
    return pst_apart_ask(&pst_schedule_kind, job, job->id != NULL ? job->id : job->path, limits,
                         cancelled, ret_result, err);
}
