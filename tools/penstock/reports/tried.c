/* SPDX-License-Identifier: Apache-2.0 */
#include "reports/tried.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "base/memory.h"
#include "base/util.h"
#include "config/codec.h"

#define FORMAT  "penstock-tune"
#define VERSION 2u
#define MOST    ((size_t)1 << 30) /* bytes of a file */

/* --- a line ------------------------------------------------------------------------------------*/

static void code_digest(struct pst_codec *c, const char *key, struct pst_hash *digest)
{
    char text[PST_HASH_TEXT];
    const char *at = pst_hash_text(digest, text);

    pst_codec_string(c, key, &at);
    if (pst_codec_reads(c) && pst_codec_is_sound(c) && !pst_hash_parse(at, digest)) {
        pst_codec_fail(c, NULL, key, "expected a digest");
    }
}

static void code_head(struct pst_codec *c, struct pst_hash *digest)
{
    pst_codec_object(c, NULL);
    pst_codec_constant(c, "format", FORMAT);
    pst_codec_position(c, "version", VERSION);
    code_digest(c, "digest", digest);
    pst_codec_end(c);
}

static void code_outcome(struct pst_codec *c, struct pst_trial *trial)
{
    struct pst_sim_result *sim = &trial->sim;
    uint64_t *const times[] = {&sim->total_ns, &sim->period_ns, &sim->span_ns, &sim->work_ns,
                               &sim->all_work_ns};
    uint64_t *bytes;

    pst_codec_uint(c, "batch", &trial->batch);
    pst_codec_uint(c, "microbatch", &trial->microbatch);
    pst_codec_uint(c, "stages", &trial->n_stages);
    pst_codec_uint(c, "used", &sim->n_used);
    pst_codec_array(c, "times_ns");
    for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
        pst_codec_bytes(c, NULL, times[i]);
    }
    pst_codec_end(c);
    pst_codec_bytes(c, "predicted_ns", &trial->predicted_ns);
    pst_codec_number(c, "search_seconds", &trial->search_seconds, 0, 1e18);
    code_digest(c, "plan", &trial->digest);
    bytes = pst_codec_items(c, "memory_bytes", &trial->arena_bytes, &trial->n_devices,
                            sizeof *trial->arena_bytes);
    for (uint32_t d = 0; d < trial->n_devices; d++) {
        pst_codec_bytes(c, NULL, &bytes[d]);
    }
    pst_codec_end(c);
    if (pst_codec_has(c, "capacity_bytes", trial->capacity_bytes != UINT64_MAX)) {
        pst_codec_bytes(c, "capacity_bytes", &trial->capacity_bytes);
    }
    sim->n_steps = 1;
    sim->n_devices = trial->n_devices;
    if (pst_codec_reads(c) && (trial->n_devices == 0 || sim->period_ns == 0)) {
        pst_codec_fail(c, NULL, NULL, "no device, or no time");
    }
}

static void code_why(struct pst_codec *c, struct pst_error *why)
{
    const char *kind = why->kind, *message = why->message, *hint = why->hint;
    double status = why->status, exit_code = why->exit_code;

    pst_codec_number(c, "status", &status, -1000, -1);
    pst_codec_number(c, "exit_code", &exit_code, 0, 255);
    pst_codec_string(c, "kind", &kind);
    pst_codec_string(c, "message", &message);
    pst_codec_string(c, "hint", &hint);
    if (!pst_codec_reads(c) || !pst_codec_is_sound(c)) {
        return;
    }
    pst_fail(why, (pst_status)status, kind, "%s", message);
    pst_error_hint(why, "%s", hint);
    why->exit_code = (int)exit_code;
}

static void code_trial(struct pst_codec *c, uint32_t *combination, struct pst_trial *trial)
{
    uint32_t state = trial->state;

    pst_codec_object(c, NULL);
    pst_codec_uint(c, "combination", combination);
    pst_codec_uint(c, "state", &state);
    if (pst_codec_reads(c) && (state < PST_TRIAL_DONE || state > PST_TRIAL_FAILED)) {
        pst_codec_fail(c, NULL, "state", "no such state");
    } else if (state == PST_TRIAL_DONE) {
        code_outcome(c, trial);
    } else {
        code_why(c, &trial->why);
    }
    trial->state = (enum pst_trial_state)state;
    pst_codec_end(c);
}

static void add_line(struct pst_tried *tried, struct pst_json *json)
{
    char *line;

    pst_json_newline(json);
    line = pst_json_take(json);
    pst_record_file_add(&tried->file, line, strlen(line));
    free(line);
}

static bool read_trial(json_t *line, uint32_t *ret_combination, struct pst_trial *trial)
{
    struct pst_fields fields = {.status = PST_OK};
    struct pst_codec c = {.in = &fields, .root = line, .arena = &trial->arena, .lenient = true};

    *trial = (struct pst_trial){.capacity_bytes = UINT64_MAX};
    code_trial(&c, ret_combination, trial);
    return fields.status == PST_OK;
}

/* --- in memory ---------------------------------------------------------------------------------*/

static uint32_t *place_of(const struct pst_tried *tried, uint32_t combination)
{
    uint32_t at = (uint32_t)((combination * 0x9E3779B97F4A7C15u) >> 32) & (tried->n_places - 1);

    while (tried->places[at] != 0 && tried->all[tried->places[at] - 1].combination != combination) {
        at = (at + 1) & (tried->n_places - 1);
    }
    return &tried->places[at];
}

struct pst_trial *pst_tried_find(const struct pst_tried *tried, uint32_t combination)
{
    const uint32_t place = tried->n_places == 0 ? 0 : *place_of(tried, combination);

