/* SPDX-License-Identifier: Apache-2.0
 *
 * Samples of a data plugin: every byte is written, and the same bytes however they are asked for,
 * in one call and in many, in any order, from several threads at once; and values that the model
 * has.
 */
#include "conformance/answer.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "data/data_plugin.h"
#include "base/hash.h"

enum { INPUTS = 3, SAMPLES = 12, THREADS = 4, IGNORED = -1 };

/* Two readings of the same samples begin with other bytes: the host's memory for samples is used
   again and again, so bytes that read() leaves are those of earlier samples. */
enum { FILLED = 0x5A, OTHERWISE = 0xA5 };

/* Ordinary models: next tokens, classes of images and of vectors, numbers, classes of pairs. */
static const struct model {
    struct {
        uint32_t dtype, rank;
        uint64_t dims[3], range;
    } x, target;
    bool pairs; /* two inputs like x */
} models[] = {
    {{PST_I32, 1, {16}, 256}, {PST_I32, 1, {16}, 256}, false},
    {{PST_F32, 3, {8, 8, 3}, 0}, {PST_I32, 0, {0}, 10}, false},
    {{PST_BF16, 1, {8}, 0}, {PST_I32, 0, {0}, 10}, false},
    {{PST_F32, 1, {8}, 0}, {PST_F32, 1, {1}, 0}, false},
    {{PST_F32, 1, {8}, 0}, {PST_I32, 0, {0}, 10}, true},
};

/* A shape with its inputs, as long as a newer host has them. */
struct question {
    struct pst_data_shape shape;
    char *inputs;
};

static void put_input(struct question *question, uint32_t i, const char *name, uint32_t field,
                      uint32_t dtype, uint32_t rank, const uint64_t *dims, uint64_t range)
{
    struct pst_data_input input = {.name = name,
                                   .field = field,
                                   .dtype = dtype,
                                   .rank = rank,
                                   .dims = dims,
                                   .elems = 1,
                                   .range = range};

    for (uint32_t k = 0; k < rank; k++) {
        input.elems *= dims[k];
    }
    input.bytes = input.elems * (dtype == PST_BF16 ? 2 : 4);
    memcpy(question->inputs + (size_t)i * question->shape.input_size, &input, sizeof input);
}

static void put_question(struct question *question, const struct pst_rig *rig, uint64_t seed)
{
    const struct model *model = &models[seed % (sizeof models / sizeof *models)];

    question->shape = (struct pst_data_shape){
        .size = sizeof question->shape,
        .n_inputs = model->pairs ? 3 : 2,
        .input_size = (uint32_t)sizeof(struct pst_data_input) + rig->instance.wider,
        .seed = seed};
    question->inputs = pst_alloc(question->shape.n_inputs, question->shape.input_size);
    question->shape.inputs = question->inputs;
    put_input(question, 0, "x", PST_FIELD_X, model->x.dtype, model->x.rank, model->x.dims,
              model->x.range);
    put_input(question, 1, "targets", PST_FIELD_TARGET, model->target.dtype, model->target.rank,
              model->target.dims, model->target.range);
    if (model->pairs) {
        put_input(question, 2, "x2", PST_FIELD_X, model->x.dtype, model->x.rank, model->x.dims,
                  model->x.range);
    }
}

/* Samples 0 ... n - 1 of a split, each input on its own. */
struct samples {
    const struct pst_data_interface *calls;
    void *self;
    const struct pst_data_shape *shape;
    uint32_t split, n;
    char *inputs[INPUTS];
};

static uint64_t bytes_of(const struct samples *samples, uint32_t k)
{
    return samples->n * pst_data_input_at(samples->shape, k)->bytes;
}

static void samples_init(struct samples *samples, const struct samples *like, int filled)
{
    *samples = *like;
    for (uint32_t k = 0; k < like->shape->n_inputs; k++) {
        samples->inputs[k] = pst_alloc(bytes_of(like, k), 1);
        memset(samples->inputs[k], filled, bytes_of(like, k));
    }
}

static void samples_finish(struct samples *samples)
{
    for (uint32_t k = 0; k < samples->shape->n_inputs; k++) {
        free(samples->inputs[k]);
    }
}

static pst_status read_part(const struct samples *samples, uint32_t first, uint32_t n)
{
    void *inputs[INPUTS];

    for (uint32_t k = 0; k < samples->shape->n_inputs; k++) {
        inputs[k] = samples->inputs[k] + first * pst_data_input_at(samples->shape, k)->bytes;
    }
    return samples->calls->read(samples->self, samples->split, first, n, inputs);
}

static bool samples_equal(const struct samples *a, const struct samples *b)
{
    bool equal = true;

    for (uint32_t k = 0; k < a->shape->n_inputs; k++) {
        equal = equal && memcmp(a->inputs[k], b->inputs[k], bytes_of(a, k)) == 0;
    }
    return equal;
}

/* Bytes that have in both what stood there before were written by neither reading. */
static void find_unwritten(const struct samples *filled, const struct samples *otherwise,
                           struct pst_answer *answer)
{
    for (uint32_t k = 0; k < filled->shape->n_inputs; k++) {
        const struct pst_data_input *input = pst_data_input_at(filled->shape, k);
        const unsigned char *a = (const unsigned char *)filled->inputs[k];
        const unsigned char *b = (const unsigned char *)otherwise->inputs[k];
        uint64_t i = 0;

        while (i < bytes_of(filled, k) && (a[i] != FILLED || b[i] != OTHERWISE)) {
            i++;
        }
        if (i < bytes_of(filled, k)) {
            pst_answer_break(answer, "read() does not write byte %llu of %s of sample %llu",
                             (unsigned long long)(i % input->bytes), input->name,
                             (unsigned long long)(i / input->bytes));
            return;
        }
    }
}

