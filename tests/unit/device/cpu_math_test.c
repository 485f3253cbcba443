/* SPDX-License-Identifier: Apache-2.0
 *
 * The functions inside the cpu kernels (exp, gelu and silu with their slopes, log-sum-exp, Philox)
 * against libm in double and against the scalar generator.
 */
#include "cpu_rig.h"

#define N 4001u

static const struct rig_case gelu_case =
    OPERATOR("gelu", 1, "1x4001", "", .kind = PST_OP_ACT, .act = PST_ACT_GELU);
static const struct rig_case silu_case =
    OPERATOR("silu", 1, "1x4001", "", .kind = PST_OP_ACT, .act = PST_ACT_SILU);
static const struct rig_case loss_case =
    OPERATOR("loss", 1, "4001x3, 4001", "", .kind = PST_OP_CROSS_ENTROPY);

/* From -12 to 12 in steps that hit no grid of the implementation. */
static double at(uint64_t i)
{
    return (double)(float)(-12 + 24.0 * (double)i / (N - 1) + 1e-4 * (double)(i % 7));
}

/* A function, its slope, and how far off they may be, relative to them. */
struct expected {
    double y, slope, bound;
};

/*
 * exp(2u) with u = sqrt(2/pi) (x + 0.044715 x^3) magnifies the rounding of its argument |2u| times;
 * then a handful of roundings follow.
 */
static struct expected gelu(double x)
{
    const double k = sqrt(2 / M_PI), u = k * (x + 0.044715 * x * x * x), t = tanh(u);
    const double half = 1 / (1 + exp(-2 * u)); /* 0.5 (1 + t) without cancellation on the left */

    return (struct expected){x * half,
                             half + 0.5 * x * (1 - t * t) * k * (1 + 3 * 0.044715 * x * x),
                             (6 + 4 * k * (fabs(x) + 0.044715 * fabs(x * x * x))) * 0x1p-23};
}

/* x / (1 + exp(-x)): exp magnifies the rounding of its argument |x| times. */
static struct expected silu(double x)
{
    const double s = 1 / (1 + exp(-x)), y = x * s;

    return (struct expected){y, s + y * (1 / (1 + exp(x))), (6 + fabs(x)) * 0x1p-23};
}

static void expect_accurate(const struct rig_case *test, struct expected (*function)(double),
                            double scale)
{
    struct pst_device *device = rig_open("auto", 1);
    struct rig rig;

    rig_init(&rig, test, PST_F32, 1);
    for (uint64_t i = 0; i < N; i++) {
        rig_set(&rig.x[0], i, at(i) * scale);
        rig_set(&rig.dy, i, 1);
    }
    rig_run(&rig, device);
    for (uint64_t i = 0; i < N; i++) {
        const double x = rig_value(&rig.x[0], i);
        const struct expected e = function(x);
        const double found = rig_value(&rig.y[0], i), found_slope = rig_value(&rig.dx[0], i);

        /* exp saturates at exp(88), just before 2^127 */
        if (fabs(found - e.y) > e.bound * fabs(e.y) + 0x1p-126 * fabs(x)) {
            fail_msg("%s(%g): expected %.9g, found %.9g", test->name, x, e.y, found);
        }
        if (fabs(found_slope - e.slope) > e.bound * fmax(1, fabs(e.slope))) {
            fail_msg("slope of %s at %g: expected %.9g, found %.9g", test->name, x, e.slope,
                     found_slope);
        }
    }
    rig_finish(&rig);
    rig_ops->close(device);
}

TEST(gelu_and_silu_are_accurate)
{
    expect_accurate(&gelu_case, gelu, 1);
    expect_accurate(&silu_case, silu, 9);
}

