/* SPDX-License-Identifier: Apache-2.0
 *
 * One element of an optimizer update, for devices that work element by element; operation for
 * operation what the vector routines of the cpu device do, so that equal gradients make equal
 * weights. Kingma and Ba, "Adam", 2015; Loshchilov and Hutter, "Decoupled weight decay
 * regularization", 2019; Jordan et al., "Muon: an optimizer for hidden layers in neural networks",
 * 2024. Shared by host and CUDA code.
 */
#ifndef PST_COMMON_OPTIMIZER_H
#define PST_COMMON_OPTIMIZER_H

#include <math.h>

#include "base/philox.h"
#include "exec/device.h"

/* The factors of an update, the same for all elements. */
struct pst_update_factors {
    uint32_t optimizer;
    float lr, grad_scale, weight_decay;
    float momentum;                  /* heavy ball */
    float beta1, beta2, eps;         /* Adam */
    float step_size, inv_sqrt_bias2; /* lr / (1 - beta1^t), 1 / sqrt(1 - beta2^t) */
    float shrink;                    /* AdamW, Muon: 1 - lr * weight_decay; else 1 */
};

/* Muon: steps of the iteration X := a X + (b A + c A^2) X, A = X X^T, that takes the singular
   values of X close to 1. */
enum { PST_MUON_STEPS = 5 };
#define PST_MUON_A   3.4445f
#define PST_MUON_B   (-4.7750f)
#define PST_MUON_C   2.0315f
#define PST_MUON_EPS 1e-7 /* least norm that the first X is divided by */

/* Bias corrections and the like in double, once per update. */
static inline struct pst_update_factors pst_update_factors(const struct pst_update *update)
{
    struct pst_update_factors factors;

    factors.optimizer = update->optimizer;
    factors.lr = update->lr;
    factors.grad_scale = update->grad_scale;
    factors.weight_decay = update->weight_decay;
    factors.momentum = update->momentum;
    factors.beta1 = update->beta1;
    factors.beta2 = update->beta2;
    factors.eps = update->eps;
    factors.step_size = 0;
    factors.inv_sqrt_bias2 = 0;
    factors.shrink = 1;
    if (update->optimizer == PST_ADAM || update->optimizer == PST_ADAMW) {
        const double t = (double)update->step, lr = (double)update->lr;

        factors.step_size = (float)(lr / (1.0 - pow((double)update->beta1, t)));
        factors.inv_sqrt_bias2 = (float)(1.0 / sqrt(1.0 - pow((double)update->beta2, t)));
    }
    if (update->optimizer == PST_ADAMW ||
        update->optimizer == PST_MUON) { /* decay beside the gradient, not in it */
        factors.shrink = (float)(1.0 - (double)update->lr * (double)update->weight_decay);
        factors.weight_decay = 0;
    }
    return factors;
}

/* Muon: the momentum takes the gradient in; what is to be orthogonalised (Nesterov). */
PST_HD float pst_muon_element(const struct pst_update_factors *u, float g, float *s0)
{
    const float d = g * u->grad_scale;

    *s0 = *s0 + (1.0f - u->momentum) * (d - *s0);
    return d + u->momentum * (*s0 - d);
}

/* The new weight; s0 and s1 are replaced where the optimizer has them. */
PST_HD float pst_update_element(const struct pst_update_factors *u, float w, float g, float *s0,
                                float *s1)
{
    const float d = g * u->grad_scale + u->weight_decay * w;
    float root;

    switch (u->optimizer) {
    case PST_SGD:
        return w - u->lr * d;
    case PST_MOMENTUM:
        *s0 = u->momentum * *s0 + d;
        return w - u->lr * *s0;
    default:
        *s0 = u->beta1 * *s0 + (1.0f - u->beta1) * d;
        *s1 = u->beta2 * *s1 + (1.0f - u->beta2) * (d * d);
        root = sqrtf(*s1) * u->inv_sqrt_bias2 + u->eps;
        return w * u->shrink - u->step_size * (*s0 / root);
    }
}

#endif
