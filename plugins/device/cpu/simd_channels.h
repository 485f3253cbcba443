/* SPDX-License-Identifier: Apache-2.0
 *
 * Images: rows of channels, each channel on its own; part of simd_impl.h.
 */

/*
 * Loops over many rows keep strips of 4, 2 or 1 vectors in registers: a sum in memory would have
 * each row wait for the one before. strip(at, left, k) runs on k whole vectors, or on the rest.
 * Every sum is in the order of the rows.
 */
#define PST_EACH_STRIP(n, widest, strip)                                                           \
    do {                                                                                           \
        uint64_t at = 0;                                                                           \
                                                                                                   \
        for (; (widest) >= 4 && at + 4 * PST_W <= (n); at += 4 * PST_W) {                          \
            strip(at, PST_W, 4);                                                                   \
        }                                                                                          \
        for (; at + 2 * PST_W <= (n); at += 2 * PST_W) {                                           \
            strip(at, PST_W, 2);                                                                   \
        }                                                                                          \
        for (; at + PST_W <= (n); at += PST_W) {                                                   \
            strip(at, PST_W, 1);                                                                   \
        }                                                                                          \
        if (at < (n)) {                                                                            \
            strip(at, (n)-at, 1);                                                                  \
        }                                                                                          \
    } while (0)

INLINE void strip_get(vf *strip, const float *p, uint64_t at, uint64_t left, uint32_t k)
{
    for (uint32_t i = 0; i < k; i++) {
        strip[i] = get(p, at + i * PST_W, left);
    }
}

INLINE void strip_put(float *p, uint64_t at, uint64_t left, const vf *strip, uint32_t k)
{
    for (uint32_t i = 0; i < k; i++) {
        put(p, at + i * PST_W, left, strip[i]);
    }
}

INLINE void squares_strip(float *sums, const float *x, const float *mean, uint64_t rows, uint64_t n,
                          uint64_t at, uint64_t left, uint32_t k)
{
    vf s[4], m[4];

    strip_get(s, sums, at, left, k);
    strip_get(m, mean, at, left, k);
    for (uint64_t r = 0; r < rows; r++) {
        for (uint32_t i = 0; i < k; i++) {
            const vf d = get(x + r * n, at + i * PST_W, left) - m[i];

            s[i] += d * d;
        }
    }
    strip_put(sums, at, left, s, k);
}

static void channels_squares(float *sums, const float *x, const float *mean, uint64_t rows,
                             uint64_t n)
{
#define STRIP(at, left, k) squares_strip(sums, x, mean, rows, n, at, left, k)
    PST_EACH_STRIP(n, 4, STRIP);
#undef STRIP
}

INLINE void norm_strip(float *y, const float *x, const float *mean, const float *factor,
                       const float *bias, bool relu, uint64_t rows, uint64_t n, uint64_t at,
                       uint64_t left, uint32_t k)
{
    vf m[4], f[4], b[4];

    strip_get(m, mean, at, left, k);
    strip_get(f, factor, at, left, k);
    strip_get(b, bias, at, left, k);
    for (uint64_t r = 0; r < rows; r++) {
        for (uint32_t i = 0; i < k; i++) {
            const vf d = get(x + r * n, at + i * PST_W, left) - m[i];
            const vf h = d * f[i] + b[i];

            put(y + r * n, at + i * PST_W, left, relu ? vrelu(h) : h);
        }
    }
}

static void channels_norm(float *y, const float *x, const float *mean, const float *factor,
                          const float *bias, bool relu, uint64_t rows, uint64_t n)
{
#define STRIP(at, left, k) norm_strip(y, x, mean, factor, bias, relu, rows, n, at, left, k)
    PST_EACH_STRIP(n, 4, STRIP);
#undef STRIP
}

/* dy after the relu. */
INLINE vf masked(const float *dy, const float *y, uint64_t row, uint64_t at, uint64_t left)
{
    const vf d = get(dy + row, at, left);

    return y == NULL ? d : vrelu_back(d, get(y + row, at, left));
}

INLINE void sums_strip(float *dgain, float *dbias, const float *dy, const float *y, const float *x,
                       const float *mean, const float *rstd, uint64_t rows, uint64_t n, uint64_t at,
                       uint64_t left, uint32_t k)
{
    vf gain[2], bias[2], m[2], s[2];

    strip_get(gain, dgain, at, left, k);
    strip_get(bias, dbias, at, left, k);
    strip_get(m, mean, at, left, k);
    strip_get(s, rstd, at, left, k);
    for (uint64_t r = 0; r < rows; r++) {
        for (uint32_t i = 0; i < k; i++) {
            const uint64_t here = at + i * PST_W;
            const vf dh = masked(dy, y, r * n, here, left);

            gain[i] += dh * ((get(x + r * n, here, left) - m[i]) * s[i]);
            bias[i] += dh;
        }
    }
    strip_put(dgain, at, left, gain, k);
    strip_put(dbias, at, left, bias, k);
}

static void channels_sums(float *dgain, float *dbias, const float *dy, const float *y,
                          const float *x, const float *mean, const float *rstd, uint64_t rows,
                          uint64_t n)
{
#define STRIP(at, left, k) sums_strip(dgain, dbias, dy, y, x, mean, rstd, rows, n, at, left, k)
    PST_EACH_STRIP(n, 2, STRIP);
#undef STRIP
}

INLINE void back_strip(float *dx, const float *dy, const float *y, const float *x,
                       const struct pst_simd_channels *channels, uint64_t rows, uint64_t n,
                       uint64_t at, uint64_t left, uint32_t k)
{
    vf m[2], s[2], f[2], mean_g[2], mean_gn[2];

    strip_get(m, channels->mean, at, left, k);
    strip_get(s, channels->rstd, at, left, k);
    strip_get(f, channels->factor, at, left, k);
    strip_get(mean_g, channels->mean_g, at, left, k);
    strip_get(mean_gn, channels->mean_gn, at, left, k);
    for (uint64_t r = 0; r < rows; r++) {
        for (uint32_t i = 0; i < k; i++) {
            const uint64_t here = at + i * PST_W;
            const vf normed = (get(x + r * n, here, left) - m[i]) * s[i];
            const vf dh = masked(dy, y, r * n, here, left) - mean_g[i];

            put(dx + r * n, here, left, f[i] * (dh - normed * mean_gn[i]));
        }
    }
}

static void channels_back(float *dx, const float *dy, const float *y, const float *x,
                          const struct pst_simd_channels *channels, uint64_t rows, uint64_t n)
{
#define STRIP(at, left, k) back_strip(dx, dy, y, x, channels, rows, n, at, left, k)
    PST_EACH_STRIP(n, 2, STRIP);
#undef STRIP
}

static void channels_max_tap(float *y, int32_t *index, const float *x, int32_t tap, uint64_t n)
{
    const vi taps = (vi){0} + tap;

    PST_EACH_VECTOR(
        n, const vf v = get(x, at, left); const vf old = get(y, at, left);
        const vi taken = (v > old) | (v != v);
        const vf chosen = vselect(taken, (vf)taps, get((const float *)(void *)index, at, left));
        put(y, at, left, vselect(taken, v, old)); put((float *)(void *)index, at, left, chosen));
}

static void channels_back_tap(float *dx, const float *dy, const int32_t *index, int32_t tap,
                              uint64_t n)
{
    const vi taps = (vi){0} + tap;

    PST_EACH_VECTOR(
        n, const vi here = (vi)get((const float *)(const void *)index, at, left) == taps;
        const vf d = (vf)((vi)get(dy, at, left) & here); put(dx, at, left, get(dx, at, left) + d));
}
