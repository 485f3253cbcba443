/* SPDX-License-Identifier: Apache-2.0
 *
 * A job and its result as bytes, for the way to the scheduler's process and back. What comes back
 * is held against its own counts: a plugin may have written over it.
 */
#include <stdlib.h>
#include <string.h>

#include "plugin/solo_job.h"

#define MAGIC     "pst-solo"
#define MAX_COUNT ((uint64_t)1 << 30)

struct writer {
    char *bytes;
    size_t n, room;
    bool failed;
};

static void put(struct writer *w, const void *from, size_t n)
{
    size_t room = w->room > 0 ? w->room : 4096;
    char *grown;

    if (w->failed || n > SIZE_MAX / 4 || w->n > SIZE_MAX / 4) {
        w->failed = true;
        return;
    }
    while (room < w->n + n + 1) {
        room *= 2;
    }
    if (room != w->room) {
        grown = realloc(w->bytes, room);
        if (grown == NULL) {
            w->failed = true;
            return;
        }
        w->bytes = grown;
        w->room = room;
    }
    if (n > 0) {
        memcpy(w->bytes + w->n, from, n);
    }
    w->n += n;
    w->bytes[w->n] = '\0';
}

static void put_number(struct writer *w, uint64_t number)
{
    put(w, &number, sizeof number);
}

static void put_text(struct writer *w, const char *text)
{
    put_number(w, text == NULL ? UINT64_MAX : strlen(text));
    if (text != NULL) {
        put(w, text, strlen(text));
    }
}

static pst_status end_writing(struct writer *w, char **ret_bytes, size_t *ret_length,
                              struct pst_error *err)
{
    if (w->failed) {
        free(w->bytes);
        return pst_fail_nomem(err);
    }
    *ret_bytes = w->bytes;
    *ret_length = w->n;
    return PST_OK;
}

struct reader {
    const char *at;
    size_t left;
    bool failed; /* there was less than promised */
    struct pst_arena *arena;
};

static void take(struct reader *r, void *to, size_t n)
{
    if (r->failed || n > r->left) {
        r->failed = true;
        memset(to, 0, n);
        return;
    }
    memcpy(to, r->at, n);
    r->at += n;
    r->left -= n;
}

static uint64_t take_number(struct reader *r)
{
    uint64_t number = 0;

    take(r, &number, sizeof number);
    return number;
}

/* A number of elements of that size that can be there at all. */
static uint32_t take_count(struct reader *r, size_t size)
{
    uint64_t n = take_number(r);

    if (n > MAX_COUNT || n * size > r->left) {
        r->failed = true;
        return 0;
    }
    return (uint32_t)n;
}

static void *take_array(struct reader *r, size_t n, size_t size)
{
    void *items = pst_arena_array(r->arena, n, size);

    if (items == NULL) {
        r->failed = true;
    } else if (n > 0) {
        take(r, items, n * size);
    }
    return items;
}

static const char *take_text(struct reader *r)
{
    uint64_t n = take_number(r);
    const char *text;

    if (r->failed || n == UINT64_MAX) {
        return NULL;
    }
    if (n > r->left) {
        r->failed = true;
        return NULL;
    }
    text = pst_arena_strndup(r->arena, r->at, (size_t)n);
    r->failed = text == NULL;
    r->at += n;
    r->left -= (size_t)n;
    return text;
}

/* --- questions ---------------------------------------------------------------------------------*/

static void put_solo(struct writer *w, const struct pst_solo *solo)
{
    const struct pst_schedule_in *in = &solo->in;

    put_number(w, in->n_devices);
    put_number(w, in->n_stages);
    put_number(w, in->n_links);
    put_number(w, in->barrier);
    put(w, &solo->topology, sizeof solo->topology);
    put(w, solo->stages, in->n_stages * sizeof *solo->stages);
    put(w, solo->links, in->n_links * sizeof *solo->links);
    put(w, solo->activation_bytes, in->n_devices * sizeof *solo->activation_bytes);
}

