/* SPDX-License-Identifier: Apache-2.0
 *
 * What ranks add up, and what must come of it, bit for bit.
 */
#ifndef PST_TEST_TRANSPORT_SUMS_H
#define PST_TEST_TRANSPORT_SUMS_H

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
