/* SPDX-License-Identifier: Apache-2.0
 *
 * Text as bytes: a sample is a window of context + 1 bytes, its targets are the same bytes shifted
 * by one. An epoch cuts the text into windows that share only their border byte, at an offset of
 * its own, and takes them in an order of its own.
 */
#include "train/data_impl.h"

#include "base/philox.h"
#include "train/permute.h"

#define STREAM_OFFSET 0x6F66667300000000u

/* One window less than would fit, where that leaves any: room for the epochs' offsets. */
static void cut(struct pst_text *text, bool shuffled)
{
    text->n_windows = (text->length - 1) / text->context;
    if (shuffled && text->n_windows > 1) {
        text->n_windows--;
    }
}

static pst_status too_short(const char *key, uint64_t length, uint64_t context,
                            const char *patterns, struct pst_error *err)
{
    return pst_fail(err, PST_ERR_CONFIG, "config.value",
                    "%s: %llu bytes of text from \"%s\" are too few: one sample takes %llu "
                    "(the model's context of %llu and one more); give more text or a smaller "
                    "context",
                    key, (unsigned long long)length, patterns, (unsigned long long)context + 1,
                    (unsigned long long)context);
}

/* The end of the training text becomes the held-out text: `fraction` of it, at least one window. */
static pst_status split_end(const struct pst_job *job, struct pst_data *data, struct pst_error *err)
{
    struct pst_text *train = &data->text[PST_SPLIT_TRAIN], *valid = &data->text[PST_SPLIT_VALID];
    uint64_t held = (uint64_t)((double)train->length * job->data.valid_fraction);

    if (!(job->data.valid_fraction > 0)) {
        return PST_OK;
    }
    if (held < valid->context + 1) {
        held = valid->context + 1;
    }
    if (train->length < held + train->context + 1) {
        return too_short("data.train, less what is held out for evaluation",
                         train->length > held ? train->length - held : 0, train->context,
                         job->data.train, err);
    }
    train->length -= held;
    valid->bytes = train->bytes + train->length;
    valid->length = held;
    return PST_OK;
}

static pst_status open_split(struct pst_data *data, uint32_t split, const char *patterns,
                             const char *key, struct pst_error *err)
{
    struct pst_text *text = &data->text[split];
    pst_status st;

    st = pst_text_files_read(patterns, key, &data->storage[split], &text->length, err);
    if (st != PST_OK) {
        return st;
    }
    text->bytes = (const uint8_t *)data->storage[split];
    if (text->length < text->context + 1) {
        return too_short(key, text->length, text->context, patterns, err);
    }
    return PST_OK;
}

static pst_status check_shape(const struct pst_data *data, struct pst_error *err)
{
    const struct pst_sample_shape *shape = &data->shape;

    uint32_t n_x = 0;

    for (uint32_t i = 0; i < shape->n_inputs; i++) {
        n_x += shape->inputs[i].field == PST_FIELD_X;
    }
    if (shape->x->dtype != PST_I32 || shape->target->dtype != PST_I32 || n_x != 1 ||
        shape->shifted != NULL || shape->rows != shape->x->elems || shape->rows == 0) {
        return pst_fail(err, PST_ERR_CONFIG, "config.value",
                        "data.kind = \"text\" wants a model that predicts the next token, such as "
                        "gpt; use data.kind = \"synthetic\" for this one");
    }
    if (shape->vocab < 256 || shape->classes < 256) {
        return pst_fail(
            err, PST_ERR_CONFIG, "config.value",
            "model.vocab: text is read as bytes, which take 256 values, and the model "
            "has %llu",
            (unsigned long long)(shape->vocab < shape->classes ? shape->vocab : shape->classes));
    }
    return PST_OK;
}

pst_status pst_data_open_text(const struct pst_job *job, struct pst_data *data,
                              struct pst_error *err)
{
    const struct pst_config *config = job->config;
    bool own_valid = job->data.valid != NULL && job->data.valid[0] != '\0';
    pst_status st = check_shape(data, err);

    if (st != PST_OK) {
        pst_config_place(config, "data", "kind", st, err);
        return pst_config_place(config, "model", "use", st, err);
    }
    data->text[PST_SPLIT_TRAIN].context = data->shape.rows;
    data->text[PST_SPLIT_VALID].context = data->shape.rows;
    st = open_split(data, PST_SPLIT_TRAIN, job->data.train, "data.train", err);
    if (st == PST_OK && !own_valid) {
        st = split_end(job, data, err);
    }
    st = pst_config_place(config, "data", "train", st, err);
    if (st == PST_OK && own_valid) {
        st = pst_config_place(config, "data", "valid",
                              open_split(data, PST_SPLIT_VALID, job->data.valid, "data.valid", err),
                              err);
    }
    if (st != PST_OK) {
        return st;
    }
    cut(&data->text[PST_SPLIT_TRAIN], true);
    if (data->text[PST_SPLIT_VALID].length > 0) {
        cut(&data->text[PST_SPLIT_VALID], false);
    }
    return PST_OK;
}

void pst_text_read(const struct pst_data *data, uint32_t split, uint64_t index, int32_t *ret_x,
                   int32_t *ret_targets)
{
    const struct pst_text *text = &data->text[split];
    uint64_t epoch = index / text->n_windows, window = index % text->n_windows, begin;

    if (split == PST_SPLIT_TRAIN) {
        uint64_t slack = text->length - 1 - text->n_windows * text->context;
        struct pst_philox bits = pst_philox(data->seed, STREAM_OFFSET, epoch);

        window = pst_permute(data->seed, epoch, text->n_windows, window);
        begin = window * text->context + (slack == 0 ? 0 : bits.v[0] % (slack + 1));
    } else {
        begin = window * text->context;
    }
    PST_ASSERT(begin + text->context < text->length);
    for (uint64_t t = 0; t < text->context; t++) {
        ret_x[t] = text->bytes[begin + t];
        ret_targets[t] = text->bytes[begin + t + 1];
    }
}
