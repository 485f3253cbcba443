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
    uint64_t i;

    for (i = 0; i + PST_W <= n; i += PST_W) {
        vstore(w + i, sgd_step(update, vload(w + i), vload(g + i)));
    }
    if (i < n) {
        const vf old = vload_part(w + i, n - i, 0), grad = vload_part(g + i, n - i, 0);

        vstore_part(w + i, sgd_step(update, old, grad), n - i);
    }
}

INLINE vf velocity_step(const struct pst_update_factors *update, vf w, vf g, vf s)
{
    const vf d = g * vset(update->grad_scale) + vset(update->weight_decay) * w;

    return vset(update->momentum) * s + d;
}

static void step_momentum(const struct pst_update_factors *update, float *w, const float *g,
                          float *s, uint64_t n)
{
    const vf lr = vset(update->lr);
    uint64_t i;

    for (i = 0; i + PST_W <= n; i += PST_W) {
        const vf old = vload(w + i);
        const vf velocity = velocity_step(update, old, vload(g + i), vload(s + i));

        vstore(s + i, velocity);
        vstore(w + i, old - lr * velocity);
    }
    if (i < n) {
        const uint64_t left = n - i;
        const vf old = vload_part(w + i, left, 0), grad = vload_part(g + i, left, 0);
        const vf velocity = velocity_step(update, old, grad, vload_part(s + i, left, 0));

        vstore_part(s + i, velocity, left);
        vstore_part(w + i, old - lr * velocity, left);
    }
}

struct adam {
    vf w, m, v;
};

INLINE struct adam adam_step(const struct pst_update_factors *update, struct adam old, vf g)
{
    const vf beta1 = vset(update->beta1), beta2 = vset(update->beta2);
    const vf grad = g * vset(update->grad_scale) + vset(update->weight_decay) * old.w;
    struct adam new;
    vf root;

    new.m = beta1 *old.m + vset(1.0f - update->beta1) * grad;
    new.v = beta2 *old.v + vset(1.0f - update->beta2) * (grad * grad);
    root = vsqrt(new.v) * vset(update->inv_sqrt_bias2) + vset(update->eps);
    new.w = old.w *vset(update->shrink) - vset(update->step_size) * (new.m / root);
    return new;
}

static void step_adam(const struct pst_update_factors *update, float *w, const float *g, float *m,
                      float *v, uint64_t n)
{
    uint64_t i;

    for (i = 0; i + PST_W <= n; i += PST_W) {
        const struct adam old = {vload(w + i), vload(m + i), vload(v + i)};
        const struct adam new = adam_step(update, old, vload(g + i));

        vstore(w + i, new.w);
        vstore(m + i, new.m);
        vstore(v + i, new.v);
    }
    if (i < n) {
        const uint64_t left = n - i;
        const struct adam old = {vload_part(w + i, left, 0), vload_part(m + i, left, 0),
                                 vload_part(v + i, left, 0)};
        const struct adam new = adam_step(update, old, vload_part(g + i, left, 0));

        vstore_part(w + i, new.w, left);
        vstore_part(m + i, new.m, left);
        vstore_part(v + i, new.v, left);
    }
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
