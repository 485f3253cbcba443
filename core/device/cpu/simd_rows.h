/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows: bias, column sums, layer norm, softmax; part of simd_impl.h.
 */

/* --- bias and activation behind a product -------------------------------------------------------
 */

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

/* Strips of 4 vectors stay in registers over all rows; the order of sums does not depend on it. */
static void rows_column_sums(float *sums, const float *x, uint64_t rows, uint64_t ld, uint64_t n)
{
    uint64_t i = 0;

    for (; i + 4 * PST_W <= n; i += 4 * PST_W) {
        vf s[4];
        uint32_t k;

        for (k = 0; k < 4; k++) {
            s[k] = vload(sums + i + k * PST_W);
        }
        for (uint64_t r = 0; r < rows; r++) {
            for (k = 0; k < 4; k++) {
                s[k] += vload(x + r * ld + i + k * PST_W);
            }
        }
        for (k = 0; k < 4; k++) {
            vstore(sums + i + k * PST_W, s[k]);
        }
    }
    for (; i < n; i++) {
        float s = sums[i];

        for (uint64_t r = 0; r < rows; r++) {
            s += x[r * ld + i];
        }
        sums[i] = s;
    }
}

/* --- sums over a row
 * ------------------------------------------------------------------------------ */

/* Runs statement over the row 16 elements at a time; v holds them, past the end `fill`. */
#define PST_LANES_EACH(values, n, fill, v, statement)                                              \
    do {                                                                                           \
        uint64_t at_ = 0;                                                                          \
        uint32_t part;                                                                             \
                                                                                                   \
        for (; at_ + PST_LANES <= (n); at_ += PST_LANES) {                                         \
            const struct lanes v = lanes_load((values) + at_);                                     \
                                                                                                   \
            for (part = 0; part < PST_PARTS; part++) {                                             \
                statement;                                                                         \
            }                                                                                      \
        }                                                                                          \
        if (at_ < (n)) {                                                                           \
            const struct lanes v = lanes_load_part((values) + at_, (n)-at_, fill);                 \
                                                                                                   \
            for (part = 0; part < PST_PARTS; part++) {                                             \
                statement;                                                                         \
            }                                                                                      \
        }                                                                                          \
    } while (0)

static float rows_sum(const float *values, uint64_t n)
{
    struct lanes sum = lanes_set(0);

    PST_LANES_EACH(values, n, 0, x, sum.v[part] += x.v[part]);
    return lanes_sum(sum);
}

static float rows_max(const float *values, uint64_t n)
{
    struct lanes max = lanes_set(-INFINITY);

    PST_LANES_EACH(values, n, -INFINITY, x, max.v[part] = vmax(max.v[part], x.v[part]));
    return lanes_max(max);
}

/* --- layer norm
 * ------------------------------------------------------------------------------------ */

static void rows_norm(float *y, const float *x, const float *gain, const float *bias, float eps,
                      uint64_t n, float *ret_mean, float *ret_rstd)
{
    struct lanes sum = lanes_set(0);
    const float mean = rows_sum(x, n) / (float)n;
    float rstd;
    uint64_t i;

    PST_LANES_EACH(x, n, mean, v, {
        const vf d = v.v[part] - vset(mean);

        sum.v[part] += d * d;
    });
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

/* dx = rstd (g - mean(g) - normed mean(g normed)), g = dy gain. */
static void rows_norm_back(float *dx, const float *add, float *dgain, float *dbias, const float *dy,
                           const float *x, const float *gain, float mean, float rstd, uint64_t n)
{
    struct lanes sum = lanes_set(0), dot = lanes_set(0);
    float mean_g, mean_gn;
    uint64_t i;
    uint32_t part;

    for (i = 0; i < n; i += PST_LANES) {
        const uint64_t left = n - i;
        struct lanes g =
            left < PST_LANES ? lanes_load_part(gain + i, left, 0) : lanes_load(gain + i);
        const struct lanes d =
            left < PST_LANES ? lanes_load_part(dy + i, left, 0) : lanes_load(dy + i);
        const struct lanes v =
            left < PST_LANES ? lanes_load_part(x + i, left, mean) : lanes_load(x + i);

        for (part = 0; part < PST_PARTS; part++) {
            g.v[part] *= d.v[part];
            sum.v[part] += g.v[part];
            dot.v[part] += g.v[part] * ((v.v[part] - vset(mean)) * vset(rstd));
        }
    }
    mean_g = lanes_sum(sum) / (float)n;
    mean_gn = lanes_sum(dot) / (float)n;
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

/* --- softmax
 * --------------------------------------------------------------------------------------- */

static float rows_exp_row(float *values, float scale, uint64_t n, float *ret_shift)
{
    const float shift = scale * rows_max(values, n);
    struct lanes sum = lanes_set(0);
    uint64_t i;
    uint32_t part;

    for (i = 0; i < n; i += PST_LANES) {
        const uint64_t left = n - i;
        struct lanes e = left < PST_LANES ? lanes_load_part(values + i, left, -INFINITY)
                                          : lanes_load(values + i);

        for (part = 0; part < PST_PARTS; part++) {
            e.v[part] = vexp(e.v[part] * vset(scale) - vset(shift));
            sum.v[part] += e.v[part];
        }
        if (left < PST_LANES) {
            memcpy(values + i, &e, left * sizeof *values);
        } else {
            lanes_store(values + i, e);
        }
    }
    *ret_shift = shift;
    return lanes_sum(sum);
}

static float rows_exp_sum(const float *values, uint64_t n, float *ret_max)
{
    const float max = rows_max(values, n);
    struct lanes sum = lanes_set(0);

    PST_LANES_EACH(values, n, -INFINITY, x, sum.v[part] += vexp(x.v[part] - vset(max)));
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
    if (i < n) {
        const struct lanes a = lanes_load_part(p + i, n - i, 0);
        const struct lanes b = lanes_load_part(dp + i, n - i, 0);

        for (part = 0; part < PST_PARTS; part++) {
            sum.v[part] += a.v[part] * b.v[part];
        }
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
