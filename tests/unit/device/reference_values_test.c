/* SPDX-License-Identifier: Apache-2.0
 *
 * What the reference kernels do where there is something to decide: rounding, dropout masks,
 * running statistics, ignored and impossible targets, ties. Expected values are worked out by hand.
 */
#include "reference_rig.h"

#include <math.h>

#include "base/bf16.h"
#include "base/philox.h"
#include "device/cpu/reference/reference.h"

static const uint32_t dtypes[] = {PST_F32, PST_BF16, PST_F64};

static void set(double *values, const double *source, uint64_t n)
{
    memcpy(values, source, n * sizeof *values);
}

static void assert_values(const double *values, const double *expected, uint64_t n, double bound)
{
    for (uint64_t i = 0; i < n; i++) {
        if (!(fabs(values[i] - expected[i]) <= bound)) {
            fail_msg("[%llu]: %.9g, expected %.9g", (unsigned long long)i, values[i], expected[i]);
        }
    }
}

TEST(test_bf16)
{
    static const struct {
        uint32_t f32;
        uint16_t bf16;
    } pairs[] = {
        {0x3F800000, 0x3F80}, /* 1 */
        {0x80000000, 0x8000}, /* -0 */
        {0x3F807FFF, 0x3F80}, /* below the tie */
        {0x3F808000, 0x3F80}, /* tie, to even: down */
        {0x3F808001, 0x3F81}, /* above the tie */
        {0x3F818000, 0x3F82}, /* tie, to even: up */
        {0xBFFF8000, 0xC000}, /* -1.99...: carries into the exponent */
        {0x7F7FFFFF, 0x7F80}, /* the largest f32: infinity */
        {0x7F800000, 0x7F80}, /* infinity */
        {0x00008001, 0x0001}, /* denormal */
        {0x7F800001, 0x7FC0}, /* NaN whose upper half alone would be infinity */
        {0xFFFFFFFF, 0xFFFF}, /* NaN that would carry into the sign */
    };

    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        float value;

        memcpy(&value, &pairs[i].f32, sizeof value);
        assert_int_equal(pst_bf16_round(value), pairs[i].bf16);
    }
    for (size_t i = 0; i < 65536; i++) { /* what bf16 holds comes back, NaN as some NaN */
        const float value = pst_bf16_load((uint16_t)i);

        assert_true(isnan(value) ? isnan(pst_bf16_load(pst_bf16_round(value)))
                                 : pst_bf16_round(value) == i);
    }
}

/* Element e of sample s is kept iff its word of the stream (salt, s) reaches p 2^32. */
static void check_mask(struct rig *rig, double p)
{
    const uint64_t n = rig->n_y[0] / rig->samples;
    uint64_t n_kept = 0;
    double expected_kept;

    for (uint64_t i = 0; i < rig->n_y[0]; i++) {
        const uint64_t sample = rig->first_sample + i / n, e = i % n;
        const uint64_t stream = (sample << 20) | rig->op->salt;
        const uint32_t word = pst_philox(rig->seed, stream, e / 4).v[e % 4];
        const bool kept = (double)word >= p * 4294967296.0;

        n_kept += kept;
        assert_true(rig->y[0][i] == (kept ? rig->x[0][i] / (1 - p) : 0.0));
        assert_true(rig->dx[0][i] == (kept ? rig->dy[i] / (1 - p) : 0.0));
    }
    /* Binomial: five standard deviations. */
    expected_kept = (1 - p) * (double)rig->n_y[0];
    assert_true(fabs((double)n_kept - expected_kept) < 5 * sqrt(expected_kept * p));
}

TEST(test_dropout)
{
    const struct rig_case test =
        OPERATOR("dropout", 3, "30x11", "", .kind = PST_OP_DROPOUT, .p = 0.5f);

    for (uint32_t d = 0; d < 3; d++) { /* p = 1/2: scaling is exact in every type */
        struct rig rig;

        rig_init(&rig, &test, dtypes[d]);
        rig.flags = PST_CALL_TRAINING;
        rig_fill(&rig, 0x123456789ABCDEFull);
        rig_round(&rig, dtypes[d]);
        rig.first_sample = (1ull << 33) + 7;
        rig_run(&rig);
        check_mask(&rig, 0.5);
        rig.flags = 0;
        rig_run(&rig);
        assert_memory_equal(rig.y[0], rig.x[0], rig.n_y[0] * sizeof(double));
        assert_memory_equal(rig.dx[0], rig.dy, rig.n_y[0] * sizeof(double));
        rig_finish(&rig);
    }
}

