/* SPDX-License-Identifier: Apache-2.0
 *
 * v-adaptive against published figures at equal costs, optima found by exhaustive search, figures
 * of the authors' search at other costs, and what must hold for every instance: caps, bounds, more
 * memory never worse, the same answer twice.
 */
#include "schedule_rig.h"

static uint64_t highest(const struct schedule_run *run, uint32_t p)
{
    uint64_t most = 0;

    for (uint32_t d = 0; d < p; d++) {
        most = most > run->peaks[d] ? most : run->peaks[d];
    }
    return most;
}

/* Cost under the objective that `barrier` implies; checks what every answer owes. */
static uint64_t cost(const struct schedule_case *c)
{
    struct schedule_run run = schedule_run(c);
    uint64_t figure = c->barrier ? run.makespan : run.span;

    assert_true(c->cap == 0 || highest(&run, c->p) <= c->cap);
    assert_true(run.makespan >= run.bounds.makespan_ns / (c->unit > 0 ? c->unit : 1));
    assert_true(run.span >= run.bounds.span_ns / (c->unit > 0 ? c->unit : 1));
    assert_true(run.answer.claimed);
    assert_int_equal(run.answer.claim.makespan_ns, run.makespan_ns);
    assert_int_equal(run.answer.claim.span_ns, run.span_ns);
    assert_int_equal(run.answer.claim.minimised, c->barrier ? 1 : 2);
    assert_true(run.answer.claim.lower_bound_ns <= (c->barrier ? run.makespan_ns : run.span_ns));
    schedule_run_free(&run);
    return figure;
}

#define COST(...) cost(&(struct schedule_case){.id = "v-adaptive", __VA_ARGS__})

static void check_at_most(const char *what, uint32_t p, uint32_t m, uint64_t k, uint64_t got,
                          uint64_t want)
{
    if (got > want) {
        fail_msg("%s p %u m %u cap %lu: %lu, not %lu", what, p, m, (unsigned long)k,
                 (unsigned long)got, (unsigned long)want);
    }
}

/* Span beyond the work: 6p - 1 - 3k while memory binds, then 3, then none. */
static void published_bubbles_at_equal_costs(void **state)
{
    static const uint32_t least[9] = {0, 0, 4, 4, 4, 6, 6, 8, 8};

    (void)state;
    for (uint32_t p = 2; p <= 8; p++) {
        for (uint32_t m = 2 * p; m <= 3 * p; m += p) {
            for (uint32_t k = least[p]; k <= 2 * p; k++) {
                uint64_t bubble = k + 2 <= 2 * p ? 6 * p - 1 - 3 * k : k < 2 * p ? 3 : 0;

                check_at_most("span", p, m, k, COST(.p = p, .m = m, .cap = k), 6 * m + bubble);
            }
        }
    }
}

static void published_lists_at_equal_costs(void **state)
{
    static const uint64_t span[5] = {59, 56, 53, 51, 48}, makespan[5] = {59, 56, 53, 52, 51};
    static const uint64_t wide_span[7] = {89, 86, 83, 80, 77, 75, 72};
    static const uint64_t wide_makespan[7] = {89, 86, 83, 80, 79, 78, 77};

    (void)state;
    for (uint32_t i = 0; i < 5; i++) {
        assert_int_equal(COST(.p = 4, .m = 8, .cap = 4 + i), span[i]);
        assert_int_equal(COST(.p = 4, .m = 8, .cap = 4 + i, .barrier = true), makespan[i]);
    }
    for (uint32_t i = 0; i < 7; i++) {
        assert_int_equal(COST(.p = 6, .m = 12, .cap = 6 + i), wide_span[i]);
        check_at_most("makespan", 6, 12, 6 + i,
                      COST(.p = 6, .m = 12, .cap = 6 + i, .barrier = true), wide_makespan[i]);
    }
}

/* Least makespan of any order, by exhaustive search; one of the efforts finds it, none less. */
static void proven_optima(void **state)
{
    static const char *const efforts[3] = {"effort=1", "effort=2", "effort=3"};
    static const struct {
        uint32_t p, m, k, f, b, w, makespan;
    } rows[] = {
        {2, 4, 2, 1, 1, 1, 33}, {2, 4, 3, 1, 1, 1, 27}, {2, 4, 4, 1, 1, 1, 25},
        {3, 4, 2, 1, 1, 1, 43}, {3, 4, 3, 1, 1, 1, 36}, {3, 4, 4, 1, 1, 1, 29},
        {3, 4, 5, 1, 1, 1, 27}, {3, 4, 6, 1, 1, 1, 26}, {4, 4, 3, 1, 1, 1, 46},
        {4, 4, 4, 1, 1, 1, 35}, {4, 4, 5, 1, 1, 1, 32}, {4, 4, 6, 1, 1, 1, 29},
        {4, 4, 7, 1, 1, 1, 28}, {4, 4, 8, 1, 1, 1, 27}, {4, 5, 4, 1, 1, 1, 41},
        {4, 5, 5, 1, 1, 1, 38}, {4, 5, 6, 1, 1, 1, 35}, {4, 5, 7, 1, 1, 1, 34},
        {4, 5, 8, 1, 1, 1, 33}, {2, 4, 4, 2, 2, 1, 42}, {2, 4, 4, 2, 3, 2, 59},
        {3, 4, 4, 1, 2, 1, 41}, {3, 4, 6, 1, 2, 1, 36},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uint64_t got = UINT64_MAX;

        for (uint32_t e = 0; e < 3 && got > rows[i].makespan; e++) {
            got = COST(.p = rows[i].p, .m = rows[i].m, .f = rows[i].f, .b = rows[i].b,
                       .w = rows[i].w, .cap = rows[i].k, .barrier = true, .options = efforts[e]);
        }
        if (got != rows[i].makespan) {
            fail_msg("p %u m %u cap %u (%u,%u,%u): %lu, optimum %u", rows[i].p, rows[i].m,
                     rows[i].k, rows[i].f, rows[i].b, rows[i].w, (unsigned long)got,
                     rows[i].makespan);
        }
    }
}

