/* SPDX-License-Identifier: Apache-2.0
 *
 * Data that needs no file and that a model can learn, whatever its inputs look like. Each row of
 * targets has a class; features are the class's pattern under noise, tokens lean towards those of
 * the class. Where every token has a target of its own, the text is a noisy walk: mostly the next
 * token follows from the last.
 */
#include "train/data_impl.h"

#include <string.h>

#include "base/philox.h"

enum {
    STREAM_LABEL = 0x6C61626Cu,
    STREAM_PATTERN = 0x70617474u,
    STREAM_NOISE = 0x6E6F6973u,
    STREAM_TOKENS = 0x746F6B65u
};

/* One draw in eight is noise. */
#define NOISE_WORD 0x20000000u

/* Streams of a sample: the held-out ones lie apart from those of training. */
static struct pst_philox draw(const struct pst_data *data, uint32_t stream, uint32_t split,
                              uint64_t index, uint64_t counter)
{
    uint64_t key = data->seed ^ (uint64_t)stream << 32 ^ (uint64_t)split << 63;

    return pst_philox(key, index, counter);
}

static uint32_t word_at(const struct pst_data *data, uint32_t stream, uint32_t split,
                        uint64_t index, uint64_t counter)
{
    return draw(data, stream, split, index, counter / 4).v[counter % 4];
}

/* A walk over the tokens: next = 5 last + 7 mod vocab, but for the noise. */
static void read_walk(const struct pst_data *data, uint32_t split, uint64_t index, int32_t *ret_x,
                      int32_t *ret_targets)
{
    const struct pst_sample_shape *shape = &data->shape;
    uint64_t range = shape->vocab < shape->classes ? shape->vocab : shape->classes;
    uint64_t token = word_at(data, STREAM_LABEL, split, index, 0) % range;

    for (uint64_t t = 0; t < shape->rows; t++) {
        struct pst_philox bits = draw(data, STREAM_TOKENS, split, index, t);

        ret_x[t] = (int32_t)token;
        token = bits.v[0] < NOISE_WORD ? bits.v[1] % range : (5 * token + 7) % range;
        ret_targets[t] = (int32_t)token;
    }
}

/* Half of the tokens come from the class's own eight, the others from all. */
static void read_tokens(const struct pst_data *data, uint32_t split, uint64_t index,
                        const int32_t *classes, int32_t *ret_x)
{
    const struct pst_sample_shape *shape = &data->shape;
    uint64_t per_row = shape->x->elems / shape->rows;

    for (uint64_t t = 0; t < shape->x->elems; t++) {
        struct pst_philox bits = draw(data, STREAM_TOKENS, split, index, t);
        uint64_t row = per_row == 0 ? 0 : t / per_row, class_of_row;

        class_of_row = (uint64_t)classes[row < shape->rows ? row : shape->rows - 1];
        ret_x[t] =
            (int32_t)((bits.v[0] & 1) != 0 ? (class_of_row * 8 + bits.v[1] % 8) % shape->vocab
                                           : bits.v[1] % shape->vocab);
    }
}

/* Where an element's pattern value comes from: images are patterned in blocks of 4 x 4 pixels, so
   that convolution and pooling keep something of it. */
static uint64_t pattern_cell(const struct pst_tensor *x, uint64_t element)
{
    uint64_t channel, column, row;

    if (x->rank != 3) {
        return element;
    }
    channel = element % x->dims[2];
    column = element / x->dims[2] % x->dims[1] / 4;
    row = element / x->dims[2] / x->dims[1] / 4;
    return (row * ((x->dims[1] + 3) / 4) + column) * x->dims[2] + channel;
}

/* Element `e` of x in its dtype; bf16 by rounding to nearest even. */
static void store(void *x, uint32_t dtype, uint64_t e, float value)
{
    uint32_t bits;

    if (dtype == PST_F64) {
        ((double *)x)[e] = value;
    } else if (dtype == PST_BF16) {
        memcpy(&bits, &value, sizeof bits);
        bits += 0x7FFF + (bits >> 16 & 1);
        ((uint16_t *)x)[e] = (uint16_t)(bits >> 16);
    } else {
        ((float *)x)[e] = value;
    }
}

/* Pattern uniform in [-1, 1), noise uniform in [-1, 1): equal power. */
static void read_features(const struct pst_data *data, uint32_t split, uint64_t index,
                          const int32_t *classes, void *ret_x)
{
    const struct pst_sample_shape *shape = &data->shape;
    uint64_t per_row = shape->x->elems / shape->rows;

    for (uint64_t e = 0; e < shape->x->elems; e++) {
        uint64_t row = per_row == 0 ? 0 : e / per_row;
        uint64_t class_of_row = (uint64_t)classes[row < shape->rows ? row : shape->rows - 1];
        uint32_t pattern =
            word_at(data, STREAM_PATTERN, PST_SPLIT_TRAIN, class_of_row, pattern_cell(shape->x, e));
        uint32_t noise = word_at(data, STREAM_NOISE, split, index, e);

        store(ret_x, shape->x->dtype, e,
              (2.0f * pst_uniform(pattern) - 1.0f) + (2.0f * pst_uniform(noise) - 1.0f));
    }
}

void pst_synthetic_read(const struct pst_data *data, uint32_t split, uint64_t index, void *ret_x,
                        int32_t *ret_targets)
{
    const struct pst_sample_shape *shape = &data->shape;
    bool tokens = shape->x->dtype == PST_I32;

    if (tokens && shape->rows == shape->x->elems && shape->rows > 1) {
        read_walk(data, split, index, ret_x, ret_targets);
        return;
    }
    for (uint64_t row = 0; row < shape->rows; row++) {
        ret_targets[row] =
            (int32_t)(word_at(data, STREAM_LABEL, split, index, row) % shape->classes);
    }
    if (tokens) {
        read_tokens(data, split, index, ret_targets, ret_x);
    } else {
        read_features(data, split, index, ret_targets, ret_x);
    }
}
