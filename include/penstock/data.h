/* SPDX-License-Identifier: Apache-2.0
 *
 * pst.data/1: training data, as samples that are read by their number. Since 1.7.
 *
 *     create -> open(shape) -> samples(split), read(split, first, n) ... from any thread -> destroy
 *
 * The plugin says which samples there are, and the host says when each is read: it shuffles the
 * samples of every epoch by data.seed. A sample is a function of the config and of its number, and
 * of nothing else: so all plans, processes and resumed runs see the same ones, and every process of
 * a run reads for itself.
 *
 * Unlike strategies and models, this plugin runs in the process that trains, and while it trains:
 * plugins.isolate does not apply, and its crash ends the run.
 */
#ifndef PENSTOCK_DATA_H
#define PENSTOCK_DATA_H

#include <string.h>

#include "abi.h"
#include "ops.h"

#define PST_DATA "pst.data/1"

enum pst_split {
    PST_SPLIT_TRAIN = 0,
    PST_SPLIT_VALID = 1 /* held out: never seen in training */
};

/* One input tensor of the model, of one sample. read() fills those of PST_FIELD_X, and the one of
   targets: PST_FIELD_TARGET or _MASKED. The host makes the others from these, and also the targets
   of PST_FIELD_MASKED, which are tokens that it hides in X: what read() writes there is lost. */
struct pst_data_input {
    const char *name;
    uint32_t field; /* enum pst_field */
    uint32_t dtype; /* enum pst_dtype: tokens and classes are PST_I32 */
    uint32_t rank;
    const uint64_t *dims; /* [rank] */
    uint64_t elems;       /* the product of dims */
    uint64_t bytes;
    /* i32: values are 0 ... range - 1; targets may also be -1, which has no loss. Else 0: values
       are finite numbers. */
    uint64_t range;
};

/* The samples that the model wants. */
struct pst_data_shape {
    uint32_t size;
    uint32_t n_inputs, input_size; /* index with pst_data_input_at */
    const void *inputs;
    uint64_t seed; /* data.seed, for data that is drawn */
};

static inline const struct pst_data_input *pst_data_input_at(const struct pst_data_shape *shape,
                                                             uint32_t i)
{
    return (const struct pst_data_input *)((const char *)shape->inputs +
                                           (size_t)i * shape->input_size);
}

/* The place of the first input of a field; PST_NONE: there is none. */
static inline uint32_t pst_data_find(const struct pst_data_shape *shape, uint32_t field)
{
    uint32_t i = 0;

    while (i < shape->n_inputs && pst_data_input_at(shape, i)->field != field) {
        i++;
    }
    return i < shape->n_inputs ? i : PST_NONE;
}

/* Writes element e of a tensor of numbers of that dtype; bf16 by rounding to nearest even. */
static inline void pst_data_put(void *tensor, uint32_t dtype, uint64_t e, double value)
{
    float rounded = (float)value;
    uint32_t bits;

    if (dtype == PST_F64) {
        ((double *)tensor)[e] = value;
    } else if (dtype == PST_BF16) {
        memcpy(&bits, &rounded, sizeof bits);
        bits += (bits & 0x7FFFFFFFu) > 0x7F800000u ? 0 : 0x7FFF + (bits >> 16 & 1);
        ((uint16_t *)tensor)[e] = (uint16_t)(bits >> 16);
    } else {
        ((float *)tensor)[e] = rounded;
    }
}

struct pst_data_interface {
    uint32_t size;
    /*
     * Opens the data for a model; once, before the other two. The shape lives until destroy().
     *
     * PST_ERR_CONFIG       a file is not what it should be, or the data is not for this model
     * PST_ERR_UNSUPPORTED  something that this plugin does not know
     * PST_ERR_IO           a file cannot be read
     * each with a message. [plan]
     */
    pst_status (*open)(void *self, const struct pst_data_shape *shape);
    /* Samples of a split (enum pst_split), always the same number: 0 of PST_SPLIT_VALID: nothing is
       held out; UINT64_MAX: data is drawn and never repeats, and numbers are those of the run.
       Pure. [any] */
    uint64_t (*samples)(void *self, uint32_t split);
    /*
     * Samples first ... first + n - 1 of a split, which has them; inputs[i] has room for n samples
     * of input i, one after the other, row-major. The same numbers give the same bytes, in any
     * order and in any parts. Several threads call at once: no memory of the host (host->alloc),
     * and nothing is written that two calls share. host->fail explains a failure to the caller's
     * thread. [any]
     */
    pst_status (*read)(void *self, uint32_t split, uint64_t first, uint32_t n, void *const *inputs);
};

#endif