/* Span beyond the work as the authors' search gives it; caps 4..8 on four devices. */
static void other_costs_no_worse_than_published(void **state)
{
    static const struct {
        uint32_t m, f, b, w, bubble[5];
    } rows[] = {
        {8, 10, 10, 6, {162, 136, 70, 50, 24}}, {16, 10, 10, 6, {226, 200, 70, 50, 24}},
        {8, 1, 2, 1, {39, 31, 14, 11, 6}},      {16, 1, 2, 1, {71, 47, 14, 11, 6}},
        {8, 3, 4, 2, {72, 63, 28, 21, 12}},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uint64_t work = 2 * (uint64_t)rows[i].m * (rows[i].f + rows[i].b + rows[i].w);
        uint64_t before = UINT64_MAX;

        for (uint32_t k = 0; k < 5; k++) {
            uint64_t got = COST(.p = 4, .m = rows[i].m, .f = rows[i].f, .b = rows[i].b,
                                .w = rows[i].w, .cap = 4 + k);

            check_at_most("span", 4, rows[i].m, 4 + k, got, work + rows[i].bubble[k]);
            assert_true(got <= before);
            before = got;
        }
    }
}

static void more_memory_is_never_worse(void **state)
{
    (void)state;
    for (uint32_t p = 1; p <= 6; p++) {
        for (uint32_t m = 1; m <= 3 * p; m += p < 4 ? 1 : p) {
            uint64_t before[2] = {UINT64_MAX, UINT64_MAX};

            for (uint32_t k = 2; k <= 2 * p + 2; k++) {
                for (uint32_t barrier = 0; barrier < 2; barrier++) {
                    uint64_t got = COST(.p = p, .m = m, .f = 3, .b = 4, .w = 2, .c = p % 2,
                                        .cap = k, .barrier = barrier == 1, .options = "effort=0");

                    check_at_most("more memory", p, m, k, got, before[barrier]);
                    before[barrier] = got;
                }
            }
        }
    }
}

static void one_device_runs_without_idle(void **state)
{
    struct schedule_run run = SCHEDULE("v-adaptive", .p = 1, .m = 3, .f = 3, .b = 4, .w = 2);

    (void)state;
    assert_int_equal(run.makespan, 3 * 2 * 9);
    assert_int_equal(run.eval.n_transfers, 0);
    assert_int_equal(run.peaks[0], 2); /* no more than one micro-batch, where more buys nothing */
    schedule_run_free(&run);
}

static void costs_times_seven_cost_seven_times(void **state)
{
    (void)state;
    for (uint32_t k = 4; k <= 8; k += 2) {
        uint64_t one = COST(.p = 4, .m = 6, .f = 3, .b = 4, .w = 2, .c = 1, .cap = k);

        assert_int_equal(COST(.p = 4, .m = 6, .f = 21, .b = 28, .w = 14, .c = 7, .cap = k),
                         7 * one);
    }
}

static void the_same_question_gives_the_same_order(void **state)
{
    const struct schedule_case c = {
        .id = "v-adaptive", .p = 4, .m = 7, .f = 5, .b = 6, .w = 4, .c = 1, .cap = 5};
    struct schedule_run a = schedule_run(&c), b = schedule_run(&c);

    (void)state;
    assert_string_equal(a.csv, b.csv);
    schedule_run_free(&a);
    schedule_run_free(&b);
}

/* Stage s costs more towards the end and holds more at the start; W frees little; rooms differ. */
static void uneven(struct pst_solo *solo, void *context)
{
    uint64_t room = *(const uint64_t *)context;

    for (uint32_t s = 0; s < solo->in.n_stages; s++) {
        struct pst_schedule_stage *stage = &solo->stages[s];

        stage->forward_ns = 100 + 7 * s;
        stage->backward_input_ns = 110 + 5 * s;
        stage->backward_weight_ns = 60 + 3 * s;
        stage->saved_bytes = 1000 + 100 * (solo->in.n_stages - s);
        stage->saved_weight_bytes = stage->saved_bytes / 3;
    }
    for (uint32_t i = 0; i < solo->in.n_links; i++) {
        solo->links[i].transfer_ns = solo->links[i].transfer_ns > 0 ? 5 + 9 * i : 0;
    }
    for (uint32_t d = 0; d < solo->in.n_devices; d++) {
        solo->activation_bytes[d] = room + 500 * d;
    }
}

