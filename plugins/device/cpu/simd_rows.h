/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows: bias, column sums, layer norm, softmax; part of simd_impl.h.
 */

/* --- bias and activation behind a product ----------------------------------------------------- */

INLINE vf vbias(vf h, vf bias)
{
    return h + bias;
}

INLINE vf vbias_relu(vf h, vf bias)
{
    return vrelu(h + bias);
}

PST_MAP2(map_bias_relu, vbias_relu)

static void rows_bias(float *h, const float *bias, uint64_t rows, uint64_t n)
{
    for (uint64_t r = 0; r < rows; r++) {
        map_add(h + r * n, h + r * n, bias, n);
    }
}

static void rows_bias_relu(float *h, const float *bias, uint64_t rows, uint64_t n)
{
    for (uint64_t r = 0; r < rows; r++) {
        map_bias_relu(h + r * n, h + r * n, bias, n);
    }
}

static void rows_bias_gelu(float *h, const float *bias, float *y, uint64_t rows, uint64_t n)
{
    for (uint64_t r = 0; r < rows; r++) {
        float *h_row = h + r * n, *y_row = y + r * n;
        uint64_t i = 0;

        for (; i + PST_W <= n; i += PST_W) {
            const vf v = vload(h_row + i) + vload(bias + i);

            vstore(h_row + i, v);
            vstore(y_row + i, vgelu(v));
        }
        if (i < n) {
            const vf v = vload_part(h_row + i, n - i, 0) + vload_part(bias + i, n - i, 0);

            vstore_part(h_row + i, v, n - i);
            vstore_part(y_row + i, vgelu(v), n - i);
        }
    }
}

/* Strips of k vectors stay in registers over all rows; the order of sums does not depend on it. */
INLINE void column_strip(float *sums, const float *x, uint64_t rows, uint64_t ld, uint32_t k)
{
    vf s[4];

    for (uint32_t i = 0; i < k; i++) {
        s[i] = vload(sums + i * PST_W);
    }
    for (uint64_t r = 0; r < rows; r++) {
        for (uint32_t i = 0; i < k; i++) {
            s[i] += vload(x + r * ld + i * PST_W);
        }
    }
    for (uint32_t i = 0; i < k; i++) {
        vstore(sums + i * PST_W, s[i]);
    }
}

static void rows_column_sums(float *sums, const float *x, uint64_t rows, uint64_t ld, uint64_t n)
{
    uint64_t i = 0;

    for (; i + 4 * PST_W <= n; i += 4 * PST_W) {
        column_strip(sums + i, x + i, rows, ld, 4);
    }
    for (; i + 2 * PST_W <= n; i += 2 * PST_W) {
        column_strip(sums + i, x + i, rows, ld, 2);
    }
    for (; i + PST_W <= n; i += PST_W) {
        column_strip(sums + i, x + i, rows, ld, 1);
    }
    for (; i < n; i++) {
        float s = sums[i];

        for (uint64_t r = 0; r < rows; r++) {
            s += x[r * ld + i];
        }
        sums[i] = s;
    }
}

/* --- sums over a row -------------------------------------------------------------------------- */

/*
 * Runs statement for all vectors of a row, 16 lanes at a time: `part` is the vector's place among
 * the lanes, `at` its first element, `v` its values; past the end these are `fill`.
 */
#define PST_EACH_PART(values, n, fill, statement)                                                  \
    do {                                                                                           \
        uint64_t i_ = 0;                                                                           \
        uint32_t part;                                                                             \
                                                                                                   \
        for (; i_ + PST_LANES <= (n); i_ += PST_LANES) {                                           \
            for (part = 0; part < PST_PARTS; part++) {                                             \
                const uint64_t at = i_ + part * PST_W;                                             \
                const vf v = vload((values) + at);                                                 \
                                                                                                   \
                statement;                                                                         \
            }                                                                                      \
        }                                                                                          \
        for (part = 0; i_ < (n) && part < PST_PARTS; part++) {                                     \
            const uint64_t at = i_ + part * PST_W;                                                 \
            const vf v = vload_part((values) + at, part_elems((n)-i_, part), fill);                \
                                                                                                   \
            statement;                                                                             \
        }                                                                                          \
    } while (0)

