/* SPDX-License-Identifier: Apache-2.0 */
#include "commands/schedule_problem.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "config/json_fields.h"

#define MAX_BYTES  ((size_t)64 << 20)
#define MAX_COUNT  1000000.0 /* devices, stages, links */
#define MAX_NUMBER 1e15      /* nanoseconds, bytes */

struct reading {
    struct pst_fields fields;
    struct pst_schedule_problem *problem;
};

/* `key` of one micro-batch, or `key`_per_sample times its samples; times `scale`. */
static uint64_t amount(struct reading *r, const json_t *object, const char *key, double scale,
                       uint32_t samples, double initial, bool *ret_given)
{
    char per_sample[64];
    const json_t *whole = json_object_get(object, key), *part;
    double value;

    snprintf(per_sample, sizeof per_sample, "%s_per_sample", key);
    part = json_object_get(object, per_sample);
    *ret_given = whole != NULL || part != NULL;
    if (whole != NULL && part != NULL) {
        pst_fields_fail(&r->fields, "config.value", NULL, "%s and %s exclude each other", key,
                        per_sample);
    }
    value = whole != NULL ? pst_fields_number(&r->fields, object, key, 0, MAX_NUMBER / scale, 0)
                          : samples * pst_fields_number(&r->fields, object, per_sample, 0,
                                                        MAX_NUMBER / scale / samples, initial);
    return (uint64_t)llround(value * scale);
}

static void read_stage(struct reading *r, const json_t *object, uint32_t s)
{
    static const char *const keys[] = {"device",
                                       "microbatch_size",
                                       "k",
                                       "forward_us",
                                       "forward_us_per_sample",
                                       "backward_input_us",
                                       "backward_input_us_per_sample",
                                       "backward_weight_us",
                                       "backward_weight_us_per_sample",
                                       "saved_bytes",
                                       "saved_bytes_per_sample",
                                       "saved_weight_bytes",
                                       "saved_weight_bytes_per_sample"};
    struct pst_schedule_stage *stage = &r->problem->asked.stages[s];
    uint32_t size = pst_fields_count(&r->fields, object, "microbatch_size", 1, MAX_COUNT, 1);
    uint64_t samples = r->problem->samples;
    bool given, weight_given;

    pst_fields_known(&r->fields, object, keys, sizeof keys / sizeof keys[0]);
    if (samples % size != 0) {
        pst_fields_fail(&r->fields, "config.value", "microbatch_size",
                        "%u does not divide the %llu samples", size, (unsigned long long)samples);
    }
    *stage = (struct pst_schedule_stage){
        .device = json_object_get(object, "device") == NULL
                      ? PST_NONE
                      : pst_fields_count(&r->fields, object, "device", 0,
                                         r->problem->asked.in.n_devices - 1.0, 0),
        .microbatch_size = size,
        .n_microbatches = (uint32_t)(samples / size),
        .k = pst_fields_count(&r->fields, object, "k", 1, MAX_COUNT, 0),
    };
    stage->forward_ns = amount(r, object, "forward_us", 1000, size, 0, &given);
    if (!given) {
        pst_fields_fail(&r->fields, "config.key", NULL,
                        "forward_us or forward_us_per_sample is missing");
    }
    stage->backward_input_ns = amount(r, object, "backward_input_us", 1000, size, 0, &given);
    if (!given) {
        pst_fields_fail(&r->fields, "config.key", NULL,
                        "backward_input_us or backward_input_us_per_sample is missing");
    }
    stage->backward_weight_ns = amount(r, object, "backward_weight_us", 1000, size, 0, &given);
    if (!given) {
        pst_fields_fail(&r->fields, "config.key", NULL,
                        "backward_weight_us or backward_weight_us_per_sample is missing");
    }
    stage->saved_bytes = amount(r, object, "saved_bytes", 1, size, 1, &given);
    stage->saved_weight_bytes = amount(r, object, "saved_weight_bytes", 1, size, 0, &weight_given);
    if (!weight_given) {
        stage->saved_weight_bytes = stage->saved_bytes;
    } else if (stage->saved_weight_bytes > stage->saved_bytes) {
        pst_fields_fail(&r->fields, "config.value", "saved_weight_bytes",
                        "is a part of saved_bytes and cannot be more");
    }
    r->problem->has_bytes |= given;
}

