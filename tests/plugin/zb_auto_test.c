/* SPDX-License-Identifier: Apache-2.0
 *
 * zb-auto: the published bubble rates of ZB-1p and ZB-2p on their profiles, small instances at
 * every cap, proven optima, few micro-batches, the choice between span and makespan, stages that
 * differ.
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

struct profile {
    uint32_t h, heads, p, m;
    uint32_t f, b, w, c;             /* microseconds */
    uint32_t zb1, zb2, zb2_makespan; /* bubble of cost, in 1e-4 */
};

/* Tables 4 and 5 of Qi et al., "Zero Bubble Pipeline Parallelism"; the makespans of the same orders
   by an independent evaluation. */
static const struct profile profiles[] = {
    {2304, 24, 8, 24, 18522, 18086, 9337, 601, 1585, 433, 1083},
    {2304, 24, 8, 32, 18513, 18086, 9331, 626, 1242, 39, 835},
    {2304, 24, 8, 64, 18546, 18097, 9321, 762, 674, 26, 439},
    {4096, 32, 8, 24, 29718, 29444, 19927, 527, 1323, 29, 1003},
    {4096, 32, 8, 32, 29802, 29428, 19530, 577, 1045, 22, 778},
    {4096, 32, 8, 64, 29935, 29621, 19388, 535, 554, 10, 405},
    {5120, 40, 16, 48, 11347, 11248, 8132, 377, 1397, 66, 1065},
    {5120, 40, 16, 64, 11307, 11254, 8101, 379, 1088, 54, 820},
    {5120, 40, 16, 128, 11325, 11308, 8109, 378, 576, 28, 427},
    {6144, 48, 32, 96, 10419, 10207, 7715, 408, 1421, 38, 1098},
    {6144, 48, 32, 128, 10408, 10204, 7703, 408, 1106, 29, 847},
    {6144, 48, 32, 256, 10402, 10248, 7698, 460, 594, 18, 443},
};

static void keep_as_gpt(struct pst_solo *solo, void *context)
{
    const struct profile *profile = context;

    for (uint32_t s = 0; s < solo->in.n_stages; s++) {
        solo->stages[s].saved_bytes = 34 * profile->h + 5 * profile->heads * 1024;
        solo->stages[s].saved_weight_bytes = 32 * profile->h;
    }
}

static struct schedule_run profiled(const struct profile *profile, uint32_t limit,
                                    const char *objective)
{
    char options[80];

    snprintf(options, sizeof options, "memory_limit=%u,objective=%s", limit, objective);
    return SCHEDULE("zb-auto", .p = profile->p, .m = profile->m, .f = profile->f, .b = profile->b,
                    .w = profile->w, .c = profile->c, .options = options, .change = keep_as_gpt,
                    .context = (void *)(uintptr_t)profile);
}

static uint64_t rate(uint64_t cost, uint64_t work)
{
    return ((cost - work) * 20000 + cost) / (2 * cost);
}

TEST(test_published_rates)
{
    for (size_t i = 0; i < sizeof profiles / sizeof profiles[0]; i++) {
        const struct profile *profile = &profiles[i];
        struct schedule_run one = profiled(profile, profile->p, "span");
        struct schedule_run two = profiled(profile, 2 * profile->p, "span");

        assert_int_equal(rate(one.span, one.work), profile->zb1);
        assert_int_equal(rate(two.span, two.work), profile->zb2);
        assert_int_equal(rate(two.makespan, two.work), profile->zb2_makespan);
        schedule_run_free(&one);
        schedule_run_free(&two);
    }
}

/* With a barrier the makespan counts: never more than that of the order made for the span, and no
   larger cap costs more. */
