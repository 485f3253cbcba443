/* SPDX-License-Identifier: Apache-2.0
 *
 * What ranks add up, and what must come of it, bit for bit.
 */
#ifndef PST_TEST_TRANSPORT_SUMS_H
#define PST_TEST_TRANSPORT_SUMS_H

#include <math.h>

#include "unit/transport/support.h"

enum { PARTS = 4 };

/* The largest is several pieces of work; one is empty. */
static const uint64_t part_sizes[PARTS] = {1, 0, 3 * 64 * 1024 + 5, 1000};

/* What a rank brings to element i of a part: numbers of very different size, so that every order of
   a sum has a result of its own. */
static inline float number(uint32_t round, uint32_t rank, uint32_t part, uint64_t i)
{
    uint64_t seed = round * 7919u + rank * 104729u + part * 1299709u + i;
    uint64_t bits = next_random(&seed);

    return (float)((double)(bits >> 40) / 16777216.0 - 0.5) * (float)(1 << (bits & 15));
}

/* Of a number's binary digits the first eight, those of bf16; `to_whole` tells what becomes of the
   rest. */
static inline double eight_digits(double value, double (*to_whole)(double))
{
    int exponent;
    const double digits = to_whole(frexp(value, &exponent) * 256);

    return ldexp(digits, exponent - 8);
}

/* The same as an element of a type; f64 has all of them exactly. */
static inline double typed_number(uint32_t dtype, uint32_t round, uint32_t rank, uint32_t part,
                                  uint64_t i)
{
    const float value = number(round, rank, part, i);

    if (dtype == PST_F64) {
        return value + 1e-9 * number(round + 1, rank, part, i);
    }
    return dtype == PST_BF16 ? eight_digits(value, trunc) : value;
}

static inline void put_element(uint32_t dtype, void *row, uint64_t i, double value)
{
    const float narrow = (float)value;
    uint32_t bits;

    memcpy(&bits, &narrow, sizeof bits);
    if (dtype == PST_F64) {
        ((double *)row)[i] = value;
    } else if (dtype == PST_BF16) {
        ((uint16_t *)row)[i] = (uint16_t)(bits >> 16);
    } else {
        ((float *)row)[i] = narrow;
    }
}

static inline double get_element(uint32_t dtype, const void *row, uint64_t i)
{
    const uint32_t bits = dtype == PST_BF16 ? (uint32_t)((const uint16_t *)row)[i] << 16 : 0;
    float value;

    memcpy(&value, &bits, sizeof value);
    return dtype == PST_F64    ? ((const double *)row)[i]
           : dtype == PST_BF16 ? (double)value
                               : (double)((const float *)row)[i];
}

/* What typed_number is in sum over the members, by the rule: left to right in f32, or f64; bf16 is
   rounded once, to the even one of two that are as near. In f64 an addition of floats is so exact
   that rounding it to f32 gives what f32 gives. */
static inline double typed_sum(uint32_t dtype, uint32_t round, const uint32_t *members, uint32_t n,
                               uint32_t part, uint64_t i)
{
    double sum = typed_number(dtype, round, members[0], part, i);

    for (uint32_t m = 1; m < n; m++) {
        sum += typed_number(dtype, round, members[m], part, i);
        sum = dtype == PST_F64 ? sum : (float)sum;
    }
    return dtype == PST_BF16 ? eight_digits(sum, rint) : sum;
}

/* Sums of three ranks that are known; returns how many are others. */
static inline uint32_t wrong_by_hand(const struct ranked *self)
{
    static const uint32_t members[] = {0, 1, 2};
    /* bf16 has every second number from 256 on: 257 is as near to 256 as to 258. The term after it
       is added to 257. */
    static const struct {
        uint32_t dtype;
        double terms[3], sum;
    } cases[] = {
        {PST_BF16, {256, 1, 0}, 256},
        {PST_BF16, {258, 1, 0}, 260},
        {PST_BF16, {256, 1, 1}, 258},
        {PST_BF16, {256, 1, 0x1p-10}, 258},
        {PST_BF16, {0x1p24, 1, 1}, 0x1p24},
        {PST_F32, {0x1p24, 1, 1}, 0x1p24},
        {PST_F64, {0x1p24, 1, 0x1p-20}, 0x1p24 + 1 + 0x1p-20},
    };
    uint32_t wrong = 0;

    for (uint32_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        double element = 0;
        const struct pst_meet_part part = {.dst = &element, .elems = 1, .owner = PST_NONE};
        struct pst_meeting meeting = sum_in_place(members, 3, &part, 1);
        pst_request request = 0;

        meeting.dtype = cases[k].dtype;
        put_element(meeting.dtype, &element, 0, cases[k].terms[self->rank]);
        wrong += self->ops->meet(self->transport, self->rank, &meeting, &request) != PST_OK ||
                 self->ops->wait(self->transport, self->rank, request, NULL) != PST_OK;
        wrong += get_element(meeting.dtype, &element, 0) != cases[k].sum;
    }
    return wrong;
}

static inline void fill_parts(struct pst_meet_part *parts, uint32_t rank, uint32_t round)
{
    for (uint32_t p = 0; p < PARTS; p++) {
        float *data = malloc((part_sizes[p] + 1) * sizeof(float));

        parts[p] = (struct pst_meet_part){.dst = data, .elems = part_sizes[p], .owner = PST_NONE};
        for (uint64_t i = 0; i < part_sizes[p]; i++) {
            data[i] = number(round, rank, p, i);
        }
    }
}

/* Frees the parts; how many elements are not what the members bring, added up in their order. */
static inline uint32_t wrong_in_parts(struct pst_meet_part *parts, const uint32_t *members,
                                      uint32_t n, uint32_t round)
{
    uint32_t wrong = 0;

    for (uint32_t p = 0; p < PARTS; p++) {
        for (uint64_t i = 0; i < part_sizes[p]; i++) {
            float sum = number(round, members[0], p, i);

            for (uint32_t m = 1; m < n; m++) {
                sum += number(round, members[m], p, i);
            }
            wrong += memcmp(&sum, (const float *)parts[p].dst + i, sizeof sum) != 0;
        }
        free(parts[p].dst);
    }
    return wrong;
}

#endif