static bool solo_is_sound(const struct pst_solo *solo)
{
    for (uint32_t s = 0; s < solo->in.n_stages; s++) {
        const struct pst_schedule_stage *stage = &solo->stages[s];

        if ((stage->device >= solo->in.n_devices && stage->device != PST_NONE) ||
            stage->microbatch_size == 0 || stage->n_microbatches == 0 ||
            stage->n_microbatches > MAX_COUNT) {
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

static void take_solo(struct reader *r, struct pst_solo *solo)
{
    struct pst_arena *outer = r->arena;
    uint32_t n_devices = take_count(r, sizeof *solo->activation_bytes);
    uint32_t n_stages = take_count(r, sizeof *solo->stages);
    uint32_t n_links = take_count(r, sizeof *solo->links);
    uint32_t barrier = (uint32_t)take_number(r);
    struct pst_topology topology;

    take(r, &topology, sizeof topology);
    if (r->failed || pst_solo_alloc(solo, n_devices, n_stages, n_links, NULL) != PST_OK) {
        r->failed = true;
        return;
    }
    r->arena = &solo->arena;
    solo->topology = topology;
    solo->in.barrier = barrier;
    take(r, solo->stages, n_stages * sizeof *solo->stages);
    take(r, solo->links, n_links * sizeof *solo->links);
    take(r, solo->activation_bytes, n_devices * sizeof *solo->activation_bytes);
    r->arena = outer;
    r->failed = r->failed || !solo_is_sound(solo);
    if (!r->failed) {
        pst_solo_connect(solo);
    }
}

pst_status pst_solo_job_pack(const struct pst_solo_job *job, char **ret_bytes, size_t *ret_length,
                             struct pst_error *err)
{
    struct writer w = {.bytes = NULL};

    put(&w, MAGIC, sizeof MAGIC);
    put_text(&w, job->id);
    put_text(&w, job->path);
    put_text(&w, job->options);
    put_number(&w, job->n_devices);
    put_number(&w, job->n_microbatches);
    put_number(&w, job->barrier);
    put_number(&w, job->again);
    put(&w, &job->costs, sizeof job->costs);
    put_number(&w, job->problem != NULL);
    if (job->problem != NULL) {
        put_solo(&w, job->problem);
    }
    return end_writing(&w, ret_bytes, ret_length, err);
}

bool pst_solo_job_is(const char *text, size_t length)
{
    return length >= sizeof MAGIC && memcmp(text, MAGIC, sizeof MAGIC) == 0;
}

pst_status pst_solo_job_unpack(const char *bytes, size_t length, struct pst_arena *arena,
                               struct pst_solo_job *ret_job, struct pst_error *err)
{
    struct reader r = {.at = bytes + sizeof MAGIC, .left = length - sizeof MAGIC, .arena = arena};
    struct pst_solo *problem;

    memset(ret_job, 0, sizeof *ret_job);
    ret_job->id = take_text(&r);
    ret_job->path = take_text(&r);
    ret_job->options = take_text(&r);
    ret_job->n_devices = (uint32_t)take_number(&r);
    ret_job->n_microbatches = (uint32_t)take_number(&r);
    ret_job->barrier = take_number(&r) != 0;
    ret_job->again = take_number(&r) != 0;
    take(&r, &ret_job->costs, sizeof ret_job->costs);
    if (take_number(&r) != 0) {
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

static void put_answer(struct writer *w, const struct pst_solo_answer *answer)
{
    put_number(w, answer->n_devices);
    put_number(w, answer->asynchronous);
    put_number(w, answer->split);
    put_number(w, answer->claimed);
    put(w, &answer->claim, sizeof answer->claim);
    for (uint32_t part = 0; part < 3; part++) {
        for (uint32_t d = 0; d < answer->n_devices; d++) {
            uint32_t n = answer->n_passes[part] == NULL ? 0 : answer->n_passes[part][d];

            put_number(w, n);
            put(w, n == 0 ? NULL : answer->passes[part][d], n * sizeof ***answer->passes);
        }
    }
}

static bool pass_is_sound(const struct pst_solo *solo, const struct pst_pass *pass, uint32_t device)
{
    return pass->op >= PST_PASS_F && pass->op <= PST_PASS_BW && pass->stage < solo->in.n_stages &&
           solo->stages[pass->stage].device == device &&
           pass->microbatch < 2 * (uint64_t)solo->stages[pass->stage].n_microbatches;
}

static void take_part(struct reader *r, const struct pst_solo *solo, uint32_t part,
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
        uint32_t n = take_count(r, sizeof ***answer->passes);

        answer->passes[part][d] = take_array(r, n, sizeof ***answer->passes);
        answer->n_passes[part][d] = n;
        for (uint32_t i = 0; !r->failed && i < n; i++) {
            r->failed = !pass_is_sound(solo, &answer->passes[part][d][i], d);
        }
    }
}

static void take_answer(struct reader *r, const struct pst_solo *solo,
                        struct pst_solo_answer *answer)
{
    struct pst_arena *outer = r->arena;

    r->arena = &answer->arena;
    answer->n_devices = (uint32_t)take_number(r);
    answer->asynchronous = take_number(r) != 0;
    answer->split = take_number(r) != 0;
    answer->claimed = take_number(r) != 0;
    take(r, &answer->claim, sizeof answer->claim);
    r->failed = r->failed || answer->n_devices != solo->in.n_devices;
    for (uint32_t part = 0; !r->failed && part < 3; part++) {
        take_part(r, solo, part, answer);
    }
    r->arena = outer;
}

pst_status pst_solo_result_pack(const struct pst_solo_result *result, char **ret_bytes,
                                size_t *ret_length, struct pst_error *err)
{
    struct writer w = {.bytes = NULL};

    put(&w, MAGIC, sizeof MAGIC);
    put(&w, result->id, sizeof result->id);
    put(&w, result->version, sizeof result->version);
    put_number(&w, result->scale);
    put_number(&w, result->has_twice);
    put_solo(&w, &result->solo);
    put_answer(&w, &result->answer);
    if (result->has_twice) {
        put_solo(&w, &result->twice);
        put_answer(&w, &result->twice_answer);
    }
    return end_writing(&w, ret_bytes, ret_length, err);
}

pst_status pst_solo_result_unpack(const char *bytes, size_t length,
                                  struct pst_solo_result *ret_result, struct pst_error *err)
{
    struct pst_solo_result result = {.scale = 1};
    struct reader r = {.at = bytes, .left = length};
    char magic[sizeof MAGIC];

    take(&r, magic, sizeof magic);
    r.failed = r.failed || memcmp(magic, MAGIC, sizeof magic) != 0;
    take(&r, result.id, sizeof result.id);
    take(&r, result.version, sizeof result.version);
    result.id[sizeof result.id - 1] = result.version[sizeof result.version - 1] = '\0';
    result.scale = take_number(&r);
    result.has_twice = take_number(&r) != 0;
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
