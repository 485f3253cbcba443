/* SPDX-License-Identifier: Apache-2.0
 *
 * v-zb: closed forms at unit costs, published bubbles at others, proven optima, caps, the choice
 * between span and makespan.
 */
#include "schedule_mixture.h"

static uint64_t most(const uint64_t *values, uint32_t n)
{
    uint64_t max = 0;

    for (uint32_t i = 0; i < n; i++) {
        max = values[i] > max ? values[i] : max;
    }
    return max;
}

TEST(test_unit_costs)
{
    for (uint32_t p = 1; p <= 12; p++) {
        const uint32_t sizes[] = {1, p, p + 1, 2 * p - 1, 2 * p, 3 * p + 1, 1 + p / 2, 1 + p / 3};

        for (uint32_t i = 0; i < 8; i++) {
            uint32_t m = sizes[i];
            struct schedule_run r = SCHEDULE("v-zb", .p = p, .m = m);

            if (m >= 2 * p - 1) {
                assert_int_equal(r.span, 6 * m);
                assert_int_equal(r.makespan, 6 * m + p - 1);
            } else if (m >= p) {
                assert_int_equal(r.span, 6 * m + 2 * p - 1 - m);
            } else if (m == 1) {
                assert_int_equal(r.makespan, 4 * p + 1);
            }
            assert_int_equal(most(r.peaks, p), m < p ? 2 * m : 2 * p);
            schedule_run_free(&r);
        }
    }
}

/* Bubbles within the span of the authors' program, m = 16. */
TEST(test_other_costs)
{
    static const struct {
        uint32_t p, f, b, w, bubble;
    } rows[] = {{4, 3, 4, 2, 10}, {4, 4, 3, 2, 10},   {4, 2, 2, 1, 5},
                {4, 1, 2, 1, 5},  {4, 10, 10, 6, 20}, {6, 10, 10, 6, 34}};

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct schedule_run r = SCHEDULE("v-zb", .p = rows[i].p, .m = 16, .f = rows[i].f,
                                         .b = rows[i].b, .w = rows[i].w);

        print_message("p %u (%u,%u,%u): bubble %llu, published %u\n", rows[i].p, rows[i].f,
                      rows[i].b, rows[i].w, (unsigned long long)(r.span - r.work), rows[i].bubble);
        assert_true(r.span - r.work <= rows[i].bubble);
        assert_true(most(r.peaks, rows[i].p) <= 2 * rows[i].p);
        schedule_run_free(&r);
    }
}

/* No bubble is repeated: twice the micro-batches, the same bubble, whatever passes cost. */
TEST(test_no_repeated_bubble)
{
    for (uint32_t code = 0; code < 64; code++) {
        uint64_t f = code / 16 + 1, b = code / 4 % 4 + 1, w = code % 4 + 1;
        struct schedule_run r = SCHEDULE("v-zb", .p = 4, .m = 16, .f = f, .b = b, .w = w);
        struct schedule_run s = SCHEDULE("v-zb", .p = 4, .m = 48, .f = f, .b = b, .w = w);

        assert_true(s.span - s.work <= r.span - r.work + f + b + w);
        schedule_run_free(&r);
        schedule_run_free(&s);
    }
}

TEST(test_rows)
{
    static const struct {
        uint32_t p, m;
        uint64_t makespan, span, peak;
    } rows[] = {{2, 3, 19, 18, 4}, {4, 8, 51, 48, 8}, {4, 5, 33, 32, 8}};

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct schedule_run r = SCHEDULE("v-zb", .p = rows[i].p, .m = rows[i].m);

        assert_int_equal(r.makespan, rows[i].makespan);
        assert_int_equal(r.span, rows[i].span);
        for (uint32_t d = 0; d < rows[i].p; d++) {
            assert_int_equal(r.peaks[d], rows[i].peak);
        }
        schedule_run_free(&r);
    }
}

TEST(test_picture)
{
    struct schedule_run r = SCHEDULE("v-zb", .p = 2, .m = 3);

    assert_string_equal(r.picture, "FFFfBWfBWbwfBbWbww.\n.FfFfBWFbwfBbBbWwWw\n");
    schedule_run_free(&r);
}

