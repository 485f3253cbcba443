/* SPDX-License-Identifier: Apache-2.0
 *
 * DawnPiper's defaults against the variant that follows the paper, on small transformers with
 * little memory: whatever fits there fits by default, and the step is no longer: it is the shorter
 * one of that variant's and of what the other way comes to alone. Nor is the slowest stage slower,
 * in what it computes: prices, which partitioners report, are by what was known of layouts when
 * each was asked, so they are not compared.
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
/* Copies that never fill a link: then nothing but cuts that are made once more tells a plan with a
   clock from one without. */
#define IDLE                                                                                       \
    "[partitioner]\nuse = \"dawnpiper\"\ninterval = \"pivot3\"\n[[memopt]]\nuse = \"dawnpiper\"\n" \
    "policy = \"two-ended\"\nlink_target = 0.5\n"
#define DEFAULTS "[partitioner]\nuse = \"dawnpiper\"\n[[memopt]]\nuse = \"dawnpiper\"\n"

static uint64_t seed = 812, draws;

static uint32_t between(uint32_t low, uint32_t high)
{
    return low + pst_philox(seed, 5, draws++).v[0] % (high - low + 1);
}

#define ROUNDS 25

struct question {
    uint32_t layers, width, devices, microbatch;
    uint64_t memory, link; /* memory 0: no limit */
};

struct answer {
    bool fits;
    uint64_t need, step_ns; /* need: of the device that takes most */
    uint64_t slowest_ns;    /* what the slowest stage computes for a micro-batch */
};

/* Passes and replays, by the cost model alone: the same for every plan. */
static uint64_t slowest_of(const struct pst_plan *plan, const struct job_rig *rig)
{
    uint64_t slowest = 0;

    for (uint32_t s = 0; s < plan->n_stages; s++) {
        const struct pst_plan_stage *stage = &plan->stages[s];
        uint32_t *replayed = calloc(stage->n_nodes + 1, sizeof *replayed);
        uint32_t samples = pst_plan_samples(stage);
        struct pst_times times;
        uint64_t ns;

        assert_non_null(replayed);
        pst_plan_replayed(stage, rig->graph, replayed);
        pst_cost_ops(&rig->cost, stage->nodes, stage->n_nodes, samples, &times);
        ns = times.forward_ns + times.backward_input_ns + times.backward_weight_ns;
        for (uint32_t v = 0; v < stage->n_nodes; v++) {
            pst_cost_op(&rig->cost, stage->nodes[v], samples, &times);
            ns += times.forward_ns * replayed[v];
        }
        free(replayed);
        slowest = ns > slowest ? ns : slowest;
    }
    return slowest;
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
    rig.job.advice = PST_ADVICE_NONE;
    st = pst_planner_run_timed(&rig.job, rig.graph, &rig.cluster, &rig.cost, clock, NULL, &planned,
                               &rig.err);
    if (st == PST_OK) {
        answer.fits = true;
        for (uint32_t d = 0; d < planned.plan->n_devices; d++) {
            uint64_t bytes = planned.plan->devices[d].arena_bytes;

            answer.need = bytes > answer.need ? bytes : answer.need;
        }
        answer.slowest_ns = slowest_of(planned.plan, &rig);
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

struct counts {
    uint32_t fitted, refused, rivals;
    double gained;
};

static void check_round(uint32_t round, struct counts *counts)
{
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
    counts->refused += !faithful.fits;
    assert_int_equal(ours.fits, faithful.fits || alone.fits);
    if (!faithful.fits) {
        return;
    }
    counts->fitted++;
    if (!ours.fits || ours.step_ns > faithful.step_ns ||
        (alone.fits && ours.step_ns > alone.step_ns)) {
        fail_msg("round %u, %u layers of %u on %u, %u samples, %llu bytes, link %llu: %llu ns, "
                 "faithful %llu ns",
                 round, q.layers, q.width, q.devices, q.microbatch, (unsigned long long)q.memory,
                 (unsigned long long)q.link, (unsigned long long)ours.step_ns,
                 (unsigned long long)faithful.step_ns);
    }
    assert_true(ours.slowest_ns <= faithful.slowest_ns); /* steps decide, but so it is */
    counts->rivals += !alone.fits || faithful.step_ns < alone.step_ns;
    counts->gained += 1 - (double)ours.step_ns / (double)faithful.step_ns;
}

/* Two seeds: that the paper's way wins is rare, so it is asked of both together. */
static void test_defaults(void **state)
{
    struct counts counts = {.fitted = 0};

    (void)state;
    for (seed = 811; seed <= 812; seed++) {
        print_message("seed %llu\n", (unsigned long long)seed);
        draws = 0;
        for (uint32_t round = 0; round < ROUNDS; round++) {
            check_round(round, &counts);
        }
    }
    print_message("%u fit, %u do not; steps are %.2f %% shorter; the paper's way wins %u times\n",
                  counts.fitted, counts.refused, 100 * counts.gained / counts.fitted,
                  counts.rivals);
    assert_true(counts.fitted > 20 && counts.refused > 2 && counts.gained > 0 && counts.rivals > 0);
}

/* What layouts tell about estimates is used for cuts, where there is a clock that says whether they
   are better. */
static void test_once_more(void **state)
{
    uint32_t fitted = 0, shorter = 0;

    (void)state;
    for (uint32_t round = 0; round < 12; round++) {
        struct question q = {.layers = between(4, 8),
                             .width = 64 * between(1, 2),
                             .devices = between(3, 4),
                             .microbatch = between(2, 4),
                             .link = (uint64_t)between(40, 400) * 50000000};
        struct answer once, again;

        q.memory = plan(&q, IDLE, NULL).need / 100 * between(40, 80);
        once = plan(&q, IDLE, NULL);
        again = plan(&q, IDLE, pst_predict_step);
        assert_int_equal(once.fits, again.fits);
        if (once.fits) {
            assert_true(again.step_ns <= once.step_ns);
            fitted++;
            shorter += again.step_ns < once.step_ns;
        }
    }
    print_message("%u fit, steps of %u are shorter\n", fitted, shorter);
    assert_true(fitted > 6 && shorter > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_once_more),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