static float rows_sum(const float *values, uint64_t n)
{
    struct lanes sum = lanes_set(0);

    PST_EACH_PART(values, n, 0, (void)at; sum.v[part] += v);
    return lanes_sum(sum);
}

INLINE float row_max(const float *values, uint64_t n)
{
    struct lanes max = lanes_set(-INFINITY);

    PST_EACH_PART(values, n, -INFINITY, (void)at; max.v[part] = vmax(max.v[part], v));
    return lanes_max(max);
}

/* --- layer norm ------------------------------------------------------------------------------- */

static void rows_norm(float *y, const float *x, const float *gain, const float *bias, float eps,
                      uint64_t n, float *ret_mean, float *ret_rstd)
{
    struct lanes sum = lanes_set(0);
    const float mean = rows_sum(x, n) / (float)n;
    float rstd;
    uint64_t i;

    PST_EACH_PART(x, n, mean, (void)at; const vf d = v - vset(mean); sum.v[part] += d * d);
    rstd = 1.0f / sqrtf(lanes_sum(sum) / (float)n + eps);
    for (i = 0; i + PST_W <= n; i += PST_W) {
        const vf normed = (vload(x + i) - vset(mean)) * vset(rstd);

        vstore(y + i, normed * vload(gain + i) + vload(bias + i));
    }
    for (; i < n; i++) {
        y[i] = (x[i] - mean) * rstd * gain[i] + bias[i];
    }
    *ret_mean = mean;
    *ret_rstd = rstd;
}

/* Sums of g and of g normed, where g = dy gain. */
INLINE void norm_sums(const float *dy, const float *x, const float *gain, float mean, float rstd,
                      uint64_t n, float *ret_sum, float *ret_dot)
{
    struct lanes sum = lanes_set(0), dot = lanes_set(0);
    uint64_t i;
    uint32_t part;

    for (i = 0; i + PST_LANES <= n; i += PST_LANES) {
        for (part = 0; part < PST_PARTS; part++) {
            const uint64_t at = i + part * PST_W;
            const vf g = vload(dy + at) * vload(gain + at);

            sum.v[part] += g;
            dot.v[part] += g * ((vload(x + at) - vset(mean)) * vset(rstd));
        }
    }
    for (part = 0; i < n && part < PST_PARTS; part++) {
        const uint64_t at = i + part * PST_W, left = part_elems(n - i, part);
        const vf g = vload_part(dy + at, left, 0) * vload_part(gain + at, left, 0);

        sum.v[part] += g;
        dot.v[part] += g * ((vload_part(x + at, left, mean) - vset(mean)) * vset(rstd));
    }
    *ret_sum = lanes_sum(sum);
    *ret_dot = lanes_sum(dot);
}

/* dx = rstd (g - mean(g) - normed mean(g normed)), g = dy gain. */
static void rows_norm_back(float *dx, const float *add, float *dgain, float *dbias, const float *dy,
                           const float *x, const float *gain, float mean, float rstd, uint64_t n)
{
    float mean_g, mean_gn;
    uint64_t i;

    norm_sums(dy, x, gain, mean, rstd, n, &mean_g, &mean_gn);
    mean_g /= (float)n;
    mean_gn /= (float)n;
    for (i = 0; i + PST_W <= n; i += PST_W) {
        const vf normed = (vload(x + i) - vset(mean)) * vset(rstd), d = vload(dy + i);
        const vf g = d * vload(gain + i);
        const vf grad = vset(rstd) * ((g - vset(mean_g)) - normed * vset(mean_gn));

        vstore(dgain + i, vload(dgain + i) + d * normed);
        vstore(dbias + i, vload(dbias + i) + d);
        vstore(dx + i, add == NULL ? grad : grad + vload(add + i));
    }
    for (; i < n; i++) {
        const float normed = (x[i] - mean) * rstd, d = dy[i], g = d * gain[i];
        const float grad = rstd * ((g - mean_g) - normed * mean_gn);

        dgain[i] += d * normed;
        dbias[i] += d;
        dx[i] = add == NULL ? grad : grad + add[i];
    }
}

