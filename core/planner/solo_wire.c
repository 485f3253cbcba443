/* SPDX-License-Identifier: Apache-2.0
 *
 * A job and its result on the way to the scheduler's process and back. What comes back is where
 * stages are, and passes: the instance is stated again from the job, and the passes are taken in by
 * the rules for a scheduler's own.
 */
#include <stdlib.h>
#include <string.h>

#include "planner/solo_job.h"

#define WORD "pst-solo"

/* --- questions ---------------------------------------------------------------------------------*/

static void pass_problem(struct pst_wire *w, struct pst_solo *solo)
{
    uint32_t n_devices = solo->in.n_devices, n_stages = solo->in.n_stages;
    uint32_t n_links = solo->in.n_links;

    pst_wire_count(w, &n_devices, sizeof *solo->activation_bytes);
    pst_wire_count(w, &n_stages, sizeof *solo->stages);
    pst_wire_count(w, &n_links, sizeof *solo->links);
    if (w->reads) {
        w->failed = w->failed || pst_solo_alloc(solo, n_devices, n_stages, n_links, NULL) != PST_OK;
    }
    if (!w->failed) {
        pst_wire_bytes(w, solo->stages, n_stages * sizeof *solo->stages);
        pst_wire_bytes(w, solo->links, n_links * sizeof *solo->links);
        pst_wire_bytes(w, solo->activation_bytes, n_devices * sizeof *solo->activation_bytes);
    }
}

/* `problem`: a copy of the job's, or room for it. */
static void pass_job(struct pst_wire *w, struct pst_solo_job *job, struct pst_solo *problem)
{
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
        pass_problem(w, problem);
        job->problem = problem;
    }
}

static pst_status serve(struct pst_wire *question, struct pst_wire *answer, struct pst_error *err)
{
    struct pst_solo problem = {.stages = NULL};
    struct pst_solo_result result = {.scale = 1};
    struct pst_solo_job job = {.id = NULL};
    pst_status st;

    pass_job(question, &job, &problem);
    if (!pst_wire_is_read(question)) {
        return pst_fail(err, PST_ERR_BUG, "internal", "half a question");
    }
    pst_worker_started();
    st = pst_solo_job_run(&job, pst_worker_stopped_or_late, &result, err);
    if (st == PST_OK) {
        pst_solo_result_put(answer, &result);
    }
    return st;
}

const struct pst_worker_service pst_solo_service = {WORD, serve};

/* --- answers -----------------------------------------------------------------------------------*/

static void pass_head(struct pst_wire *w, struct pst_solo_result *result)
{
    pst_wire_word(w, WORD);
    pst_wire_name(w, result->id, sizeof result->id);
    pst_wire_name(w, result->version, sizeof result->version);
    pst_wire_flag(w, &result->has_twice);
}

static void pass_placement(struct pst_wire *w, struct pst_solo_placement *at)
{
    pst_wire_count(w, &at->n_devices, PST_PARTS * sizeof(uint64_t)); /* of numbers of passes */
    pst_wire_uint(w, &at->n_microbatches);
    pst_wire_uint(w, &at->topology.n_stages);
    pst_wire_uint(w, &at->topology.version_rule);
    pst_wire_uint(w, &at->topology.min_microbatches);
    pst_wire_uint(w, &at->topology.microbatch_multiple);
    pst_wire_uints(w, &at->device_of, &at->n_stages);
}

