/* SPDX-License-Identifier: Apache-2.0 */
#include "commands/schedule_problem.h"

#include <math.h>
#include <string.h>

#include "config/codec.h"

#define MAX_BYTES  ((size_t)64 << 20)
#define MAX_COUNT  1000000.0 /* devices, stages, links */
#define MAX_NUMBER 1e15      /* nanoseconds, bytes */

/* Of one micro-batch, or of one sample. */
struct quantity {
    const char *key, *per_sample, *missing;
};

#define QUANTITY(name)                                                                             \
    &(const struct quantity)                                                                       \
    {                                                                                              \
        name, name "_per_sample", name " or " name "_per_sample is missing"                        \
    }

static bool has_quantity(struct pst_codec *c, const struct quantity *of)
{
    return pst_codec_has(c, of->key, false) || pst_codec_has(c, of->per_sample, false);
}

/* Times `scale`; `initial`: of one sample. */
static uint64_t read_quantity(struct pst_codec *c, const struct quantity *of, double scale,
                              uint32_t samples, double initial)
{
    double value, most = MAX_NUMBER / scale;

    if (!pst_codec_has(c, of->key, false)) {
        pst_codec_amount(c, of->per_sample, &value, 0, most / samples, initial);
        return (uint64_t)llround(samples * value * scale);
    }
    if (pst_codec_has(c, of->per_sample, false)) {
        pst_codec_fail(c, "config.value", NULL, "%s and %s exclude each other", of->key,
                       of->per_sample);
    }
    pst_codec_amount(c, of->key, &value, 0, most, 0);
    return (uint64_t)llround(value * scale);
}

static uint64_t read_ns(struct pst_codec *c, const struct quantity *of, uint32_t samples)
{
    if (!has_quantity(c, of)) {
        pst_codec_require(c, of->key, of->missing);
    }
    return read_quantity(c, of, 1000, samples, 0);
}

static void read_saved(struct pst_codec *c, struct pst_schedule_problem *problem,
                       struct pst_schedule_stage *stage)
{
    const struct quantity *all = QUANTITY("saved_bytes"), *part = QUANTITY("saved_weight_bytes");
    uint32_t size = stage->microbatch_size;

    problem->has_bytes |= has_quantity(c, all);
    stage->saved_bytes = read_quantity(c, all, 1, size, 1);
    stage->saved_weight_bytes = stage->saved_bytes;
    if (has_quantity(c, part)) {
        stage->saved_weight_bytes = read_quantity(c, part, 1, size, 0);
        if (stage->saved_weight_bytes > stage->saved_bytes) {
            pst_codec_fail(c, "config.value", "saved_weight_bytes",
                           "is a part of saved_bytes and cannot be more");
        }
    }
}

static void read_stage(struct pst_codec *c, struct pst_schedule_problem *problem, uint32_t s)
{
    struct pst_schedule_stage *stage = &problem->asked.stages[s];
    uint64_t samples = problem->samples;
    uint32_t size;

    pst_codec_object(c, NULL);
    pst_codec_count(c, "microbatch_size", &size, 1, MAX_COUNT, 1);
    if (samples % size != 0) {
        pst_codec_fail(c, "config.value", "microbatch_size", "%u does not divide the %llu samples",
                       size, (unsigned long long)samples);
    }
    *stage = (struct pst_schedule_stage){.microbatch_size = size,
                                         .n_microbatches = (uint32_t)(samples / size)};
    pst_codec_count(c, "device", &stage->device, 0, problem->asked.in.n_devices - 1.0, PST_NONE);
    pst_codec_count(c, "k", &stage->k, 1, MAX_COUNT, 0);
    stage->forward_ns = read_ns(c, QUANTITY("forward_us"), size);
    stage->backward_input_ns = read_ns(c, QUANTITY("backward_input_us"), size);
    stage->backward_weight_ns = read_ns(c, QUANTITY("backward_weight_us"), size);
    read_saved(c, problem, stage);
    pst_codec_end(c);
}

static void read_link(struct pst_codec *c, struct pst_order_question *asked, uint32_t i,
                      double transfer_us)
{
    static const char missing[] = "from and to name two stages";
    struct pst_schedule_link *link = &asked->links[i];
    double us, last = asked->in.n_stages - 1.0;

    pst_codec_object(c, NULL);
    pst_codec_require(c, "from", missing);
    pst_codec_require(c, "to", missing);
    pst_codec_count(c, "from", &link->from, 0, last, 0);
    pst_codec_count(c, "to", &link->to, 0, last, 0);
    if (link->from >= link->to) {
        pst_codec_fail(c, "config.value", NULL,
                       "goes from stage %u to %u; a link must go to a stage with a higher number",
                       link->from, link->to);
    }
    pst_codec_amount(c, "transfer_us", &us, 0, MAX_NUMBER / 1000, transfer_us);
    link->transfer_ns = (uint64_t)llround(us * 1000);
    pst_codec_end(c);
}

static void refuse_same_links(struct pst_codec *c, const struct pst_order_question *asked)
{
    for (uint32_t i = 0; asked->in.n_links < 4096 && i < asked->in.n_links; i++) {
        for (uint32_t j = 0; j < i; j++) {
            if (asked->links[i].from == asked->links[j].from &&
                asked->links[i].to == asked->links[j].to) {
                pst_codec_fail(c, "config.value", NULL, "links[%u] is the same as links[%u]", i, j);
                return;
            }
        }
    }
}

