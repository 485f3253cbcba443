/* SPDX-License-Identifier: Apache-2.0 */
#include "base/philox.h"
#include "train/data_impl.h"

#define STREAM_MASK 0x6D61736Bu

/* Of 2^32: one token in 0.15; of those 0.1 and 0.1. */
#define HIDE_WORD 644245094u
#define ANY_WORD  429496730u
#define KEEP_WORD 858993459u

/* The hidden tokens as targets; at least one, so that every sample has a loss. */
static void hide_tokens(const struct pst_data *data, uint32_t split, uint64_t index,
                        int32_t *tokens, int32_t *targets)
{
    const struct pst_sample_shape *shape = &data->shape;
    uint64_t key = data->seed ^ (uint64_t)STREAM_MASK << 32 ^ (uint64_t)split << 63;
    uint64_t forced = pst_philox(key, index, UINT64_MAX).v[0] % shape->rows;

    for (uint64_t t = 0; t < shape->rows; t++) {
        struct pst_philox bits = pst_philox(key, index, t);

        targets[t] = -1;
        if (bits.v[0] >= HIDE_WORD && t != forced) {
            continue;
        }
        targets[t] = tokens[t];
        if (bits.v[1] < ANY_WORD) {
            tokens[t] = (int32_t)(bits.v[2] % shape->vocab);
        } else if (bits.v[1] >= KEEP_WORD) {
            tokens[t] = (int32_t)(shape->vocab - 1);
        }
    }
}

static void shift(const int32_t *targets, uint64_t n, int32_t *ret_shifted)
{
    for (uint64_t t = 0; t < n; t++) {
        ret_shifted[t] = t == 0 ? 0 : targets[t - 1];
    }
}

void pst_derive_inputs(const struct pst_data *data, uint32_t split, uint64_t index,
                       void *const *inputs)
{
    const struct pst_sample_shape *shape = &data->shape;
    int32_t *targets = inputs[pst_sample_input(shape, shape->target)];

    for (uint32_t i = 0; i < shape->n_inputs; i++) {
        int32_t *values = inputs[i];

        switch (shape->inputs[i].field) {
        case PST_FIELD_MASKED:
            hide_tokens(data, split, index, inputs[pst_sample_input(shape, shape->x)], values);
            break;
        case PST_FIELD_SEGMENT:
            for (uint64_t t = 0; t < shape->inputs[i].elems; t++) {
                values[t] = t >= (shape->inputs[i].elems + 1) / 2;
            }
            break;
        case PST_FIELD_SHIFTED:
            shift(targets, shape->rows, values);
            break;
        default:
            break;
        }
    }
}
