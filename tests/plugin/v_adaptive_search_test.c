/* SPDX-License-Identifier: Apache-2.0
 *
 * What v-adaptive finds, against the exact search, figures of the authors' search at unequal costs,
 * and figures that published building blocks do not reach.
 */
#include "base/philox.h"
#include "v_adaptive_rig.h"

/* Span beyond the work as the authors' search gives it; caps 4..8 on four devices. */
TEST(other_costs_no_worse_than_published)
{
    static const struct {
        uint32_t m, f, b, w, bubble[5];
    } rows[] = {
        {8, 10, 10, 6, {162, 136, 70, 50, 24}}, {16, 10, 10, 6, {226, 200, 70, 50, 24}},
        {8, 1, 2, 1, {39, 31, 14, 11, 6}},      {16, 1, 2, 1, {71, 47, 14, 11, 6}},
        {8, 3, 4, 2, {72, 63, 28, 21, 12}},
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uint64_t work = 2 * (uint64_t)rows[i].m * (rows[i].f + rows[i].b + rows[i].w);
        uint64_t before = UINT64_MAX;

        for (uint32_t k = 0; k < 5; k++) {
            uint64_t got = COST(.p = 4, .m = rows[i].m, .f = rows[i].f, .b = rows[i].b,
                                .w = rows[i].w, .cap = 4 + k, .options = "exact=0");

            check_at_most("span", 4, rows[i].m, 4 + k, got, work + rows[i].bubble[k]);
            assert_true(got <= before);
            before = got;
        }
    }
}

/* Costs of every stage and latency of every link drawn at random. */
static void draw(struct pst_order_question *asked, void *context)
{
    const uint64_t *seed = context;

    for (uint32_t s = 0; s < asked->in.n_stages; s++) {
        struct pst_philox r = pst_philox(*seed, 0, s);

        asked->stages[s].forward_ns = 1 + r.v[0] % 5;
        asked->stages[s].backward_input_ns = 1 + r.v[1] % 5;
        asked->stages[s].backward_weight_ns = 1 + r.v[2] % 5;
    }
    for (uint32_t i = 0; i < asked->in.n_links; i++) {
        struct pst_schedule_link *link = &asked->links[i];

        if (asked->stages[link->from].device != asked->stages[link->to].device) {
            link->transfer_ns = pst_philox(*seed, 1, i).v[0] % 3;
        }
    }
}

/* All caps: what the exact search proves is what v-adaptive finds, and claims as proven. */
TEST(optimal_where_that_is_proven)
{
    uint32_t n_proven = 0, n = 0;

    for (uint64_t seed = 1; seed <= 12; seed++) {
        uint64_t costs = seed;
        uint32_t p = 2 + seed % 3, m = 1 + seed % 5;
        bool barrier = seed % 2 == 0;

        m = p == 4 && m > 4 ? 4 : m;
        for (uint64_t k = 2; k <= 2 * p && k <= 2 * m; k++, n++) {
            struct schedule_case c = {.id = "optimal",
                                      .options = barrier ? "placement=vshape"
                                                         : "placement=vshape,objective=span",
                                      .p = p,
                                      .m = m,
                                      .cap = k,
                                      .barrier = barrier,
                                      .change = draw,
                                      .context = &costs};
            OWN_RUN best = schedule_run(&c), run;
            uint64_t least = barrier ? best.makespan : best.span;

            c.id = "v-adaptive";
            c.options = NULL;
            run = schedule_run(&c);
            if (best.answer.claim.lower_bound_ns == least) {
                n_proven++;
                if ((barrier ? run.makespan : run.span) != least ||
                    run.answer.claim.lower_bound_ns > least || most_held(&run) > k) {
                    fail_msg("seed %lu p %u m %u cap %lu: %lu, optimum %lu", (unsigned long)seed, p,
                             m, (unsigned long)k,
                             (unsigned long)(barrier ? run.makespan : run.span),
                             (unsigned long)least);
                }
            }
        }
    }
    print_message("%u of %u instances proven\n", n_proven, n);
    assert_true(n_proven >= n * 9 / 10);
}

/* One in four passes is eight times as long: then more than 2p chunks pay. */
static void draw_long(struct pst_order_question *asked, void *context)
{
    draw(asked, context);
    for (uint32_t s = 0; s < asked->in.n_stages; s++) {
        struct pst_philox r = pst_philox(*(const uint64_t *)context, 2, s);

        asked->stages[s].forward_ns *= r.v[0] % 4 == 0 ? 8 : 1;
        asked->stages[s].backward_input_ns *= r.v[1] % 4 == 0 ? 8 : 1;
        asked->stages[s].backward_weight_ns *= r.v[2] % 4 == 0 ? 8 : 1;
    }
}

TEST(without_a_cap_all_memory_is_searched)
{
    for (uint64_t seed = 1; seed <= 16; seed++) {
        uint64_t costs = seed;
        struct schedule_case c = {.id = "optimal",
                                  .options = "placement=vshape",
                                  .p = 2,
                                  .m = 6,
                                  .barrier = true,
                                  .change = draw_long,
                                  .context = &costs};
        OWN_RUN best = schedule_run(&c);

        assert_int_equal(best.answer.claim.lower_bound_ns, best.makespan_ns);
        c.id = "v-adaptive";
        c.options = NULL;
        if (cost(&c) != best.makespan) {
            fail_msg("seed %lu: %lu, optimum %lu", (unsigned long)seed, (unsigned long)cost(&c),
                     (unsigned long)best.makespan);
        }
    }
}

/* The choice for noise obeys caps and repeats. */
TEST(robust_choice_repeats_under_the_cap)
{
    const struct schedule_case c = {.id = "v-adaptive",
                                    .options = "robust=0.8",
                                    .p = 3,
                                    .m = 6,
                                    .f = 100,
                                    .b = 110,
                                    .w = 60,
                                    .cap = 4};
    OWN_RUN one = schedule_run(&c), two = schedule_run(&c);

    assert_string_equal(one.csv, two.csv);
    assert_true(most_held(&one) <= c.cap);
    assert_int_equal(one.answer.claim.span_ns, one.span_ns);
}

/* Building blocks published for p mod 3 = 2 idle 4p - 5 passes at this memory, and for two devices
   they hold four chunks. */
TEST(beyond_published_blocks)
{
    for (uint32_t p = 5; p <= 11; p += 3) {
        uint32_t k = 2 * ((p + 4) / 3);

        check_at_most("4p - 9", p, 2 * p, k, COST(.p = p, .m = 2 * p, .cap = k), 16 * p - 9);
    }
    for (uint32_t m = 3; m <= 9; m += 3) {
        check_at_most("6m + 3", 2, m, 3, COST(.p = 2, .m = m, .cap = 3), 6 * m + 3);
    }
}
