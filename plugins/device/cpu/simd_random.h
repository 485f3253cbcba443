/* SPDX-License-Identifier: Apache-2.0
 *
 * Dropout: PST_W blocks of Philox4x32-10 (base/philox.h) side by side; part of simd_impl.h.
 */

#define PST_BATCH (4 * PST_W) /* elements that PST_W blocks serve */

/*
 * Words come out in the order of elements. The transpositions work within groups of 4 lanes, so the
 * group g of PST_W / 4 holds the counters g, g + PST_W / 4, ...: then each result is PST_W elements
 * in a row.
 */
#if PST_W == 4
static const vu order_counters = {0, 1, 2, 3};
#define ORDER_LOW   0, 4, 1, 5
#define ORDER_HIGH  2, 6, 3, 7
#define ORDER_LOW2  0, 1, 4, 5
#define ORDER_HIGH2 2, 3, 6, 7
#define ORDER_JOIN  0, 5, 2, 7
#elif PST_W == 8
static const vu order_counters = {0, 2, 4, 6, 1, 3, 5, 7};
#define ORDER_LOW   0, 8, 1, 9, 4, 12, 5, 13
#define ORDER_HIGH  2, 10, 3, 11, 6, 14, 7, 15
#define ORDER_LOW2  0, 1, 8, 9, 4, 5, 12, 13
#define ORDER_HIGH2 2, 3, 10, 11, 6, 7, 14, 15
#define ORDER_JOIN  0, 9, 2, 11, 4, 13, 6, 15
#else
static const vu order_counters = {0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15};
#define ORDER_LOW   0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29
#define ORDER_HIGH  2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31
#define ORDER_LOW2  0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29
#define ORDER_HIGH2 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31
#define ORDER_JOIN  0, 17, 2, 19, 4, 21, 6, 23, 8, 25, 10, 27, 12, 29, 14, 31
#endif

/* Counters in the lower halves of 64-bit lanes; products need no more, so the upper halves may hold
   anything. */
struct philox_lanes {
    vl c0, c1, c2, c3;
};

INLINE struct philox_lanes philox_round(struct philox_lanes c, vl key0, vl key1)
{
    const vl a = vmul_even((vu)c.c0, (vu)((vl){0} + 0xD2511F53u));
    const vl b = vmul_even((vu)c.c2, (vu)((vl){0} + 0xCD9E8D57u));
    const struct philox_lanes next = {(b >> 32) ^ c.c1 ^ key0, b, (a >> 32) ^ c.c3 ^ key1, a};

    return next;
}

/* Lower halves of even in the even lanes, those of odd in the odd ones. */
INLINE vu join(vl even, vl odd)
{
    return __builtin_shufflevector((vu)even, (vu)(odd << 32), ORDER_JOIN);
}

/* Words of the blocks whose lower counter words are in c0; the upper one is the same for all. */
INLINE void philox_words(uint64_t seed, uint64_t stream, uint32_t upper, vu c0, vu ret_words[4])
{
    const vl zero = {0};
    struct philox_lanes even = {(vl)c0, zero + upper, zero + (uint32_t)stream,
                                zero + (stream >> 32)};
    struct philox_lanes odd = even;
    vl key0 = zero + (uint32_t)seed, key1 = zero + (seed >> 32);
    int round;

    odd.c0 = (vl)c0 >> 32;
    for (round = 0; round < 10; round++) {
        even = philox_round(even, key0, key1);
        odd = philox_round(odd, key0, key1);
        key0 = (vl)((vu)key0 + 0x9E3779B9u);
        key1 = (vl)((vu)key1 + 0xBB67AE85u);
    }
    ret_words[0] = join(even.c0, odd.c0);
    ret_words[1] = join(even.c1, odd.c1);
    ret_words[2] = join(even.c2, odd.c2);
    ret_words[3] = join(even.c3, odd.c3);
}

INLINE void transpose(const vu words[4], vu ret_elements[4])
{
    const vu a = __builtin_shufflevector(words[0], words[1], ORDER_LOW);
    const vu b = __builtin_shufflevector(words[2], words[3], ORDER_LOW);
    const vu c = __builtin_shufflevector(words[0], words[1], ORDER_HIGH);
    const vu d = __builtin_shufflevector(words[2], words[3], ORDER_HIGH);

    ret_elements[0] = __builtin_shufflevector(a, b, ORDER_LOW2);
    ret_elements[1] = __builtin_shufflevector(a, b, ORDER_HIGH2);
    ret_elements[2] = __builtin_shufflevector(c, d, ORDER_LOW2);
    ret_elements[3] = __builtin_shufflevector(c, d, ORDER_HIGH2);
}

/* Words of the PST_BATCH elements from `first` (a multiple of 4) on. */
INLINE void element_words(const struct pst_simd_dropout *dropout, uint64_t first,
                          vu ret_elements[4])
{
    const uint64_t counter = first / 4;
    vu words[4];

    if ((uint32_t)counter <= UINT32_MAX - PST_W) {
        philox_words(dropout->seed, dropout->stream, (uint32_t)(counter >> 32),
                     order_counters + (uint32_t)counter, words);
    } else { /* the lower counter word wraps among the lanes */
        vu upper_words[4];
        const vu lower = order_counters + (uint32_t)counter;
        const vu wrapped = (vu)(lower < order_counters);
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