/* --- softmax ---------------------------------------------------------------------------------- */

static float rows_exp_row(float *values, float scale, uint64_t n, float *ret_shift)
{
    const float shift = scale * row_max(values, n);
    struct lanes sum = lanes_set(0);
    uint64_t i;
    uint32_t part;

    for (i = 0; i + PST_LANES <= n; i += PST_LANES) {
        for (part = 0; part < PST_PARTS; part++) {
            const uint64_t at = i + part * PST_W;
            const vf e = vexp(vload(values + at) * vset(scale) - vset(shift));

            vstore(values + at, e);
            sum.v[part] += e;
        }
    }
    for (part = 0; i < n && part < PST_PARTS; part++) {
        const uint64_t at = i + part * PST_W, left = part_elems(n - i, part);
        const vf x = vload_part(values + at, left, -INFINITY);
        const vf e = vexp(x * vset(scale) - vset(shift));

        vstore_part(values + at, e, left);
        sum.v[part] += e;
    }
    *ret_shift = shift;
    return lanes_sum(sum);
}

static float rows_exp_sum(const float *values, uint64_t n, float *ret_max)
{
    const float max = row_max(values, n);
    struct lanes sum = lanes_set(0);

    PST_EACH_PART(values, n, -INFINITY, (void)at; sum.v[part] += vexp(v - vset(max)));
    *ret_max = max;
    return lanes_sum(sum);
}

static void rows_exp_known(float *probs, const float *scores, float scale, float lse, uint64_t n)
{
    uint64_t i = 0;

    for (; i + PST_W <= n; i += PST_W) {
        vstore(probs + i, vexp(vload(scores + i) * vset(scale) - vset(lse)));
    }
    if (i < n) {
        const vf s = vload_part(scores + i, n - i, 0);

        vstore_part(probs + i, vexp(s * vset(scale) - vset(lse)), n - i);
    }
}

static void rows_softmax_back(float *dp, const float *p, float scale, uint64_t n)
{
    struct lanes sum = lanes_set(0);
    uint64_t i;
    uint32_t part;
    float dot;

    for (i = 0; i + PST_LANES <= n; i += PST_LANES) {
        for (part = 0; part < PST_PARTS; part++) {
            sum.v[part] += vload(p + i + part * PST_W) * vload(dp + i + part * PST_W);
        }
    }
    for (part = 0; i < n && part < PST_PARTS; part++) {
        const uint64_t at = i + part * PST_W, left = part_elems(n - i, part);

        sum.v[part] += vload_part(p + at, left, 0) * vload_part(dp + at, left, 0);
    }
    dot = lanes_sum(sum);
    for (i = 0; i + PST_W <= n; i += PST_W) {
        vstore(dp + i, vload(p + i) * (vload(dp + i) - vset(dot)) * vset(scale));
    }
    for (; i < n; i++) {
        dp[i] = p[i] * (dp[i] - dot) * scale;
    }
}

static void rows_exp_scaled(float *dst, const float *src, float lse, float factor, uint64_t n)
{
    uint64_t i = 0;

    for (; i + PST_W <= n; i += PST_W) {
        vstore(dst + i, vexp(vload(src + i) - vset(lse)) * vset(factor));
    }
    if (i < n) {
        const vf x = vload_part(src + i, n - i, 0);

        vstore_part(dst + i, vexp(x - vset(lse)) * vset(factor), n - i);
    }
}
