/* SPDX-License-Identifier: Apache-2.0
 *
 * Timing of orders against a plain sweep over the lists, on random graphs of stages; what is said
 * of orders that cannot run.
 */
#include "planner/order_question.h"
#include "reports/order_bounds.h"

#include "test.h"

#include "order_rig.h"

/* A random graph of stages, some on one device, with sizes that divide 8 samples. */
static void random_problem(struct rng *rng, struct pst_order_question *asked)
{
    uint32_t n_devices = 1 + draw(rng, 4), n_stages = n_devices + draw(rng, 4), n_links = 0;

    memset(asked, 0, sizeof *asked);
    pst_order_question_alloc(asked, n_devices, n_stages, n_stages * (n_stages - 1) / 2);
    for (uint32_t s = 0; s < n_stages; s++) {
        uint32_t size = 1u << draw(rng, 3);

        asked->stages[s] = (struct pst_schedule_stage){
            .device = s < n_devices ? s : draw(rng, n_devices),
            .microbatch_size = size,
            .n_microbatches = 8 / size,
            .k = 1,
            .forward_ns = draw(rng, 5),
            .backward_input_ns = 1 + draw(rng, 5),
            .backward_weight_ns = draw(rng, 5),
            .saved_bytes = 1 + draw(rng, 4),
        };
        asked->stages[s].saved_weight_bytes = draw(rng, (uint32_t)asked->stages[s].saved_bytes + 1);
        for (uint32_t from = 0; from < s; from++) {
            if (from + 1 == s || draw(rng, 3) == 0) {
                asked->links[n_links++] = (struct pst_schedule_link){from, s, draw(rng, 3)};
            }
        }
    }
    asked->in.n_links = n_links;
    pst_order_question_connect(asked);
}

/* --- the plain way -----------------------------------------------------------------------------*/

struct sweep {
    uint64_t end[5][MAX_STAGES][MAX_MB]; /* by PST_PASS_*, B for both kinds of backward */
    bool done[5][MAX_STAGES][MAX_MB];
};

static uint32_t row_of(uint32_t op)
{
    return op == PST_PASS_BW ? PST_PASS_B : op;
}

static bool overlap(const struct pst_schedule_stage *a, uint32_t i,
                    const struct pst_schedule_stage *b, uint32_t j)
{
    return i * a->microbatch_size < (j + 1) * b->microbatch_size &&
           j * b->microbatch_size < (i + 1) * a->microbatch_size;
}

/* When is everything there that the pass needs; false: not yet. */
static bool ready(const struct pst_order_question *asked, const struct sweep *sweep,
                  const struct pst_pass *pass, uint64_t *ret_when)
{
    const struct pst_schedule_stage *own = &asked->stages[pass->stage];
    uint32_t before = pass->op == PST_PASS_W ? PST_PASS_B : PST_PASS_F;

    *ret_when = 0;
    if (pass->op != PST_PASS_F) {
        if (!sweep->done[before][pass->stage][pass->microbatch]) {
            return false;
        }
        *ret_when = sweep->end[before][pass->stage][pass->microbatch];
    }
    for (uint32_t i = 0; pass->op != PST_PASS_W && i < asked->in.n_links; i++) {
        const struct pst_schedule_link *link = &asked->links[i];
        bool forward = pass->op == PST_PASS_F;
        uint32_t other = forward ? link->from : link->to;
        uint32_t op = forward ? PST_PASS_F : PST_PASS_B;
        const struct pst_schedule_stage *neighbour = &asked->stages[other];

        if ((forward ? link->to : link->from) != pass->stage) {
            continue;
        }
        for (uint32_t j = 0; j < neighbour->n_microbatches; j++) {
            uint64_t when = sweep->end[op][other][j] +
                            (neighbour->device == own->device ? 0 : link->transfer_ns);

            if (!overlap(own, pass->microbatch, neighbour, j)) {
                continue;
            }
            if (!sweep->done[op][other][j]) {
                return false;
            }
            *ret_when = when > *ret_when ? when : *ret_when;
        }
    }
    return true;
}

static uint64_t duration(const struct pst_schedule_stage *stage, uint32_t op)
{
    return op == PST_PASS_F   ? stage->forward_ns
           : op == PST_PASS_B ? stage->backward_input_ns
           : op == PST_PASS_W ? stage->backward_weight_ns
                              : stage->backward_input_ns + stage->backward_weight_ns;
}

static void finish_pass(const struct pst_order_question *asked, struct sweep *sweep,
                        const struct pst_pass *pass, uint64_t ready_ns, uint64_t *clock)
{
    *clock =
        (ready_ns > *clock ? ready_ns : *clock) + duration(&asked->stages[pass->stage], pass->op);
    sweep->end[row_of(pass->op)][pass->stage][pass->microbatch] = *clock;
    sweep->done[row_of(pass->op)][pass->stage][pass->microbatch] = true;
}

