/* SPDX-License-Identifier: Apache-2.0
 *
 * Schedulers with fixed orders against their closed forms; and what all of them must do for any
 * numbers of devices and micro-batches: a legal order, no idle time on one device, never below the
 * bounds, clear refusals. And orders that PyTorch publishes.
 */
#include "base/philox.h"
#include "schedule_rig.h"
#include "base/hash.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

struct question {
    uint32_t p, m, v, d;
    uint64_t f, b, w;
};

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t least_of_three(const struct question *q)
{
    return least(q->f, least(q->b, q->w));
}

static uint64_t work(const struct question *q)
{
    return q->v * q->m * (q->f + q->b + q->w);
}

/* Bubbles, beyond the work of a device. */
static uint64_t fused(const struct question *q)
{
    return (q->p - 1) * (q->f + q->b + q->w);
}

static uint64_t split(const struct question *q)
{
    return (q->p - 1) * (q->f + q->b);
}

static uint64_t kept_back(const struct question *q)
{
    return (q->p - 1) * (q->f + q->b - least_of_three(q));
}

static uint64_t h2_span(const struct question *q)
{
    int64_t f = (int64_t)q->f, b = (int64_t)q->b, w = (int64_t)q->w;
    int64_t one = f + b - 2 * (w < f ? w : f), two = b - f;

    one = two > one ? two : one;
    return (q->p - 1) * (uint64_t)(one > 0 ? one : 0);
}

/* What device d holds. */
static uint64_t held_h1(const struct question *q)
{
    return least(q->m, q->p);
}

static uint64_t held_h2(const struct question *q)
{
    return least(q->m, 2 * q->p - 1);
}

static uint64_t held_interleaved(const struct question *q)
{
    return least(q->v * q->m, (q->v - 1) * q->p + 2 * (q->p - 1 - q->d) + 1);
}

static uint64_t held_all(const struct question *q)
{
    return q->v * q->m;
}

static uint64_t held_full(const struct question *q)
{
    return q->v * q->p;
}

static uint64_t held_1f1b(const struct question *q)
{
    return least(q->m, q->p - q->d);
}

static uint64_t held_eager(const struct question *q)
{
    return least(q->m, 2 * (q->p - q->d) - 1);
}

/* W right after B is never in the way of a B of another micro-batch. */
static bool short_weights(const struct question *q)
{
    return q->w <= q->f;
}

struct law {
    const char *id, *options;
    uint32_t v, least_m; /* micro-batches in multiples of p, from least_m * p on; 0: any */
    uint64_t (*makespan)(const struct question *), (*span)(const struct question *),
        (*held)(const struct question *);
    bool (*applies)(const struct question *); /* NULL: to all costs */
};

static void check_law(const struct law *law, struct question q)
{
    struct schedule_run run;

    if (law->applies != NULL && !law->applies(&q)) {
        return;
    }
    run = SCHEDULE(law->id, .options = law->options, .p = q.p, .m = q.m, .f = q.f, .b = q.b,
                   .w = q.w);
    q.v = law->v;
    if ((law->makespan != NULL && run.makespan != work(&q) + law->makespan(&q)) ||
        (law->span != NULL && run.span != work(&q) + law->span(&q))) {
        fail_msg("%s %s: p %u m %u f %u b %u w %u: makespan %u, span %u", law->id,
                 law->options == NULL ? "" : law->options, q.p, q.m, (unsigned)q.f, (unsigned)q.b,
                 (unsigned)q.w, (unsigned)run.makespan, (unsigned)run.span);
    }
    for (q.d = 0; q.d < q.p; q.d++) {
        assert_int_equal(run.peaks[q.d], law->held(&q));
    }
    schedule_run_free(&run);
}