static void read_link(struct reading *r, const json_t *object, uint32_t i, double transfer_us)
{
    static const char *const keys[] = {"from", "to", "transfer_us"};
    struct pst_schedule_link *link = &r->problem->asked.links[i];
    double last = r->problem->asked.in.n_stages - 1.0;

    pst_fields_known(&r->fields, object, keys, 3);
    if (json_object_get(object, "from") == NULL || json_object_get(object, "to") == NULL) {
        pst_fields_fail(&r->fields, "config.key", NULL, "from and to name two stages");
    }
    link->from = pst_fields_count(&r->fields, object, "from", 0, last, 0);
    link->to = pst_fields_count(&r->fields, object, "to", 0, last, 0);
    if (link->from >= link->to) {
        pst_fields_fail(&r->fields, "config.value", NULL,
                        "goes from stage %u to %u; a link must go to a stage with a higher number",
                        link->from, link->to);
    }
    link->transfer_ns = (uint64_t)llround(
        pst_fields_number(&r->fields, object, "transfer_us", 0, MAX_NUMBER / 1000, transfer_us) *
        1000);
}

/* A chain where no links are named. */
static void read_links(struct reading *r, const json_t *root)
{
    const json_t *links = json_object_get(root, "links");
    double transfer_us =
        pst_fields_number(&r->fields, root, "transfer_us", 0, MAX_NUMBER / 1000, 0);
    struct pst_order_question *asked = &r->problem->asked;

    for (uint32_t i = 0; r->fields.status == PST_OK && i < asked->in.n_links; i++) {
        if (links == NULL) {
            asked->links[i] = (struct pst_schedule_link){
                .from = i, .to = i + 1, .transfer_ns = (uint64_t)llround(transfer_us * 1000)};
        } else {
            pst_fields_enter(&r->fields, "links", i);
            read_link(r, json_array_get(links, i), i, transfer_us);
            pst_fields_leave(&r->fields, 0);
        }
    }
    for (uint32_t i = 0; r->fields.status == PST_OK && i < asked->in.n_links; i++) {
        for (uint32_t j = 0; j < i && asked->in.n_links < 4096; j++) {
            if (asked->links[i].from == asked->links[j].from &&
                asked->links[i].to == asked->links[j].to) {
                pst_fields_fail(&r->fields, "config.value", NULL,
                                "links[%u] is the same as links[%u]", i, j);
            }
        }
    }
}

/* One number for all devices, or one each; null: no limit. */
static void read_memory(struct reading *r, const json_t *root)
{
    const json_t *memory = json_object_get(root, "memory_bytes");
    struct pst_order_question *asked = &r->problem->asked;
    size_t n = asked->in.n_devices;

    if (json_is_array(memory) && json_array_size(memory) != n) {
        pst_fields_fail(&r->fields, "config.value", "memory_bytes",
                        "has %zu numbers for %zu devices", json_array_size(memory), n);
        return;
    }
    for (uint32_t d = 0; memory != NULL && d < n; d++) {
        const json_t *value = json_is_array(memory) ? json_array_get(memory, d) : memory;
        double bytes = json_number_value(value);

        if (json_is_null(value)) {
            continue;
        }
        if (!json_is_number(value) || !(bytes >= 0 && bytes <= MAX_NUMBER)) {
            pst_fields_fail(&r->fields, "config.value", "memory_bytes",
                            "must be bytes or null, for all devices or each");
            return;
        }
        asked->activation_bytes[d] = (uint64_t)bytes;
    }
}

/* As large a group as the neighbours behind need (GraphPipe, Jeon et al., ASPLOS 2025). */
static void choose_k(struct pst_order_question *asked)
{
    for (uint32_t i = 0; i < asked->in.n_links; i++) {
        struct pst_schedule_stage *from = &asked->stages[asked->links[i].from];
        uint32_t k = asked->stages[asked->links[i].to].microbatch_size / from->microbatch_size;

        from->replay_ns = k > from->replay_ns ? k : from->replay_ns; /* scratch */
    }
    for (uint32_t s = 0; s < asked->in.n_stages; s++) {
        struct pst_schedule_stage *stage = &asked->stages[s];

        if (stage->k == 0) {
            stage->k = stage->replay_ns > 1 ? (uint32_t)stage->replay_ns : 1;
        }
        stage->replay_ns = 0;
    }
}