/* Sweeps over the devices until nothing moves; -1: stuck. */
static int64_t plain_makespan(const struct pst_order_question *asked, const struct lists *lists)
{
    static struct sweep sweep;
    uint64_t clock[MAX_STAGES] = {0}, makespan = 0, when;
    uint32_t at[MAX_STAGES] = {0};
    bool moved = true;

    memset(&sweep, 0, sizeof sweep);
    while (moved) {
        moved = false;
        for (uint32_t d = 0; d < asked->in.n_devices; d++) {
            while (at[d] < lists->n[d] && ready(asked, &sweep, &lists->passes[d][at[d]], &when)) {
                finish_pass(asked, &sweep, &lists->passes[d][at[d]++], when, &clock[d]);
                moved = true;
            }
        }
    }
    for (uint32_t d = 0; d < asked->in.n_devices; d++) {
        if (at[d] < lists->n[d]) {
            return -1;
        }
        makespan = clock[d] > makespan ? clock[d] : makespan;
    }
    return (int64_t)makespan;
}

/* Any pass that can run does, until none is left: an order that can be satisfied. */
static void random_order(struct rng *rng, const struct pst_order_question *asked,
                         struct lists *lists)
{
    static struct sweep sweep;
    uint64_t clock = 0, when;
    uint32_t left = 0;

    memset(&sweep, 0, sizeof sweep);
    memset(lists, 0, sizeof *lists);
    for (uint32_t s = 0; s < asked->in.n_stages; s++) {
        left += 3 * asked->stages[s].n_microbatches;
    }
    while (left > 0) {
        uint32_t s = draw(rng, asked->in.n_stages);
        struct pst_pass pass = {(uint8_t)(PST_PASS_F + draw(rng, 4)), s,
                                draw(rng, asked->stages[s].n_microbatches)};
        bool fused = pass.op == PST_PASS_BW;

        if (sweep.done[row_of(pass.op)][s][pass.microbatch] ||
            !ready(asked, &sweep, &pass, &when)) {
            continue;
        }
        finish_pass(asked, &sweep, &pass, when, &clock);
        sweep.done[PST_PASS_W][s][pass.microbatch] |= fused;
        add(lists, asked->stages[s].device, pass.op, s, pass.microbatch);
        left -= fused ? 2 : 1;
    }
}

/* The path is one of passes that touch: each starts when the one before has ended, or so much later
   as the link between takes; it starts at 0 and ends with the makespan. */
static void check_critical(const struct pst_order_eval *eval)
{
    uint64_t end = 0;

    assert_true(eval->n_critical > 0);
    for (uint32_t i = 0; i < eval->n_critical; i++) {
        const uint32_t *at = eval->critical[i];
        uint64_t start = eval->start_ns[at[0]][at[1]];

        assert_true(i == 0 ? start == 0 : start >= end && start <= end + 2);
        end = eval->end_ns[at[0]][at[1]];
    }
    assert_int_equal(end, eval->makespan_ns);
}

TEST(test_random_orders)
{
    struct rng rng = {4711, 0};
    static struct lists lists;

    for (int round = 0; round < 300; round++) {
        struct pst_order_bounds bounds;
        FINISHED_BY(pst_order_eval_finish) struct pst_order_eval eval;
        FINISHED_BY(pst_order_question_finish) struct pst_order_question asked;
        struct pst_error err;

        random_problem(&rng, &asked);
        random_order(&rng, &asked, &lists);
        assert_int_equal(evaluate(&asked, &lists, &eval, &err), PST_OK);
        assert_int_equal(eval.makespan_ns, plain_makespan(&asked, &lists));
        assert_true(eval.span_ns <= eval.makespan_ns && eval.work_ns <= eval.span_ns);
        check_critical(&eval);
        pst_order_bounds(&asked.in, &bounds);
        assert_true(bounds.makespan_ns <= eval.makespan_ns);
        assert_true(bounds.span_ns <= eval.span_ns);
        /* With as much room as it takes, the bounds may rise, but not above what it costs. */
        memcpy(asked.activation_bytes, eval.peak_bytes,
               asked.in.n_devices * sizeof *asked.activation_bytes);
        pst_order_bounds(&asked.in, &bounds);
        assert_true(bounds.makespan_ns <= eval.makespan_ns);
        assert_true(bounds.span_ns <= eval.span_ns);
    }
}

