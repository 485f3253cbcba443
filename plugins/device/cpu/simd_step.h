/* SPDX-License-Identifier: Apache-2.0
 *
 * The optimizer step and the gradient norm; part of simd_impl.h.
 */

#if PST_W == 4
typedef float vquarter __attribute__((vector_size(8)));
#else
typedef float vquarter __attribute__((vector_size(PST_W * 2)));
#endif
typedef double vd __attribute__((vector_size(PST_W * 4))); /* PST_W / 2 of them */

INLINE vf sgd_step(const struct pst_update_factors *update, vf w, vf g)
{
    const vf d = g * vset(update->grad_scale) + vset(update->weight_decay) * w;

    return w - vset(update->lr) * d;
}

static void step_sgd(const struct pst_update_factors *update, float *w, const float *g, uint64_t n)
{
    const struct pst_update_factors factors = *update; /* in registers */

    PST_EACH_VECTOR(n, put(w, at, left, sgd_step(&factors, get(w, at, left), get(g, at, left))));
}

INLINE void momentum_step(const struct pst_update_factors *update, float *w, const float *g,
                          float *s, uint64_t at, uint64_t left)
{
    const vf old = get(w, at, left);
    const vf d = get(g, at, left) * vset(update->grad_scale) + vset(update->weight_decay) * old;
    const vf velocity = vset(update->momentum) * get(s, at, left) + d;

    put(s, at, left, velocity);
    put(w, at, left, old - vset(update->lr) * velocity);
}

static void step_momentum(const struct pst_update_factors *update, float *w, const float *g,
                          float *s, uint64_t n)
{
    const struct pst_update_factors factors = *update; /* in registers */

    PST_EACH_VECTOR(n, momentum_step(&factors, w, g, s, at, left));
}

INLINE void adam_step(const struct pst_update_factors *update, float *w, const float *g, float *m,
                      float *v, uint64_t at, uint64_t left)
{
    const vf beta1 = vset(update->beta1), beta2 = vset(update->beta2), old = get(w, at, left);
    const vf grad = get(g, at, left) * vset(update->grad_scale) + vset(update->weight_decay) * old;
    const vf mean = beta1 * get(m, at, left) + vset(1.0f - update->beta1) * grad;
    const vf square = beta2 * get(v, at, left) + vset(1.0f - update->beta2) * (grad * grad);
    const vf root = vsqrt(square) * vset(update->inv_sqrt_bias2) + vset(update->eps);

    put(w, at, left, old * vset(update->shrink) - vset(update->step_size) * (mean / root));
    put(m, at, left, mean);
    put(v, at, left, square);
}

static void step_adam(const struct pst_update_factors *update, float *w, const float *g, float *m,
                      float *v, uint64_t n)
{
    const struct pst_update_factors factors = *update; /* in registers */

    PST_EACH_VECTOR(n, adam_step(&factors, w, g, m, v, at, left));
}

/* 128 elements in 16 lanes, each lane in ascending order. */
static double square_block(const float *values)
{
    double lane[PST_LANES];
    vd sum[2 * PST_PARTS];
    uint32_t i, part, width;

    for (i = 0; i < 128; i += PST_LANES) {
        for (part = 0; part < 2 * PST_PARTS; part++) {
            vquarter x;
            vd d;

            memcpy(&x, values + i + part * (PST_W / 2), sizeof x);
            d = __builtin_convertvector(x, vd);
            sum[part] = i == 0 ? d * d : sum[part] + d * d;
        }
    }
    memcpy(lane, sum, sizeof lane);
    for (width = PST_LANES / 2; width > 0; width /= 2) {
        for (i = 0; i < width; i++) {
            lane[i] += lane[i + width];
        }
    }
    return lane[0];
}

static double step_square_sum(const float *values, uint64_t n)
{
    double block[32] = {0};
    uint64_t i, k, width;

    for (i = 0, k = 0; i + 128 <= n; i += 128, k++) {
        block[k] = square_block(values + i);
    }
    if (i < n) {
        float rest[128] = {0};

        memcpy(rest, values + i, (n - i) * sizeof *values);
        block[k] = square_block(rest);
    }
    for (width = 16; width > 0; width /= 2) {
        for (i = 0; i < width; i++) {
            block[i] += block[i + width];
        }
    }
    return block[0];
}
