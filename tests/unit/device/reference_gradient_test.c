/* SPDX-License-Identifier: Apache-2.0
 *
 * Gradients of every operator against central differences of its own forward pass, in double, for
 * the functional sum(dy * y) (for a loss: the sum over samples). The tolerance of an element comes
 * from the differences themselves: D(h) - D(2h), which is three times the truncation error of D(h)
 * because that falls with h^2, plus the rounding of the functional divided by h. It must be far
 * smaller than the gradient, or the test would be blind; that a gradient which is off by a
 * thousandth is refused is tested, too.
 */
#include "reference_rig.h"

#include <float.h>
#include <math.h>

#define SEED 20240611

/* The functional, and the sum of the magnitudes in it. */
static double functional(struct rig *rig, double *ret_magnitude)
{
    double sum = 0, magnitude = 0;

    rig_forward(rig);
    for (uint64_t i = 0; i < rig->n_y[0]; i++) {
        const double weight = pst_op_is_loss(rig->op->kind) ? (double)rig->scale : rig->dy[i];

        sum += weight * rig->y[0][i];
        magnitude += fabs(weight * rig->y[0][i]);
    }
    *ret_magnitude = magnitude;
    return sum;
}

struct difference {
    double value, tolerance;
};

static struct difference differentiate(struct rig *rig, double *variable)
{
    const double base = *variable, h = 1e-4;
    struct difference result;
    double slope[2], magnitude = 0;

    for (uint32_t i = 0; i < 2; i++) {
        const double step = i == 0 ? h : 2 * h;
        double above;

        *variable = base + step;
        above = functional(rig, &magnitude);
        *variable = base - step;
        slope[i] = (above - functional(rig, &magnitude)) / (2 * step);
    }
    *variable = base;
    result.value = slope[0];
    /* 64: roundings that one term of the functional goes through. */
    result.tolerance = fabs(slope[0] - slope[1]) + 64 * DBL_EPSILON * (magnitude + 1) / h;
    return result;
}

static bool agrees(double gradient, struct difference difference)
{
    return fabs(gradient - difference.value) <= difference.tolerance; /* false for NaN */
}

static void check(struct rig *rig, const char *what, uint32_t slot, double *variables,
                  const double *gradient, uint64_t n)
{
    const double largest = rig_largest(gradient, n);
    uint64_t n_refused = 0;

    assert_true(largest > 1e-3);
    for (uint64_t i = 0; i < n; i++) {
        const struct difference difference = differentiate(rig, &variables[i]);

        if (!agrees(gradient[i], difference)) {
            fail_msg("%s%u[%llu]: gradient %.12g, difference %.12g +- %.3g (seed %d)", what, slot,
                     (unsigned long long)i, gradient[i], difference.value, difference.tolerance,
                     SEED);
        }
        if (difference.tolerance > 1e-5 * largest) {
            fail_msg("%s%u[%llu]: tolerance %.3g is blind to %.3g (seed %d)", what, slot,
                     (unsigned long long)i, difference.tolerance, largest, SEED);
        }
        n_refused += !agrees(1.001 * gradient[i], difference);
    }
    assert_true(n_refused > 0);
}

static void test_gradient(void **state)
{
    const struct rig_case *test = *state;
    struct rig rig;

    rig_init(&rig, test, PST_F64);
    rig_fill(&rig, SEED);
    rig.scale = 0.375f;
    rig_run(&rig);
    assert_true(rig.grad.has_w || rig.p[0] == NULL);
    for (uint32_t i = 0; i < rig.op->n_in; i++) {
        if (((rig.grad.b_dx | rig.grad.b_alias) >> i & 1) != 0) {
            check(&rig, "x", i, rig.x[i], rig.dx[i], rig.n_x[i]);
        } else {
            assert_int_equal(rig.graph->tensors[rig.op->in[i]].role, PST_ROLE_INPUT);
        }
    }
    for (uint32_t i = 0; i < RIG_PARAMS && rig.p[i] != NULL; i++) {
        check(&rig, "p", i, rig.p[i], rig.dp[i], rig.n_p[i]);
    }
    rig_finish(&rig);
}

int main(void)
{
    return rig_main(test_gradient);
}
