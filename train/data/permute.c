/* SPDX-License-Identifier: Apache-2.0 */
#include "data/permute.h"

#include "base/error.h"
#include "base/philox.h"

/* Keeps these draws apart from weights, dropout and sampling under the same seed. */
#define STREAM_PERMUTE 0x7065726D00000000u
#define ROUNDS         6u

static uint64_t feistel(uint64_t seed, uint64_t epoch, uint32_t half_bits, uint64_t value)
{
    uint64_t mask = ((uint64_t)1 << half_bits) - 1;
    uint64_t left = value >> half_bits, right = value & mask;

    for (uint32_t round = 0; round < ROUNDS; round++) {
        struct pst_philox bits =
            pst_philox(seed, STREAM_PERMUTE ^ epoch, right | (uint64_t)round << 40);
        uint64_t next = left ^ (bits.v[0] & mask);

        left = right;
        right = next;
    }
    return left << half_bits | right;
}

uint64_t pst_permute(uint64_t seed, uint64_t epoch, uint64_t n, uint64_t i)
{
    uint32_t half_bits = 1;

    PST_ASSERT(i < n && n <= (uint64_t)1 << 62);
    while ((uint64_t)1 << (2 * half_bits) < n) {
        half_bits++;
    }
    do {
        i = feistel(seed, epoch, half_bits, i);
    } while (i >= n);
    return i;
}
