/* SPDX-License-Identifier: Apache-2.0
 *
 * For every operator: f32 and bf16 against f64 on the same operands (already rounded to the type,
 * so that nothing but the arithmetic differs); gradients with an addend, bit by bit; and that the
 * samples of a micro-batch do not depend on what else is in it.
 */
#include "reference_rig.h"

#include <math.h>

#define SEED 77

/*
 * Error relative to the largest value of a tensor, in units of rounding. f32, 2^-24: scalar
 * products of up to 24 terms are the longest chains, whose roundings add up at worst. bf16, 2^-8:
 * computed in f32, what counts is what is stored, and a value depends on at most three roundings of
 * that kind (the saved h, dh, dx).
 */
static const double bounds[] = {[PST_F32] = 24.0 / 16777216, [PST_BF16] = 3.0 / 256};

static void compare(const char *what, uint32_t slot, const double *values, const double *exact,
                    uint64_t n, uint32_t dtype)
{
    const double bound = bounds[dtype] * rig_largest(exact, n);

    for (uint64_t i = 0; i < n; i++) {
        if (!(fabs(values[i] - exact[i]) <= bound)) {
            fail_msg("%s%u[%llu], dtype %u: %.9g, exactly %.9g, bound %.3g (seed %d)", what, slot,
                     (unsigned long long)i, dtype, values[i], exact[i], bound, SEED);
        }
    }
}

static void compare_all(const struct rig *rig, const struct rig *exact)
{
    for (uint32_t i = 0; i < rig->op->n_out; i++) {
        compare("y", i, rig->y[i], exact->y[i], rig->n_y[i], rig->dtype);
    }
    for (uint32_t i = 0; i < rig->op->n_in; i++) {
        compare("dx", i, rig->dx[i], exact->dx[i], rig->n_x[i], rig->dtype);
    }
    for (uint32_t i = 0; i < RIG_PARAMS; i++) {
        compare("dp", i, rig->dp[i], exact->dp[i], rig->n_p[i], rig->dtype);
    }
    for (uint32_t i = 0; i < rig->op->n_state; i++) {
        compare("state", i, rig->state[i], exact->state[i], rig->n_state, rig->dtype);
    }
}

static void check_precision(const struct rig_case *test, uint32_t dtype)
{
    struct rig rig, exact;

    rig_init(&rig, test, dtype);
    rig_init(&exact, test, PST_F64);
    rig_fill(&rig, SEED);
    rig_fill(&exact, SEED);
    rig_round(&exact, dtype);
    rig.flags &= ~(uint32_t)PST_CALL_REPLAY; /* running statistics take part */
    exact.flags = rig.flags;
    rig_run(&rig);
    rig_run(&exact);
    compare_all(&rig, &exact);
    rig_finish(&rig);
    rig_finish(&exact);
}

/* dx with an addend is the rounded sum of the stored gradient and the addend, also in place. */
static void check_addends(const struct rig_case *test, uint32_t dtype)
{
    struct rig plain, added;

    rig_init(&plain, test, dtype);
    rig_fill(&plain, SEED);
    rig_round(&plain, dtype);
    rig_run(&plain);
    for (uint32_t in_place = 0; in_place < 2; in_place++) {
        rig_init(&added, test, dtype);
        rig_fill(&added, SEED);
        added.add_in_place = in_place != 0;
        for (uint32_t i = 0; i < added.op->n_in; i++) {
            if ((added.grad.b_dx >> i & 1) != 0) {
                added.add[i] = calloc(added.n_x[i], sizeof(double));
                assert_non_null(added.add[i]);
                rig_random(added.add[i], added.n_x[i], SEED, 40 + i);
            }
        }
        rig_round(&added, dtype);
        rig_run(&added);
        for (uint32_t i = 0; i < added.op->n_in; i++) {
            for (uint64_t e = 0; added.add[i] != NULL && e < added.n_x[i]; e++) {
                const double sum = rig_rounded(plain.dx[i][e] + added.add[i][e], PST_F32);
                const double expected =
                    dtype == PST_F64 ? plain.dx[i][e] + added.add[i][e] : rig_rounded(sum, dtype);

                assert_true(added.dx[i][e] == expected);
            }
        }
        rig_finish(&added);
    }
    rig_finish(&plain);
}

/* The part of sample `sample` of a batched array of n elements in all. */
static void take(double *one, const double *all, uint64_t n, uint32_t samples, uint32_t sample)
{
    memcpy(one, all + n / samples * sample, n / samples * sizeof *one);
}

static void assert_part(const double *one, const double *all, uint64_t n, uint32_t samples,
                        uint32_t sample)
{
    assert_memory_equal(one, all + n / samples * sample, n / samples * sizeof *one);
}

/* Each sample alone gives the bits that it has within the micro-batch. */
static void check_batch(const struct rig_case *test, uint32_t dtype)
{
    struct rig all, one;
    struct rig_case single = *test;

    single.samples = 1;
    rig_init(&all, test, dtype);
    rig_fill(&all, SEED);
    all.first_sample = 1000;
    rig_run(&all);
    for (uint32_t sample = 0; sample < test->samples; sample++) {
        rig_init(&one, &single, dtype);
        rig_fill(&one, SEED); /* parameters */
        one.first_sample = 1000 + sample;
        for (uint32_t i = 0; i < one.op->n_in; i++) {
            take(one.x[i], all.x[i], all.n_x[i], all.samples, sample);
        }
        take(one.dy, all.dy, all.n_y[0], all.samples, sample);
        rig_run(&one);
        for (uint32_t i = 0; i < one.op->n_out; i++) {
            assert_part(one.y[i], all.y[i], all.n_y[i], all.samples, sample);
        }
        for (uint32_t i = 0; i < one.op->n_in; i++) {
            assert_part(one.dx[i], all.dx[i], all.n_x[i], all.samples, sample);
        }
        rig_finish(&one);
    }
    rig_finish(&all);
}

static void test_types(void **state)
{
    static const uint32_t dtypes[] = {PST_F32, PST_BF16, PST_F64};
    const struct rig_case *test = *state;

    for (uint32_t i = 0; i < 3; i++) {
        if (dtypes[i] != PST_F64) {
            check_precision(test, dtypes[i]);
        }
        check_addends(test, dtypes[i]);
        if (test->op.kind != PST_OP_BATCHNORM) {
            check_batch(test, dtypes[i]);
        }
    }
}

int main(void)
{
    return rig_main(test_types);
}