static void put_answer(struct pst_wire *w, const struct pst_solo *solo,
                       const struct pst_orders *answer)
{
    uint32_t *device_of = calloc((size_t)solo->in.n_stages + 1, sizeof *device_of);
    struct pst_solo_placement at = {.topology = solo->topology,
                                    .n_devices = solo->in.n_devices,
                                    .n_microbatches = solo->stages[0].n_microbatches,
                                    .n_stages = solo->in.n_stages,
                                    .device_of = device_of};
    bool asynchronous = answer->asynchronous;
    struct pst_claimed claim = answer->claim;

    if (device_of == NULL) {
        w->failed = true;
        return;
    }
    for (uint32_t s = 0; s < at.n_stages; s++) {
        device_of[s] = solo->stages[s].device;
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
static bool placement_is_sound(const struct pst_solo_job *job, uint32_t times,
                               const struct pst_solo_placement *at)
{
    const struct pst_topology *t = &at->topology;
    const struct pst_solo *problem = job->problem;
    uint32_t n_devices = problem != NULL ? problem->in.n_devices : job->n_devices;
    uint32_t n_stages = problem != NULL    ? problem->in.n_stages
                        : t->n_stages != 0 ? t->n_stages
                                           : at->n_devices;
    bool sound = (n_devices == 0 || at->n_devices == n_devices) && at->n_stages == n_stages &&
                 n_stages > 0 && (t->n_stages == 0 || t->n_stages == n_stages) &&
                 at->n_microbatches > 0 && pst_rule_is_known(t->version_rule) &&
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
static void restate(struct pst_wire *r, const struct pst_solo_job *job, uint32_t times,
                    uint64_t *scale, struct pst_solo *solo)
{
    struct pst_solo_placement at = {.topology = {.size = sizeof at.topology}};
    struct pst_arena arena = {0};
    uint64_t n = 0;

    r->arena = &arena;
    pass_placement(r, &at);
    r->failed = r->failed || !placement_is_sound(job, times, &at);
    for (uint32_t s = 0; !r->failed && s < at.n_stages; s++) { /* each has passes that follow */
        n += job->problem != NULL ? job->problem->stages[s].n_microbatches : at.n_microbatches;
    }
    r->failed = r->failed || n > r->left ||
                pst_solo_job_restate(job, &at, times, scale, solo, NULL) != PST_OK;
    r->arena = NULL;
    pst_arena_finish(&arena);
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

static void take_answer(struct pst_wire *r, const struct pst_solo_job *job, uint32_t times,
                        uint64_t *scale, struct pst_solo *solo, struct pst_orders *answer)
{
    struct pst_emission emission;
    struct pst_claimed claim;
    bool asynchronous = false;

    restate(r, job, times, scale, solo);
    if (r->failed) {
        return;
    }
    pst_wire_flag(r, &asynchronous);
    pst_wire_bytes(r, &claim, sizeof claim);
    r->failed |= pst_emission_init(&emission, &solo->in) != PST_OK;
    for (uint32_t part = 0; !r->failed && part < PST_PARTS; part++) {
        emit_part(r, part, asynchronous, &emission);
    }
    r->failed = r->failed || !pst_emission_complete(&emission) ||
                pst_orders_take(&emission, &claim, answer, NULL) != PST_OK;
    pst_emission_finish(&emission);
}

void pst_solo_result_put(struct pst_wire *w, const struct pst_solo_result *result)
{
    struct pst_solo_result head = *result;

    pass_head(w, &head);
    put_answer(w, &result->solo, &result->answer);
    if (result->has_twice) {
        put_answer(w, &result->twice, &result->twice_answer);
    }
}

pst_status pst_solo_result_take(const char *bytes, size_t length, const struct pst_solo_job *job,
                                struct pst_solo_result *ret_result, struct pst_error *err)
{
    struct pst_solo_result result = {.scale = 1};
    struct pst_wire r = pst_wire_read(bytes, length, NULL);

    pass_head(&r, &result);
    r.failed |= result.has_twice && !job->again;
    take_answer(&r, job, 1, &result.scale, &result.solo, &result.answer);
    if (!r.failed && result.has_twice) {
        take_answer(&r, job, 2, &result.scale, &result.twice, &result.twice_answer);
    }
    if (!pst_wire_is_read(&r)) {
        pst_solo_result_finish(&result);
        return pst_wire_refuse("scheduler", job->id, job->path, err);
    }
    *ret_result = result;
    return PST_OK;
}

pst_status pst_solo_job_run_apart(const struct pst_solo_job *job_,
                                  const struct pst_solo_limits *limits,
                                  struct pst_solo_result *ret_result, struct pst_error *err)
{
    struct pst_solo problem = {.stages = NULL};
    struct pst_wire question = {.reads = false};
    struct pst_solo_job job = *job_;
    char *reply = NULL;
    size_t length = 0;
    pst_status st;

    if (job.problem != NULL) {
        problem = *job.problem;
    }
    pst_wire_word(&question, WORD);
    pass_job(&question, &job, &problem);
    st = pst_solo_ask_apart(limits, &question, &reply, &length, err);
    if (st == PST_OK) {
        st = pst_solo_result_take(reply, length, job_, ret_result, err);
    }
    free(reply);
    return st;
}