TEST(test_laws)
{
    static const struct law laws[] = {
        {"gpipe", NULL, 1, 0, fused, NULL, held_all, NULL},
        {"gpipe", "reverse=true", 1, 1, fused, NULL, held_all, NULL},
        {"gpipe", "split=true", 1, 0, split, NULL, held_all, NULL},
        {"1f1b", NULL, 1, 0, fused, NULL, held_1f1b, NULL},
        {"1f1b", "split=true", 1, 1, split, NULL, held_1f1b, NULL},
        {"1f1b", "eager=true", 1, 0, fused, NULL, held_eager, NULL},
        {"1f1b", "eager=true,split=true", 1, 0, split, NULL, held_eager, NULL},
        {"zb-h1", NULL, 1, 1, kept_back, NULL, held_h1, NULL},
        {"zb-h2", NULL, 1, 2, NULL, h2_span, held_h2, NULL},
        {"interleaved", NULL, 2, 1, fused, fused, held_interleaved, NULL},
        {"interleaved", "chunks=3", 3, 1, fused, fused, held_interleaved, NULL},
        {"interleaved", "split=true", 2, 1, split, split, held_interleaved, short_weights},
        {"interleaved-zb", NULL, 2, 1, kept_back, NULL, held_full, NULL},
        {"interleaved-zb", "chunks=4", 4, 1, kept_back, NULL, held_full, NULL},
        {"looped-bfs", NULL, 2, 1, fused, fused, held_all, NULL},
        {"looped-bfs", "chunks=3", 3, 1, fused, fused, held_all, NULL},
    };
    static const uint32_t shapes[][2] = {{1, 2}, {2, 2}, {3, 3}, {4, 2}, {5, 2}};

    for (size_t i = 0; i < COUNT(laws); i++) {
        for (size_t k = 0; k < COUNT(shapes); k++) {
            uint32_t p = shapes[k][0], times = shapes[k][1];

            times = times < laws[i].least_m ? laws[i].least_m : times;
            for (uint32_t triple = 0; triple < 125; triple++) {
                check_law(&laws[i], (struct question){.p = p,
                                                      .m = p * times,
                                                      .f = 1 + triple % 5,
                                                      .b = 1 + triple / 5 % 5,
                                                      .w = 1 + triple / 25});
            }
        }
        for (uint32_t p = 1; p <= 10 && laws[i].least_m == 0; p++) { /* fewer than devices, too */
            for (uint32_t m = 1; m <= 30; m += 1 + m / 4) {
                check_law(
                    &laws[i],
                    (struct question){
                        .p = p, .m = m, .f = 1 + p % 5, .b = 1 + m % 5, .w = 1 + (p + m) % 5});
            }
        }
    }
}

TEST(test_unit_costs_on_a_v)
{
    for (uint32_t p = 2; p <= 11; p++) {
        static const uint32_t more[] = {0, 1, 7};

        for (size_t i = 0; i < COUNT(more); i++) {
            uint32_t m = 2 * p + more[i];
            uint64_t one = p % 3 == 0   ? 14 * p / 3 - 6
                           : p % 3 == 1 ? 5 * p - 5
                           : p == 2     ? 4
                                        : 5 * p - 7;
            OWN_RUN run = SCHEDULE("zbv", .p = p, .m = m - 1);

            assert_int_equal(run.span, 6 * (m - 1));
            assert_int_equal(run.makespan, 6 * (m - 1) + p - 1);
            for (uint32_t d = 0; d < p; d++) {
                assert_int_equal(run.peaks[d], 2 * p);
            }
            schedule_run_free(&run);
            run = SCHEDULE("dualpipev", .p = p, .m = m);
            assert_int_equal(run.makespan, 6 * m + p - 1);
            assert_int_equal(most_held(&run), 2 * p + 1);
            schedule_run_free(&run);
            run = SCHEDULE("1f1b-v", .p = p, .m = m);
            assert_int_equal(run.span, 6 * m + one);
            assert_int_equal(most_held(&run), p % 3 == 0   ? 4 * p / 3 + 2
                                              : p % 3 == 1 ? (4 * p + 2) / 3
                                                           : (4 * p + 4) / 3);
        }
    }
}

/* Deep pipelines, for which a device's bubble grows by no more than 5 chunks a device. */
TEST(test_deep_v)
{
    for (uint32_t p = 12; p <= 24; p += 3) {
        OWN_RUN run = SCHEDULE("1f1b-v", .p = p, .m = 2 * p);

        assert_true(run.span <= 12 * p + 5 * p - 9);
        assert_int_equal(most_held(&run), 4 * p / 3 + 2);
    }
}

