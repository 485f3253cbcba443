/* SPDX-License-Identifier: Apache-2.0
 *
 * Which part of the data each sample is: sources and the order in which they take turns, what is
 * held out, the order of an epoch. All of it follows from the config and the sample's index.
 */
#include "data/data_impl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/philox.h"
#include "data/permute.h"

#define STREAM_OFFSET 0x6F66667300000000u

/* Records lie scattered before a part of them is held out, for files are sorted at times: in an
   order that no seed changes, so that what is held out stays the same. */
#define SCATTER_SEED 0x7363617474657264u

/* --- turns of the sources --------------------------------------------------------------------- */

#define EXACT_CYCLE 1000
#define LONG_CYCLE  65536

/* Is every weight a whole number of places in a cycle of that length? */
static bool is_exact(const double *weights, uint32_t n, double sum, uint32_t length)
{
    for (uint32_t i = 0; i < n; i++) {
        double places = weights[i] / sum * length;

        if (fabs(places - round(places)) > 1e-9 * length) {
            return false;
        }
    }
    return true;
}

/* Places of each source, by largest remainders. */
static void share_places(struct pst_blend *blend, const double *weights, uint32_t n, double sum)
{
    uint32_t left = blend->length;

    for (uint32_t i = 0; i < n; i++) {
        blend->count[i] = (uint32_t)(weights[i] / sum * blend->length + 1e-9 * blend->length);
        left -= blend->count[i];
    }
    for (; left > 0; left--) {
        uint32_t best = 0;
        double most = -1;

        for (uint32_t i = 0; i < n; i++) {
            double lacks = weights[i] / sum * blend->length - blend->count[i];

            best = lacks > most ? i : best;
            most = lacks > most ? lacks : most;
        }
        blend->count[best]++;
    }
}

/* Each place goes to the source that is furthest behind its weight (build_blending_indices of
   Megatron-LM), but none gets more places than it has. */
static void deal_places(struct pst_blend *blend, uint32_t n)
{
    uint32_t taken[PST_MAX_SOURCES] = {0};

    for (uint32_t i = 0; i < blend->length; i++) {
        int64_t most = INT64_MIN;
        uint32_t best = 0;

        for (uint32_t k = 0; k < n; k++) {
            int64_t behind =
                (int64_t)blend->count[k] * (i > 0 ? i : 1) - (int64_t)taken[k] * blend->length;

            if (taken[k] < blend->count[k] && behind > most) {
                most = behind;
                best = k;
            }
        }
        blend->source[i] = (uint16_t)best;
        blend->before[i] = taken[best]++;
    }
}

pst_status pst_blend_init(struct pst_blend *blend, const double *weights, uint32_t n,
                          struct pst_error *err)
{
    double sum = 0;

    for (uint32_t i = 0; i < n; i++) {
        sum += weights[i];
    }
    blend->length = 1;
    while (blend->length <= EXACT_CYCLE && !is_exact(weights, n, sum, blend->length)) {
        blend->length++;
    }
    blend->length = blend->length <= EXACT_CYCLE ? blend->length : LONG_CYCLE;
    share_places(blend, weights, n, sum);
    for (uint32_t i = 0; i < n; i++) {
        if (blend->count[i] == 0) {
            return pst_fail(err, PST_ERR_CONFIG, "config.value",
                            "data.weights: %g is less than 1/65536 of the sum", weights[i]);
        }
    }
    blend->source = pst_alloc(blend->length, sizeof *blend->source);
    blend->before = pst_alloc(blend->length, sizeof *blend->before);
    deal_places(blend, n);
    return PST_OK;
}

void pst_blend_finish(struct pst_blend *blend)
{
    free(blend->source);
    free(blend->before);
}

/* Numbers above 0, one for each of n sources. */
static pst_status read_weights(const char *text, uint32_t n, struct pst_blend *blend,
                               struct pst_error *err)
{
    double weights[PST_MAX_SOURCES];

