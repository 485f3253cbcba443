/* SPDX-License-Identifier: Apache-2.0
 *
 * A job and its result as bytes, for the way to the scheduler's process and back. What comes back
 * is where stages are, and passes: the instance is stated again from the job, and the passes are
 * taken in by the rules for a scheduler's own.
 */
#include <string.h>

#include "planner/parts.h"
#include "planner/solo_job.h"
#include "host/wire.h"

#define MAGIC "pst-solo"

/* --- questions ---------------------------------------------------------------------------------*/

static void put_solo(struct pst_writer *w, const struct pst_solo *solo)
{
    const struct pst_schedule_in *in = &solo->in;

    pst_write_number(w, in->n_devices);
    pst_write_number(w, in->n_stages);
    pst_write_number(w, in->n_links);
    pst_write_number(w, in->barrier);
    pst_write(w, &solo->topology, sizeof solo->topology);
    pst_write(w, solo->stages, in->n_stages * sizeof *solo->stages);
    pst_write(w, solo->links, in->n_links * sizeof *solo->links);
    pst_write(w, solo->activation_bytes, in->n_devices * sizeof *solo->activation_bytes);
}

static bool solo_is_sound(const struct pst_solo *solo)
{
    for (uint32_t s = 0; s < solo->in.n_stages; s++) {
        const struct pst_schedule_stage *stage = &solo->stages[s];

        if ((stage->device >= solo->in.n_devices && stage->device != PST_NONE) ||
            stage->microbatch_size == 0 || stage->n_microbatches == 0 ||
            stage->n_microbatches > PST_WIRE_MAX) {
            return false;
        }
    }
    for (uint32_t i = 0; i < solo->in.n_links; i++) {
        if (solo->links[i].from >= solo->links[i].to || solo->links[i].to >= solo->in.n_stages) {
            return false;
        }
    }
    return true;
}

static void take_solo(struct pst_reader *r, struct pst_solo *solo)
{
    struct pst_arena *outer = r->arena;
    uint32_t n_devices = pst_read_count(r, sizeof *solo->activation_bytes);
    uint32_t n_stages = pst_read_count(r, sizeof *solo->stages);
    uint32_t n_links = pst_read_count(r, sizeof *solo->links);
    uint32_t barrier = (uint32_t)pst_read_number(r);
    struct pst_topology topology;

    pst_read(r, &topology, sizeof topology);
    if (r->failed || pst_solo_alloc(solo, n_devices, n_stages, n_links, NULL) != PST_OK) {
        r->failed = true;
        return;
    }
    r->arena = &solo->arena;
    solo->topology = topology;
    solo->in.barrier = barrier;
    pst_read(r, solo->stages, n_stages * sizeof *solo->stages);
    pst_read(r, solo->links, n_links * sizeof *solo->links);
    pst_read(r, solo->activation_bytes, n_devices * sizeof *solo->activation_bytes);
    r->arena = outer;
    r->failed = r->failed || !solo_is_sound(solo);
    if (!r->failed) {
        pst_solo_connect(solo);
    }
}

pst_status pst_solo_job_pack(const struct pst_solo_job *job, char **ret_bytes, size_t *ret_length,
                             struct pst_error *err)
{
    struct pst_writer w = {.bytes = NULL};

    pst_write(&w, MAGIC, sizeof MAGIC);
    pst_write_text(&w, job->id);
    pst_write_text(&w, job->path);
    pst_write_text(&w, job->options);
    pst_write_number(&w, job->n_devices);
    pst_write_number(&w, job->n_microbatches);
    pst_write_number(&w, job->barrier);
    pst_write_number(&w, job->again);
    pst_write(&w, &job->costs, sizeof job->costs);
    pst_write_number(&w, job->problem != NULL);
    if (job->problem != NULL) {
        put_solo(&w, job->problem);
    }
    return pst_write_end(&w, ret_bytes, ret_length, err);
}

