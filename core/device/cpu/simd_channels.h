/* SPDX-License-Identifier: Apache-2.0
 *
 * Images: rows of channels, each channel on its own; part of simd_impl.h. What is past the last
 * channel is loaded as zeros and not stored.
 */

/* Runs statement for each vector of n channels, at element `at` with `left` lanes in use. */
#define PST_EACH_CHANNEL(n, statement)                                                             \
    do {                                                                                           \
        uint64_t at = 0, left = PST_W;                                                             \
                                                                                                   \
        for (; at + PST_W <= (n); at += PST_W) {                                                   \
            statement;                                                                             \
        }                                                                                          \
        left = (n)-at;                                                                             \
        if (left > 0) {                                                                            \
            statement;                                                                             \
        }                                                                                          \
    } while (0)

INLINE vf get(const float *p, uint64_t at, uint64_t left)
{
    return left == PST_W ? vload(p + at) : vload_part(p + at, left, 0);
}

INLINE void put(float *p, uint64_t at, uint64_t left, vf v)
{
    if (left == PST_W) {
        vstore(p + at, v);
    } else {
        vstore_part(p + at, v, left);
    }
}

static void channels_squares(float *sums, const float *x, const float *mean, uint64_t n)
{
    PST_EACH_CHANNEL(n, const vf d = get(x, at, left) - get(mean, at, left);
                     put(sums, at, left, get(sums, at, left) + d * d));
}

static void channels_norm(float *y, const float *x, const float *mean, const float *factor,
                          const float *bias, bool relu, uint64_t n)
{
    PST_EACH_CHANNEL(n, const vf d = get(x, at, left) - get(mean, at, left);
                     const vf h = d * get(factor, at, left) + get(bias, at, left);
                     put(y, at, left, relu ? vrelu(h) : h));
}

INLINE vf masked(const float *dy, const float *y, uint64_t at, uint64_t left)
{
    const vf d = get(dy, at, left);

    return y == NULL ? d : vrelu_back(d, get(y, at, left));
}

static void channels_sums(float *dgain, float *dbias, const float *dy, const float *y,
                          const float *x, const float *mean, const float *rstd, uint64_t n)
{
    PST_EACH_CHANNEL(n, const vf dh = masked(dy, y, at, left);
                     const vf normed =
                         (get(x, at, left) - get(mean, at, left)) * get(rstd, at, left);
                     put(dgain, at, left, get(dgain, at, left) + dh * normed);
                     put(dbias, at, left, get(dbias, at, left) + dh));
}

static void channels_back(float *dx, const float *dy, const float *y, const float *x,
                          const struct pst_simd_channels *channels, uint64_t n)
{
    PST_EACH_CHANNEL(
        n, const vf d = get(x, at, left) - get(channels->mean, at, left);
        const vf normed = d * get(channels->rstd, at, left);
        const vf dh = masked(dy, y, at, left) - get(channels->mean_g, at, left);
        put(dx, at, left,
            get(channels->factor, at, left) * (dh - normed * get(channels->mean_gn, at, left))));
}

static void channels_max_tap(float *y, int32_t *index, const float *x, int32_t tap, uint64_t n)
{
    const vi taps = (vi){0} + tap;

    PST_EACH_CHANNEL(
        n, const vf v = get(x, at, left); const vf old = get(y, at, left);
        const vi taken = (v > old) | (v != v);
        const vf chosen = vselect(taken, (vf)taps, get((const float *)(void *)index, at, left));
        put(y, at, left, vselect(taken, v, old)); put((float *)(void *)index, at, left, chosen));
}

static void channels_back_tap(float *dx, const float *dy, const int32_t *index, int32_t tap,
                              uint64_t n)
{
    const vi taps = (vi){0} + tap;

    PST_EACH_CHANNEL(
        n, const vi here = (vi)get((const float *)(const void *)index, at, left) == taps;
        const vf d = (vf)((vi)get(dy, at, left) & here); put(dx, at, left, get(dx, at, left) + d));
}