/* A full group: 2(p - 1) chunks idle, and vp - d of them held. */
TEST(test_groups)
{
    for (uint32_t p = 2; p <= 9; p++) {
        for (uint32_t times = 1; times <= 3; times++) {
            OWN_RUN run = SCHEDULE("group-interleaved", .p = p, .m = times * p);

            assert_int_equal(run.makespan, 6 * times * p + 2 * (p - 1));
            for (uint32_t d = 0; d < p; d++) {
                assert_int_equal(run.peaks[d], 2 * p - d);
            }
        }
    }
}

/* As many micro-batches as devices, backward twice the forward: the paper has a bubble of 4(p - 1)
   forwards of a stage, at a ratio of (2p - 2) / (3pw + p - 1) (Liu et al., SC 2023), and p
   micro-batches held. The last device's ramps alone are 3(p - 1). */
TEST(test_waves)
{
    for (uint32_t w = 1; w <= 4; w++) {
        for (uint32_t p = 2; p <= 12; p++) {
            char options[32];
            double paper = (2.0 * p - 2) / (3.0 * p * w + p - 1), ratio;
            struct schedule_run run;
            uint64_t bubble;

            snprintf(options, sizeof options, "waves=%u", w);
            run = SCHEDULE("hanayo", .options = options, .p = p, .m = p);
            bubble = run.makespan - 6 * (uint64_t)w * p;
            ratio = (double)bubble / (double)run.makespan;
            assert_true(bubble >= 3 * (p - 1));
            assert_true(bubble <= 4 * (p - 1) + (w == 1 ? 0 : 4));
            assert_true(ratio <= paper + (w <= 2 ? 0 : 0.004));
            assert_true(most_held(&run) <= 2 * w * p);
            schedule_run_free(&run);
        }
    }
}

/* Two directions. Chimera (Li, Hoefler, SC 2021): where passes take equally long p - 2 of 2m + p -
   2 slots idle, for every unit of p micro-batches in a row; with one unit, and a backward twice the
   forward, (p - 2) / (1.5 m + p - 2). Devices hold p / 2 + 1 to p. DualPipe: see above for a V. */
TEST(test_two_way)
{
    for (uint32_t p = 2; p <= 16; p += 2) {
        for (uint32_t units = 1; units <= 3; units++) {
            uint32_t m = units * p;
            OWN_RUN run = SCHEDULE("chimera", .p = p, .m = m, .f = 1, .b = 1, .w = 0);

            assert_int_equal(run.makespan, 2 * m + p - 2);
            for (uint32_t d = 0; d < p; d++) {
                uint32_t far = d < p / 2 ? d : p - 1 - d;

                assert_true(run.peaks[d] <= p / 2 + 1 + far);
                assert_true(units > 1 || run.peaks[d] == p / 2 + 1 + far);
            }
            if (units == 1) {
                schedule_run_free(&run);
                run = SCHEDULE("chimera", .p = p, .m = m);
                assert_int_equal(run.makespan, 3 * m + 2 * (p - 2));
            }
        }
        for (uint32_t m = 2 * p; m <= 4 * p; m += 2) {
            OWN_RUN run = SCHEDULE("dualpipe", .p = p, .m = m);

            assert_int_equal(run.makespan, 3 * m + (p - 2) / 2);
            for (uint32_t d = 0; d < p; d++) {
                assert_int_equal(run.peaks[d], p + 1);
            }
        }
    }
}

/* Chimera, section 3.5: with a backward twice the forward, p micro-batches after p leave bubbles
   between them. Forward doubling has none: what stays is the ramp before the first backward of the
   devices in the middle and the one behind their last, p / 2 - 1 passes each. */
TEST(test_forward_doubling)
{
    for (uint32_t p = 2; p <= 16; p += 2) {
        for (uint32_t m = 2 * p; m <= 6 * p; m += p) {
            OWN_RUN run = SCHEDULE("chimera", .options = "forward_doubling=true", .p = p, .m = m);
            OWN_RUN plain = SCHEDULE("chimera", .p = p, .m = m);

            if (m % (2 * p) == 0) { /* whole units */
                assert_int_equal(run.makespan, 3 * m + (p / 2 - 1) * 3);
            }
            assert_int_equal(most_held(&run), 2 * p);
            assert_true(p == 2 || plain.makespan > run.makespan);
            assert_int_equal(most_held(&plain), p);
        }
    }
}

