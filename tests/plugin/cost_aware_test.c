/* SPDX-License-Identifier: Apache-2.0
 *
 * zb-auto and v-zb, which look at costs and at room: published bubbles, closed forms, few
 * micro-batches, the choice between span and makespan, caps, stages that differ.
 */
#include "schedule_rig.h"

#include "base/philox.h"

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

static void keep_as_gpt(struct pst_order_question *asked, void *context)
{
    const struct profile *profile = context;

    for (uint32_t s = 0; s < asked->in.n_stages; s++) {
        asked->stages[s].saved_bytes = 34 * profile->h + 5 * profile->heads * 1024;
        asked->stages[s].saved_weight_bytes = 32 * profile->h;
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
        OWN_RUN one = profiled(profile, profile->p, "span");
        OWN_RUN two = profiled(profile, 2 * profile->p, "span");

        assert_int_equal(rate(one.span, one.work), profile->zb1);
        assert_int_equal(rate(two.span, two.work), profile->zb2);
        assert_int_equal(rate(two.makespan, two.work), profile->zb2_makespan);
    }
}

/* With a barrier the makespan counts: never more than that of the order made for the span, and no
   larger cap costs more. */
TEST(test_barrier)
{
    for (size_t i = 0; i < 9; i++) {
        const struct profile *profile = &profiles[i];
        OWN_RUN span = profiled(profile, 2 * profile->p, "span");
        OWN_RUN one = profiled(profile, profile->p, "makespan");
        OWN_RUN two = profiled(profile, 2 * profile->p, "makespan");

        assert_true(two.makespan <= span.makespan);
        assert_true(two.makespan <= one.makespan);
        assert_true(two.makespan >= two.bounds.makespan_ns);
    }
}

static struct schedule_run limited(uint32_t p, uint32_t m, uint64_t f, uint64_t b, uint64_t w,
                                   uint32_t limit, const char *objective)
{
    char options[80];

    snprintf(options, sizeof options, "memory_limit=%u,objective=%s", limit, objective);
    return SCHEDULE("zb-auto", .p = p, .m = m, .f = f, .b = b, .w = w, .options = options);
}

/* At unit costs a barrier leaves nothing to gain from more than p micro-batches held. */
TEST(test_least_memory_of_the_shortest)
{
    for (uint32_t p = 2; p <= 8; p++) {
        OWN_RUN r = SCHEDULE("zb-auto", .p = p, .m = 3 * p, .barrier = true);
        OWN_RUN s = SCHEDULE("zb-auto", .p = p, .m = 3 * p);

        assert_int_equal(r.makespan, 9 * p + p - 1);
        assert_int_equal(most_held(&r), p);
        assert_int_equal(s.span, 9 * p);
    }
}