bool pst_solo_job_is(const char *text, size_t length)
{
    return length >= sizeof MAGIC && memcmp(text, MAGIC, sizeof MAGIC) == 0;
}

pst_status pst_solo_job_unpack(const char *bytes, size_t length, struct pst_arena *arena,
                               struct pst_solo_job *ret_job, struct pst_error *err)
{
    struct pst_reader r = {
        .at = bytes + sizeof MAGIC, .left = length - sizeof MAGIC, .arena = arena};
    struct pst_solo *problem;

    memset(ret_job, 0, sizeof *ret_job);
    ret_job->id = pst_read_text(&r);
    ret_job->path = pst_read_text(&r);
    ret_job->options = pst_read_text(&r);
    ret_job->n_devices = (uint32_t)pst_read_number(&r);
    ret_job->n_microbatches = (uint32_t)pst_read_number(&r);
    ret_job->barrier = pst_read_number(&r) != 0;
    ret_job->again = pst_read_number(&r) != 0;
    pst_read(&r, &ret_job->costs, sizeof ret_job->costs);
    if (pst_read_number(&r) != 0) {
        problem = pst_arena_array(arena, 1, sizeof *problem);
        if (problem == NULL) {
            return pst_fail_nomem(err);
        }
        take_solo(&r, problem);
        ret_job->problem = problem;
    }
    return r.failed ? pst_fail(err, PST_ERR_BUG, "internal", "half a question") : PST_OK;
}

/* --- answers -----------------------------------------------------------------------------------*/

static void put_placement(struct pst_writer *w, const struct pst_solo *solo)
{
    pst_write_number(w, solo->in.n_devices);
    pst_write_number(w, solo->stages[0].n_microbatches);
    pst_write_number(w, solo->topology.n_stages);
    pst_write_number(w, solo->topology.version_rule);
    pst_write_number(w, solo->topology.min_microbatches);
    pst_write_number(w, solo->topology.microbatch_multiple);
    pst_write_number(w, solo->in.n_stages);
    for (uint32_t s = 0; s < solo->in.n_stages; s++) {
        pst_write(w, &solo->stages[s].device, sizeof solo->stages[s].device);
    }
}

