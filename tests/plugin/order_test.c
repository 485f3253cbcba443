/* SPDX-License-Identifier: Apache-2.0
 *
 * The orders that schedulers build: times and peaks against the core's evaluation, which is written
 * apart from theirs; orders that cannot run; how pairs reach the host.
 */
#include "order.h"

#include "base/philox.h"
#include "schedule_rig.h"

static void disorder(struct pst_order_question *asked, void *context)
{
    uint64_t *counter = context;

    for (uint32_t s = 0; s < asked->in.n_stages; s++) {
        struct pst_philox r = pst_philox(3, 0, (*counter)++);

        asked->stages[s].forward_ns = r.v[0] % 20;
        asked->stages[s].backward_input_ns = r.v[1] % 20;
        asked->stages[s].backward_weight_ns = r.v[2] % 20;
        asked->stages[s].saved_bytes = r.v[3] % 50;
        asked->stages[s].saved_weight_bytes = r.v[3] % 50 / 3;
    }
    for (uint32_t i = 0; i < asked->in.n_links; i++) {
        struct pst_schedule_link *link = &asked->links[i];
        struct pst_philox r = pst_philox(3, 1, (*counter)++);

        link->from -= r.v[0] % 3 == 0 ? r.v[1] % (i + 1) : 0;
        link->transfer_ns =
            asked->stages[link->from].device == asked->stages[link->to].device ? 0 : r.v[2] % 30;
    }
    pst_order_question_connect(asked);
}

static void fill(struct order *order, const struct schedule_run *run)
{
    order_init(order, &run->asked.in);
    for (uint32_t d = 0; d < run->asked.in.n_devices; d++) {
        for (uint32_t i = 0; i < run->stream.n_passes[d]; i++) {
            const struct pst_pass *pass = &run->stream.passes[d][i];

            order_add(order, d, pass->op, pass->stage, pass->microbatch);
        }
    }
}

static void compare(const struct schedule_run *run)
{
    FINISHED_BY(order_finish) struct order order;
    struct order_times times;

    fill(&order, run);
    assert_true(order_evaluate(&order, &times));
    assert_int_equal(times.makespan_ns, run->makespan_ns);
    assert_int_equal(times.span_ns, run->span_ns);
    for (uint32_t d = 0; d < order.in->n_devices; d++) {
        assert_int_equal(order_peak_bytes(&order, d), run->eval.peak_bytes[d]);
    }
}

TEST(test_times_and_peaks)
{
    static const char *const ids[] = {"gpipe",      "1f1b", "zb-h2",     "interleaved-zb",
                                      "looped-bfs", "zbv",  "dualpipev", "1f1b-v"};
    uint64_t counter = 0;

    for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++) {
        for (uint32_t p = 1; p <= 6; p++) {
            OWN_RUN run = SCHEDULE(ids[i], .p = p, .m = 2 * p + (p % 2) * p, .change = disorder,
                                   .context = &counter);

            compare(&run);
        }
    }
}

/* Times so long that they do not add up stay at the end of the scale. */
static void huge(struct pst_order_question *asked, void *context)
{
    for (uint32_t s = 0; s < asked->in.n_stages; s++) {
        asked->stages[s].forward_ns = UINT64_MAX - 1;
        asked->stages[s].saved_bytes = UINT64_MAX / 2;
    }
}

static bool evaluate(const struct order *order)
{
    struct order_times times;

    return order_evaluate(order, &times);
}

TEST(test_orders_that_cannot_run)
{
    OWN_RUN run = SCHEDULE("1f1b", .p = 2, .m = 3);
    struct order order;
    struct order_op *ops;

    fill(&order, &run);
    ops = order.lists[1].ops;
    assert_true(evaluate(&order));
    order.lists[0].n = 2; /* F of two micro-batches: the third is missed on the other device */
    assert_false(evaluate(&order));
    order.lists[1].n = 4; /* what is left needs only what is there */
    assert_true(evaluate(&order));
    ops[3].microbatch = 0; /* backward of micro-batch 0 again */
    assert_false(evaluate(&order));
    ops[3] = ops[1];
    ops[1] = ops[2];
    ops[2] = ops[0]; /* F twice */
    assert_false(evaluate(&order));
    ops[0].pass = PST_PASS_BW; /* before its F */
    assert_false(evaluate(&order));
    order_finish(&order);
    order_finish(&order); /* nothing is left to be freed */
}

TEST(test_huge_times)
{
    OWN_RUN run = SCHEDULE("1f1b", .p = 2, .m = 3);
    FINISHED_BY(order_finish) struct order order;
    struct order_times times;

    huge(&run.asked, NULL);
    fill(&order, &run);
    assert_true(order_evaluate(&order, &times));
    assert_true(times.makespan_ns == UINT64_MAX - 1);
    assert_true(order_peak_bytes(&order, 0) >= UINT64_MAX / 2);
}

/* Passes as they reach the host: "F0.0" or "F1.0+BW0.0". */
struct told {
    char text[256];
};

static pst_status tell(struct pst_schedule_out *out, uint32_t device, uint32_t pass, uint32_t stage,
                       uint32_t microbatch)
{
    static const char *const names[] = {"?", "F", "B", "W", "BW", "R"};
    struct told *told = out->impl;
    size_t used = strlen(told->text);

    snprintf(told->text + used, sizeof told->text - used, "%u:%s%u.%u ", device, names[pass], stage,
             microbatch);
    return microbatch < 9 ? PST_OK : PST_ERR_BUG;
}

static pst_status tell_pair(struct pst_schedule_out *out, uint32_t device, uint32_t stage_f,
                            uint32_t mb_f, uint32_t pass_b, uint32_t stage_b, uint32_t mb_b)
{
    struct told *told = out->impl;
    pst_status st = tell(out, device, PST_PASS_F, stage_f, mb_f);
    size_t used = strlen(told->text);

    snprintf(told->text + used, sizeof told->text - used, "+ ");
    return st == PST_OK ? tell(out, device, pass_b, stage_b, mb_b) : st;
}

TEST(test_emission)
{
    OWN_RUN run = SCHEDULE("1f1b", .p = 2, .m = 1);
    struct told told = {""};
    struct pst_schedule_out out = {
        .size = sizeof out, .impl = &told, .emit = tell, .pair = tell_pair};
    FINISHED_BY(order_finish) struct order order;

    order_init(&order, &run.asked.in);
    order_add(&order, 1, PST_PASS_F, 1, 0);
    order_add(&order, 1, PST_PASS_BW, 1, 0);
    order_add(&order, 0, PST_PASS_W, 0, 0);
    order.lists[1].ops[0].paired = 1;
    assert_int_equal(order_emit(&order, &out), PST_OK);
    assert_string_equal(told.text, "0:W0.0 1:F1.0 + 1:BW1.0 ");
    order.lists[0].ops[0].microbatch = 9; /* a refusal ends it */
    told.text[0] = '\0';
    assert_int_equal(order_emit(&order, &out), PST_ERR_BUG);
    assert_string_equal(told.text, "0:W0.9 ");
}