    if (pst_data_read_numbers(text, n, true, weights) != n) {
        return pst_fail(err, PST_ERR_CONFIG, "config.value",
                        "data.weights must be %u numbers above 0, one for each source of "
                        "data.train",
                        n);
    }
    return n > 1 ? pst_blend_init(blend, weights, n, err) : PST_OK;
}

/* --- splits ----------------------------------------------------------------------------------- */

static uint64_t context_of(const struct pst_data *data)
{
    return data->shape.rows;
}

static pst_status too_few(const struct pst_data *data, const char *what, uint64_t n,
                          const char *patterns, struct pst_error *err)
{
    unsigned long long context = context_of(data);

    if (!data->kind->tokens) {
        return pst_fail(err, PST_ERR_CONFIG, "config.value",
                        "%s: %llu records from \"%s\" are too few", what, (unsigned long long)n,
                        patterns);
    }
    return pst_fail(err, PST_ERR_CONFIG, "config.value",
                    "%s: %llu %s from \"%s\" are too few: one sample needs %llu (the model's "
                    "context of %llu and one more); give more text or a smaller context",
                    what, (unsigned long long)n,
                    pst_data_is_text(data) && data->tokenizer == NULL ? "bytes of text" : "tokens",
                    patterns, context + 1, context);
}

/* The least number of tokens, or records, that a stretch needs for one sample. */
static uint64_t least_of_sample(const struct pst_data *data)
{
    return data->kind->tokens ? context_of(data) + 1 : 1;
}

/* Windows of a stretch of tokens: when shuffled one less than would fit, where that leaves any, as
   room for the epochs' offsets. */
static void count_samples(const struct pst_data *data, struct pst_stretch *stretch, bool shuffled)
{
    stretch->n = stretch->length;
    if (data->kind->tokens && stretch->length > 0) {
        stretch->n = (stretch->length - 1) / context_of(data);
        stretch->n -= shuffled && stretch->n > 1;
    }
}

static struct pst_stretch whole_stretch(const struct pst_data *data, const struct pst_store *store)
{
    return (struct pst_stretch){.store = store,
                                .length = data->kind->tokens ? store->stream.parts.n
                                                             : store->records.x.parts.n};
}

/* The end of the training data becomes the held-out data: `fraction` of it, at least one sample.
   Of records that is the end of their scattered order. */
static pst_status split_end(const struct pst_data *data, double fraction, const char *patterns,
                            struct pst_stretch *train, struct pst_stretch *valid,
                            struct pst_error *err)
{
    uint64_t held = (uint64_t)((double)train->length * fraction);

    if (!(fraction > 0)) {
        return PST_OK;
    }
    held = held < least_of_sample(data) ? least_of_sample(data) : held;
    if (train->length < held + least_of_sample(data)) {
        return too_few(data, "data.train, without what is held out for evaluation",
                       train->length > held ? train->length - held : 0, patterns, err);
    }
    train->scattered = data->kind->tokens ? 0 : train->length;
    train->length -= held;
    *valid = (struct pst_stretch){train->store, train->length, held, 0, train->scattered};
    return PST_OK;
}

static pst_status open_store(const struct pst_job *job, struct pst_data *data, const char *patterns,
                             const char *labels, const char *key, struct pst_store *store,
                             struct pst_error *err)
{
    pst_status status = data->kind->open_store(job, data, patterns, labels, key, store, err);
    uint64_t room = data->kind->tokens
                        ? (context_of(data) + 1) * pst_element_bytes(store->stream.element)
                        : store->records.room_bytes;

    if (status == PST_OK && whole_stretch(data, store).length < least_of_sample(data)) {
        status = too_few(data, key, whole_stretch(data, store).length, patterns, err);
    }
    data->room_bytes = room > data->room_bytes ? room : data->room_bytes;
    return status;
}

static const char *text_of(const char *text)
{
    return text == NULL ? "" : text;
}

/* Line `i` of a text; free() it. */
static char *line_of(const char *text, uint32_t i)
{
    for (; i > 0 && *text != '\0'; i--) {
        text += strcspn(text, "\n");
        text += *text == '\n';
    }
    return pst_strndup(text, strcspn(text, "\n"));
}