/* Neighbours swapped at random: satisfiable or not, both ways must agree. */
TEST(test_broken_orders)
{
    struct rng rng = {815, 0};
    static struct lists lists;
    uint32_t n_stuck = 0;

    for (int round = 0; round < 300; round++) {
        struct pst_order_eval eval;
        struct pst_error err = {0};
        FINISHED_BY(pst_order_question_finish) struct pst_order_question asked;
        int64_t expected;

        random_problem(&rng, &asked);
        random_order(&rng, &asked, &lists);
        for (int i = 0; i < 3; i++) {
            uint32_t d = draw(&rng, asked.in.n_devices), a = draw(&rng, lists.n[d]),
                     b = draw(&rng, lists.n[d]);
            struct pst_pass pass = lists.passes[d][a];

            lists.passes[d][a] = lists.passes[d][b];
            lists.passes[d][b] = pass;
        }
        expected = plain_makespan(&asked, &lists);
        if (expected >= 0) {
            assert_int_equal(evaluate(&asked, &lists, &eval, &err), PST_OK);
            assert_int_equal(eval.makespan_ns, expected);
            pst_order_eval_finish(&eval);
        } else {
            n_stuck++;
            assert_int_equal(evaluate(&asked, &lists, &eval, &err), PST_ERR_BUG);
            assert_string_equal(err.kind, "plan.illegal");
            assert_true(strlen(err.details) > 20);
        }
    }
    assert_in_range(n_stuck, 50, 299);
}

/* Both devices want the other's pass first. */
TEST(test_the_circle_is_told)
{
    static struct lists lists;
    struct pst_order_eval eval;
    struct pst_error err = {0};
    FINISHED_BY(pst_order_question_finish) struct pst_order_question asked;

    memset(&lists, 0, sizeof lists);
    chain(2, 2, 1, 1, 1, 0, false, &asked);
    add(&lists, 0, PST_PASS_F, 0, 0);
    add(&lists, 0, PST_PASS_BW, 0, 0);
    add(&lists, 0, PST_PASS_F, 0, 1);
    add(&lists, 0, PST_PASS_BW, 0, 1);
    add(&lists, 1, PST_PASS_F, 1, 1);
    add(&lists, 1, PST_PASS_F, 1, 0);
    add(&lists, 1, PST_PASS_BW, 1, 0);
    add(&lists, 1, PST_PASS_BW, 1, 1);
    assert_int_equal(evaluate(&asked, &lists, &eval, &err), PST_ERR_BUG);
    assert_non_null(strstr(err.details, "device 1: F of micro-batch 1 on stage 1 waits for F of "
                                        "micro-batch 1 on stage 0 on device 0"));
    assert_non_null(strstr(err.details, "device 0: B of micro-batch 0 on stage 0 waits for B of "
                                        "micro-batch 0 on stage 1 on device 1"));
    lists.n[0] = 0;
    assert_int_equal(evaluate(&asked, &lists, &eval, &err), PST_ERR_BUG);
    assert_non_null(strstr(err.message,
                           "F of micro-batch 1 on stage 1 waits for F of micro-batch 1 "
                           "on stage 0, which is in no list"));
    add(&lists, 0, PST_PASS_F, 0, 0);
    add(&lists, 0, PST_PASS_F, 0, 0);
    assert_int_equal(evaluate(&asked, &lists, &eval, &err), PST_ERR_BUG);
    assert_non_null(strstr(err.message, "comes twice"));
    lists.n[0] = 0;
    add(&lists, 0, PST_PASS_F, 1, 0);
    assert_int_equal(evaluate(&asked, &lists, &eval, &err), PST_ERR_BUG);
    assert_non_null(strstr(err.message, "does not belong there"));
}

/* Peaks by what B gives back: of 5, W alone needs 2. */
TEST(test_peaks)
{
    static struct lists lists;
    FINISHED_BY(pst_order_eval_finish) struct pst_order_eval eval;
    struct pst_error err;
    FINISHED_BY(pst_order_question_finish) struct pst_order_question asked;

    memset(&lists, 0, sizeof lists);
    chain(1, 3, 1, 1, 1, 0, false, &asked);
    asked.stages[0].saved_bytes = 5;
    asked.stages[0].saved_weight_bytes = 2;
    add(&lists, 0, PST_PASS_F, 0, 0);
    add(&lists, 0, PST_PASS_B, 0, 0); /* 2 are left */
    add(&lists, 0, PST_PASS_F, 0, 1); /* 7 */
    add(&lists, 0, PST_PASS_B, 0, 1); /* 4 */
    add(&lists, 0, PST_PASS_F, 0, 2); /* 9 */
    add(&lists, 0, PST_PASS_W, 0, 0);
    add(&lists, 0, PST_PASS_BW, 0, 2);
    add(&lists, 0, PST_PASS_W, 0, 1);
    assert_int_equal(evaluate(&asked, &lists, &eval, &err), PST_OK);
    assert_int_equal(eval.peak_bytes[0], 9);
    assert_int_equal(eval.makespan_ns, 9);
    assert_int_equal(eval.n_transfers, 0);
    assert_int_equal(eval.n_critical, 8);
}