/* Makespans that exhaustive search cannot beat. */
TEST(test_proven_optima)
{
    static const struct {
        uint32_t p, m, f, b, w, makespan;
    } rows[] = {{2, 4, 2, 2, 1, 42}, {2, 4, 1, 2, 1, 34}, {2, 4, 2, 3, 2, 59}, {3, 4, 1, 2, 1, 36},
                {2, 4, 1, 1, 1, 25}, {3, 4, 1, 1, 1, 26}, {4, 4, 1, 1, 1, 27}, {4, 5, 1, 1, 1, 33}};

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct schedule_run r = SCHEDULE("v-zb", .p = rows[i].p, .m = rows[i].m, .f = rows[i].f,
                                         .b = rows[i].b, .w = rows[i].w, .barrier = true);

        print_message("p %u m %u (%u,%u,%u): %llu, optimum %u\n", rows[i].p, rows[i].m, rows[i].f,
                      rows[i].b, rows[i].w, (unsigned long long)r.makespan, rows[i].makespan);
        assert_int_equal(r.makespan, rows[i].makespan);
        schedule_run_free(&r);
    }
}

TEST(test_larger_cap_is_no_worse)
{
    static const char *const objectives[] = {"span", "makespan"};

    for (uint32_t o = 0; o < 2; o++) {
        for (uint32_t p = 2; p <= 5; p++) {
            uint64_t last = UINT64_MAX;

            for (uint32_t chunks = 2; chunks <= 2 * p + 2; chunks++) {
                char options[80];
                struct schedule_run r;

                snprintf(options, sizeof options, "memory_limit=%g,objective=%s", chunks / 2.0,
                         objectives[o]);
                r = SCHEDULE("v-zb", .p = p, .m = 3 * p, .f = 5, .b = 4, .w = 3, .options = options,
                             .may_fail = true);
                if (r.status == PST_OK) {
                    uint64_t cost = o == 0 ? r.span : r.makespan;

                    assert_true(cost <= last);
                    assert_true(most(r.peaks, p) <= chunks);
                    last = cost;
                } else {
                    assert_int_equal(r.status, PST_ERR_INFEASIBLE);
                    assert_non_null(strstr(r.error.message, "the smallest that works is"));
                    assert_true(last == UINT64_MAX); /* what is enough stays enough */
                }
                schedule_run_free(&r);
            }
            assert_true(last < UINT64_MAX);
        }
    }
}

TEST(test_no_room)
{
    struct schedule_run r =
        SCHEDULE("v-zb", .p = 4, .m = 8, .cap = 1, .unit = 10, .may_fail = true);

    assert_int_equal(r.status, PST_ERR_INFEASIBLE);
    assert_non_null(strstr(r.error.message, "device 0 has room for 10 bytes"));
    schedule_run_free(&r);
    /* A limit that all of the step fits in is none. */
    r = SCHEDULE("v-zb", .p = 4, .m = 2, .options = "memory_limit=2");
    assert_int_equal(most(r.peaks, 4), 4);
    schedule_run_free(&r);
}

static void uneven_memory(struct pst_solo *solo, void *context)
{
    const uint64_t *seed = context;

    for (uint32_t s = 0; s < solo->in.n_stages; s++) {
        uint64_t a = 1 + pst_philox(*seed, 7, s).v[0] % 1000;

        solo->stages[s].saved_bytes = a;
        solo->stages[s].saved_weight_bytes = pst_philox(*seed, 8, s).v[0] % (a + 1);
    }
}

/* Stages of a device that keep different amounts: there is an order as long as there is room. */
TEST(test_uneven_memory)
{
    for (uint64_t seed = 1; seed <= 200; seed++) {
        struct schedule_run r = SCHEDULE(
            "v-zb", .p = 1 + seed % 7, .m = 1 + seed % 19, .f = 3, .b = 1 + seed % 4,
            .w = 1 + seed % 3, .change = uneven_memory, .context = &seed, .barrier = seed % 2 == 0);

        assert_true(r.span >= r.work);
        schedule_run_free(&r);
    }
}

TEST(test_stages_that_differ)
{
    mixture_check("v-zb", false);
    mixture_check("v-zb", true);
}