TEST(test_statistics)
{
    const struct rig_case test = OPERATOR("batchnorm", 2, "2x1", "1, 1", .kind = PST_OP_BATCHNORM,
                                          .eps = 1e-6f, .momentum = 0.25f);
    /* Mean 2.5, variance 1.25, unbiased 5/3. */
    const double x[] = {1, 2, 3, 4}, one = 1, mean = 8, var = 2;
    const double rstd = 1 / sqrt(1.25), running_rstd = 1 / sqrt(2.0);
    const double y[] = {-1.5 * rstd, -0.5 * rstd, 0.5 * rstd, 1.5 * rstd};
    const double y_running[] = {-7 * running_rstd, -6 * running_rstd, -5 * running_rstd,
                                -4 * running_rstd};
    const double tracked[] = {0.75 * 8 + 0.25 * 2.5, 0.75 * 2 + 0.25 * 5 / 3};
    struct rig rig;

    for (uint32_t flags = 0; flags < 4; flags++) {
        const bool training = (flags & PST_CALL_TRAINING) != 0;
        const bool tracks = training && (flags & PST_CALL_REPLAY) == 0;

        rig_init(&rig, &test, PST_F32);
        set(rig.x[0], x, 4);
        set(rig.p[0], &one, 1);
        set(rig.state[0], &mean, 1);
        set(rig.state[1], &var, 1);
        rig.flags = flags;
        rig_forward(&rig);
        assert_values(rig.y[0], training ? y : y_running, 4, 4e-6); /* eps */
        assert_values(rig.state[0], tracks ? &tracked[0] : &mean, 1, 1e-6);
        assert_values(rig.state[1], tracks ? &tracked[1] : &var, 1, 1e-6);
        rig_finish(&rig);
    }
}

TEST(test_ignored_targets)
{
    const struct rig_case test =
        OPERATOR("cross-entropy", 2, "3x4, 3", "", .kind = PST_OP_CROSS_ENTROPY);
    /* Logits 0: each row loses log 4. Sample 0 counts two rows, sample 1 none. */
    const double targets[] = {2, -1, 0, -1, -1, -1};
    const double losses[] = {log(4.0), 0};
    const double dx[24] = {0.0625, 0.0625, -0.1875, 0.0625, 0,      0,
                           0,      0,      -0.1875, 0.0625, 0.0625, 0.0625};
    struct rig rig;

    for (uint32_t d = 0; d < 3; d++) {
        rig_init(&rig, &test, dtypes[d]);
        set(rig.x[1], targets, 6);
        rig.scale = 0.5f;
        rig_run(&rig);
        assert_values(rig.y[0], losses, 2, 2e-7);
        assert_values(rig.y[1], (double[]){log(4.0), log(4.0), log(4.0)}, 3, 2e-7);
        assert_values(rig.dx[0], dx, 24, 1e-6);
        rig.x[1][0] = 4; /* there is no class 4 */
        rig_run(&rig);
        assert_true(isnan(rig.y[0][0]));
        assert_true(rig.y[0][1] == 0);
        rig_finish(&rig);
    }
}

/* Token 2 comes twice; 3 and -1 are no tokens. The row of torch's padding_idx is read as it is, and
   the lookup leaves it without a gradient. */
TEST(test_tokens)
{
    static const struct {
        uint32_t padding;
        double tokens[5], y[10], dtable[6];
    } rows[] = {{0,
                 {2, 3, -1, 2, 0},
                 {5, 6, (double)NAN, (double)NAN, (double)NAN, (double)NAN, 5, 6, 1, 2},
                 {256, 512, 0, 0, 65, 130}},
                {3, {2, 0, 1, 2, 0}, {5, 6, 1, 2, 3, 4, 5, 6, 1, 2}, {260, 520, 16, 32, 0, 0}}};
    const double table[] = {1, 2, 3, 4, 5, 6};
    const double dy[] = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512};

    for (uint32_t i = 0; i < 2 * 3; i++) {
        const uint32_t r = i / 3;
        const struct rig_case test = OPERATOR("embedding", 1, "5", "3x2", .kind = PST_OP_EMBEDDING,
                                              .padding = rows[r].padding);
        struct rig rig;

        rig_init(&rig, &test, dtypes[i % 3]);
        set(rig.x[0], rows[r].tokens, 5);
        set(rig.p[0], table, 6);
        set(rig.dy, dy, 10);
        rig_run(&rig);
        for (uint32_t k = 0; k < 10; k++) {
            assert_true(isnan(rows[r].y[k]) ? isnan(rig.y[0][k]) : rig.y[0][k] == rows[r].y[k]);
        }
        assert_values(rig.dp[0], rows[r].dtable, 6, 0);
        rig_finish(&rig);
    }
}