/* Rows of three logits far and near apart: loss, log-sum-exp and gradient. */
TEST(softmax_is_accurate)
{
    struct pst_device *device = rig_open("auto", 1);
    struct rig rig;
    double loss = 0;

    rig_init(&rig, &loss_case, PST_F32, 1);
    for (uint64_t i = 0; i < N; i++) {
        rig_set(&rig.x[0], 3 * i, at(i) * 7);
        rig_set(&rig.x[0], 3 * i + 1, 0.25);
        rig_set(&rig.x[0], 3 * i + 2, -at(i));
        rig_set(&rig.x[1], i, (double)(i % 3));
    }
    rig_run(&rig, device);
    for (uint64_t i = 0; i < N; i++) {
        double x[3], max, sum = 0, lse;

        for (uint64_t c = 0; c < 3; c++) {
            x[c] = rig_value(&rig.x[0], 3 * i + c);
        }
        max = fmax(fmax(x[0], x[1]), x[2]);
        for (uint64_t c = 0; c < 3; c++) {
            sum += exp(x[c] - max);
        }
        lse = max + log(sum);
        loss += (lse - x[i % 3]) / N;
        assert_true(fabs(rig_value(&rig.y[1], i) - lse) <= 4 * 0x1p-23 * fmax(1, fabs(lse)));
        for (uint64_t c = 0; c < 3; c++) {
            const double p = exp(x[c] - lse), one = c == i % 3 ? 1 : 0;
            const double expected = (p - one) * 0.25 / N;
            const double found = rig_value(&rig.dx[0], 3 * i + c);
            /* lse is rounded, which exp magnifies by itself; exp and factors round, too */
            const double bound = (4 + fabs(lse) + fabs(x[c])) * 0x1p-23 * p * 0.25 / N + 0x1p-126;

            if (fabs(found - expected) > bound + 2 * 0x1p-23 * fabs(expected)) {
                fail_msg("row %llu: expected %.9g, found %.9g", (unsigned long long)i, expected,
                         found);
            }
        }
    }
    assert_true(fabs(rig_value(&rig.y[0], 0) - loss) <= 8 * 0x1p-23 * loss);
    rig_finish(&rig);
    rig_ops->close(device);
}

/* Which elements stay is a matter of definition, element by element. */
TEST(dropout_draws_what_is_defined)
{
    static const struct rig_case test =
        OPERATOR("dropout", 3, "1x1003", "", .kind = PST_OP_DROPOUT, .p = 0.25f, .salt = 9);
    struct pst_device *device = rig_open("auto", 2);
    struct rig rig;
    uint64_t kept = 0;

    rig_init(&rig, &test, PST_F32, 0x123456789ABCDEFull);
    rig.first_sample = (1ull << 41) + 17;
    for (uint64_t i = 0; i < rig.x[0].elems; i++) {
        rig_set(&rig.x[0], i, 3);
    }
    rig_pass(&rig, device, PST_KERNEL_F);
    for (uint64_t i = 0; i < rig.x[0].elems; i++) {
        const uint64_t e = i % 1003, sample = rig.first_sample + i / 1003;
        const uint64_t stream = pst_dropout_stream(rig.op->salt, sample);
        const uint32_t word = pst_philox(rig.seed, stream, e / 4).v[e % 4];
        const bool keeps = word >= 0x40000000u; /* 2^32 / 4 */

        kept += keeps;
        assert_true(rig_value(&rig.y[0], i) == (keeps ? 4 : 0));
    }
    /* binomial: 3009 elements, standard deviation 24 */
    assert_in_range(kept, 2257 - 120, 2257 + 120);
    rig_finish(&rig);
    rig_ops->close(device);
}

/* An ignored target contributes nothing; one out of range must show, and touch nothing. */
TEST(bad_data_show)
{
    static const struct rig_case loss =
        OPERATOR("loss", 2, "2x5, 2", "", .kind = PST_OP_CROSS_ENTROPY);
    static const struct rig_case tokens =
        OPERATOR("tokens", 1, "3", "4x5", .kind = PST_OP_EMBEDDING);
    struct pst_device *device = rig_open("auto", 1);
    struct rig rig;

    rig_init(&rig, &loss, PST_F32, 1);
    rig_set(&rig.x[1], 0, -1);
    rig_set(&rig.x[1], 1, -1);
    rig_set(&rig.x[1], 2, 5);
    rig_set(&rig.x[1], 3, 1);
    rig_run(&rig, device);
    assert_true(rig_value(&rig.y[0], 0) == 0);
    assert_true(isnan(rig_value(&rig.y[0], 1)));
    for (uint64_t i = 0; i < 10; i++) {
        assert_true(rig_value(&rig.dx[0], i) == 0);
    }
    rig_finish(&rig);

    rig_init(&rig, &tokens, PST_F32, 1);
    rig_set(&rig.x[0], 0, 4);
    rig_set(&rig.x[0], 1, -1);
    rig_set(&rig.x[0], 2, 3);
    rig_run(&rig, device);
    assert_true(isnan(rig_value(&rig.y[0], 0)) && isnan(rig_value(&rig.y[0], 9)));
    assert_true(rig_value(&rig.y[0], 10) == rig_value(&rig.p[0], 15));
    for (uint64_t i = 0; i < 20; i++) {
        assert_true(rig_value(&rig.dp[0], i) == (i < 15 ? 0 : rig_value(&rig.dy, i - 5)));
    }
    rig_finish(&rig);
    rig_ops->close(device);
}

TEST_GROUP(rig_load, NULL)