static void uneven_stages_stay_under_their_caps(void **state)
{
    uint64_t before = UINT64_MAX;

    (void)state;
    for (uint64_t room = 3000; room <= 18000; room += 1500) {
        struct schedule_run run = SCHEDULE("v-adaptive", .p = 4, .m = 6, .c = 1, .change = uneven,
                                           .context = &room, .options = "effort=0");

        for (uint32_t d = 0; d < 4; d++) {
            assert_true(run.eval.peak_bytes[d] <= run.solo.activation_bytes[d]);
        }
        assert_true(run.span_ns >= run.bounds.span_ns);
        assert_true(room % 6000 != 3000 || run.span_ns <= before);
        before = room % 6000 == 3000 ? run.span_ns : before;
        schedule_run_free(&run);
    }
}

static void too_little_memory_is_refused_with_what_would_do(void **state)
{
    struct schedule_run run =
        SCHEDULE("v-adaptive", .p = 3, .m = 4, .cap = 1, .unit = 100, .may_fail = true);

    (void)state;
    assert_int_equal(run.status, PST_ERR_INFEASIBLE);
    assert_non_null(strstr(run.error.message, "200 bytes"));
    assert_non_null(strstr(run.error.message, "memory_limit 1"));
    schedule_run_free(&run);
}

static void late_links(struct pst_solo *solo, void *context)
{
    (void)context;
    for (uint32_t i = 0; i < solo->in.n_links; i++) {
        solo->links[i].transfer_ns = 40;
    }
}

/* The choice for noise obeys caps, repeats, and does no worse than the other where links are late. */
static void robust_choice_bears_late_links(void **state)
{
    struct schedule_run plain, robust, again, late;
    struct schedule_case c = {.id = "v-adaptive", .p = 3, .m = 6, .f = 100, .b = 110, .w = 60};

    (void)state;
    c.cap = 4;
    plain = schedule_run(&c);
    c.options = "robust=0.8";
    robust = schedule_run(&c);
    again = schedule_run(&c);
    c.change = late_links;
    c.options = NULL;
    late = schedule_run(&c);
    assert_string_equal(robust.csv, again.csv);
    assert_true(highest(&robust, 3) <= 4);
    assert_true(robust.span >= plain.span);
    assert_true(late.span >= plain.span); /* links cost something */
    schedule_run_free(&plain);
    schedule_run_free(&robust);
    schedule_run_free(&again);
    schedule_run_free(&late);
}

/* Building blocks published for p mod 3 = 2 idle 4p - 5 passes at this memory, and for two devices
   they hold four chunks. */
static void beyond_published_blocks(void **state)
{
    (void)state;
    for (uint32_t p = 5; p <= 11; p += 3) {
        uint32_t k = 2 * ((p + 4) / 3);

        check_at_most("4p - 9", p, 2 * p, k, COST(.p = p, .m = 2 * p, .cap = k), 16 * p - 9);
    }
    for (uint32_t m = 3; m <= 9; m += 3) {
        check_at_most("6m + 3", 2, m, 3, COST(.p = 2, .m = m, .cap = 3), 6 * m + 3);
    }
}

/* memory_limit counts micro-batches of both chunks: 2.5 are five chunks. */
static void memory_limit_counts_micro_batches(void **state)
{
    struct schedule_run run = SCHEDULE("v-adaptive", .p = 4, .m = 8, .options = "memory_limit=2.5");

    (void)state;
    assert_int_equal(highest(&run, 4), 5);
    assert_int_equal(run.span, 56);
    schedule_run_free(&run);
}

static void the_objective_can_be_set(void **state)
{
    struct schedule_run span = SCHEDULE("v-adaptive", .p = 6, .m = 12, .cap = 12, .barrier = true,
                                        .options = "objective=span");
    struct schedule_run makespan =
        SCHEDULE("v-adaptive", .p = 6, .m = 12, .cap = 12, .options = "objective=makespan");

    (void)state;
    assert_int_equal(span.span, 72);
    assert_int_equal(makespan.makespan, 77);
    schedule_run_free(&span);
    schedule_run_free(&makespan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_bubbles_at_equal_costs),
        cmocka_unit_test(published_lists_at_equal_costs),
        cmocka_unit_test(proven_optima),
        cmocka_unit_test(other_costs_no_worse_than_published),
        cmocka_unit_test(more_memory_is_never_worse),
        cmocka_unit_test(one_device_runs_without_idle),
        cmocka_unit_test(costs_times_seven_cost_seven_times),
        cmocka_unit_test(the_same_question_gives_the_same_order),
        cmocka_unit_test(uneven_stages_stay_under_their_caps),
        cmocka_unit_test(too_little_memory_is_refused_with_what_would_do),
        cmocka_unit_test(robust_choice_bears_late_links),
        cmocka_unit_test(beyond_published_blocks),
        cmocka_unit_test(memory_limit_counts_micro_batches),
        cmocka_unit_test(the_objective_can_be_set),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