/* Ends of forwards [0] and backwards [1] of two copies: [stage][micro-batch], 0 where unknown. */
struct ends {
    uint32_t n_chain, m;
    uint64_t *at[2];
};

static uint64_t *end_of(const struct ends *ends, bool back, uint32_t stage, uint32_t j)
{
    return &ends->at[back][(size_t)stage * ends->m + j];
}

/* Moves *begin to where the pass may begin. False: what it waits for has no end yet. */
static bool may_begin(const struct ends *ends, const struct pst_pass *pass, uint64_t *begin)
{
    const bool back = pass->op != PST_PASS_F;
    const uint32_t s = pass->stage;
    uint64_t end = 1;

    if (pass->op != PST_PASS_W && s % ends->n_chain != (back ? ends->n_chain - 1 : 0)) {
        end = *end_of(ends, back, back ? s + 1 : s - 1, pass->microbatch);
    }
    *begin = end > *begin ? end : *begin;
    return end > 0;
}

static uint64_t duration(const struct schedule_run *run, const struct pst_pass *pass)
{
    return schedule_cost(pst_schedule_stage_at(&run->asked.in, pass->stage), pass->op);
}

/* Runs the passes of device d as far as they can, from the `next` one on, where an F and a whole
   backward behind it are one pass, as long as both, that hands on both results at its end. */
static bool run_pairs(const struct schedule_run *run, const struct ends *ends, uint32_t d,
                      uint32_t *next, uint64_t *free_at)
{
    const uint32_t n = run->stream.n_passes[d], before = *next;

    while (*next < n) {
        const struct pst_pass *pass = &run->stream.passes[d][*next];
        const bool pair = *next + 1 < n && pass[0].op == PST_PASS_F && pass[1].op == PST_PASS_BW;
        uint64_t begin = *free_at;

        if (!may_begin(ends, pass, &begin) || (pair && !may_begin(ends, pass + 1, &begin))) {
            break;
        }
        *free_at = begin + duration(run, pass) + (pair ? duration(run, pass + 1) : 0);
        for (int i = 0; i <= pair && pass->op != PST_PASS_W; i++) {
            *end_of(ends, pass[i].op != PST_PASS_F, pass[i].stage, pass[i].microbatch) = *free_at;
        }
        *next += 1 + pair;
    }
    return *next > before;
}

static uint64_t makespan_of_pairs(const struct schedule_run *run)
{
    const uint32_t n = run->asked.in.n_stages, p = run->asked.in.n_devices;
    struct ends ends = {.n_chain = n / 2,
                        .m = pst_schedule_stage_at(&run->asked.in, 0)->n_microbatches};
    uint64_t free_at[SCHEDULE_DEVICES], last = 1;
    uint32_t next[SCHEDULE_DEVICES] = {0};
    bool moved = true;

    ends.at[0] = calloc((size_t)n * ends.m, sizeof **ends.at);
    ends.at[1] = calloc((size_t)n * ends.m, sizeof **ends.at);
    for (uint32_t d = 0; d < p; d++) {
        free_at[d] = 1; /* the beginning: 0 is unknown */
    }
    while (moved) {
        moved = false;
        for (uint32_t d = 0; d < p; d++) {
            moved |= run_pairs(run, &ends, d, &next[d], &free_at[d]);
        }
    }
    for (uint32_t d = 0; d < p; d++) {
        assert_int_equal(next[d], run->stream.n_passes[d]);
        last = free_at[d] > last ? free_at[d] : last;
    }
    free(ends.at[0]);
    free(ends.at[1]);
    return last - 1;
}

/* The table of the DeepSeek-V3 report: DualPipe idles for (p / 2 - 1) (F&B + B - 3 W), where B is a
   whole backward and F&B a pair. Here a pair is as long as its members, which it hands on together;
   and a forward as long as the backward for inputs, as in the published orders. */
