/* SPDX-License-Identifier: Apache-2.0
 *
 * 2bw: its parts, one behind the other, are 1F1B over all micro-batches of the run; times, memory
 * and versions as the paper and enumeration say. Then what the host refuses of parts.
 */
#include "schedule_rig.h"

/* Narayanan et al. 2021, section 3: forwards first until the pipeline is full, then in turn. */
static void expect_stream(const struct schedule_run *run, uint32_t p, uint32_t n, uint32_t m)
{
    for (uint32_t s = 0; s < p; s++) {
        const struct pst_pass *passes = run->stream.passes[s];
        uint32_t w = p - 1 - s < m ? p - 1 - s : m, f = 0, q = 0, at = 0;

        for (; f < w && f < n; f++, at++) {
            assert_int_equal(passes[at].op, PST_PASS_F);
            assert_int_equal(passes[at].microbatch, f);
        }
        while (q < n) {
            if (f < n) {
                assert_int_equal(passes[at].op, PST_PASS_F);
                assert_int_equal(passes[at++].microbatch, f++);
            }
            assert_int_equal(passes[at].op, PST_PASS_BW);
            assert_int_equal(passes[at++].microbatch, q++);
        }
        assert_int_equal(at, run->stream.n_passes[s]);
    }
}

/* Batch t + 2 reads what the step of batch t makes, and that comes after its last backward. */
static void expect_two_versions(const struct schedule_run *run, uint32_t p, uint32_t m)
{
    for (uint32_t s = 0; s < p; s++) {
        uint32_t closed = 0;

        for (uint32_t i = 0; i < run->stream.n_passes[s]; i++) {
            const struct pst_pass *pass = &run->stream.passes[s][i];

            assert_true(pass->microbatch / m < closed + 2);
            assert_true(pass->microbatch / m >= closed);
            closed += pass->op == PST_PASS_BW && (pass->microbatch + 1) % m == 0;
        }
    }
}

static void test_every_size(void **state)
{
    (void)state;
    for (uint32_t p = 1; p <= 8; p++) {
        for (uint32_t m = 1; m <= 12; m++) {
            for (uint32_t t = 1; t <= 5; t += 1 + (m > 4)) {
                uint64_t f = 1 + (p + m) % 3, b = 1 + m % 3, w = 1 + t % 2;
                struct schedule_run run = SCHEDULE("2bw", .options = "relaxed_m=true", .p = p,
                                                   .m = m, .f = f, .b = b, .w = w, .batches = t);

                assert_true(run.answer.asynchronous);
                expect_stream(&run, p, t * m, m);
                expect_two_versions(&run, p, m);
                for (uint32_t d = 0; d < p && m >= p; d++) {
                    assert_int_equal(run.peaks[d], t * m < p - d ? t * m : p - d);
                }
                if (m + 1 >= p) {
                    assert_int_equal(run.makespan, (t * m + p - 1) * (f + b + w));
                }
                schedule_run_free(&run);
            }
        }
    }
}

/* Enumerated: (devices, micro-batches, batches) and the time with F 1, BW 2. */
static void test_published(void **state)
{
    static const uint32_t rows[][4] = {{4, 4, 3, 45}, {4, 4, 4, 57}, {4, 3, 4, 45},
                                       {4, 2, 4, 48}, {6, 5, 4, 75}, {6, 3, 4, 99}};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct schedule_run run = SCHEDULE("2bw", .options = "relaxed_m=true", .p = rows[i][0],
                                           .m = rows[i][1], .batches = rows[i][2]);

        assert_int_equal(run.makespan, rows[i][3]);
        schedule_run_free(&run);
    }
}

static void test_too_few(void **state)
{
    struct schedule_run run = SCHEDULE("2bw", .p = 4, .m = 3, .may_fail = true);

    (void)state;
    assert_int_equal(run.status, PST_ERR_INFEASIBLE);
    assert_non_null(strstr(run.error.message, "needs at least 4 micro-batches, not 3"));
    schedule_run_free(&run);
}

static void test_in_flight(void **state)
{
    struct schedule_run run = SCHEDULE("2bw", .p = 4, .m = 4);
    const struct pst_scheduler *f = run.instance->plugin->get_interface(PST_SCHEDULER);

    (void)state;
    for (uint32_t s = 0; s < 4; s++) {
        struct pst_place place = {.size = sizeof place,
                                  .stage = s,
                                  .n_stages = 4,
                                  .n_devices = 4,
                                  .n_microbatches = 2,
                                  .microbatch_size = 1,
                                  .k = 1};
        struct pst_held held = {.size = sizeof held};

        assert_int_equal(f->in_flight(run.instance->self, &place, &held), PST_OK);
        assert_int_equal(held.weight_versions, 2);
        assert_int_equal(held.microbatches, s == 3 ? 1 : s == 2 ? 2 : 3);
    }
    schedule_run_free(&run);
}

