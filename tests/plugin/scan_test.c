/* SPDX-License-Identifier: Apache-2.0
 *
 * The operator scan against the sum that its recurrence is: h[t] = sum over s <= t of b[s] times
 * all a behind s up to t. So the gradient of b[s] is the sum over t >= s of dy[t] times the same
 * product, and that of a[r] the sum over s < r <= t of dy[t] b[s] times the product without a[r].
 */
#include "plugin_rig.h"
#include "test.h"

#include <math.h>

#include "conformance/operator_rig.h"

enum { SAMPLES = 2, SEED = 5 };

static struct pst_operator_rig rig;
static bool reverse;

/* Element of an operand at a step of the recurrence. */
static double at(const struct pst_operand_block *block, uint64_t sample, uint64_t step, uint64_t c)
{
    const uint64_t *dims = rig.example.x[0].dims, row = reverse ? dims[0] - 1 - step : step;

    return pst_operand_get(block, (sample * dims[0] + row) * dims[1] + c);
}

/* The product of a over steps s + 1 ... t but `without`. */
static double product(uint64_t sample, uint64_t s, uint64_t t, uint64_t without, uint64_t c)
{
    double value = 1;

    for (uint64_t q = s + 1; q <= t; q++) {
        value *= q == without ? 1 : at(&rig.x[0], sample, q, c);
    }
    return value;
}

static void check_near(double found, double expected, const char *what, uint64_t step)
{
    /* All factors are below 1; sums have at most 7 * 7 terms, each of 8 roundings. */
    if (!(fabs(found - expected) <= 400 * 2.3e-16)) {
        fail_msg("%s at step %llu: %.17g, not %.17g", what, (unsigned long long)step, found,
                 expected);
    }
}

static void check_channel(uint64_t sample, uint64_t c)
{
    const uint64_t n = rig.example.x[0].dims[0];

    for (uint64_t r = 0; r < n; r++) {
        double h = 0, da = 0, db = 0;

        for (uint64_t s = 0; s <= r; s++) {
            h += at(&rig.x[1], sample, s, c) * product(sample, s, r, n, c);
        }
        for (uint64_t t = r; t < n; t++) {
            db += at(&rig.dy, sample, t, c) * product(sample, r, t, n, c);
            for (uint64_t s = 0; s < r; s++) {
                da += at(&rig.dy, sample, t, c) * at(&rig.x[1], sample, s, c) *
                      product(sample, s, t, r, c);
            }
        }
        check_near(at(&rig.y[0], sample, r, c), h, "h", r);
        check_near(at(&rig.dx[0], sample, r, c), da, "gradient of a", r);
        check_near(at(&rig.dx[1], sample, r, c), db, "gradient of b", r);
    }
}

static void check_examples(const char *options)
{
    static const struct pst_host_context nothing;
    struct pst_instance *instance = NULL;
    struct pst_error err = {0};
    uint32_t n = 0;

    assert_ok(plugin_rig_open("operator", "scan", options, &nothing, &instance, &err), &err);
    for (bool more = true; more; n++) {
        assert_ok(pst_operator_rig_init(&rig, instance, n, PST_F64, SAMPLES, 0, SEED, &more, &err),
                  &err);
        if (!more) {
            break;
        }
        assert_string_equal(pst_operator_rig_run_all(&rig), "");
        for (uint64_t sample = 0; sample < SAMPLES; sample++) {
            for (uint64_t c = 0; c < rig.example.x[0].dims[1]; c++) {
                check_channel(sample, c);
            }
        }
        pst_operator_rig_finish(&rig);
    }
    assert_int_equal(n, 3);
    pst_instance_destroy(instance);
}

TEST(from_the_first)
{
    reverse = false;
    check_examples("reverse=false");
}

TEST(from_the_last)
{
    reverse = true;
    check_examples("reverse=true");
}