    return place == 0 ? NULL : &tried->all[place - 1].trial;
}

static void keep_trial(struct pst_tried *tried, uint32_t combination, const struct pst_trial *trial)
{
    if (tried->n == tried->capacity) {
        tried->capacity = tried->n == 0 ? 256 : 2 * tried->n;
        tried->all = pst_resize(tried->all, tried->capacity, sizeof *tried->all);
        free(tried->places);
        tried->n_places = (uint32_t)(4 * tried->capacity);
        tried->places = pst_alloc(tried->n_places, sizeof *tried->places);
        for (uint32_t i = 0; i < tried->n; i++) {
            *place_of(tried, tried->all[i].combination) = i + 1;
        }
    }
    tried->all[tried->n] = (struct pst_tried_one){combination, *trial};
    *place_of(tried, combination) = (uint32_t)++tried->n;
}

void pst_tried_add(struct pst_tried *tried, uint32_t combination, const struct pst_trial *trial)
{
    struct pst_trial copy = *trial;
    struct pst_json json;

    if (tried->file.fd >= 0) {
        pst_json_init(&json);
        code_trial(&(struct pst_codec){.out = &json}, &combination, &copy);
        add_line(tried, &json);
    }
    keep_trial(tried, combination, trial);
}

pst_status pst_tried_finish(struct pst_tried *tried, struct pst_error *err)
{
    const pst_status status = pst_record_file_close(&tried->file, err);

    for (size_t i = 0; i < tried->n; i++) {
        pst_trial_finish(&tried->all[i].trial);
    }
    free(tried->all);
    free(tried->places);
    *tried = (struct pst_tried){.file = {.fd = -1}};
    return status;
}

/* --- the file ----------------------------------------------------------------------------------*/

static pst_status read_head(const char *path, const char *line, size_t length,
                            const struct pst_hash *digest, struct pst_error *err)
{
    json_t *head = json_loadb(line, length, 0, NULL);
    const bool known = strcmp(pst_json_text_at(head, "format"), FORMAT) == 0;
    struct pst_fields fields = {.status = PST_OK};
    struct pst_codec c = {.in = &fields, .root = head, .lenient = true};
    struct pst_hash its = {0};

    code_head(&c, &its);
    json_decref(head);
    if (!known) {
        return pst_fail_at(err, PST_ERR_CONFIG, "config.value", path, 1, 1,
                           "not a record of a search; --resume reads a file that it has written, "
                           "or creates a new one");
    }
    return fields.status == PST_OK && pst_hash_equal(&its, digest)
               ? PST_OK
               : pst_fail_at(err, PST_ERR_CONFIG, "config.value", path, 1, 1,
                             "this search was of another config, profile, plugin or version of "
                             "penstock; name another file, or remove this one");
}

static pst_status read_records(struct pst_tried *tried, const char *path, const char *text,
                               size_t length, const struct pst_hash *digest, size_t *ret_whole,
                               struct pst_error *err)
{
    pst_status status = PST_OK;
    size_t at = 0;

    for (uint32_t n = 1; status == PST_OK; n++) {
        const char *end = memchr(text + at, '\n', length - at);
        size_t l = end == NULL ? 0 : (size_t)(end - text) - at;
        uint32_t combination = 0;
        struct pst_trial trial = {.state = PST_TRIAL_OPEN};
        json_t *line;

        if (end == NULL) {
            break;
        }
        if (n == 1) {
            status = read_head(path, text + at, l, digest, err);
        } else {
            line = json_loadb(text + at, l, 0, NULL);
            if (!read_trial(line, &combination, &trial)) {
                pst_trial_finish(&trial);
                status = pst_fail_at(err, PST_ERR_CONFIG, "config.value", path, n, 1,
                                     "this line is not a record of a search");
            } else if (pst_tried_find(tried, combination) == NULL) {
                keep_trial(tried, combination, &trial);
            } else {
                pst_trial_finish(&trial);
            }
            json_decref(line);
        }
        at += l + 1;
    }
    *ret_whole = at;
    return status;
}

/* Reads the records of the file; cuts off an incomplete last line. */
static pst_status read_file(struct pst_tried *tried, const char *path,
                            const struct pst_hash *digest, struct pst_error *err)
{
    size_t length, whole = 0;
    char *text;
    pst_status status = pst_file_read(path, MOST, "input.path", &text, &length, err);

    if (status != PST_OK) {
        return status;
    }
    status = read_records(tried, path, text, length, digest, &whole, err);
    if (status == PST_OK && whole < length && truncate(path, (off_t)whole) != 0) {
        status = pst_fail_at(err, PST_ERR_IO, "output.write", path, 0, 0, "cannot write there: %s",
                             strerror(errno));
    }
    free(text);
    return status;
}

pst_status pst_tried_open(struct pst_tried *tried, const char *path, const struct pst_hash *digest,
                          struct pst_error *err)
{
    pst_status status = PST_OK;
    struct pst_hash its;
    struct pst_json json;

    *tried = (struct pst_tried){.file = {.fd = -1}};
    if (path == NULL) {
        return PST_OK;
    }
    if (access(path, F_OK) == 0) {
        status = read_file(tried, path, digest, err);
    }
    PST_TRY(status, pst_record_file_open(&tried->file, path, err));
    if (status == PST_OK && tried->file.bytes == 0) {
        its = *digest;
        pst_json_init(&json);
        code_head(&(struct pst_codec){.out = &json}, &its);
        add_line(tried, &json);
    }
    if (status != PST_OK) {
        (void)pst_tried_finish(tried, NULL);
    }
    return status;
}