static uint32_t count_lines(const char *text)
{
    uint32_t n = 1;

    for (; (text = strchr(text, '\n')) != NULL; text++) {
        n++;
    }
    return n;
}

/* Source i, which is all of them where there are no weights, and what is held out of it. */
static pst_status open_source(const struct pst_job *job, struct pst_data *data, uint32_t i,
                              bool hold_out, struct pst_error *err)
{
    const char *labels = text_of(job->training->data.train_labels);
    bool one = data->n_sources[PST_SPLIT_TRAIN] == 1;
    char *patterns =
        one ? pst_strdup(job->training->data.train) : line_of(job->training->data.train, i);
    char *of_labels = one ? pst_strdup(labels) : line_of(labels, i);
    struct pst_stretch *train = &data->sources[PST_SPLIT_TRAIN][i], valid = {.n = 0};
    pst_status status =
        open_store(job, data, patterns, of_labels, "data.train", &data->stores[i], err);

    if (status == PST_OK) {
        *train = whole_stretch(data, &data->stores[i]);
        status = hold_out ? split_end(data, job->training->data.valid_fraction, patterns, train,
                                      &valid, err)
                          : PST_OK;
    }
    count_samples(data, train, true);
    count_samples(data, &valid, false);
    if (status == PST_OK && valid.n > 0) {
        data->sources[PST_SPLIT_VALID][data->n_sources[PST_SPLIT_VALID]++] = valid;
    }
    free(patterns);
    free(of_labels);
    return status;
}

static pst_status open_valid(const struct pst_job *job, struct pst_data *data,
                             struct pst_error *err)
{
    struct pst_store *store = &data->stores[data->n_stores - 1];
    struct pst_stretch *valid = &data->sources[PST_SPLIT_VALID][0];
    pst_status status = open_store(job, data, job->training->data.valid,
                                   job->training->data.valid_labels, "data.valid", store, err);

    if (status == PST_OK) {
        *valid = whole_stretch(data, store);
        count_samples(data, valid, false);
        data->n_sources[PST_SPLIT_VALID] = 1;
    }
    return status;
}

pst_status pst_files_open(const struct pst_job *job, struct pst_data *data, struct pst_error *err)
{
    const char *train = text_of(job->training->data.train);
    const char *weights = text_of(job->training->data.weights);
    const char *labels = text_of(job->training->data.train_labels);
    bool own_valid = text_of(job->training->data.valid)[0] != '\0';
    uint32_t n = weights[0] == '\0' ? 1 : count_lines(train);
    pst_status status = PST_OK;

    if (weights[0] != '\0' && labels[0] != '\0' && count_lines(labels) != n) {
        status =
            pst_config_place(job->config, "data", "train_labels",
                             pst_fail(err, PST_ERR_CONFIG, "config.value",
                                      "data.train_labels has %u sources, and data.train has %u",
                                      count_lines(labels), n),
                             err);
    } else if (n > PST_MAX_SOURCES) {
        status = pst_fail(err, PST_ERR_CONFIG, "config.limit", "data.train: more than %d sources",
                          PST_MAX_SOURCES);
    } else if (weights[0] != '\0') {
        status = pst_config_place(job->config, "data", "weights",
                                  read_weights(weights, n, &data->blend, err), err);
    }
    data->n_stores = n + 1;
    data->stores = pst_alloc(data->n_stores, sizeof *data->stores);
    data->n_sources[PST_SPLIT_TRAIN] = n;
    data->sources[PST_SPLIT_TRAIN] = pst_alloc(n, sizeof **data->sources);
    data->sources[PST_SPLIT_VALID] = pst_alloc(n, sizeof **data->sources);
    for (uint32_t i = 0; status == PST_OK && i < n; i++) {
        status = open_source(job, data, i, !own_valid, err);
    }
    status = pst_config_place(job->config, "data", "train", status, err);
    if (status == PST_OK && own_valid) {
        status = pst_config_place(job->config, "data", "valid", open_valid(job, data, err), err);
    }
    for (uint32_t split = 0; status == PST_OK && split < 2; split++) {
        for (uint32_t i = 0; i < data->n_sources[split]; i++) {
            data->sequences[split] += data->sources[split][i].n;
        }
    }
    return status;
}