/* Places that there are not; integers that become numbers. */
TEST(test_places)
{
    const struct rig_case gather = {.name = "gather",
                                    .op = {.kind = PST_OP_GATHER},
                                    .samples = 1,
                                    .in = "3, 5",
                                    .param = "",
                                    .integers = 2};
    const struct rig_case numbers = {.name = "numbers",
                                     .op = {.kind = PST_OP_MAP, .constants = {0.5f, 1}},
                                     .samples = 1,
                                     .in = "3",
                                     .param = "",
                                     .integers = 1};
    const double x[] = {1, 2, 4}, places[] = {2, -1, 3, 0, 2}, dy[] = {1, 2, 4, 8, 16};
    const double integers[] = {-2, 0, 6};
    struct rig rig;

    for (uint32_t d = 0; d < 3; d++) {
        rig_init(&rig, &gather, dtypes[d]);
        set(rig.x[0], x, 3);
        set(rig.x[1], places, 5);
        set(rig.dy, dy, 5);
        rig_run(&rig);
        assert_true(rig.y[0][0] == 4 && isnan(rig.y[0][1]) && isnan(rig.y[0][2]));
        assert_values(&rig.y[0][3], (double[]){1, 4}, 2, 0);
        assert_values(rig.dx[0], (double[]){8, 0, 17}, 3, 0);
        rig_finish(&rig);
        rig_init(&rig, &numbers, dtypes[d]);
        set(rig.x[0], integers, 3);
        rig_forward(&rig);
        assert_values(rig.y[0], (double[]){0, 1, 4}, 3, 0);
        rig_finish(&rig);
    }
}

/* Without queries all keys weigh the same. */
TEST(test_attention)
{
    const struct rig_case test =
        OPERATOR("attention", 1, "4x3", "", .kind = PST_OP_ATTENTION, .heads = 1, .causal = true);
    /* q, k, v */
    const double x[] = {0, 1, 2, 0, -3, 4, 0, 7, 6, 0, 2, 4};
    const double y[] = {2, 3, 4, 4};
    struct rig rig;

    for (uint32_t d = 0; d < 3; d++) {
        rig_init(&rig, &test, dtypes[d]);
        set(rig.x[0], x, 12);
        rig_forward(&rig);
        assert_values(rig.y[0], y, 4, 1e-6);
        for (uint32_t i = 0; i < 4; i++) {
            assert_true(fabs(rig.y[1][i] - log(i + 1.0)) < 2e-7);
        }
        rig_finish(&rig);
    }
}

TEST(test_maximum)
{
    const struct rig_case test = OPERATOR("maxpool2d", 1, "1x6x1", "", .kind = PST_OP_MAXPOOL2D,
                                          .kernel = {1, 3}, .stride = {1, 2}, .pad = {0, 1});
    /* Windows -, -5, -2 | -2, -2, -9 | -9, -1, NaN: padding loses, the first of equals wins. */
    const double x[] = {-5, -2, -2, -9, -1, (double)NAN};
    const double dy[] = {1, 2, 4}, dx[] = {0, 3, 0, 0, 0, 4};
    struct rig rig;

    for (uint32_t d = 0; d < 3; d++) {
        rig_init(&rig, &test, dtypes[d]);
        set(rig.x[0], x, 6);
        set(rig.dy, dy, 3);
        rig_run(&rig);
        assert_values(rig.y[0], (double[]){-2, -2}, 2, 0);
        assert_true(isnan(rig.y[0][2]));
        assert_values(rig.y[1], (double[]){2, 0, 2}, 3, 0);
        assert_values(rig.dx[0], dx, 6, 0);
        rig_finish(&rig);
    }
}

TEST(test_refusal)
{
    const struct rig_case add = OPERATOR("add", 1, "2x2, 2x2", "", .kind = PST_OP_ADD);
    const struct rig_case embedding =
        OPERATOR("embedding", 1, "5", "3x2", .kind = PST_OP_EMBEDDING);
    struct pst_kernel *kernel = NULL;
    struct pst_error err = {0};
    struct rig rig;

    rig_init(&rig, &add, PST_F32);
    assert_int_equal(pst_reference_kernel(rig.graph, rig.index, PST_KERNEL_W, 1, &kernel, &err),
                     PST_ERR_UNSUPPORTED);
    assert_null(kernel);
    assert_non_null(strstr(err.message, "pass W"));
    assert_int_equal(pst_reference_workspace(rig.graph, rig.index, PST_KERNEL_W, 1), 0);
    rig_finish(&rig);
    rig_init(&rig, &embedding, PST_F32);
    assert_int_equal(pst_reference_kernel(rig.graph, rig.index, PST_KERNEL_B, 1, &kernel, &err),
                     PST_ERR_UNSUPPORTED);
    rig_finish(&rig);
}
