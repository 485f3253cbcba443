/* SPDX-License-Identifier: Apache-2.0
 *
 * tideline and two-ended against what follows the paper, dawnpiper and dawnpiper, on small
 * transformers with little memory, searched as tune does: whatever fits there fits with them, and
 * the step is no longer.
 */
#include "job_answer.h"

#include "base/philox.h"

#define FAITHFUL "[partitioner]\nuse = \"dawnpiper\"\n[[memopt]]\nuse = \"dawnpiper\"\n"
#define OURS     "[partitioner]\nuse = \"tideline\"\n[[memopt]]\nuse = \"two-ended\"\n"
/* Copies that never fill a link: then nothing but cuts that are made once more makes a plan faster.
 */
#define IDLE OURS "link_target = 0.5\n"

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

static struct job_answer plan(const struct question *q, const char *strategies, uint32_t advice)
{
    char toml[2048];

    snprintf(toml, sizeof toml,
             "[model]\nuse = \"gpt\"\nlayers = %u\ndim = %u\nheads = 4\nvocab = 512\n"
             "context = 128\n[data]\nkind = \"synthetic\"\n[train]\nbatch = %u\nmicrobatch = %u\n"
             "[cluster]\ndevices = %u\nmemory = %llu\nhost_bandwidth = %llu\n"
             "[scheduler]\nuse = \"1f1b\"\n%s",
             q->layers, q->width, 4 * q->devices * q->microbatch, q->microbatch, q->devices,
             (unsigned long long)q->memory, (unsigned long long)q->link, strategies);
    return job_answer(toml, advice);
}

struct counts {
    uint32_t fitted, refused;
    double gained;
};

static void check_round(uint32_t round, struct counts *counts)
{
    struct question q = {.layers = between(2, 6),
                         .width = 64 * between(1, 3),
                         .devices = between(2, 4),
                         .microbatch = between(1, 4),
                         .link = (uint64_t)between(1, 400) * 50000000};
    struct job_answer whole = plan(&q, OURS, PST_ADVICE_NONE), faithful, ours;

    q.memory = whole.need / 100 * between(45, 95);
    faithful = plan(&q, FAITHFUL, PST_ADVICE_FASTER);
    ours = plan(&q, OURS, PST_ADVICE_FASTER);
    counts->refused += !faithful.fits;
    assert_true(ours.fits || !faithful.fits);
    if (!faithful.fits) {
        return;
    }
    counts->fitted++;
    if (ours.step_ns > faithful.step_ns) {
        fail_msg("round %u, %u layers of %u on %u, %u samples, %llu bytes, link %llu: %llu ns, "
                 "faithful %llu ns",
                 round, q.layers, q.width, q.devices, q.microbatch, (unsigned long long)q.memory,
                 (unsigned long long)q.link, (unsigned long long)ours.step_ns,
                 (unsigned long long)faithful.step_ns);
    }
    counts->gained += 1 - (double)ours.step_ns / (double)faithful.step_ns;
}

TEST(test_defaults)
{
    struct counts counts = {.fitted = 0};

    for (seed = 811; seed <= 812; seed++) {
        print_message("seed %llu\n", (unsigned long long)seed);
        draws = 0;
        for (uint32_t round = 0; round < ROUNDS; round++) {
            check_round(round, &counts);
        }
    }
    print_message("%u fit, %u do not; steps are %.2f %% shorter\n", counts.fitted, counts.refused,
                  100 * counts.gained / counts.fitted);
    assert_true(counts.fitted > 20 && counts.refused > 2 && counts.gained > 0);
}

/* What layouts tell about estimates is used for cuts, where a faster plan is asked for. */
TEST(test_once_more)
{
    uint32_t fitted = 0, shorter = 0;

    for (uint32_t round = 0; round < 12; round++) {
        struct question q = {.layers = between(4, 8),
                             .width = 64 * between(1, 2),
                             .devices = between(3, 4),
                             .microbatch = between(2, 4),
                             .link = (uint64_t)between(40, 400) * 50000000};
        struct job_answer once, again;

        q.memory = plan(&q, IDLE, PST_ADVICE_NONE).need / 100 * between(40, 80);
        once = plan(&q, IDLE, PST_ADVICE_NONE);
        again = plan(&q, IDLE, PST_ADVICE_FASTER);
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