/* From the last to the first, `step` at a time, all but the first of which are full. */
static pst_status read_backwards(const struct samples *samples, uint32_t step)
{
    pst_status status = PST_OK;

    for (uint32_t end = samples->n; status == PST_OK && end > 0;) {
        const uint32_t n = end < step ? end : step;

        end -= n;
        status = read_part(samples, end, n);
    }
    return status;
}

struct reader {
    pthread_t thread;
    struct samples samples;
    uint32_t step;
    pst_status status;
    bool started;
};

static void *read_in_thread(void *reader_)
{
    struct reader *reader = reader_;

    reader->status = read_backwards(&reader->samples, reader->step);
    return NULL;
}

/* Reads the same samples from several threads at once, each in parts of another size. */
static pst_status read_at_once(const struct samples *whole, struct pst_answer *answer)
{
    struct reader readers[THREADS];
    pst_status status = PST_OK;

    for (uint32_t i = 0; i < THREADS; i++) {
        readers[i] = (struct reader){.step = i + 1};
        samples_init(&readers[i].samples, whole, FILLED);
    }
    for (uint32_t i = 0; i < THREADS; i++) {
        readers[i].started =
            pthread_create(&readers[i].thread, NULL, read_in_thread, &readers[i]) == 0;
    }
    for (uint32_t i = 0; i < THREADS; i++) {
        if (readers[i].started) {
            pthread_join(readers[i].thread, NULL);
            status = status == PST_OK ? readers[i].status : status;
            if (status == PST_OK && !samples_equal(whole, &readers[i].samples)) {
                pst_answer_break(answer, "read() gives other bytes when several threads call it");
            }
        }
        samples_finish(&readers[i].samples);
    }
    return status;
}

static void record(struct pst_answer *answer, const struct samples *samples)
{
    uint64_t digest = PST_FNV1A;

    for (uint32_t k = 0; k < samples->shape->n_inputs; k++) {
        digest = pst_fnv1a_bytes(digest, samples->inputs[k], bytes_of(samples, k));
    }
    pst_answer_record(answer, digest);
}

/* The first samples of a split. */
static pst_status ask_split(struct samples *like, struct pst_answer *answer)
{
    const uint64_t n = like->calls->samples(like->self, like->split);
    struct samples whole, again;
    char fault[256];
    pst_status status;

    pst_answer_record(answer, n);
    if (n > (uint64_t)1 << 62 && n != UINT64_MAX) {
        pst_answer_break(answer, "samples() returned more than 2^62, and not UINT64_MAX");
    }
    like->n = n < SAMPLES ? (uint32_t)n : SAMPLES;
    samples_init(&whole, like, FILLED);
    samples_init(&again, like, OTHERWISE);
    status = like->n == 0 ? PST_OK : read_part(&whole, 0, like->n);
    PST_TRY(status, read_backwards(&again, 5));
    if (status == PST_OK) {
        find_unwritten(&whole, &again, answer);
    }
    if (status == PST_OK &&
        !pst_data_judge(like->shape, IGNORED, 0, like->n, (void *const *)whole.inputs, fault)) {
        pst_answer_break(answer, "%s", fault);
    }
    if (status == PST_OK && !samples_equal(&whole, &again)) {
        pst_answer_break(answer, "read() gives other bytes for the same samples in another order");
    }
    PST_TRY(status, read_at_once(&whole, answer));
    if (status == PST_OK) {
        record(answer, &whole);
    }
    if (like->calls->samples(like->self, like->split) != n) {
        pst_answer_break(answer, "samples() returned %llu, and then another number",
                         (unsigned long long)n);
    }
    samples_finish(&whole);
    samples_finish(&again);
    return status;
}

static pst_status ask_opened(struct pst_rig *rig, struct samples *samples,
                             struct pst_answer *answer)
{
    pst_status status;

    pst_instance_enter(&rig->instance, PST_CRUMB_OPEN);
    status = samples->calls->open(samples->self, samples->shape);
    pst_instance_leave(&rig->instance);
    if (status != PST_OK) {
        return status;
    }
    rig->instance.concurrent = true;
    pst_instance_enter(&rig->instance, PST_CRUMB_READ);
    for (samples->split = 0; status == PST_OK && samples->split < 2; samples->split++) {
        status = ask_split(samples, answer);
    }
    pst_instance_leave(&rig->instance);
    rig->instance.concurrent = false;
    if (rig->instance.begged) {
        pst_answer_break(answer, "%s", PST_DATA_BEGGED);
    }
    return status;
}

/* Data is opened once, so each question has an instance of its own beside the rig's. */
pst_status pst_ask_data(struct pst_rig *rig, const struct pst_case *question,
                        struct pst_answer *answer, struct pst_error *err)
{
    const struct pst_plugin *plugin = rig->instance.plugin;
    struct question asked;
    struct samples samples = {.calls = plugin->get_interface(PST_DATA), .shape = &asked.shape};
    pst_status status;

    put_question(&asked, rig, question->seed);
    pst_instance_enter(&rig->instance, PST_CRUMB_CREATE);
    status = plugin->create(&rig->table.host, rig->instance.config, &samples.self);
    pst_instance_leave(&rig->instance);
    if (status == PST_OK) {
        status = ask_opened(rig, &samples, answer);
        pst_instance_enter(&rig->instance, PST_CRUMB_DESTROY);
        plugin->destroy(samples.self);
        pst_instance_leave(&rig->instance);
    }
    free(asked.inputs);
    return status == PST_OK ? PST_OK : pst_instance_fail(&rig->instance, status, "read", err);
}