TEST(test_barrier)
{
    for (size_t i = 0; i < 9; i++) {
        const struct profile *profile = &profiles[i];
        struct schedule_run span = profiled(profile, 2 * profile->p, "span");
        struct schedule_run one = profiled(profile, profile->p, "makespan");
        struct schedule_run two = profiled(profile, 2 * profile->p, "makespan");

        assert_true(two.makespan <= span.makespan);
        assert_true(two.makespan <= one.makespan);
        assert_true(two.makespan >= two.bounds.makespan_ns);
        schedule_run_free(&span);
        schedule_run_free(&one);
        schedule_run_free(&two);
    }
}

static struct schedule_run limited(uint32_t p, uint32_t m, uint64_t f, uint64_t b, uint64_t w,
                                   uint32_t limit, const char *objective)
{
    char options[80];

    snprintf(options, sizeof options, "memory_limit=%u,objective=%s", limit, objective);
    return SCHEDULE("zb-auto", .p = p, .m = m, .f = f, .b = b, .w = w, .options = options);
}

TEST(test_small_instances)
{
    static const struct {
        uint32_t p, m, f, b, w, limit;
        uint64_t span, makespan; /* 0: not stated */
    } rows[] = {
        {4, 12, 5, 6, 4, 4, 201, 0}, {4, 12, 5, 6, 4, 6, 193, 0}, {4, 12, 5, 6, 4, 8, 186, 0},
        {4, 12, 1, 1, 1, 4, 39, 39}, {4, 12, 1, 1, 1, 5, 38, 39}, {4, 12, 1, 1, 1, 6, 37, 39},
        {4, 12, 1, 1, 1, 7, 36, 39}, {4, 12, 1, 1, 1, 8, 36, 39}, {4, 8, 1, 1, 1, 4, 27, 27},
        {4, 8, 1, 1, 1, 8, 24, 27},
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct schedule_run r =
            limited(rows[i].p, rows[i].m, rows[i].f, rows[i].b, rows[i].w, rows[i].limit, "span");

        assert_int_equal(r.span, rows[i].span);
        if (rows[i].makespan > 0) {
            assert_int_equal(r.makespan, rows[i].makespan);
        }
        assert_true(most(r.peaks, rows[i].p) <= rows[i].limit);
        schedule_run_free(&r);
    }
}

/* Optimal makespans by exhaustive search; unit costs do not reward memory beyond p, and with less
   than p micro-batches held on a device there is a way too. */
TEST(test_proven_optima)
{
    static const struct {
        uint32_t p, m, f, b, w, limit;
        uint64_t makespan;
    } rows[] = {
        {2, 4, 1, 1, 1, 2, 13}, {3, 6, 1, 1, 1, 3, 20},  {3, 6, 1, 1, 1, 5, 20},
        {4, 8, 1, 1, 1, 4, 27}, {3, 6, 2, 2, 1, 3, 36},  {3, 6, 2, 2, 1, 5, 34},
        {3, 6, 1, 2, 1, 3, 28}, {3, 6, 1, 2, 1, 6, 26},  {3, 6, 1, 1, 1, 2, 25},
        {4, 6, 1, 1, 1, 3, 24}, {4, 6, 1, 1, 1, 2, 31},  {4, 6, 2, 2, 1, 2, 57},
        {4, 6, 2, 2, 1, 3, 44}, {4, 6, 3, 4, 2, 2, 101}, {4, 6, 3, 4, 2, 3, 78},
        {4, 3, 1, 1, 2, 2, 20}, {3, 6, 2, 3, 2, 2, 60},
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct schedule_run r = limited(rows[i].p, rows[i].m, rows[i].f, rows[i].b, rows[i].w,
                                        rows[i].limit, "makespan");

        assert_int_equal(r.makespan, rows[i].makespan);
        assert_true(most(r.peaks, rows[i].p) <= rows[i].limit);
        schedule_run_free(&r);
    }
}

