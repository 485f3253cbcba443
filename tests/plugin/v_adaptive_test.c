/* SPDX-License-Identifier: Apache-2.0
 *
 * v-adaptive against published figures at equal costs; caps, bounds, the same answer twice.
 */
#include "v_adaptive_rig.h"

/* Span beyond the work: 6p - 1 - 3k while memory binds, then 3, then none. */
TEST(published_bubbles_at_equal_costs)
{
    static const uint32_t least[9] = {0, 0, 4, 4, 4, 6, 6, 8, 8};

    for (uint32_t p = 2; p <= 8; p++) {
        for (uint32_t m = 2 * p; m <= 3 * p; m += p) {
            for (uint32_t k = least[p]; k <= 2 * p; k++) {
                uint64_t bubble = k + 2 <= 2 * p ? 6 * p - 1 - 3 * k : k < 2 * p ? 3 : 0;

                check_at_most("span", p, m, k, COST(.p = p, .m = m, .cap = k), 6 * m + bubble);
            }
        }
    }
}

TEST(published_lists_at_equal_costs)
{
    static const uint64_t span[5] = {59, 56, 53, 51, 48}, makespan[5] = {59, 56, 53, 52, 51};
    static const uint64_t wide_span[7] = {89, 86, 83, 80, 77, 75, 72};
    static const uint64_t wide_makespan[7] = {89, 86, 83, 80, 79, 78, 77};

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

/* Stage s costs more towards the end and holds more at the start; W frees little; rooms differ. */
static void uneven(struct pst_order_question *asked, void *context)
{
    uint64_t room = *(const uint64_t *)context;

    for (uint32_t s = 0; s < asked->in.n_stages; s++) {
        struct pst_schedule_stage *stage = &asked->stages[s];

        stage->forward_ns = 100 + 7 * s;
        stage->backward_input_ns = 110 + 5 * s;
        stage->backward_weight_ns = 60 + 3 * s;
        stage->saved_bytes = 1000 + 100 * (asked->in.n_stages - s);
        stage->saved_weight_bytes = stage->saved_bytes / 3;
    }
    for (uint32_t i = 0; i < asked->in.n_links; i++) {
        asked->links[i].transfer_ns = asked->links[i].transfer_ns > 0 ? 5 + 9 * i : 0;
    }
    for (uint32_t d = 0; d < asked->in.n_devices; d++) {
        asked->activation_bytes[d] = room + 500 * d;
    }
}

TEST(uneven_stages_stay_under_their_caps)
{
    uint64_t before = UINT64_MAX;

    for (uint64_t room = 3000; room <= 18000; room += 1500) {
        OWN_RUN run = SCHEDULE("v-adaptive", .p = 4, .m = 6, .c = 1, .change = uneven,
                               .context = &room, .options = "effort=0");

        for (uint32_t d = 0; d < 4; d++) {
            assert_true(run.eval.peak_bytes[d] <= run.asked.activation_bytes[d]);
        }
        assert_true(run.span_ns >= run.bounds.span_ns);
        assert_true(room % 6000 != 3000 || run.span_ns <= before);
        before = room % 6000 == 3000 ? run.span_ns : before;
    }
}

TEST(too_little_memory_is_refused_with_what_would_do)
{
    OWN_RUN run = SCHEDULE("v-adaptive", .p = 3, .m = 4, .cap = 1, .unit = 100, .may_fail = true);

    assert_int_equal(run.status, PST_ERR_INFEASIBLE);
    assert_non_null(strstr(run.error.message, "200 bytes"));
    assert_non_null(strstr(run.error.message, "memory_limit 1"));
}

/* memory_limit counts micro-batches of both chunks: 2.5 are five chunks. */
TEST(memory_limit_counts_micro_batches)
{
    OWN_RUN run = SCHEDULE("v-adaptive", .p = 4, .m = 8, .options = "memory_limit=2.5");

    assert_int_equal(most_held(&run), 5);
    assert_int_equal(run.span, 56);
}

TEST(the_objective_can_be_set)
{
    OWN_RUN span = SCHEDULE("v-adaptive", .p = 6, .m = 12, .cap = 12, .barrier = true,
                            .options = "objective=span");
    OWN_RUN makespan =
        SCHEDULE("v-adaptive", .p = 6, .m = 12, .cap = 12, .options = "objective=makespan");

    assert_int_equal(span.span, 72);
    assert_int_equal(makespan.makespan, 77);
}
