/* SPDX-License-Identifier: Apache-2.0
 *
 * v-min and v-half: makespans and peaks of the paper over ranges, its steady periods under other
 * costs, few micro-batches, and what the improved variant owes over the published one.
 */
#include "schedule_rig.h"

static void check_law(const char *id, uint32_t p, uint32_t m, uint64_t bubble, uint64_t peak)
{
    OWN_RUN r = SCHEDULE(id, .p = p, .m = m);

    assert_int_equal(r.makespan, 6 * m + bubble);
    assert_true(r.span == r.makespan || p == 2);
    assert_int_equal(most_held(&r), peak);
    for (uint32_t d = 1; d < p; d++) {
        assert_in_range(r.peaks[d], 1, peak);
    }
}

TEST(test_laws)
{
    for (uint32_t p = 2; p <= 16; p++) {
        const uint32_t sizes[] = {2 * p, 2 * p + 1, 3 * p + 2};

        for (uint32_t i = 0; i < 3; i++) {
            check_law("v-min", p, sizes[i], p % 3 == 0 ? 4 * p - 7 : 4 * p - 5, 2 * ((p + 4) / 3));
            check_law("v-half", p, sizes[i],
                      p == 2       ? 1
                      : p % 2 == 0 ? 3 * p - 7
                                   : 3 * p - 4,
                      2 * ((p + 2) / 2));
        }
    }
}

/* With fewer than 2p micro-batches, bubble and peak of the authors' program. */
TEST(test_few_microbatches)
{
    static const struct {
        const char *id;
        uint64_t bubbles[6], peaks[6]; /* p = 4, m = 1 to 6 */
    } rows[] = {
        {"v-half", {12, 10, 9, 10, 8, 5}, {2, 4, 6, 6, 6, 6}},
        {"v-min", {11, 11, 11, 11, 11, 11}, {2, 4, 4, 4, 4, 4}},
    };

    for (uint32_t i = 0; i < 2; i++) {
        for (uint32_t m = 1; m <= 6; m++) {
            OWN_RUN r = SCHEDULE(rows[i].id, .p = 4, .m = m);

            assert_int_equal(r.makespan, 6 * m + rows[i].bubbles[m - 1]);
            assert_int_equal(most_held(&r), rows[i].peaks[m - 1]);
        }
    }
}

static uint64_t later(int64_t a, int64_t b)
{
    return a > b ? (a > 0 ? (uint64_t)a : 0) : (b > 0 ? (uint64_t)b : 0);
}

/* Time per micro-batch in the long run. */
TEST(test_steady_period)
{
    for (uint32_t p = 3; p <= 6; p++) {
        for (uint32_t code = 0; code < 64; code++) {
            int64_t f = code / 16 + 1, b = code / 4 % 4 + 1, w = code % 4 + 1;
            uint32_t m = 12 * p, n = 18 * p;
            uint64_t work = 2 * (uint64_t)(f + b + w), want;

            for (uint32_t half = 0; half < 2; half++) {
                OWN_RUN r =
                    SCHEDULE(half ? "v-half" : "v-min", .p = p, .m = m, .f = f, .b = b, .w = w);
                OWN_RUN s =
                    SCHEDULE(half ? "v-half" : "v-min", .p = p, .m = n, .f = f, .b = b, .w = w);

                want = half ? work + later(2 * f - 2 * b - w, 2 * b - 2 * f - w)
                            : later((int64_t)work, later(6 * f, 6 * b));
                assert_int_equal(s.span - r.span, want * (n - m));
            }
        }
    }
}

/* Never slower and never larger than the published variant, never faster than is proven possible.
 */
TEST(test_improved_is_no_worse)
{
    static const char *const ids[] = {"v-min", "v-half"};

    for (uint32_t i = 0; i < 2; i++) {
        for (uint32_t p = 1; p <= 7; p++) {
            uint64_t cap = i == 0 ? 2 * ((p + 4) / 3) : 2 * ((p + 2) / 2);

            for (uint32_t m = 1; m <= 2 * p + 2; m++) {
                OWN_RUN r = SCHEDULE(ids[i], .p = p, .m = m);
                OWN_RUN s = SCHEDULE(ids[i], .p = p, .m = m, .options = "variant=improved");

                /* On two devices v-min gives up speed for the last chunk of memory. */
                assert_true(s.makespan <= r.makespan || (i == 0 && p == 2));
                assert_true(s.makespan >= s.bounds.makespan_ns);
                assert_true(most_held(&s) <= cap);
            }
        }
    }
}

/* Optima of exhaustive search, and p mod 3 = 2 where the published V-Min is four passes off. */
TEST(test_improved)
{
    static const struct {
        const char *id;
        uint32_t p, m;
        uint64_t makespan, peak;
    } rows[] = {
        {"v-min", 2, 4, 27, 3},     {"v-min", 5, 10, 71, 6},    {"v-min", 8, 16, 119, 8},
        {"v-min", 11, 24, 179, 10}, {"v-min", 14, 28, 215, 12}, {"v-min", 64, 128, 1019, 44},
        {"v-min", 4, 4, 35, 4},     {"v-half", 4, 4, 29, 6},    {"v-half", 5, 5, 41, 6},
        {"v-half", 3, 4, 29, 4},    {"v-half", 4, 1, 17, 2},    {"v-min", 5, 1, 21, 2},
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        OWN_RUN r =
            SCHEDULE(rows[i].id, .p = rows[i].p, .m = rows[i].m, .options = "variant=improved");

        if (r.makespan != rows[i].makespan) {
            print_message("%s p %u m %u\n", rows[i].id, rows[i].p, rows[i].m);
        }
        assert_true(r.makespan <= rows[i].makespan);
        assert_true(most_held(&r) <= rows[i].peak);
    }
}
