/* SPDX-License-Identifier: Apache-2.0
 *
 * Philox4x32-10, the counter-based generator behind initial weights, dropout and shuffling: a value
 * is a function of (seed, stream, counter) and of nothing else, so recomputation, other cuts and
 * other devices draw the same numbers. Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as
 * easy as 1, 2, 3", SC 2011. Shared by host and CUDA code.
 */
#ifndef PST_BASE_PHILOX_H
#define PST_BASE_PHILOX_H

#include <stdint.h>

#ifdef __CUDACC__
#define PST_HD __host__ __device__ static inline
#else
#define PST_HD static inline
#endif

#define PST_PHILOX_WORDS 4 /* random words of a counter */

struct pst_philox {
    uint32_t v[4];
};

/* Four words: key = seed, counter = (counter, stream). */
PST_HD struct pst_philox pst_philox(uint64_t seed, uint64_t stream, uint64_t counter)
{
    struct pst_philox c;
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    int round;

    c.v[0] = (uint32_t)counter;
    c.v[1] = (uint32_t)(counter >> 32);
    c.v[2] = (uint32_t)stream;
    c.v[3] = (uint32_t)(stream >> 32);
    for (round = 0; round < 10; round++) {
        uint64_t a = (uint64_t)0xD2511F53u * c.v[0];
        uint64_t b = (uint64_t)0xCD9E8D57u * c.v[2];
        uint32_t v0 = (uint32_t)(b >> 32) ^ c.v[1] ^ k0;
        uint32_t v2 = (uint32_t)(a >> 32) ^ c.v[3] ^ k1;

        c.v[1] = (uint32_t)b;
        c.v[3] = (uint32_t)a;
        c.v[0] = v0;
        c.v[2] = v2;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return c;
}

/* Uniform in [0, 1): 24 bits of a word. */
PST_HD float pst_uniform(uint32_t word)
{
    return (float)(word >> 8) * (1.0f / 16777216.0f);
}

/*
 * Dropout (executor contract): element e of sample s of operator `op` is kept iff
 * pst_dropout_word(seed, op, s, e) >= (uint32_t)(p * 2^32). One Philox block serves four elements.
 */
PST_HD uint64_t pst_dropout_stream(uint32_t op, uint64_t sample)
{
    return (sample << 20) | (op & 0xFFFFFu);
}

#endif