/* How many devices, where the file does not say: as its stages name, or one a stage. */
static uint32_t count_devices(struct reading *r, const json_t *root, const json_t *stages)
{
    uint32_t most = 0;
    bool named = false;
    size_t i;
    json_t *stage;

    if (json_object_get(root, "devices") != NULL) {
        return pst_fields_count(&r->fields, root, "devices", 1, MAX_COUNT, 1);
    }
    json_array_foreach((json_t *)(uintptr_t)stages, i, stage)
    {
        const json_t *device = json_object_get(stage, "device");
        double d = json_number_value(device);

        named |= device != NULL;
        most = d >= 0 && d < MAX_COUNT && d > most ? (uint32_t)d : most;
    }
    return named ? most + 1 : (uint32_t)json_array_size(stages);
}

static void read_stages(struct reading *r, const json_t *root)
{
    const json_t *stages = json_object_get(root, "stages"), *links = json_object_get(root, "links");
    size_t n = json_array_size(stages), n_links = links == NULL ? n - 1 : json_array_size(links);
    uint32_t n_devices, s;

    if (!json_is_array(stages) || n == 0 || (double)n > MAX_COUNT) {
        pst_fields_fail(&r->fields, "config.value", "stages",
                        "must be an array of at least one stage");
        return;
    }
    if ((links != NULL && !json_is_array(links)) || (double)n_links > MAX_COUNT) {
        pst_fields_fail(&r->fields, "config.value", "links", "must be an array");
        return;
    }
    n_devices = count_devices(r, root, stages);
    if (r->fields.status == PST_OK) {
        pst_order_question_alloc(&r->problem->asked, n_devices, (uint32_t)n, (uint32_t)n_links);
    }
    for (s = 0; r->fields.status == PST_OK && s < n; s++) {
        const json_t *stage = json_array_get(stages, s);

        pst_fields_enter(&r->fields, "stages", s);
        if (!json_is_object(stage)) {
            pst_fields_fail(&r->fields, "config.value", NULL, "must be an object");
        }
        read_stage(r, stage, s);
        pst_fields_leave(&r->fields, 0);
    }
}

static void read_root(struct reading *r, const json_t *root)
{
    static const char *const keys[] = {"format", "version", "samples",     "devices",
                                       "stages", "links",   "transfer_us", "memory_bytes"};

    if (!pst_fields_format(&r->fields, root, "penstock-schedule-problem")) {
        return;
    }
    pst_fields_known(&r->fields, root, keys, sizeof keys / sizeof keys[0]);
    if (json_object_get(root, "samples") == NULL) {
        pst_fields_fail(&r->fields, "config.key", NULL,
                        "samples is missing: the samples of a step");
    }
    r->problem->samples = pst_fields_count(&r->fields, root, "samples", 1, 1e9, 1);
    if (r->fields.status == PST_OK) {
        read_stages(r, root);
    }
    if (r->fields.status == PST_OK) {
        read_links(r, root);
    }
    if (r->fields.status == PST_OK) {
        read_memory(r, root);
        choose_k(&r->problem->asked);
    }
}

pst_status pst_schedule_problem_read(const char *path, struct pst_schedule_problem *ret_problem,
                                     struct pst_error *err)
{
    struct pst_schedule_problem problem = {.samples = 0};
    struct reading r = {.fields = {.path = path, .err = err}, .problem = &problem};
    json_t *root = NULL;
    pst_status status = pst_json_load(path, MAX_BYTES, &root, err);

    if (status != PST_OK) {
        return status;
    }
    read_root(&r, root);
    json_decref(root);
    if (r.fields.status != PST_OK) {
        pst_schedule_problem_finish(&problem);
        return r.fields.status;
    }
    *ret_problem = problem;
    return PST_OK;
}

void pst_schedule_problem_finish(struct pst_schedule_problem *problem)
{
    pst_order_question_finish(&problem->asked);
    memset(problem, 0, sizeof *problem);
}