TEST(test_dualpipe_bubble)
{
    static const uint64_t costs[][2] = {{1, 1}, {4, 2}, {3, 1}, {5, 5}}; /* F = B for inputs; W */

    for (uint32_t p = 2; p <= 16; p += 2) {
        for (size_t i = 0; i < COUNT(costs); i++) {
            const uint64_t f = costs[i][0], w = costs[i][1], m = 2 * p + 2 * i;
            OWN_RUN run = SCHEDULE("dualpipe", .p = p, .m = (uint32_t)m, .f = f, .b = f, .w = w);

            assert_int_equal(makespan_of_pairs(&run) - m * (2 * f + w),
                             (p / 2 - 1) * ((2 * f + w) + (f + w) - 3 * w));
        }
    }
}

/* The second copy sits the other way round, and nothing leads from one to the other. */
TEST(test_two_way_places)
{
    static const uint32_t expected[] = {0, 1, 2, 3, 3, 2, 1, 0};
    OWN_RUN run = SCHEDULE("chimera", .p = 4, .m = 6);

    assert_int_equal(run.asked.in.n_stages, COUNT(expected));
    assert_int_equal(run.asked.in.n_links, COUNT(expected) - 2);
    for (uint32_t s = 0; s < COUNT(expected); s++) {
        const struct pst_schedule_stage *stage = pst_schedule_stage_at(&run.asked.in, s);

        assert_int_equal(stage->device, expected[s]);
        assert_int_equal(stage->n_microbatches, 3);
        assert_int_equal(stage->n_succ, s % 4 < 3);
    }
}

/* Down and up again, twice; where the way turns, two stages in a row are on one device. */
TEST(test_wave_places)
{
    static const uint32_t expected[] = {0, 1, 2, 2, 1, 0, 0, 1, 2, 2, 1, 0};
    OWN_RUN run = SCHEDULE("hanayo", .options = "waves=2", .p = 3, .m = 3);

    assert_int_equal(run.asked.in.n_stages, COUNT(expected));
    for (uint32_t s = 0; s < COUNT(expected); s++) {
        assert_int_equal(pst_schedule_stage_at(&run.asked.in, s)->device, expected[s]);
    }
}

/* What links of a hundredth of a pass add to the makespan: once, not per micro-batch. */
TEST(test_latency)
{
    static const struct {
        const char *id;
        uint32_t p, more;
    } cases[] = {{"interleaved", 4, 14}, {"interleaved", 8, 30}, {"zbv", 4, 13}, {"zbv", 8, 33}};

    for (size_t i = 0; i < COUNT(cases); i++) {
        uint32_t p = cases[i].p;

        for (uint32_t m = 2 * p; m <= 4 * p; m += p) {
            OWN_RUN free_links =
                SCHEDULE(cases[i].id, .p = p, .m = m, .f = 100, .b = 100, .w = 100);
            OWN_RUN links =
                SCHEDULE(cases[i].id, .p = p, .m = m, .c = 1, .f = 100, .b = 100, .w = 100);

            assert_int_equal(links.makespan - free_links.makespan, cases[i].more);
        }
    }
}

/* --- for any numbers ---------------------------------------------------------------------------*/

struct kind {
    const char *id, *options;
    bool rounds; /* m div p must divide m */
    uint32_t least_m;
};

static const struct kind kinds[] = {
    {"zb-h1", NULL, false, 0},
    {"zb-h2", NULL, false, 0},
    {"interleaved", NULL, true, 0},
    {"interleaved", "chunks=3,split=true", true, 0},
    {"interleaved-zb", "chunks=3", true, 0},
    {"looped-bfs", NULL, false, 0},
    {"group-interleaved", NULL, false, 0},
    {"group-interleaved", "group=1,chunks=3", false, 0},
    {"zbv", NULL, false, 0},
    {"1f1b-v", NULL, false, 0},
    {"dualpipev", NULL, false, 2},
    {"v-min", NULL, false, 0},
    {"v-half", NULL, false, 0},
    {"hanayo", NULL, false, 0},
    {"hanayo", "waves=3,window=5", false, 0},
};

static bool refused(const struct kind *kind, uint32_t p, uint32_t m)
{
    return m < kind->least_m * p || (kind->rounds && m > p && m % (m / p) != 0);
}