/* --- what the host refuses ---------------------------------------------------------------------
 */

struct step {
    uint32_t part; /* 0: a pass; else part() with this */
    uint32_t pass, microbatch;
};

/* One stage, two micro-batches. */
static void expect_fault(const struct step *steps, size_t n, const char *fault)
{
    struct pst_schedule_stage stage = {.microbatch_size = 1, .n_microbatches = 2, .k = 1};
    struct pst_schedule_in in = {.size = sizeof in,
                                 .n_devices = 1,
                                 .n_stages = 1,
                                 .stage_size = sizeof stage,
                                 .stages = &stage};
    struct pst_emission emission;

    pst_emission_init(&emission, &in);
    for (size_t i = 0; i < n && emission.fault[0] == '\0'; i++) {
        if (steps[i].part != 0) {
            emission.out.part(&emission.out, steps[i].part);
        } else {
            emission.out.emit(&emission.out, 0, steps[i].pass, 0, steps[i].microbatch);
        }
    }
    assert_int_equal(emission.fault[0] == '\0' && pst_emission_complete(&emission), fault == NULL);
    if (fault != NULL && strstr(emission.fault, fault) == NULL) {
        fail_msg("\"%s\" is not in \"%s\"", fault, emission.fault);
    }
    pst_emission_finish(&emission);
}

#define FILL                                                                                       \
    {                                                                                              \
        PST_PART_FILL, 0, 0                                                                        \
    }
#define BODY                                                                                       \
    {                                                                                              \
        PST_PART_BODY, 0, 0                                                                        \
    }
#define DRAIN                                                                                      \
    {                                                                                              \
        PST_PART_DRAIN, 0, 0                                                                       \
    }
#define F(j)                                                                                       \
    {                                                                                              \
        0, PST_PASS_F, j                                                                           \
    }
#define B(j)                                                                                       \
    {                                                                                              \
        0, PST_PASS_B, j                                                                           \
    }
#define W(j)                                                                                       \
    {                                                                                              \
        0, PST_PASS_W, j                                                                           \
    }
#define BW(j)                                                                                      \
    {                                                                                              \
        0, PST_PASS_BW, j                                                                          \
    }
#define EXPECT(fault, ...)                                                                         \
    do {                                                                                           \
        const struct step steps[] = {__VA_ARGS__};                                                 \
        expect_fault(steps, sizeof steps / sizeof steps[0], fault);                                \
    } while (0)

static void test_parts(void **state)
{
    (void)state;
    EXPECT(NULL, FILL, F(0), BODY, F(1), BW(0), F(2), BW(1), DRAIN, F(1), BW(0), BW(1));
    EXPECT(NULL, FILL, F(0), BODY, F(1), B(0), W(0), F(2), BW(1), DRAIN, F(1), BW(0), B(1), W(1));
    EXPECT("there is no part 4", {4, 0, 0});
    EXPECT("comes after passes that belong to no part", F(0), FILL);
    EXPECT("so below 4", FILL, F(4));
    EXPECT("never gets its F in batch 0 of 1", FILL, F(0), BODY, F(1), BW(0), F(2), BW(1), DRAIN,
           BW(0));
    EXPECT("never gets its backward in batch 0 of 1", FILL, F(0), DRAIN, F(1), BW(0));
    EXPECT("F of micro-batch 1 on stage 0 comes twice: in drain", FILL, F(0), F(1), DRAIN, F(1));
    EXPECT("BW of micro-batch 1 on stage 0 comes before its F: in drain", FILL, F(0), DRAIN, BW(1));
    EXPECT("of a batch that is never closed", FILL, F(0), DRAIN, F(1), F(2));
    /* whole in one batch, but body runs a micro-batch of the first again */
    EXPECT("comes twice: in body", FILL, F(0), BODY, F(0), DRAIN, F(1), BW(0), BW(1));
    EXPECT("never gets its W", FILL, F(0), DRAIN, F(1), B(0), BW(1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_size), cmocka_unit_test(test_published),
        cmocka_unit_test(test_too_few),    cmocka_unit_test(test_in_flight),
        cmocka_unit_test(test_parts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
