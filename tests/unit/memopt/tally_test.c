/* SPDX-License-Identifier: Apache-2.0
 *
 * The tally of a plan against the evaluator, change by change, what it foretells of one, and the
 * bound against enumeration.
 */
#include "planner/eval.h"
#include "search.h"

#include "test.h"

#include "memopt_rig.h"
#include "memopt_host.h"

/* A test within a call of the host, to which the memory of costs and tallies belongs. */
#define CALL_TEST(name)                                                                            \
    static void name##_body(void);                                                                 \
    static pst_status name##_run(void *unused)                                                     \
    {                                                                                              \
        (void)unused;                                                                              \
        name##_body();                                                                             \
        return PST_OK;                                                                             \
    }                                                                                              \
    TEST(name)                                                                                     \
    {                                                                                              \
        assert_int_equal(call_run(name##_run, NULL), PST_OK);                                      \
    }                                                                                              \
    static void name##_body(void)

static struct pst_evaluator evaluator;
static uint64_t counter;

/* Peak, period and legality of the tally's plan are the evaluator's. */
static void compare(const struct stage *s, const struct mem_tally *t)
{
    struct pst_stage_value value = {.size = sizeof value};

    pst_evaluate(&evaluator, &s->view, t->actions, &value);
    assert_int_equal(mem_tally_legal(t), value.legal != 0);
    if (value.legal) {
        assert_int_equal(mem_tally_peak(t), value.peak_bytes);
        assert_int_equal(mem_tally_period(t), value.period_ns);
    }
}

static void change_at_random(struct stage *s, struct mem_tally *t, uint64_t seed, uint32_t changes)
{
    for (uint32_t i = 0; i < changes; i++) {
        uint32_t v = draw(seed, &counter, s->view.n_nodes);
        uint8_t action = (uint8_t)draw(seed, &counter, 3);

        if (s->nodes[v].action == PST_ACTION_KEEP) {
            uint64_t before = t->violations;
            bool breaks = mem_tally_breaks(t, v, action);

            mem_tally_set(t, v, action);
            assert_int_equal(breaks, t->violations > before);
            assert_int_equal(t->actions[v], action);
            compare(s, t);
        }
    }
}

CALL_TEST(test_tally)
{
    const uint64_t seed = 4711;
    FINISHED_BY(pst_arena_finish) struct pst_arena arena = {0};
    struct pst_host host = make_host(&arena);
    const struct mem_rules rules = plain_rules(true);
    struct mem_costs costs = {0};
    struct mem_tally tally = {0};

    for (uint32_t round = 0; round < 600; round++) {
        struct stage s;

        random_stage(&s, round < 500 ? 12 : MAX_NODES, seed, &counter);
        if (round % 4 > 1) {
            random_results(&s, seed, &counter);
        }
        if (round % 3 == 0) { /* earlier decisions, and little host memory */
            s.nodes[0].action = PST_ACTION_OFFLOAD;
            s.view.host_capacity_bytes = 1 + draw(seed, &counter, 300);
        } else if (round % 3 == 1) {
            s.nodes[s.view.n_nodes / 2].action = PST_ACTION_RECOMPUTE;
        }
        s.view.link_directions = 1 + round % 2;
        s.view.link_bytes_per_s = 1 + draw(seed, &counter, 2000000000);
        costs = (struct mem_costs){0};
        mem_costs_load(&costs, &host, &s.view, &rules);
        assert_false(costs.absurd);
        tally = (struct mem_tally){0};
        mem_tally_load(&tally, &costs);
        compare(&s, &tally);
        change_at_random(&s, &tally, seed, 60);
    }
}

/* A cap between what everything dropped and everything kept needs. */
static void tighten(struct stage *s, uint64_t seed)
{
    uint64_t keep, least;
    uint8_t actions[MAX_NODES];

    memset(actions, PST_ACTION_KEEP, sizeof actions);
    keep = value_of(s, actions).peak_bytes;
    memset(actions, PST_ACTION_RECOMPUTE, sizeof actions);
    least = value_of(s, actions).peak_bytes;
    least = least < keep ? least - least / 8 : keep / 2;
    s->view.capacity_bytes = least + draw(seed, &counter, (uint32_t)(keep - least) + 1);
}

CALL_TEST(test_bound)
{
    const uint64_t seed = 1857;
    FINISHED_BY(pst_arena_finish) struct pst_arena arena = {0};
    struct pst_host host = make_host(&arena);
    struct mem_costs costs = {0};
    double recovered = 0;
    uint32_t n = 0, refused = 0, infeasible = 0;

    for (uint32_t round = 0; round < 400; round++) {
        const struct mem_rules rules = plain_rules(round % 2 == 0);
        struct optimum best;
        struct stage s;
        uint64_t bound, total = 0;

        random_stage(&s, 6, seed, &counter);
        if (round % 4 > 1) {
            random_results(&s, seed, &counter);
        }
        tighten(&s, seed);
        for (uint32_t v = 0; v < s.view.n_nodes; v++) {
            total += s.nodes[v].forward_ns + s.nodes[v].backward_ns;
        }
        best = enumerate(&s, round % 2 == 0 ? "KRS" : "KR");
        costs = (struct mem_costs){0};
        mem_costs_load(&costs, &host, &s.view, &rules);
        bound = mem_costs_bound(&costs);
        infeasible += !best.fits;
        refused += bound == UINT64_MAX;
        if (best.fits && bound > total + best.extra) {
            fail_msg("round %u: bound %llu, optimum %llu", round, (unsigned long long)bound,
                     (unsigned long long)(total + best.extra));
        }
        if (best.fits && best.extra > 0) {
            recovered += (double)(bound - total) / (double)best.extra;
            n++;
        }
    }
    print_message("seed %llu: of the extra time the bound knows %.0f %% (%u stages), of %u that "
                  "nothing fits it refuses %u\n",
                  (unsigned long long)seed, 100 * recovered / n, n, infeasible, refused);
    assert_true(n > 100 && recovered / n > 0.3);
}

/* Sums that do not fit are noticed before anything is added up. */
CALL_TEST(test_absurd)
{
    FINISHED_BY(pst_arena_finish) struct pst_arena arena = {0};
    struct pst_host host = make_host(&arena);
    const struct mem_rules rules = plain_rules(true);
    struct mem_costs costs = {0};
    struct stage s;

    stage_init(&s, 3, 0, 1);
    add_link(&s, 1, 2, UINT64_MAX / 2);
    mem_costs_load(&costs, &host, &s.view, &rules);
    assert_true(costs.absurd);
    assert_int_equal(mem_costs_bound(&costs), 0);
    s.nodes[0].saved_bytes = UINT64_C(1) << 40;
    mem_costs_load(&costs, &host, &s.view, &rules);
    assert_false(costs.absurd);
    s.view.in_flight = UINT32_MAX;
    mem_costs_load(&costs, &host, &s.view, &rules);
    assert_true(costs.absurd);
}

int main(void)
{
    int failed = run_own_tests(NULL, NULL);

    pst_evaluator_finish(&evaluator);
    return failed;
}
