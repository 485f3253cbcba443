/* SPDX-License-Identifier: Apache-2.0
 *
 * DawnPiper's defaults against the variant that follows the paper, on small transformers with
 * little memory: whatever fits there fits by default, the slowest stage is no slower, and the step
 * no longer: it is the shorter one of that variant's and of what the other way comes to alone.
 */
#include "job_rig.h"
#include "sim/sim.h"
#include "train/session.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>

#include "base/philox.h"

#define FAITHFUL                                                                                   \
    "[partitioner]\nuse = \"dawnpiper\"\ninterval = \"paper\"\n[[memopt]]\nuse = \"dawnpiper\"\n"  \
    "policy = \"capuchin\"\n"
#define ALONE                                                                                      \
    "[partitioner]\nuse = \"dawnpiper\"\ninterval = \"pivot3\"\n[[memopt]]\nuse = \"dawnpiper\"\n" \
    "policy = \"two-ended\"\n"
#define DEFAULTS "[partitioner]\nuse = \"dawnpiper\"\n[[memopt]]\nuse = \"dawnpiper\"\n"

static const uint64_t seed = 811;
static uint64_t draws;

static uint32_t between(uint32_t low, uint32_t high)
{
    return low + pst_philox(seed, 5, draws++).v[0] % (high - low + 1);
}

struct question {
    uint32_t layers, width, devices, microbatch;
    uint64_t memory, link; /* memory 0: no limit */
};

struct answer {
    bool fits;
    uint64_t need, step_ns; /* need: of the device that takes most */
    double bottleneck_us;   /* of a sample */
};

static double remark_of(const struct pst_planned *planned, const char *name)
{
    for (uint32_t i = 0; i < planned->n_remarks; i++) {
        if (strcmp(planned->remarks[i].key, name) == 0) {
            return planned->remarks[i].number;
        }
    }
    fail_msg("no remark %s", name);
    return 0;
}

static struct answer plan(const struct question *q, const char *strategies,
                          pst_planner_clock *clock)
{
    struct pst_planned planned = {.plan = NULL};
    struct answer answer = {.fits = false};
    struct job_rig rig;
    char toml[2048];
    pst_status st;

    snprintf(toml, sizeof toml,
             "[model]\nuse = \"gpt\"\nlayers = %u\ndim = %u\nheads = 4\nvocab = 512\n"
             "context = 128\n[data]\nkind = \"synthetic\"\n[train]\nbatch = %u\nmicrobatch = %u\n"
             "[cluster]\ndevices = %u\nmemory = %llu\nhost_bandwidth = %llu\n"
             "[scheduler]\nuse = \"1f1b\"\n%s",
             q->layers, q->width, 4 * q->devices * q->microbatch, q->microbatch, q->devices,
             (unsigned long long)q->memory, (unsigned long long)q->link, strategies);
    st = job_rig_init(&rig, toml);
    if (st != PST_OK) {
        fail_msg("%s", rig.err.message);
    }
    rig.job.brief = true; /* no advice */
    st = pst_planner_run_timed(&rig.job, rig.graph, &rig.cluster, &rig.cost, clock, NULL, &planned,
                               &rig.err);
    if (st == PST_OK) {
        answer.fits = true;
        answer.bottleneck_us = remark_of(&planned, "bottleneck_us_per_sample");
        for (uint32_t d = 0; d < planned.plan->n_devices; d++) {
            uint64_t bytes = planned.plan->devices[d].arena_bytes;

            answer.need = bytes > answer.need ? bytes : answer.need;
        }
        assert_int_equal(
            pst_predict_step(planned.plan, rig.graph, &rig.cost, false, &answer.step_ns, &rig.err),
            PST_OK);
        pst_planned_finish(&planned);
    } else if (st != PST_ERR_INFEASIBLE) {
        fail_msg("%s", rig.err.message);
    }
    job_rig_finish(&rig);
    return answer;
}

static void test_defaults(void **state)
{
    uint32_t fitted = 0, refused = 0, rivals = 0;
    double gained = 0;

    (void)state;
    print_message("seed %llu\n", (unsigned long long)seed);
    for (uint32_t round = 0; round < 45; round++) {
        struct question q = {.layers = between(2, 6),
                             .width = 64 * between(1, 3),
                             .devices = between(2, 4),
                             .microbatch = between(1, 4),
                             .link = (uint64_t)between(1, 400) * 50000000};
        struct answer whole = plan(&q, DEFAULTS, NULL), faithful, alone, ours;

        q.memory = whole.need / 100 * between(45, 95);
        faithful = plan(&q, FAITHFUL, pst_predict_step);
        alone = plan(&q, ALONE, pst_predict_step);
        ours = plan(&q, DEFAULTS, pst_predict_step);
        refused += !faithful.fits;
        assert_int_equal(ours.fits, faithful.fits || alone.fits);
        if (!faithful.fits) {
            continue;
        }
        fitted++;
        if (!ours.fits || ours.bottleneck_us > faithful.bottleneck_us ||
            ours.step_ns > faithful.step_ns || (alone.fits && ours.step_ns > alone.step_ns)) {
            fail_msg("round %u, %u layers of %u on %u, %u samples, %llu bytes, link %llu: %llu ns, "
                     "faithful %llu ns",
                     round, q.layers, q.width, q.devices, q.microbatch,
                     (unsigned long long)q.memory, (unsigned long long)q.link,
                     (unsigned long long)ours.step_ns, (unsigned long long)faithful.step_ns);
        }
        rivals += !alone.fits || faithful.step_ns < alone.step_ns;
        gained += 1 - (double)ours.step_ns / (double)faithful.step_ns;
    }
    print_message("%u fit, %u do not; steps are %.2f %% shorter; the paper's way wins %u times\n",
                  fitted, refused, 100 * gained / fitted, rivals);
    assert_true(fitted > 20 && refused > 2 && gained > 0 && rivals > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
