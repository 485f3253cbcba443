/* SPDX-License-Identifier: Apache-2.0
 *
 * Comparing two rigs of the same case: within what rounding allows, or bit by bit.
 */
#ifndef TESTS_CPU_COMPARE_H
#define TESTS_CPU_COMPARE_H

#include "cpu_rig.h"

/*
 * Results differ by the rounding of sums: K additions of rounded products walk about
 * sqrt(K) eps from the exact value, relative to the magnitude of what is summed, for which the
 * largest result stands. 8 is for the few functions (exp, tanh, sqrt) on the way. bf16 results
 * may also round to the other neighbour.
 */
static inline double rig_tolerance(const struct rig *rig, const struct rig_buffer *b)
{
    const double eps = 0x1p-23, walk = eps * (8 + 2 * sqrt((double)rig->test->depth));

    return b->dtype == PST_BF16 ? 0x1p-7 : rig->dtype == PST_BF16 ? 0x1p-7 + walk : walk;
}

static inline void rig_compare(const struct rig *rig, const char *what,
                               const struct rig_buffer *expected, const struct rig_buffer *found)
{
    double largest = 0, worst = 0;
    const double tolerance = rig_tolerance(rig, expected);

    assert_true(expected->elems == found->elems);
    for (uint64_t i = 0; i < expected->elems; i++) {
        const double e = rig_value(expected, i), f = rig_value(found, i);

        if (!isfinite(e) || !isfinite(f)) {
            fail_msg("%s, %s[%llu]: expected %g, found %g (seed %llu)", rig->test->name, what,
                     (unsigned long long)i, e, f, (unsigned long long)rig->seed);
        }
        largest = fmax(largest, fabs(e));
        worst = fmax(worst, fabs(e - f));
    }
    if (worst > tolerance * fmax(largest, 1e-30)) {
        fail_msg("%s, %s: off by %g of %g, allowed %g (seed %llu)", rig->test->name, what, worst,
                 largest, tolerance * largest, (unsigned long long)rig->seed);
    }
}

static inline void rig_compare_each(const struct rig *rig, const char *what,
                                    const struct rig_buffer *expected, struct rig_buffer *found,
                                    uint32_t n, uint64_t mask)
{
    char name[16];

    for (uint32_t i = 0; i < n; i++) {
        if ((mask >> i & 1) != 0 && expected[i].data != NULL) {
            snprintf(name, sizeof name, "%s%u", what, i);
            rig_compare(rig, name, &expected[i], &found[i]);
            memcpy(found[i].data, expected[i].data, expected[i].bytes);
        }
    }
}

/* What a pass has left, which then both have as expected. */
static inline void rig_compare_pass(struct rig *expected, struct rig *found, uint32_t pass)
{
    if (pass == PST_KERNEL_F) {
        rig_compare_each(expected, "y", expected->y, found->y, RIG_MAX, 7);
        rig_compare_each(expected, "state", expected->state, found->state, 2, 3);
    } else if (pass == PST_KERNEL_B) {
        rig_compare_each(expected, "dx", expected->dx, found->dx, RIG_MAX, expected->grad.b_dx);
        rig_compare_each(expected, "z", expected->z, found->z, 2, 3);
    } else {
        rig_compare_each(expected, "dp", expected->dp, found->dp, 2, 3);
    }
}

/* Runs all passes on both devices; each pass starts from the operands of the first, so that only
   its own rounding shows. */
static inline void rig_check(struct rig *expected, struct pst_device *plain, struct rig *found,
                             struct pst_device *fast)
{
    const struct pst_op_grad *grad = &expected->grad;
    const bool has[3] = {true, grad->has_b, grad->has_w};

    for (uint32_t pass = 0; pass < 3; pass++) {
        if (!has[pass]) {
            continue;
        }
        rig_ops->enter(plain);
        rig_pass(expected, plain, pass);
        rig_ops->enter(fast);
        rig_pass(found, fast, pass);
        rig_compare_pass(expected, found, pass);
    }
}

static inline bool rig_same(const struct rig_buffer *a, const struct rig_buffer *b)
{
    return a->bytes == b->bytes && (a->bytes == 0 || memcmp(a->data, b->data, a->bytes) == 0);
}

static inline bool rig_same_bits(const struct rig *a, const struct rig *b)
{
    bool same = true;

    for (uint32_t i = 0; i < RIG_MAX; i++) {
        same = same && rig_same(&a->y[i], &b->y[i]) && rig_same(&a->dx[i], &b->dx[i]);
    }
    for (uint32_t i = 0; i < 2; i++) {
        same = same && rig_same(&a->z[i], &b->z[i]) && rig_same(&a->dp[i], &b->dp[i]) &&
               rig_same(&a->state[i], &b->state[i]);
    }
    return same;
}

#endif