static void check_any(const struct kind *kind, uint32_t p, uint32_t m)
{
    struct schedule_run run =
        SCHEDULE(kind->id, .options = kind->options, .p = p, .m = m, .may_fail = true);

    if (refused(kind, p, m)) {
        assert_int_equal(run.status, PST_ERR_INFEASIBLE);
        schedule_run_free(&run);
        return;
    }
    assert_int_equal(run.status, PST_OK);
    assert_true(run.bounds.makespan_ns <= run.makespan_ns && run.bounds.span_ns <= run.span_ns);
    if (p == 1) {
        assert_int_equal(run.makespan, run.work);
        assert_int_equal(run.eval.n_transfers, 0);
    }
    schedule_run_free(&run);
}

TEST(test_any_numbers)
{
    for (size_t i = 0; i < COUNT(kinds); i++) {
        for (uint32_t p = 1; p <= 9; p++) {
            for (uint32_t m = 1; m <= 3 * p; m++) {
                check_any(&kinds[i], p, m);
            }
        }
    }
}

/* Costs do not change the order; times in proportion are scheduler_laws_test.c's. */
TEST(test_costs_do_not_matter)
{
    for (size_t i = 0; i < COUNT(kinds); i++) {
        OWN_RUN one = SCHEDULE(kinds[i].id, .options = kinds[i].options, .p = 3, .m = 6);
        OWN_RUN other = SCHEDULE(kinds[i].id, .options = kinds[i].options, .p = 3, .m = 6, .f = 7,
                                 .b = 2, .w = 9, .c = 3, .barrier = true);

        assert_string_equal(one.csv, other.csv);
    }
}

/* --- refusals ----------------------------------------------------------------------------------*/

static void expect_refusal(struct schedule_run run, pst_status status, const char *words)
{
    assert_int_equal(run.status, status);
    if (strstr(run.error.message, words) == NULL) {
        fail_msg("\"%s\" lacks \"%s\"", run.error.message, words);
    }
    schedule_run_free(&run);
}

static void misplace(struct pst_order_question *asked, void *context)
{
    asked->stages[1].device = 0;
}

static void swap(struct pst_order_question *asked, void *context)
{
    asked->stages[0].device = 1;
    asked->stages[1].device = 0;
}

static void halve(struct pst_order_question *asked, void *context)
{
    asked->stages[1].n_microbatches /= 2;
    asked->stages[1].microbatch_size *= 2;
}

TEST(test_refusals)
{
    struct schedule_run run;

    expect_refusal(SCHEDULE("1f1b", .p = 3, .m = 4, .change = halve, .may_fail = true),
                   PST_ERR_UNSUPPORTED, "stage 1 has 2 micro-batches");
    expect_refusal(SCHEDULE("1f1b", .options = "splat=true", .p = 2, .m = 2, .may_fail = true),
                   PST_ERR_CONFIG, "split");
    run = SCHEDULE("1f1b", .options = "split", .p = 2, .m = 2, .may_fail = true);
    assert_string_equal(run.error.kind, "config.syntax");
    schedule_run_free(&run);
    expect_refusal(SCHEDULE("interleaved", .p = 4, .m = 9, .may_fail = true), PST_ERR_INFEASIBLE,
                   "9 micro-batches on 4 devices: interleaved needs 2 rounds with equal numbers "
                   "of micro-batches; 8 or 10 would do");
    expect_refusal(SCHEDULE("dualpipev", .p = 3, .m = 5, .may_fail = true), PST_ERR_INFEASIBLE,
                   "at least 6 micro-batches");
    expect_refusal(SCHEDULE("dualpipe", .p = 4, .m = 6, .may_fail = true), PST_ERR_INFEASIBLE,
                   "at least 8 micro-batches");
    expect_refusal(SCHEDULE("dualpipe", .p = 3, .m = 8, .may_fail = true), PST_ERR_INFEASIBLE,
                   "3 devices: dualpipe needs an even number");
    expect_refusal(SCHEDULE("chimera", .p = 4, .m = 5, .may_fail = true), PST_ERR_INFEASIBLE,
                   "as many micro-batches one way as the other");
    expect_refusal(SCHEDULE("zbv", .p = 2, .m = 4, .change = misplace, .may_fail = true),
                   PST_ERR_UNSUPPORTED, "device 0 has 3 of the 4 stages: zbv runs 2 per device");
    expect_refusal(SCHEDULE("zb-h1", .p = 2, .m = 4, .change = misplace, .may_fail = true),
                   PST_ERR_UNSUPPORTED, "device 0 has 2 of the 2 stages: zb-h1 runs 1 per device");
    expect_refusal(SCHEDULE("interleaved-zb", .p = 2, .m = 4, .change = swap, .may_fail = true),
                   PST_ERR_UNSUPPORTED, "stage 0 is on device 1");
    expect_refusal(SCHEDULE("zb-h2", .p = 3, .m = 4, .change = halve, .may_fail = true),
                   PST_ERR_UNSUPPORTED, "stage 1 has 2 micro-batches, stage 0 has 4");
    expect_refusal(
        SCHEDULE("group-interleaved", .options = "group=5", .p = 4, .m = 8, .may_fail = true),
        PST_ERR_CONFIG, "group = 5 on 4 devices");
    expect_refusal(SCHEDULE("group-interleaved", .options = "group=1,min_group=1", .p = 6, .m = 12,
                            .may_fail = true),
                   PST_ERR_CONFIG, "min_group = 3 would do");
}

