/* SPDX-License-Identifier: Apache-2.0
 *
 * A job and its result as bytes, for the way to the scheduler's process and back. What comes back
 * is held against its own counts: a plugin may have written over it.
 */
#include <stdlib.h>
#include <string.h>

#include "plugin/solo_job.h"
#include "plugin/wire.h"

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

static void put_answer(struct pst_writer *w, const struct pst_solo_answer *answer)
{
    pst_write_number(w, answer->n_devices);
    pst_write_number(w, answer->asynchronous);
    pst_write_number(w, answer->split);
    pst_write_number(w, answer->claimed);
    pst_write(w, &answer->claim, sizeof answer->claim);
    for (uint32_t part = 0; part < 3; part++) {
        for (uint32_t d = 0; d < answer->n_devices; d++) {
            uint32_t n = answer->n_passes[part] == NULL ? 0 : answer->n_passes[part][d];

            pst_write_number(w, n);
            pst_write(w, n == 0 ? NULL : answer->passes[part][d], n * sizeof ***answer->passes);
        }
    }
}

static bool pass_is_sound(const struct pst_solo *solo, const struct pst_pass *pass, uint32_t device)
{
    return pass->op >= PST_PASS_F && pass->op <= PST_PASS_BW && pass->stage < solo->in.n_stages &&
           solo->stages[pass->stage].device == device &&
           pass->microbatch < 2 * (uint64_t)solo->stages[pass->stage].n_microbatches;
}

static void take_part(struct pst_reader *r, const struct pst_solo *solo, uint32_t part,
                      struct pst_solo_answer *answer)
{
    uint32_t n_devices = answer->n_devices;

    answer->passes[part] = pst_arena_array(r->arena, n_devices, sizeof **answer->passes);
    answer->n_passes[part] = pst_arena_array(r->arena, n_devices, sizeof **answer->n_passes);
    if (answer->passes[part] == NULL || answer->n_passes[part] == NULL) {
        r->failed = true;
        return;
    }
    for (uint32_t d = 0; !r->failed && d < n_devices; d++) {
        uint32_t n = pst_read_count(r, sizeof ***answer->passes);

        answer->passes[part][d] = pst_read_array(r, n, sizeof ***answer->passes);
        answer->n_passes[part][d] = n;
        for (uint32_t i = 0; !r->failed && i < n; i++) {
            r->failed = !pass_is_sound(solo, &answer->passes[part][d][i], d);
        }
    }
}

static void take_answer(struct pst_reader *r, const struct pst_solo *solo,
                        struct pst_solo_answer *answer)
{
    struct pst_arena *outer = r->arena;

    r->arena = &answer->arena;
    answer->n_devices = (uint32_t)pst_read_number(r);
    answer->asynchronous = pst_read_number(r) != 0;
    answer->split = pst_read_number(r) != 0;
    answer->claimed = pst_read_number(r) != 0;
    pst_read(r, &answer->claim, sizeof answer->claim);
    r->failed = r->failed || answer->n_devices != solo->in.n_devices;
    for (uint32_t part = 0; !r->failed && part < 3; part++) {
        take_part(r, solo, part, answer);
    }
    r->arena = outer;
}

pst_status pst_solo_result_pack(const struct pst_solo_result *result, char **ret_bytes,
                                size_t *ret_length, struct pst_error *err)
{
    struct pst_writer w = {.bytes = NULL};

    pst_write(&w, MAGIC, sizeof MAGIC);
    pst_write(&w, result->id, sizeof result->id);
    pst_write(&w, result->version, sizeof result->version);
    pst_write_number(&w, result->scale);
    pst_write_number(&w, result->has_twice);
    put_solo(&w, &result->solo);
    put_answer(&w, &result->answer);
    if (result->has_twice) {
        put_solo(&w, &result->twice);
        put_answer(&w, &result->twice_answer);
    }
    return pst_write_end(&w, ret_bytes, ret_length, err);
}

pst_status pst_solo_result_unpack(const char *bytes, size_t length,
                                  struct pst_solo_result *ret_result, struct pst_error *err)
{
    struct pst_solo_result result = {.scale = 1};
    struct pst_reader r = {.at = bytes, .left = length};
    char magic[sizeof MAGIC];

    pst_read(&r, magic, sizeof magic);
    r.failed = r.failed || memcmp(magic, MAGIC, sizeof magic) != 0;
    pst_read(&r, result.id, sizeof result.id);
    pst_read(&r, result.version, sizeof result.version);
    result.id[sizeof result.id - 1] = result.version[sizeof result.version - 1] = '\0';
    result.scale = pst_read_number(&r);
    result.has_twice = pst_read_number(&r) != 0;
    take_solo(&r, &result.solo);
    if (!r.failed) {
        take_answer(&r, &result.solo, &result.answer);
    }
    if (!r.failed && result.has_twice) {
        take_solo(&r, &result.twice);
    }
    if (!r.failed && result.has_twice) {
        take_answer(&r, &result.twice, &result.twice_answer);
    }
    if (r.failed || result.scale == 0) {
        pst_solo_result_finish(&result);
        pst_fail(err, PST_ERR_BUG, "plugin.contract",
                 "what came back from the scheduler's process is no schedule");
        if (err != NULL) {
            err->exit_code = 3;
        }
        return PST_ERR_BUG;
    }
    *ret_result = result;
    return PST_OK;
}
