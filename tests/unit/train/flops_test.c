/* SPDX-License-Identifier: Apache-2.0
 *
 * The peak that model FLOPs utilization goes by.
 */
#include "loop/flops.h"

#include "test.h"

static void says_peaks(struct pst_device *device, struct pst_cluster *cluster)
{
    (void)device;
    cluster->flops = 60e12;
    cluster->bf16_flops = 900e12;
}

/* Calibration puts what operators reached where the device's own peaks were. */
TEST(test_what_was_measured_is_no_peak)
{
    const struct pst_device_ops ops = {.figures = says_peaks};
    struct pst_plan plan = {.n_devices = 4};
    struct pst_job job = {0};
    struct pst_session session = {.job = &job,
                                  .device_ops = &ops,
                                  .cluster = {.flops = 1e12, .bf16_flops = 2e12},
                                  .calibrated = true,
                                  .planned = {.plan = &plan}};

    assert_true(pst_session_peak_flops(&session) == 4 * 60e12);
    job.run.dtype = PST_RUN_BF16;
    assert_true(pst_session_peak_flops(&session) == 4 * 900e12);
}

TEST(test_a_device_that_says_nothing_has_no_peak)
{
    const struct pst_device_ops ops = {0};
    struct pst_plan plan = {.n_devices = 4};
    struct pst_job job = {0};
    struct pst_session session = {
        .job = &job, .device_ops = &ops, .cluster = {.flops = 1e12}, .planned = {.plan = &plan}};

    assert_true(pst_session_peak_flops(&session) == 0);
}