/* At unit costs a barrier leaves nothing to gain from more than p micro-batches held. */
TEST(test_least_memory_of_the_shortest)
{
    for (uint32_t p = 2; p <= 8; p++) {
        struct schedule_run r = SCHEDULE("zb-auto", .p = p, .m = 3 * p, .barrier = true);
        struct schedule_run s = SCHEDULE("zb-auto", .p = p, .m = 3 * p);

        assert_int_equal(r.makespan, 9 * p + p - 1);
        assert_int_equal(most(r.peaks, p), p);
        assert_int_equal(s.span, 9 * p);
        schedule_run_free(&r);
        schedule_run_free(&s);
    }
}

/* (m + p - 1)(tF + tB) + tW; with tW > tF the first device alone takes longer. */
TEST(test_few_microbatches)
{
    for (uint32_t p = 2; p <= 8; p++) {
        for (uint32_t m = 1; m <= p; m++) {
            for (uint32_t b = 1; b <= 4; b++) {
                for (uint32_t w = 1; w <= b && w <= 3; w++) {
                    struct schedule_run r = SCHEDULE("zb-auto", .p = p, .m = m, .f = 3, .b = b,
                                                     .w = w, .barrier = true);

                    assert_int_equal(r.makespan, (m + p - 1) * (3 + b) + w);
                    assert_true(most(r.peaks, p) <= m);
                    schedule_run_free(&r);
                }
            }
        }
    }
}

TEST(test_larger_cap_is_no_worse)
{
    static const char *const objectives[] = {"span", "makespan"};

    for (uint32_t o = 0; o < 2; o++) {
        for (uint32_t p = 1; p <= 5; p++) {
            uint64_t last = UINT64_MAX;

            for (uint32_t limit = 1; limit <= 2 * p + 2; limit++) {
                struct schedule_run r = limited(p, 3 * p, 5, 4, 3, limit, objectives[o]);
                uint64_t cost = o == 0 ? r.span : r.makespan;

                assert_true(cost <= last);
                assert_true(most(r.peaks, p) <= limit);
                last = cost;
                schedule_run_free(&r);
            }
        }
    }
}

/* Devices with more room than 2p: all of it may be used, none of it has to be. At these times more
   than 8 micro-batches make the span shorter, down to the work of 11 at 10. */
TEST(test_room_beyond_2p)
{
    uint64_t last = UINT64_MAX;

    for (uint32_t cap = 8; cap <= 12; cap++) {
        struct schedule_run r = SCHEDULE("zb-auto", .p = 4, .m = 11, .f = 7, .b = 2, .w = 3,
                                         .cap = cap, .options = "objective=span");
        struct schedule_run s = limited(4, 11, 7, 2, 3, cap, "span");

        assert_true(r.span <= s.span && r.span <= last);
        assert_true(most(r.peaks, 4) <= cap);
        last = r.span;
        schedule_run_free(&r);
        schedule_run_free(&s);
    }
    assert_int_equal(last, 11 * (7 + 2 + 3));
}

TEST(test_no_room)
{
    struct schedule_run r = SCHEDULE("zb-auto", .p = 3, .m = 4, .unit = 100, .cap = 1);
    struct schedule_run s, t;

    assert_int_equal(most(r.peaks, 3), 1);
    schedule_run_free(&r);
    s = SCHEDULE("zb-auto", .p = 3, .m = 4, .options = "memory_limit=0.5", .may_fail = true);
    assert_int_equal(s.status, PST_ERR_INFEASIBLE);
    assert_non_null(strstr(s.error.message, "the smallest that works is 1"));
    schedule_run_free(&s);
    t = SCHEDULE("zb-auto", .p = 3, .m = 4, .change = keep_as_gpt, .cap = 1, .may_fail = true,
                 .context = (void *)(uintptr_t)&profiles[0]);
    assert_int_equal(t.status, PST_ERR_INFEASIBLE);
    assert_non_null(strstr(t.error.message, "device 0 has room for 1 bytes"));
    assert_non_null(strstr(t.error.message, "at least 201216 there"));
    schedule_run_free(&t);
}

TEST(test_stages_that_differ)
{
    mixture_check("zb-auto", false);
    mixture_check("zb-auto", true);
}
