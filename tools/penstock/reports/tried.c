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

#define FORMAT    "penstock-tune"
#define VERSION   2u
#define MOST      ((size_t)1 << 30) /* bytes of a file */
#define SIM_TIMES 5u

/* --- a line ------------------------------------------------------------------------------------*/

static char *end_line(struct pst_json *json)
{
    pst_json_end(json, '}');
    pst_json_newline(json);
    return pst_json_take(json);
}

static char *head_of(const struct pst_hash *digest)
{
    char text[PST_HASH_TEXT];
    struct pst_json json;

    pst_json_init(&json);
    pst_json_object(&json, NULL);
    pst_json_string(&json, "format", FORMAT);
    pst_json_uint(&json, "version", VERSION);
    pst_json_string(&json, "digest", pst_hash_text(digest, text));
    return end_line(&json);
}

static void add_outcome(struct pst_json *json, const struct pst_trial *trial)
{
    const struct pst_sim_result *sim = &trial->sim;
    const uint64_t times[SIM_TIMES] = {sim->total_ns, sim->period_ns, sim->span_ns, sim->work_ns,
                                       sim->all_work_ns};
    char digest[PST_HASH_TEXT];

    pst_json_uint(json, "batch", trial->batch);
    pst_json_uint(json, "microbatch", trial->microbatch);
    pst_json_uint(json, "stages", trial->n_stages);
    pst_json_uint(json, "used", sim->n_used);
    pst_json_bytes(json, "times_ns", times, SIM_TIMES);
    pst_json_uint(json, "predicted_ns", trial->predicted_ns);
    pst_json_number(json, "search_seconds", trial->search_seconds);
    pst_json_string(json, "plan", pst_hash_text(&trial->digest, digest));
    pst_json_bytes(json, "memory_bytes", trial->arena_bytes, trial->n_devices);
    if (trial->capacity_bytes != UINT64_MAX) {
        pst_json_uint(json, "capacity_bytes", trial->capacity_bytes);
    }
}

static char *line_of(uint32_t combination, const struct pst_trial *trial)
{
    struct pst_json json;

    pst_json_init(&json);
    pst_json_object(&json, NULL);
    pst_json_uint(&json, "combination", combination);
    pst_json_uint(&json, "state", trial->state);
    if (trial->state == PST_TRIAL_DONE) {
        add_outcome(&json, trial);
    } else {
        pst_json_int(&json, "status", trial->why.status);
        pst_json_int(&json, "exit_code", trial->why.exit_code);
        pst_json_string(&json, "kind", trial->why.kind);
        pst_json_string(&json, "message", trial->why.message);
        pst_json_string(&json, "hint", trial->why.hint);
    }
    return end_line(&json);
}

static uint64_t number_at(const json_t *line, const char *key)
{
    return (uint64_t)json_integer_value(json_object_get(line, key));
}

static bool read_outcome(const json_t *line, struct pst_trial *trial)
{
    const json_t *times = json_object_get(line, "times_ns");
    const json_t *bytes = json_object_get(line, "memory_bytes");
    struct pst_sim_result *sim = &trial->sim;
    uint64_t *const into[SIM_TIMES] = {&sim->total_ns, &sim->period_ns, &sim->span_ns,
                                       &sim->work_ns, &sim->all_work_ns};

    if (json_array_size(times) != SIM_TIMES || json_array_size(bytes) == 0) {
        return false;
    }
    for (uint32_t i = 0; i < SIM_TIMES; i++) {
        *into[i] = (uint64_t)json_integer_value(json_array_get(times, i));
    }
    trial->batch = (uint32_t)number_at(line, "batch");
    trial->microbatch = (uint32_t)number_at(line, "microbatch");
    trial->n_stages = (uint32_t)number_at(line, "stages");
    trial->n_devices = (uint32_t)json_array_size(bytes);
    trial->predicted_ns = number_at(line, "predicted_ns");
    trial->search_seconds = json_number_value(json_object_get(line, "search_seconds"));
    trial->capacity_bytes = json_object_get(line, "capacity_bytes") == NULL
                                ? UINT64_MAX
                                : number_at(line, "capacity_bytes");
    sim->n_steps = 1;
    sim->n_devices = trial->n_devices;
    sim->n_used = (uint32_t)number_at(line, "used");
    trial->arena_bytes =
        pst_arena_array(&trial->arena, trial->n_devices, sizeof *trial->arena_bytes);
    for (uint32_t d = 0; d < trial->n_devices; d++) {
        trial->arena_bytes[d] = (uint64_t)json_integer_value(json_array_get(bytes, d));
    }
    return sim->period_ns > 0 && pst_hash_parse(pst_json_text_at(line, "plan"), &trial->digest);
}

static bool read_line(const json_t *line, uint32_t *ret_combination, struct pst_trial *trial)
{
    const uint64_t state = number_at(line, "state");

    if (!json_is_integer(json_object_get(line, "combination")) || state < PST_TRIAL_DONE ||
        state > PST_TRIAL_FAILED) {
        return false;
    }
    *ret_combination = (uint32_t)number_at(line, "combination");
    *trial = (struct pst_trial){.state = (enum pst_trial_state)state};
    if (state == PST_TRIAL_DONE) {
        return read_outcome(line, trial);
    }
    pst_fail(&trial->why, (pst_status)json_integer_value(json_object_get(line, "status")),
             pst_json_text_at(line, "kind"), "%s", pst_json_text_at(line, "message"));
    pst_error_hint(&trial->why, "%s", pst_json_text_at(line, "hint"));
    trial->why.exit_code = (int)json_integer_value(json_object_get(line, "exit_code"));
    return trial->why.status != PST_OK;
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

static void keep(struct pst_tried *tried, uint32_t combination, const struct pst_trial *trial)
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
    char *line = tried->file.fd < 0 ? NULL : line_of(combination, trial);

    if (line != NULL) {
        pst_record_file_add(&tried->file, line, strlen(line));
    }
    free(line);
    keep(tried, combination, trial);
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
    bool known = strcmp(pst_json_text_at(head, "format"), FORMAT) == 0;
    struct pst_hash its;
    bool same = number_at(head, "version") == VERSION &&
                pst_hash_parse(pst_json_text_at(head, "digest"), &its) &&
                pst_hash_equal(&its, digest);

    json_decref(head);
    if (!known) {
        return pst_fail_at(err, PST_ERR_CONFIG, "config.value", path, 1, 1,
                           "not a record of a search; --resume reads a file that it has written, "
                           "or creates a new one");
    }
    return same ? PST_OK
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
            if (!read_line(line, &combination, &trial)) {
                pst_trial_finish(&trial);
                status = pst_fail_at(err, PST_ERR_CONFIG, "config.value", path, n, 1,
                                     "this line is not a record of a search");
            } else if (pst_tried_find(tried, combination) == NULL) {
                keep(tried, combination, &trial);
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
    char *head;

    *tried = (struct pst_tried){.file = {.fd = -1}};
    if (path == NULL) {
        return PST_OK;
    }
    if (access(path, F_OK) == 0) {
        status = read_file(tried, path, digest, err);
    }
    PST_TRY(status, pst_record_file_open(&tried->file, path, err));
    if (status == PST_OK && tried->file.bytes == 0) {
        head = head_of(digest);
        pst_record_file_add(&tried->file, head, strlen(head));
        free(head);
    }
    if (status != PST_OK) {
        (void)pst_tried_finish(tried, NULL);
    }
    return status;
}