/* A chain where no links are named. */
static void read_links(struct pst_codec *c, struct pst_order_question *asked)
{
    double us;

    pst_codec_amount(c, "transfer_us", &us, 0, MAX_NUMBER / 1000, 0);
    if (!pst_codec_has(c, "links", false)) {
        for (uint32_t i = 0; i < asked->in.n_links; i++) {
            asked->links[i] = (struct pst_schedule_link){
                .from = i, .to = i + 1, .transfer_ns = (uint64_t)llround(us * 1000)};
        }
        return;
    }
    pst_codec_array(c, "links");
    for (uint32_t i = 0; pst_codec_is_sound(c) && i < asked->in.n_links; i++) {
        read_link(c, asked, i, us);
    }
    pst_codec_end(c);
    refuse_same_links(c, asked);
}

/* One number for all devices, or one each; null: no limit. */
static void read_memory(struct pst_codec *c, struct pst_order_question *asked)
{
    const json_t *memory = pst_codec_find(c, "memory_bytes");
    size_t n = asked->in.n_devices;

    if (json_is_array(memory) && json_array_size(memory) != n) {
        pst_codec_fail(c, "config.value", "memory_bytes", "has %zu numbers for %zu devices",
                       json_array_size(memory), n);
        return;
    }
    for (uint32_t d = 0; memory != NULL && d < n; d++) {
        const json_t *value = json_is_array(memory) ? json_array_get(memory, d) : memory;
        double bytes = json_number_value(value);

        if (json_is_null(value)) {
            continue;
        }
        if (!json_is_number(value) || !(bytes >= 0 && bytes <= MAX_NUMBER)) {
            pst_codec_fail(c, "config.value", "memory_bytes",
                           "must be bytes or null, for all devices or each");
            return;
        }
        asked->activation_bytes[d] = (uint64_t)bytes;
    }
}

/* As large a group as the next neighbours need (GraphPipe, Jeon et al., ASPLOS 2025). */
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

/* Returns how many devices, where the file does not say: as its stages name, or one a stage. */
static uint32_t count_devices(const json_t *stages)
{
    uint32_t most = 0;
    bool named = false;
    size_t i;
    json_t *stage;

    json_array_foreach((json_t *)(uintptr_t)stages, i, stage)
    {
        const json_t *device = json_object_get(stage, "device");
        double d = json_number_value(device);

        named |= device != NULL;
        most = d >= 0 && d < MAX_COUNT && d > most ? (uint32_t)d : most;
    }
    return named ? most + 1 : (uint32_t)json_array_size(stages);
}

static void read_stages(struct pst_codec *c, struct pst_schedule_problem *problem)
{
    const json_t *stages = pst_codec_find(c, "stages"), *links = pst_codec_find(c, "links");
    size_t n = json_array_size(stages), n_links = links == NULL ? n - 1 : json_array_size(links);
    uint32_t n_devices;

    pst_codec_require(c, "stages", NULL);
    if (!json_is_array(stages) || n == 0 || (double)n > MAX_COUNT) {
        pst_codec_fail(c, "config.value", "stages", "must be an array of at least one stage");
    } else if ((links != NULL && !json_is_array(links)) || (double)n_links > MAX_COUNT) {
        pst_codec_fail(c, "config.value", "links", "must be an array");
    }
    pst_codec_count(c, "devices", &n_devices, 1, MAX_COUNT, count_devices(stages));
    if (!pst_codec_is_sound(c)) {
        return;
    }
    pst_order_question_alloc(&problem->asked, n_devices, (uint32_t)n, (uint32_t)n_links);
    pst_codec_array(c, "stages");
    for (uint32_t s = 0; pst_codec_is_sound(c) && s < n; s++) {
        read_stage(c, problem, s);
    }
    pst_codec_end(c);
}

static void read_root(struct pst_codec *c, struct pst_schedule_problem *problem)
{
    uint32_t samples;

    pst_codec_object(c, NULL);
    pst_codec_format(c, c->format);
    pst_codec_require(c, "samples", "samples is missing: the samples of a step");
    pst_codec_count(c, "samples", &samples, 1, 1e9, 1);
    problem->samples = samples;
    read_stages(c, problem);
    if (pst_codec_is_sound(c)) {
        read_links(c, &problem->asked);
        read_memory(c, &problem->asked);
    }
    pst_codec_end(c);
    if (pst_codec_is_sound(c)) {
        choose_k(&problem->asked);
    }
}

pst_status pst_schedule_problem_read(const char *path, struct pst_schedule_problem *ret_problem,
                                     struct pst_error *err)
{
    struct pst_schedule_problem problem = {.samples = 0};
    struct pst_fields fields = {.path = path, .err = err};
    struct pst_codec c = {.in = &fields, .format = "penstock-schedule-problem"};

    fields.status = pst_json_load(path, MAX_BYTES, &c.root, err);
    read_root(&c, &problem);
    json_decref(c.root);
    if (fields.status != PST_OK) {
        pst_schedule_problem_finish(&problem);
        return fields.status;
    }
    *ret_problem = problem;
    return PST_OK;
}

void pst_schedule_problem_finish(struct pst_schedule_problem *problem)
{
    pst_order_question_finish(&problem->asked);
    memset(problem, 0, sizeof *problem);
}
