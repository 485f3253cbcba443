/* SPDX-License-Identifier: Apache-2.0
 *
 * Chains whose stages differ at random, for schedulers that look at costs: each is asked about the
 * chain as it is and about one of equal stages with the medians of its costs, and both answers are
 * timed on the chain as it is.
 */
#ifndef TEST_SCHEDULE_MIXTURE_H
#define TEST_SCHEDULE_MIXTURE_H

#include "schedule_rig.h"

#include "base/philox.h"

struct mixture {
    uint64_t seed;
    bool even; /* every stage and link gets the median */
};

static inline int mixture_compare(const void *a_, const void *b_)
{
    uint64_t a = *(const uint64_t *)a_, b = *(const uint64_t *)b_;

    return (a > b) - (a < b);
}

static inline uint64_t *mixture_cost(struct pst_schedule_stage *stage, uint32_t kind)
{
    return kind == 0   ? &stage->forward_ns
           : kind == 1 ? &stage->backward_input_ns
                       : &stage->backward_weight_ns;
}

/* F and B of 20 to 60, W of 10 to 40. */
static inline void mixture_apply(struct pst_solo *solo, void *context)
{
    static const uint32_t from[] = {20, 20, 10}, width[] = {41, 41, 31};
    const struct mixture *mixture = context;
    uint32_t n = solo->in.n_stages;
    uint64_t values[2 * SCHEDULE_DEVICES];

    for (uint32_t kind = 0; kind < 3; kind++) {
        for (uint32_t s = 0; s < n; s++) {
            values[s] = from[kind] + pst_philox(mixture->seed, kind, s).v[0] % width[kind];
            *mixture_cost(&solo->stages[s], kind) = values[s];
        }
        qsort(values, n, sizeof values[0], mixture_compare);
        for (uint32_t s = 0; s < n && mixture->even; s++) {
            *mixture_cost(&solo->stages[s], kind) = values[n / 2];
        }
    }
}

/* Makespan or span of both answers. */
static inline void mixture_ask(const struct schedule_case *c, uint64_t *ret_each, uint64_t *ret_one,
                               struct pst_order_bounds *ret_bounds)
{
    struct mixture real = *(const struct mixture *)c->context, even = {real.seed, true};
    struct schedule_case question = *c;
    struct schedule_run each, one;
    struct pst_order_eval eval;
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
    pst_order_eval_finish(&eval);
    schedule_run_free(&each);
    schedule_run_free(&one);
}

/* Never below the bounds, never worse than with one cost for all; prints the mean gain. */
static inline void mixture_check(const char *id, bool barrier)
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

#endif
