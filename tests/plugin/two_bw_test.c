/* SPDX-License-Identifier: Apache-2.0
 *
 * 2bw: its parts, one behind the other, are 1F1B over all micro-batches of the run; times, memory
 * and versions as the paper and enumeration say.
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

TEST(test_every_size)
{
    for (uint32_t p = 1; p <= 8; p++) {
        for (uint32_t m = 1; m <= 12; m++) {
            for (uint32_t t = 1; t <= 5; t += 1 + (m > 4)) {
                uint64_t f = 1 + (p + m) % 3, b = 1 + m % 3, w = 1 + t % 2;
                OWN_RUN run = SCHEDULE("2bw", .options = "relaxed_m=true", .p = p, .m = m, .f = f,
                                       .b = b, .w = w, .batches = t);

                assert_true(run.answer.asynchronous);
                expect_stream(&run, p, t * m, m);
                expect_two_versions(&run, p, m);
                for (uint32_t d = 0; d < p && m >= p; d++) {
                    assert_int_equal(run.peaks[d], t * m < p - d ? t * m : p - d);
                }
                if (m + 1 >= p) {
                    assert_int_equal(run.makespan, (t * m + p - 1) * (f + b + w));
                }
            }
        }
    }
}

/* Enumerated: (devices, micro-batches, batches) and the time with F 1, BW 2. */
TEST(test_published)
{
    static const uint32_t rows[][4] = {{4, 4, 3, 45}, {4, 4, 4, 57}, {4, 3, 4, 45},
                                       {4, 2, 4, 48}, {6, 5, 4, 75}, {6, 3, 4, 99}};

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        OWN_RUN run = SCHEDULE("2bw", .options = "relaxed_m=true", .p = rows[i][0], .m = rows[i][1],
                               .batches = rows[i][2]);

        assert_int_equal(run.makespan, rows[i][3]);
    }
}

TEST(test_too_few)
{
    OWN_RUN run = SCHEDULE("2bw", .p = 4, .m = 3, .may_fail = true);

    assert_int_equal(run.status, PST_ERR_INFEASIBLE);
    assert_non_null(strstr(run.error.message, "needs at least 4 micro-batches, not 3"));
}

TEST(test_in_flight)
{
    OWN_RUN run = SCHEDULE("2bw", .p = 4, .m = 4);
    const struct pst_scheduler *f = run.instance->plugin->get_interface(PST_SCHEDULER);

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
}
