/* SPDX-License-Identifier: Apache-2.0
 *
 * Optimizer updates, sums and the gradient norm of the cpu device against the formulas in double.
 */
#include "cpu_rig.h"

static const uint64_t lengths[] = {1, 7, 16, 129, 4096, 4097, 12345};
#define N_LENGTHS (sizeof lengths / sizeof lengths[0])

static float *values(uint64_t n, double low, double high, uint64_t stream)
{
    struct rig_buffer b = rig_buffer(n, PST_F32);

    rig_random(&b, low, high, 77, stream);
    return b.data;
}

/* --- optimizer -------------------------------------------------------------------------------- */

struct state {
    double w, s0, s1;
};

/* One element, step t = 1, 2, ...; Kingma and Ba, "Adam", ICLR 2015, algorithm 1; Loshchilov and
   Hutter, "Decoupled weight decay regularization", ICLR 2019, algorithm 2. */
static void formula(const struct pst_update *u, struct state *s, double grad)
{
    const double lr = (double)u->lr, decay = (double)u->weight_decay;
    const double b1 = (double)u->beta1, b2 = (double)u->beta2, t = (double)u->step;
    double g = grad * (double)u->grad_scale;

    if (u->optimizer != PST_ADAMW) {
        g += decay * s->w;
    }
    switch (u->optimizer) {
    case PST_SGD:
        s->w -= lr * g;
        break;
    case PST_MOMENTUM:
        s->s0 = (double)u->momentum * s->s0 + g;
        s->w -= lr * s->s0;
        break;
    default:
        if (u->optimizer == PST_ADAMW) {
            s->w -= lr * decay * s->w;
        }
        s->s0 = b1 * s->s0 + (1 - b1) * g;
        s->s1 = b2 * s->s1 + (1 - b2) * g * g;
        s->w -= lr * (s->s0 / (1 - pow(b1, t))) / (sqrt(s->s1 / (1 - pow(b2, t))) + (double)u->eps);
        break;
    }
}

static void check_near(const char *what, double expected, double found, double magnitude)
{
    /* about ten roundings of f32 per step, three steps */
    if (!(fabs(expected - found) <= 40 * 0x1p-24 * magnitude)) {
        fail_msg("%s: expected %.9g, found %.9g", what, expected, found);
    }
}

static void check_update(struct pst_device *device, uint32_t optimizer, uint64_t n, uint32_t dtype)
{
    struct pst_update u = {.optimizer = optimizer,
                           .lr = 0.01f,
                           .momentum = 0.9f,
                           .beta1 = 0.9f,
                           .beta2 = 0.95f,
                           .eps = 1e-6f,
                           .weight_decay = 0.1f,
                           .grad_scale = 0.5f};
    float *w = values(n, -1, 1, 1), *g = values(n, -1, 1, 2);
    float *s0 = values(n, 0, 0, 3), *s1 = values(n, 0, 0, 4);
    struct rig_buffer working = rig_buffer(n, dtype);
    struct state *expected = calloc(n, sizeof *expected);

    assert_non_null(expected);
    for (uint64_t i = 0; i < n; i++) {
        expected[i].w = (double)w[i];
    }
    for (u.step = 1; u.step <= 3; u.step++) {
        rig_ops->update(device, &u, w, g, s0, s1, working.data, dtype, n);
        for (uint64_t i = 0; i < n; i++) {
            formula(&u, &expected[i], (double)g[i]);
        }
    }
    for (uint64_t i = 0; i < n; i++) {
        check_near("weight", expected[i].w, (double)w[i], 1);
        check_near("first state", expected[i].s0, optimizer == PST_SGD ? 0 : (double)s0[i], 3);
        check_near("second state", expected[i].s1, optimizer < PST_ADAM ? 0 : (double)s1[i], 1);
        if (dtype == PST_F32) {
            assert_true(rig_value(&working, i) == (double)w[i]);
        } else { /* to the nearest: 8 bits of fraction */
            assert_true(fabs(rig_value(&working, i) - (double)w[i]) <= 0x1p-8 * fabs((double)w[i]));
        }
    }
    free(w);
    free(g);
    free(s0);
    free(s1);
    free(expected);
    free(working.data);
}

TEST(updates_follow_the_formulas)
{
    for (uint32_t threads = 1; threads <= 2; threads++) {
        struct pst_device *device = rig_open("auto", threads);

        for (uint32_t optimizer = PST_SGD; optimizer <= PST_ADAMW; optimizer++) {
            for (uint32_t i = 0; i < N_LENGTHS; i++) {
                check_update(device, optimizer, lengths[i], i % 2 == 0 ? PST_F32 : PST_BF16);
            }
        }
        rig_ops->close(device);
    }
}

/* Working copy NULL, or the weights themselves. */
TEST(update_needs_no_copy)
{
    const struct pst_update u = {.optimizer = PST_SGD, .lr = 1, .grad_scale = 1};
    struct pst_device *device = rig_open("auto", 1);
    float w[3] = {1, 2, 3};
    const float g[3] = {0.5f, 0.25f, 0.125f};

    rig_ops->update(device, &u, w, g, NULL, NULL, NULL, PST_F32, 3);
    assert_true(w[0] == 0.5f && w[1] == 1.75f && w[2] == 2.875f);
    rig_ops->update(device, &u, w, g, NULL, NULL, w, PST_F32, 3);
    assert_true(w[0] == 0.0f && w[1] == 1.5f && w[2] == 2.75f);
    rig_ops->close(device);
}