/* (m + p - 1)(tF + tB) + tW; with tW > tF the first device alone takes longer. */
TEST(test_few_microbatches)
{
    for (uint32_t p = 2; p <= 8; p++) {
        for (uint32_t m = 1; m <= p; m++) {
            for (uint32_t b = 1; b <= 4; b++) {
                for (uint32_t w = 1; w <= b && w <= 3; w++) {
                    OWN_RUN r = SCHEDULE("zb-auto", .p = p, .m = m, .f = 3, .b = b, .w = w,
                                         .barrier = true);

                    assert_int_equal(r.makespan, (m + p - 1) * (3 + b) + w);
                    assert_true(most_held(&r) <= m);
                }
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
        OWN_RUN r = SCHEDULE("zb-auto", .p = 4, .m = 11, .f = 7, .b = 2, .w = 3, .cap = cap,
                             .options = "objective=span");
        OWN_RUN s = limited(4, 11, 7, 2, 3, cap, "span");

        assert_true(r.span <= s.span && r.span <= last);
        assert_true(most_held(&r) <= cap);
        last = r.span;
    }
    assert_int_equal(last, 11 * (7 + 2 + 3));
}

TEST(test_no_room_for_zb_auto)
{
    struct schedule_run r = SCHEDULE("zb-auto", .p = 3, .m = 4, .unit = 100, .cap = 1);
    OWN_RUN s, t;

    assert_int_equal(most_held(&r), 1);
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
}

/* --- v-zb --------------------------------------------------------------------------------------*/

TEST(test_v_zb_at_unit_costs)
{
    for (uint32_t p = 1; p <= 12; p++) {
        const uint32_t sizes[] = {1, p, p + 1, 2 * p - 1, 2 * p, 3 * p + 1, 1 + p / 2, 1 + p / 3};

        for (uint32_t i = 0; i < 8; i++) {
            uint32_t m = sizes[i];
            OWN_RUN r = SCHEDULE("v-zb", .p = p, .m = m);

            if (m >= 2 * p - 1) {
                assert_int_equal(r.span, 6 * m);
                assert_int_equal(r.makespan, 6 * m + p - 1);
            } else if (m >= p) {
                assert_int_equal(r.span, 6 * m + 2 * p - 1 - m);
            } else if (m == 1) {
                assert_int_equal(r.makespan, 4 * p + 1);
            }
            assert_int_equal(most_held(&r), m < p ? 2 * m : 2 * p);
        }
    }
}

/* Bubbles within the span of the authors' program, m = 16. */
TEST(test_v_zb_at_other_costs)
{
    static const struct {
        uint32_t p, f, b, w, bubble;
    } rows[] = {{4, 3, 4, 2, 10}, {4, 4, 3, 2, 10},   {4, 2, 2, 1, 5},
                {4, 1, 2, 1, 5},  {4, 10, 10, 6, 20}, {6, 10, 10, 6, 34}};

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        OWN_RUN r = SCHEDULE("v-zb", .p = rows[i].p, .m = 16, .f = rows[i].f, .b = rows[i].b,
                             .w = rows[i].w);

        print_message("p %u (%u,%u,%u): bubble %llu, published %u\n", rows[i].p, rows[i].f,
                      rows[i].b, rows[i].w, (unsigned long long)(r.span - r.work), rows[i].bubble);
        assert_true(r.span - r.work <= rows[i].bubble);
        assert_true(most_held(&r) <= 2 * rows[i].p);
    }
}

/* No bubble is repeated: twice the micro-batches, the same bubble, whatever passes cost. */
TEST(test_no_repeated_bubble)
{
    for (uint32_t code = 0; code < 64; code++) {
        uint64_t f = code / 16 + 1, b = code / 4 % 4 + 1, w = code % 4 + 1;
        OWN_RUN r = SCHEDULE("v-zb", .p = 4, .m = 16, .f = f, .b = b, .w = w);
        OWN_RUN s = SCHEDULE("v-zb", .p = 4, .m = 48, .f = f, .b = b, .w = w);

        assert_true(s.span - s.work <= r.span - r.work + f + b + w);
    }
}

TEST(test_no_room_for_v_zb)
{
    OWN_RUN r = SCHEDULE("v-zb", .p = 4, .m = 8, .cap = 1, .unit = 10, .may_fail = true);

    assert_int_equal(r.status, PST_ERR_INFEASIBLE);
    assert_non_null(strstr(r.error.message, "device 0 has room for 10 bytes"));
    schedule_run_free(&r);
    /* A limit that all of the step fits in is none. */
    r = SCHEDULE("v-zb", .p = 4, .m = 2, .options = "memory_limit=2");
    assert_int_equal(most_held(&r), 4);
}

static void uneven_memory(struct pst_order_question *asked, void *context)
{
    const uint64_t *seed = context;

    for (uint32_t s = 0; s < asked->in.n_stages; s++) {
        uint64_t a = 1 + pst_philox(*seed, 7, s).v[0] % 1000;

        asked->stages[s].saved_bytes = a;
        asked->stages[s].saved_weight_bytes = pst_philox(*seed, 8, s).v[0] % (a + 1);
    }
}

/* Stages of a device that keep different amounts: there is an order as long as there is room. */
TEST(test_uneven_memory)
{
    for (uint64_t seed = 1; seed <= 200; seed++) {
        OWN_RUN r = SCHEDULE("v-zb", .p = 1 + seed % 7, .m = 1 + seed % 19, .f = 3,
                             .b = 1 + seed % 4, .w = 1 + seed % 3, .change = uneven_memory,
                             .context = &seed, .barrier = seed % 2 == 0);

        assert_true(r.span >= r.work);
    }
}

/* --- both --------------------------------------------------------------------------------------*/

/* Chains whose stages differ at random: each is asked about the chain as it is and about one of
   equal stages with the medians of its costs, and both answers are timed on the chain as it is. */
struct mixture {
    uint64_t seed;
    bool even; /* every stage and link gets the median */
};

static int mixture_compare(const void *a_, const void *b_)
{
    uint64_t a = *(const uint64_t *)a_, b = *(const uint64_t *)b_;

    return (a > b) - (a < b);
}

static uint64_t *mixture_cost(struct pst_schedule_stage *stage, uint32_t kind)
{
    return kind == 0   ? &stage->forward_ns
           : kind == 1 ? &stage->backward_input_ns
                       : &stage->backward_weight_ns;
}

/* F and B of 20 to 60, W of 10 to 40. */
static void mixture_apply(struct pst_order_question *asked, void *context)
{
    static const uint32_t from[] = {20, 20, 10}, width[] = {41, 41, 31};
    const struct mixture *mixture = context;
    uint32_t n = asked->in.n_stages;
    uint64_t values[2 * SCHEDULE_DEVICES];

    for (uint32_t kind = 0; kind < 3; kind++) {
        for (uint32_t s = 0; s < n; s++) {
            values[s] = from[kind] + pst_philox(mixture->seed, kind, s).v[0] % width[kind];
            *mixture_cost(&asked->stages[s], kind) = values[s];
        }
        qsort(values, n, sizeof values[0], mixture_compare);
        for (uint32_t s = 0; s < n && mixture->even; s++) {
            *mixture_cost(&asked->stages[s], kind) = values[n / 2];
        }
    }
}

/* Makespan or span of both answers. */
static void mixture_ask(const struct schedule_case *c, uint64_t *ret_each, uint64_t *ret_one,
                        struct pst_order_bounds *ret_bounds)
{
    struct mixture real = *(const struct mixture *)c->context, even = {real.seed, true};
    struct schedule_case question = *c;
    OWN_RUN each, one;
    FINISHED_BY(pst_order_eval_finish) struct pst_order_eval eval;
    struct pst_error err = {0};

    question.context = &real;
    question.change = mixture_apply;
    each = schedule_run(&question);
    question.context = &even;
    one = schedule_run(&question);
    assert_int_equal(pst_order_evaluate(&each.stream.in,
                                        (const struct pst_pass *const *)one.stream.passes,
                                        one.stream.n_passes, &eval, &err),
                     PST_OK);
    *ret_each = c->barrier ? each.makespan_ns : each.span_ns;
    *ret_one = c->barrier ? eval.makespan_ns : eval.span_ns;
    *ret_bounds = each.bounds;
}

/* Never below the bounds, never worse than with one cost for all; prints the mean gain. */
static void mixture_check(const char *id, bool barrier)
{
    double gain = 0;
    uint32_t n = 0;

    for (uint64_t seed = 1; seed <= 60; seed++) {
        struct mixture mixture = {seed, false};
        struct schedule_case c = {.id = id,
                                  .p = 2 + seed % 5,
                                  .m = 3 + seed % 11,
                                  .c = seed % 4,
                                  .barrier = barrier,
                                  .context = &mixture};
        struct pst_order_bounds bounds;
        uint64_t each, one;

        mixture_ask(&c, &each, &one, &bounds);
        if (each > one || each < (barrier ? bounds.makespan_ns : bounds.span_ns)) {
            fail_msg("%s, seed %llu, p %u m %u: %llu, one cost for all %llu", id,
                     (unsigned long long)seed, c.p, c.m, (unsigned long long)each,
                     (unsigned long long)one);
        }
        gain += 1 - (double)each / (double)one;
        n++;
    }
    print_message("%s, %s: mean gain %.2f%% over %u chains\n", id, barrier ? "makespan" : "span",
                  100 * gain / n, n);
    assert_true(gain > 0);
}

TEST(test_stages_that_differ)
{
    mixture_check("zb-auto", false);
    mixture_check("zb-auto", true);
    mixture_check("v-zb", false);
    mixture_check("v-zb", true);
}