/* The order does not adapt: too little room is said, with need and room; enough is enough. */
TEST(test_room)
{
    for (size_t i = 0; i < COUNT(kinds); i++) {
        struct schedule_run run =
            SCHEDULE(kinds[i].id, .options = kinds[i].options, .p = 3, .m = 6);
        uint64_t most = most_held(&run);
        char words[64];

        schedule_run_free(&run);
        run = SCHEDULE(kinds[i].id, .options = kinds[i].options, .p = 3, .m = 6, .cap = most);
        schedule_run_free(&run);
        snprintf(words, sizeof words, "would hold %u bytes of activations and has room for %u",
                 (unsigned)most, (unsigned)most - 1);
        expect_refusal(SCHEDULE(kinds[i].id, .options = kinds[i].options, .p = 3, .m = 6,
                                .cap = most - 1, .may_fail = true),
                       PST_ERR_INFEASIBLE, words);
    }
}

/* --- the same order under another name, or elsewhere -------------------------------------------*/

/*
 * Digests of the files dualpipev_4rank_10mb.csv and zb1p_2rank_2stagep_compute.csv that PyTorch
 * keeps with the tests of its pipelines, without idle cells, input gradients written I, pairs
 * written as forward and backward.
 */
TEST(test_orders_of_pytorch)
{
    OWN_RUN run = SCHEDULE("dualpipev", .p = 4, .m = 10);

    assert_true(pst_fnv1a_bytes(PST_FNV1A, run.csv, strlen(run.csv)) == 0x3a0852bc29d7806du);
    schedule_run_free(&run);
    run = SCHEDULE("interleaved-zb", .p = 2, .m = 8);
    assert_true(pst_fnv1a_bytes(PST_FNV1A, run.csv, strlen(run.csv)) == 0x85e0f211e4d84b65u);
    schedule_run_free(&run);
    run = SCHEDULE("interleaved-zb", .p = 2, .m = 6);
    assert_true(pst_fnv1a_bytes(PST_FNV1A, run.csv, strlen(run.csv)) != 0x85e0f211e4d84b65u);
}

/* With one chunk the interleaved orders are those of one stage per device. */
TEST(test_one_chunk)
{
    static const char *const pairs[][4] = {
        {"interleaved-zb", "chunks=1", "zb-h1", NULL},
        {"interleaved", "chunks=1", "1f1b", "eager=true"},
        {"interleaved", "chunks=1,split=true", "1f1b", "eager=true,split=true"},
        {"looped-bfs", "chunks=1", "gpipe", "reverse=true"},
    };

    for (size_t i = 0; i < COUNT(pairs); i++) {
        for (uint32_t p = 1; p <= 5; p++) {
            for (uint32_t m = p; m <= 11; m++) {
                OWN_RUN a = SCHEDULE(pairs[i][0], .options = pairs[i][1], .p = p, .m = m);
                OWN_RUN b = SCHEDULE(pairs[i][2], .options = pairs[i][3], .p = p, .m = m);

                assert_string_equal(a.csv, b.csv);
            }
        }
    }
}