void pst_files_close(struct pst_data *data)
{
    pst_tokenizer_destroy(data->tokenizer);
    for (uint32_t i = 0; data->stores != NULL && i < data->n_stores; i++) {
        pst_stream_finish(&data->stores[i].stream);
        pst_records_finish(&data->stores[i].records);
    }
    free(data->stores);
    free(data->sources[PST_SPLIT_TRAIN]);
    free(data->sources[PST_SPLIT_VALID]);
    pst_blend_finish(&data->blend);
}

/* --- samples ---------------------------------------------------------------------------------- */

uint64_t pst_data_shuffle(uint64_t seed, uint32_t split, uint64_t n, uint64_t index)
{
    return split == PST_SPLIT_TRAIN ? pst_permute(seed, index / n, n, index % n) : index % n;
}

/* Where a sample comes from. */
struct place {
    const struct pst_stretch *stretch;
    uint64_t at; /* first token; record */
};

static struct place place_of(const struct pst_data *data, const struct pst_stretch *stretch,
                             uint64_t sample, uint64_t offset)
{
    uint64_t at = stretch->begin + sample;

    if (data->kind->tokens) {
        at = stretch->begin + sample * context_of(data) + offset;
    } else if (stretch->scattered > 0) {
        at = pst_permute(SCATTER_SEED, 0, stretch->scattered, at);
    }
    return (struct place){stretch, at};
}

/* The place in the epoch's order; windows of streams begin at an offset of the epoch's. */
static struct place locate_train(const struct pst_data *data, uint64_t index)
{
    const struct pst_blend *blend = &data->blend;
    const struct pst_stretch *stretch;
    uint64_t seed, slack = 0;
    uint32_t source = 0;

    if (blend->length > 0) {
        uint64_t cycle = index / blend->length, place = index % blend->length;

        source = blend->source[place];
        index = cycle * blend->count[source] + blend->before[place];
    }
    stretch = &data->sources[PST_SPLIT_TRAIN][source];
    seed = data->seed ^ (uint64_t)source << 48;
    if (data->kind->tokens) {
        slack = stretch->length - 1 - stretch->n * context_of(data);
    }
    return place_of(
        data, stretch, pst_data_shuffle(seed, PST_SPLIT_TRAIN, stretch->n, index),
        slack == 0 ? 0 : pst_philox(seed, STREAM_OFFSET, index / stretch->n).v[0] % (slack + 1));
}

static struct place locate_sample(const struct pst_data *data, uint32_t split, uint64_t index)
{
    const struct pst_stretch *stretch = data->sources[PST_SPLIT_VALID];

    if (split == PST_SPLIT_TRAIN) {
        return locate_train(data, index);
    }
    index = pst_data_shuffle(0, split, data->sequences[split], index);
    while (index >= stretch->n) {
        index -= stretch->n;
        stretch++;
    }
    return place_of(data, stretch, index, 0);
}

pst_status pst_files_read(const struct pst_data *data, uint32_t split, uint64_t first, uint32_t n,
                          void *const *ret_inputs, struct pst_error *err)
{
    const struct pst_sample_shape *shape = &data->shape;
    char *x = ret_inputs[pst_sample_input(shape, shape->x)];
    char *targets = ret_inputs[pst_sample_input(shape, shape->target)];
    void *room = pst_alloc(data->room_bytes + 1, 1);
    pst_status status = PST_OK;

    for (uint32_t i = 0; status == PST_OK && i < n; i++) {
        struct place place = locate_sample(data, split, first + i);
        const struct pst_store *store = place.stretch->store;
        void *of_x = x + i * shape->x->bytes, *of_targets = targets + i * shape->target->bytes;

        status =
            data->kind->tokens
                ? pst_stream_read(&store->stream, place.at, shape->rows, pst_data_vocab(data), room,
                                  of_x, of_targets, err)
                : pst_records_read(&store->records, shape, place.at, room, of_x, of_targets, err);
    }
    free(room);
    return status;
}
