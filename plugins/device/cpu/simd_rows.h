/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows: bias, column sums, layer norm, softmax; part of simd_impl.h.
 */

/* --- bias and activation after a product ----------------------------------------------------- */

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
        PST_EACH_VECTOR(n, const vf v = get(h + r * n, at, left) + get(bias, at, left);
                        put(h + r * n, at, left, v); put(y + r * n, at, left, vgelu(v)));
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

static float rows_sum(const float *values, uint64_t n)
{
    struct lanes sum = lanes_set(0);

    PST_EACH_PART(n, sum.v[part] += get(values, at, left));
    return lanes_sum(sum);
}

INLINE float row_max(const float *values, uint64_t n)
{
    struct lanes max = lanes_set(-INFINITY);

    PST_EACH_PART(n, max.v[part] = vmax(max.v[part], get_or(values, at, left, -INFINITY)));
    return lanes_max(max);
}

/* --- layer norm and RMS norm ------------------------------------------------------------------ */

/* One row; one that is not centred is RMS norm, without mean and bias. */
struct norm_row {
    bool centred;
    uint64_t n;
    const float *x, *gain, *bias;
    float mean, rstd;
};

/* x less its mean; past the end 0. */
INLINE vf norm_offset(const struct norm_row *row, uint64_t at, uint64_t left)
{
    const vf x = get_or(row->x, at, left, row->mean);

    return row->centred ? x - vset(row->mean) : x;
}

INLINE vf norm_normed(const struct norm_row *row, uint64_t at, uint64_t left)
{
    return norm_offset(row, at, left) * vset(row->rstd);
}

/* Finds rstd. */
INLINE void norm_forward(struct norm_row *row, float *y, float eps)
{
    struct lanes sum = lanes_set(0);

    PST_EACH_PART(row->n, const vf d = norm_offset(row, at, left); sum.v[part] += d * d);
    row->rstd = 1.0f / sqrtf(lanes_sum(sum) / (float)row->n + eps);
    PST_EACH_VECTOR(row->n, const vf h = norm_normed(row, at, left) * get(row->gain, at, left);
                    put(y, at, left, row->centred ? h + get(row->bias, at, left) : h));
}

/* The inputs and outputs of the backward pass besides the row. */
struct norm_back {
    const float *dy, *add;
    float *dx, *dgain, *dbias;
    float mean_g, mean_gn; /* of g = dy gain, and of g normed */
};

/* dx = rstd (g - mean(g) - normed mean(g normed)) + add; not centred: without mean(g). */
INLINE void norm_back_at(const struct norm_row *row, const struct norm_back *back, uint64_t at,
                         uint64_t left)
{
    const vf normed = norm_normed(row, at, left), d = get(back->dy, at, left);
    const vf g = d * get(row->gain, at, left);
    const vf offset = row->centred ? g - vset(back->mean_g) : g;
    const vf grad = vset(row->rstd) * (offset - normed * vset(back->mean_gn));

    put(back->dgain, at, left, get(back->dgain, at, left) + d * normed);
    if (row->centred) {
        put(back->dbias, at, left, get(back->dbias, at, left) + d);
    }
    put(back->dx, at, left, back->add == NULL ? grad : grad + get(back->add, at, left));
}

INLINE void norm_backward(const struct norm_row *row, struct norm_back back)
{
    struct lanes sum = lanes_set(0), dot = lanes_set(0);

    PST_EACH_PART(row->n, const vf g = get(back.dy, at, left) * get(row->gain, at, left);
                  sum.v[part] += g; dot.v[part] += g * norm_normed(row, at, left));
    back.mean_g = lanes_sum(sum) / (float)row->n;
    back.mean_gn = lanes_sum(dot) / (float)row->n;
    PST_EACH_VECTOR(row->n, norm_back_at(row, &back, at, left));
}

static void rows_norm(float *y, const float *x, const float *gain, const float *bias, float eps,
                      uint64_t n, float *ret_mean, float *ret_rstd)
{
    struct norm_row row = {true, n, x, gain, bias, rows_sum(x, n) / (float)n, 0};

    norm_forward(&row, y, eps);
    *ret_mean = row.mean;
    *ret_rstd = row.rstd;
}

static void rows_norm_back(float *dx, const float *add, float *dgain, float *dbias, const float *dy,
                           const float *x, const float *gain, float mean, float rstd, uint64_t n)
{
    const struct norm_row row = {true, n, x, gain, NULL, mean, rstd};

    norm_backward(&row, (struct norm_back){dy, add, dx, dgain, dbias, 0, 0});
}

static void rows_rms(float *y, const float *x, const float *gain, float eps, uint64_t n,
                     float *ret_rstd)
{
    struct norm_row row = {false, n, x, gain, NULL, 0, 0};

    norm_forward(&row, y, eps);
    *ret_rstd = row.rstd;
}

static void rows_rms_back(float *dx, const float *add, float *dgain, const float *dy,
                          const float *x, const float *gain, float rstd, uint64_t n)
{
    const struct norm_row row = {false, n, x, gain, NULL, 0, rstd};

    norm_backward(&row, (struct norm_back){dy, add, dx, dgain, NULL, 0, 0});
}

/* --- softmax ---------------------------------------------------------------------------------- */

static float rows_exp_row(float *values, float scale, uint64_t n, float *ret_shift)
{
    const float shift = scale * row_max(values, n);
    struct lanes sum = lanes_set(0);

    PST_EACH_PART(n, const vf x = get_or(values, at, left, -INFINITY);
                  const vf e = vexp(x * vset(scale) - vset(shift)); put(values, at, left, e);
                  sum.v[part] += e);
    *ret_shift = shift;
    return lanes_sum(sum);
}

static float rows_exp_sum(const float *values, uint64_t n, float *ret_max)
{
    const float max = row_max(values, n);
    struct lanes sum = lanes_set(0);

    PST_EACH_PART(n, sum.v[part] += vexp(get_or(values, at, left, -INFINITY) - vset(max)));
    *ret_max = max;
    return lanes_sum(sum);
}

static void rows_exp_known(float *probs, const float *scores, float scale, float lse, uint64_t n)
{
    PST_EACH_VECTOR(n, put(probs, at, left, vexp(get(scores, at, left) * vset(scale) - vset(lse))));
}

static void rows_softmax_back(float *dp, const float *p, float scale, uint64_t n)
{
    struct lanes sum = lanes_set(0);
    float dot;

    PST_EACH_PART(n, sum.v[part] += get(p, at, left) * get(dp, at, left));
    dot = lanes_sum(sum);
    PST_EACH_VECTOR(n, const vf d = get(dp, at, left) - vset(dot);
                    put(dp, at, left, get(p, at, left) * d * vset(scale)));
}

static void rows_exp_scaled(float *dst, const float *src, float lse, float factor, float less,
                            uint64_t n)
{
    PST_EACH_VECTOR(n, const vf exp = vexp(get(src, at, left) - vset(lse));
                    put(dst, at, left, exp * vset(factor) - vset(less)));
}
