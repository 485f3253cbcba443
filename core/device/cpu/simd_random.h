/* SPDX-License-Identifier: Apache-2.0
 *
 * Dropout: PST_W blocks of Philox4x32-10 (base/philox.h) side by side; part of simd_impl.h.
 */

#define PST_BATCH (4 * PST_W) /* elements that PST_W blocks serve */

/* The 64-bit products of all lanes, as their upper and lower halves. */
INLINE void vmul_wide(vu a, uint32_t factor, vu *ret_high, vu *ret_low)
{
    const vu f = (vu){0} + factor;
    const vl low = (vl){0} + 0xFFFFFFFFu;
    const vl even = vmul_even(a, f), odd = vmul_even((vu)((vl)a >> 32), f);

    *ret_high = (vu)((even >> 32) | (odd & ~low));
    *ret_low = (vu)((even & low) | (odd << 32));
}

/* Words of the blocks whose lower counter word is in c0; the upper one is the same for all. */
INLINE void philox_words(uint64_t seed, uint64_t stream, uint32_t upper, vu c0, vu ret_words[4])
{
    vu c1 = (vu){0} + upper, c2 = (vu){0} + (uint32_t)stream;
    vu c3 = (vu){0} + (uint32_t)(stream >> 32);
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    int round;

    for (round = 0; round < 10; round++) {
        vu a_high, a_low, b_high, b_low;

        vmul_wide(c0, 0xD2511F53u, &a_high, &a_low);
        vmul_wide(c2, 0xCD9E8D57u, &b_high, &b_low);
        c0 = b_high ^ c1 ^ k0;
        c1 = b_low;
        c2 = a_high ^ c3 ^ k1;
        c3 = a_low;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    ret_words[0] = c0;
    ret_words[1] = c1;
    ret_words[2] = c2;
    ret_words[3] = c3;
}

/*
 * Words in the order of elements. The transpositions work within groups of 4 lanes, so the group g
 * of PST_W / 4 holds the counters g, g + PST_W / 4, ...: then each result is PST_W elements in a
 * row.
 */
#if PST_W == 4
#define PST_COUNTERS                                                                               \
    {                                                                                              \
        0, 1, 2, 3                                                                                 \
    }
#define PST_LOW                                                                                    \
    {                                                                                              \
        0, 4, 1, 5                                                                                 \
    }
#define PST_HIGH                                                                                   \
    {                                                                                              \
        2, 6, 3, 7                                                                                 \
    }
#define PST_LOW2                                                                                   \
    {                                                                                              \
        0, 1, 4, 5                                                                                 \
    }
#define PST_HIGH2                                                                                  \
    {                                                                                              \
        2, 3, 6, 7                                                                                 \
    }
#elif PST_W == 8
#define PST_COUNTERS                                                                               \
    {                                                                                              \
        0, 2, 4, 6, 1, 3, 5, 7                                                                     \
    }
#define PST_LOW                                                                                    \
    {                                                                                              \
        0, 8, 1, 9, 4, 12, 5, 13                                                                   \
    }
#define PST_HIGH                                                                                   \
    {                                                                                              \
        2, 10, 3, 11, 6, 14, 7, 15                                                                 \
    }
#define PST_LOW2                                                                                   \
    {                                                                                              \
        0, 1, 8, 9, 4, 5, 12, 13                                                                   \
    }
#define PST_HIGH2                                                                                  \
    {                                                                                              \
        2, 3, 10, 11, 6, 7, 14, 15                                                                 \
    }
#else
#define PST_COUNTERS                                                                               \
    {                                                                                              \
        0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15                                       \
    }
#define PST_LOW                                                                                    \
    {                                                                                              \
        0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29                                   \
    }
#define PST_HIGH                                                                                   \
    {                                                                                              \
        2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31                                 \
    }
#define PST_LOW2                                                                                   \
    {                                                                                              \
        0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29                                   \
    }
#define PST_HIGH2                                                                                  \
    {                                                                                              \
        2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31                                 \
    }
#endif

INLINE void transpose(const vu words[4], vu ret_elements[4])
{
    const vu low = PST_LOW, high = PST_HIGH, low2 = PST_LOW2, high2 = PST_HIGH2;
    const vu a = __builtin_shuffle(words[0], words[1], low);
    const vu b = __builtin_shuffle(words[2], words[3], low);
    const vu c = __builtin_shuffle(words[0], words[1], high);
    const vu d = __builtin_shuffle(words[2], words[3], high);

    ret_elements[0] = __builtin_shuffle(a, b, low2);
    ret_elements[1] = __builtin_shuffle(a, b, high2);
    ret_elements[2] = __builtin_shuffle(c, d, low2);
    ret_elements[3] = __builtin_shuffle(c, d, high2);
}

/* Words of the PST_BATCH elements from `first` (a multiple of 4) on. */
INLINE void element_words(const struct pst_simd_dropout *dropout, uint64_t first,
                          vu ret_elements[4])
{
    const uint64_t counter = first / 4;
    const vu offsets = PST_COUNTERS;
    vu words[4];

    if ((uint32_t)counter <= UINT32_MAX - PST_W) {
        philox_words(dropout->seed, dropout->stream, (uint32_t)(counter >> 32),
                     offsets + (uint32_t)counter, words);
    } else { /* the lower counter word wraps among the lanes */
        vu upper_words[4];
        const vu lower = offsets + (uint32_t)counter;
        const vu wrapped = (vu)(lower < offsets);
        int i;

        philox_words(dropout->seed, dropout->stream, (uint32_t)(counter >> 32), lower, words);
        philox_words(dropout->seed, dropout->stream, (uint32_t)(counter >> 32) + 1, lower,
                     upper_words);
        for (i = 0; i < 4; i++) {
            words[i] = (words[i] & ~wrapped) | (upper_words[i] & wrapped);
        }
    }
    transpose(words, ret_elements);
}

INLINE vf vdropout(const struct pst_simd_dropout *dropout, vu word, vf x)
{
    const vu kept = (vu)(word >= (vu){0} + dropout->threshold);

    return (vf)((vu)(x * vset(dropout->scale)) & kept);
}

static void random_dropout(const struct pst_simd_dropout *dropout, float *y, const float *x,
                           const float *base, uint64_t first, uint64_t n)
{
    uint64_t i = 0;
    vu words[4];
    uint32_t k;

    for (; i + PST_BATCH <= n; i += PST_BATCH) {
        element_words(dropout, first + i, words);
        for (k = 0; k < 4; k++) {
            const uint64_t at = i + k * PST_W;
            const vf v = vdropout(dropout, words[k], vload(x + at));

            vstore(y + at, base == NULL ? v : vload(base + at) + v);
        }
    }
    if (i < n) {
        float in[PST_BATCH] = {0}, out[PST_BATCH];

        element_words(dropout, first + i, words);
        memcpy(in, x + i, (n - i) * sizeof *x);
        for (k = 0; k < 4; k++) {
            vstore(out + k * PST_W, vdropout(dropout, words[k], vload(in + k * PST_W)));
        }
        for (k = 0; i < n; i++, k++) {
            y[i] = base == NULL ? out[k] : base[i] + out[k];
        }
    }
}
