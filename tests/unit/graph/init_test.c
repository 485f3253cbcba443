/* SPDX-License-Identifier: Apache-2.0
 *
 * Initial values: a function of seed and name alone, with the distribution that was asked for.
 */
#include <math.h>

#include "unit/graph/model_support.h"

#define MANY 200001 /* not a multiple of four */

static struct pst_parameter parameter(const char *name, uint32_t init, float scale, uint64_t elems)
{
    return (struct pst_parameter){.name = name,
                                  .rank = 1,
                                  .dims = {elems},
                                  .elems = elems,
                                  .init = init,
                                  .init_scale = scale};
}

static float *values_of(struct pst_parameter p, uint64_t seed)
{
    float *values = malloc((size_t)p.elems * sizeof *values);

    assert_non_null(values);
    pst_parameter_init(&p, seed, values);
    return values;
}

TEST(constants)
{
    float *zero = values_of(parameter("a", PST_INIT_ZERO, 1.0f, 5), 1);
    float *one = values_of(parameter("a", PST_INIT_ONE, 3.0f, 5), 1);

    for (int i = 0; i < 5; i++) {
        assert_true(zero[i] == 0.0f && one[i] == 1.0f);
    }
    free(zero);
    free(one);
}

TEST(seed_and_name_decide)
{
    static const uint32_t kinds[] = {PST_INIT_NORMAL, PST_INIT_UNIFORM};

    for (uint32_t k = 0; k < 2; k++) {
        float *a = values_of(parameter("w", kinds[k], 1.0f, 1000), 7);
        float *same = values_of(parameter("w", kinds[k], 1.0f, 1000), 7);
        float *seed = values_of(parameter("w", kinds[k], 1.0f, 1000), 8);
        float *name = values_of(parameter("v", kinds[k], 1.0f, 1000), 7);
        float *shorter = values_of(parameter("w", kinds[k], 1.0f, 998), 7);
        uint32_t by_seed = 0, by_name = 0;

        assert_memory_equal(a, same, 1000 * sizeof *a);
        assert_memory_equal(a, shorter, 998 * sizeof *a);
        for (int i = 0; i < 1000; i++) {
            by_seed += a[i] == seed[i];
            by_name += a[i] == name[i];
        }
        assert_true(by_seed < 5 && by_name < 5);
        free(a);
        free(same);
        free(seed);
        free(name);
        free(shorter);
    }
}

/*
 * Sample moments against those of the distribution, within five standard errors: for n normal
 * values s / sqrt(n) of the mean, sqrt(2 / n) s^2 of the variance, sqrt(96 / n) s^4 of the fourth
 * moment (whose own variance is 105 - 9), sqrt(1 / n) of neighbours' correlation.
 */
TEST(normal_is_normal)
{
    const double s = 0.02, n = MANY;
    float *v = values_of(parameter("h.0.mlp.c_fc.weight", PST_INIT_NORMAL, 0.02f, MANY), 1234);
    double sum = 0, square = 0, fourth = 0, neighbours = 0;

    for (int i = 0; i < MANY; i++) {
        double z = (double)v[i] / s;

        assert_true(isfinite(v[i]));
        sum += z;
        square += z * z;
        fourth += z * z * z * z;
        neighbours += i == 0 ? 0 : z * (double)v[i - 1] / s;
    }
    assert_true(fabs(sum / n) < 5 / sqrt(n));
    assert_true(fabs(square / n - 1) < 5 * sqrt(2 / n));
    assert_true(fabs(fourth / n - 3) < 5 * sqrt(96 / n));
    assert_true(fabs(neighbours / n) < 5 / sqrt(n));
    free(v);
}

/* Mean 0, variance a^2 / 3, nothing outside of [-a, a]; a tenth of the values in each tenth. */
TEST(uniform_is_uniform)
{
    const double a = 0.5, n = MANY;
    float *v = values_of(parameter("fc.weight", PST_INIT_UNIFORM, 0.5f, MANY), 99);
    uint32_t bins[10] = {0};
    double sum = 0, square = 0;

    for (int i = 0; i < MANY; i++) {
        assert_true(v[i] >= -0.5f && v[i] <= 0.5f);
        sum += (double)v[i];
        square += (double)v[i] * (double)v[i];
        bins[v[i] == 0.5f ? 9 : (int)(((double)v[i] + a) * 10)]++;
    }
    assert_true(fabs(sum / n) < 5 * a / sqrt(3 * n));
    assert_true(fabs(square / n - a * a / 3) < 5 * a * a * sqrt(4.0 / 45 / n));
    for (int i = 0; i < 10; i++) {
        assert_true(fabs(bins[i] - n / 10) < 5 * sqrt(n * 0.09));
    }
    free(v);
}

/* A rank that holds part of the model gets the same values: names come from the graph. */
TEST(models_start_alike)
{
    OWN(graph) *a = make_model("gpt", "layers=2 dim=8 heads=2", PST_F32);
    OWN(graph) *b = make_model("gpt", "layers=2 dim=8 heads=2", PST_BF16);

    assert_int_equal(a->n_params, b->n_params);
    for (uint32_t i = 0; i < a->n_params; i++) {
        float *va = values_of(a->params[i], 3), *vb = values_of(b->params[i], 3);

        assert_memory_equal(va, vb, a->params[i].elems * sizeof *va);
        free(va);
        free(vb);
    }
}
