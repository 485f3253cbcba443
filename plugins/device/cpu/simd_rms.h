/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows over the root of their mean square; part of simd_impl.h.
 */

static void rms_norm(float *y, const float *x, const float *gain, float eps, uint64_t n,
                     float *ret_rstd)
{
    struct lanes sum = lanes_set(0);
    float rstd;
    uint64_t i;

    PST_EACH_PART(x, n, 0, (void)at; sum.v[part] += v * v);
    rstd = 1.0f / sqrtf(lanes_sum(sum) / (float)n + eps);
    for (i = 0; i + PST_W <= n; i += PST_W) {
        vstore(y + i, vload(x + i) * vset(rstd) * vload(gain + i));
    }
    for (; i < n; i++) {
        y[i] = x[i] * rstd * gain[i];
    }
    *ret_rstd = rstd;
}

/* The sum of g normed, where g = dy gain. */
INLINE float rms_dot(const float *dy, const float *x, const float *gain, float rstd, uint64_t n)
{
    struct lanes dot = lanes_set(0);
    uint64_t i;
    uint32_t part;

    for (i = 0; i + PST_LANES <= n; i += PST_LANES) {
        for (part = 0; part < PST_PARTS; part++) {
            const uint64_t at = i + part * PST_W;

            dot.v[part] += vload(dy + at) * vload(gain + at) * (vload(x + at) * vset(rstd));
        }
    }
    for (part = 0; i < n && part < PST_PARTS; part++) {
        const uint64_t at = i + part * PST_W, left = part_elems(n - i, part);
        const vf g = vload_part(dy + at, left, 0) * vload_part(gain + at, left, 0);

        dot.v[part] += g * (vload_part(x + at, left, 0) * vset(rstd));
    }
    return lanes_sum(dot);
}

/* dx = rstd (g - normed mean(g normed)), g = dy gain. */
static void rms_back(float *dx, const float *add, float *dgain, const float *dy, const float *x,
                     const float *gain, float rstd, uint64_t n)
{
    const float mean = rms_dot(dy, x, gain, rstd, n) / (float)n;
    uint64_t i;

    for (i = 0; i + PST_W <= n; i += PST_W) {
        const vf normed = vload(x + i) * vset(rstd), d = vload(dy + i);
        const vf grad = vset(rstd) * (d * vload(gain + i) - normed * vset(mean));

        vstore(dgain + i, vload(dgain + i) + d * normed);
        vstore(dx + i, add == NULL ? grad : grad + vload(add + i));
    }
    for (; i < n; i++) {
        const float normed = x[i] * rstd, d = dy[i];
        const float grad = rstd * (d * gain[i] - normed * mean);

        dgain[i] += d * normed;
        dx[i] = add == NULL ? grad : grad + add[i];
    }
}