/* --- rounding to bf16 ------------------------------------------------------------------------- */

TEST(refresh_rounds_to_nearest_even)
{
    /* value; upper half after rounding (8 significant bits: 1 + 2^-7 is the next after 1) */
    const struct {
        float value;
        uint16_t bits;
    } rows[] = {
        {1.0f, 0x3F80},
        {1.0f + 0x1p-8f, 0x3F80},            /* tie: to even */
        {1.0f + 0x1p-7f + 0x1p-8f, 0x3F82},  /* tie: to even, upwards */
        {1.0f + 0x1p-8f + 0x1p-20f, 0x3F81}, /* above the tie */
        {-1.0f - 0x1p-8f, 0xBF80},
        {0x1.fffffep127f, 0x7F80}, /* the largest f32 rounds to infinity */
        {INFINITY, 0x7F80},
    };
    float nan = NAN;
    struct pst_device *device = rig_open("auto", 1);

    for (uint32_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        float source[21]; /* on the vector path and on the tail */
        uint16_t bits[21];

        for (uint32_t k = 0; k < 21; k++) {
            source[k] = rows[i].value;
        }
        rig_ops->refresh(device, bits, source, PST_BF16, 21);
        for (uint32_t k = 0; k < 21; k++) {
            assert_int_equal(bits[k], rows[i].bits);
        }
    }
    for (uint32_t payload = 0x7F800001u; payload < 0x7F810000u; payload += 0x1111u) {
        uint16_t bits;

        memcpy(&nan, &payload, sizeof nan);
        rig_ops->refresh(device, &bits, &nan, PST_BF16, 1);
        assert_true((bits & 0x7F80) == 0x7F80 && (bits & 0x7F) != 0); /* still NaN */
    }
    rig_ops->close(device);
}

/* --- sums ------------------------------------------------------------------------------------- */

TEST(sums_add)
{
    struct pst_device *device = rig_open("auto", 2);

    for (uint32_t i = 0; i < N_LENGTHS; i++) {
        const uint64_t n = lengths[i];
        float *a = values(n, -1, 1, 5), *b = values(n, -1, 1, 6), *c = values(n, 0, 0, 0);

        rig_ops->sum(device, c, a, b, n, PST_F32);
        for (uint64_t k = 0; k < n; k++) {
            assert_true(c[k] == a[k] + b[k]);
        }
        rig_ops->sum(device, b, a, b, n, PST_F32); /* over an operand */
        assert_memory_equal(b, c, n * sizeof *b);
        memcpy(b, a, n * sizeof *b);
        rig_ops->accumulate(device, a, c, n);
        for (uint64_t k = 0; k < n; k++) {
            assert_true(a[k] == b[k] + c[k]);
        }
        free(a);
        free(b);
        free(c);
    }
    rig_ops->close(device);
}

TEST(sums_in_bf16_round_once)
{
    struct pst_device *device = rig_open("auto", 1);
    uint16_t a[] = {0x3F80, 0x3F80, 0xC000};       /* 1, 1, -2 */
    const uint16_t b[] = {0x3B80, 0x3C40, 0x4000}; /* 2^-8, 3 * 2^-8, 2 */

    rig_ops->sum(device, a, a, b, 3, PST_BF16);
    assert_int_equal(a[0], 0x3F80); /* 1 + half a step: to even */
    assert_int_equal(a[1], 0x3F82); /* 1 + one and a half steps: to even */
    assert_int_equal(a[2], 0x0000);
    rig_ops->close(device);
}

TEST(square_sum_is_double)
{
    struct pst_device *device = rig_open("auto", 1), *two = rig_open("auto", 2);
    const uint64_t more[] = {0, 4096 * 16, 4096 * 33 + 5, 1000003};

    for (uint32_t i = 0; i < N_LENGTHS + 4; i++) {
        const uint64_t n = i < N_LENGTHS ? lengths[i] : more[i - N_LENGTHS];
        float *v = values(n + 1, -1, 1, 9);
        long double expected = 0, lost = 0; /* with what each addition loses (Knuth's two-sum) */
        double found;

        for (uint64_t k = 0; k < n; k++) {
            const long double square = (long double)v[k] * (long double)v[k];
            const long double sum = expected + square, part = sum - expected;

            lost += (expected - (sum - part)) + (square - part);
            expected = sum;
        }
        expected += lost;
        found = rig_ops->square_sum(device, v, n);
        /* pairwise: log2(n) roundings at most, and 8 in a lane */
        if (!(fabsl(expected - (long double)found) <= 32 * 0x1p-53L * expected)) {
            fail_msg("%llu elements: expected %.20Lg, found %.20g", (unsigned long long)n, expected,
                     found);
        }
        assert_true(found == rig_ops->square_sum(two, v, n));
        if (n > 0) {
            v[n - 1] = NAN;
            assert_true(isnan(rig_ops->square_sum(device, v, n)));
        }
        free(v);
    }
    rig_ops->close(device);
    rig_ops->close(two);
}

TEST_GROUP(rig_load, NULL)