static void put_answer(struct pst_writer *w, const struct pst_solo_answer *answer)
{
    pst_write_number(w, answer->asynchronous);
    pst_write(w, &answer->claim, sizeof answer->claim);
    for (uint32_t part = 0; part < PST_PARTS; part++) {
        for (uint32_t d = 0; d < answer->n_devices; d++) {
            uint32_t n = answer->n_passes[part] == NULL ? 0 : answer->n_passes[part][d];

            pst_write_number(w, n);
            pst_write(w, n == 0 ? NULL : answer->passes[part][d], n * sizeof ***answer->passes);
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

static void take_placement(struct pst_reader *r, struct pst_solo_placement *at)
{
    at->n_devices = pst_read_count(r, PST_PARTS * sizeof(uint64_t)); /* of numbers of passes */
    at->n_microbatches = pst_read_uint(r);
    at->topology = (struct pst_topology){.size = sizeof at->topology};
    at->topology.n_stages = pst_read_uint(r);
    at->topology.version_rule = pst_read_uint(r);
    at->topology.min_microbatches = pst_read_uint(r);
    at->topology.microbatch_multiple = pst_read_uint(r);
    at->n_stages = pst_read_count(r, sizeof *at->device_of);
    at->device_of = pst_read_array(r, at->n_stages, sizeof *at->device_of);
}

static void restate(struct pst_reader *r, const struct pst_solo_job *job, uint32_t times,
                    struct pst_solo_result *result, struct pst_solo *solo)
{
    struct pst_solo_placement at;
    struct pst_arena arena = {0};
    uint64_t n = 0;

    r->arena = &arena;
    take_placement(r, &at);
    r->failed = r->failed || !placement_is_sound(job, times, &at);
    for (uint32_t s = 0; !r->failed && s < at.n_stages; s++) { /* each has passes that follow */
        n += job->problem != NULL ? job->problem->stages[s].n_microbatches : at.n_microbatches;
    }
    r->failed = r->failed || n > r->left ||
                pst_solo_job_restate(job, &at, times, &result->scale, solo, NULL) != PST_OK;
    r->arena = NULL;
    pst_arena_finish(&arena);
}

static void emit_part(struct pst_reader *r, uint32_t part, bool asynchronous,
                      struct pst_emission *emission)
{
    struct pst_schedule_out *out = &emission->out;

    if (asynchronous) {
        out->part(out, PST_PART_FILL + part);
    }
    for (uint32_t d = 0; !r->failed && d < emission->in->n_devices; d++) {
        uint32_t n = pst_read_count(r, sizeof(struct pst_pass));

        r->failed |= n > 0 && part != PST_BODY && !asynchronous;
        for (uint32_t i = 0; !r->failed && i < n; i++) {
            struct pst_pass pass;

            pst_read(r, &pass, sizeof pass);
            r->failed |= out->emit(out, d, pass.op, pass.stage, pass.microbatch) != PST_OK;
        }
    }
}

static void take_answer(struct pst_reader *r, const struct pst_solo *solo,
                        struct pst_solo_answer *answer)
{
    bool asynchronous = pst_read_number(r) != 0;
    struct pst_emission emission;
    struct pst_claimed claim;

    pst_read(r, &claim, sizeof claim);
    r->failed |= pst_emission_init(&emission, &solo->in) != PST_OK;
    for (uint32_t part = 0; !r->failed && part < PST_PARTS; part++) {
        emit_part(r, part, asynchronous, &emission);
    }
    r->failed = r->failed || !pst_emission_complete(&emission) ||
                pst_solo_answer_take(&emission, &claim, answer, NULL) != PST_OK;
    pst_emission_finish(&emission);
}

pst_status pst_solo_result_pack(const struct pst_solo_result *result, char **ret_bytes,
                                size_t *ret_length, struct pst_error *err)
{
    struct pst_writer w = {.bytes = NULL};

    pst_write(&w, MAGIC, sizeof MAGIC);
    pst_write(&w, result->id, sizeof result->id);
    pst_write(&w, result->version, sizeof result->version);
    pst_write_number(&w, result->has_twice);
    put_placement(&w, &result->solo);
    put_answer(&w, &result->answer);
    if (result->has_twice) {
        put_placement(&w, &result->twice);
        put_answer(&w, &result->twice_answer);
    }
    return pst_write_end(&w, ret_bytes, ret_length, err);
}

pst_status pst_solo_result_unpack(const char *bytes, size_t length, const struct pst_solo_job *job,
                                  struct pst_solo_result *ret_result, struct pst_error *err)
{
    struct pst_solo_result result = {.scale = 1};
    struct pst_reader r = {.at = bytes, .left = length};
    char magic[sizeof MAGIC];

    pst_read(&r, magic, sizeof magic);
    r.failed = r.failed || memcmp(magic, MAGIC, sizeof magic) != 0;
    pst_read_name(&r, result.id, sizeof result.id);
    pst_read_name(&r, result.version, sizeof result.version);
    result.has_twice = pst_read_number(&r) != 0;
    r.failed |= result.has_twice && !job->again;
    restate(&r, job, 1, &result, &result.solo);
    if (!r.failed) {
        take_answer(&r, &result.solo, &result.answer);
    }
    if (!r.failed && result.has_twice) {
        restate(&r, job, 2, &result, &result.twice);
    }
    if (!r.failed && result.has_twice) {
        take_answer(&r, &result.twice, &result.twice_answer);
    }
    if (r.failed || r.left > 0) {
        pst_solo_result_finish(&result);
        return pst_wire_refuse("scheduler", job->id, job->path, err);
    }
    *ret_result = result;
    return PST_OK;
}
