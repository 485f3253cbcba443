/* SPDX-License-Identifier: Apache-2.0
 *
 * No feasible job missed: where vPipe's strategies find a plan tideline's do, too, and no slower
 * one; and a partitioner that looks for cuts needs no more memory than equal numbers of operators.
 * What a partitioner was told to fit does: no memory optimizer refuses its cuts before a layout has
 * shown anything about the estimates.
 */
#include "job_answer.h"

struct question {
    uint32_t dim, vocab, context, devices, microbatch, batch;
    uint64_t link;
    const char *optimizer, *scheduler;
};

/* Of four layers. */
static const struct question chain = {128, 512, 32, 5, 3, 15, 1000000000, "adamw", "zb-h1"};
static const struct question shared = {64, 256, 32, 5, 2, 10, 50000000, "sgd", "interleaved"};

static struct job_answer plan(const struct question *q, const char *partitioner, const char *memopt,
                              uint64_t memory, bool brief)
{
    char toml[1024];

    snprintf(toml, sizeof toml,
             "[model]\nuse = \"gpt\"\nlayers = 4\ndim = %u\nheads = 4\nvocab = %u\ncontext = %u\n"
             "[data]\nkind = \"synthetic\"\n[train]\nbatch = %u\nmicrobatch = %u\n"
             "optimizer = \"%s\"\n[cluster]\ndevices = %u\nflops = 80e9\n"
             "memory_bandwidth = \"8 GB/s\"\nhost_bandwidth = %llu\nmemory = %llu\n"
             "[partitioner]\nuse = \"%s\"\n[scheduler]\nuse = \"%s\"\n[[memopt]]\nuse = \"%s\"\n",
             q->dim, q->vocab, q->context, q->batch, q->microbatch, q->optimizer, q->devices,
             (unsigned long long)q->link, (unsigned long long)memory, partitioner, q->scheduler,
             memopt);
    return job_answer(toml, brief ? PST_ADVICE_NONE : PST_ADVICE_ALL);
}

/* Stages of equal counts hold unequal numbers of micro-batches that wait for W. */
TEST(test_vpipe)
{
    uint64_t enough = plan(&chain, "vpipe", "vpipe", 1000, false).enough, theirs, ours;

    assert_true(enough > 1000);
    theirs = plan(&chain, "vpipe", "vpipe", enough, false).step_ns;
    ours = plan(&chain, "tideline", "two-ended", enough, false).step_ns;
    print_message("%llu bytes: %llu ns, vpipe %llu ns\n", (unsigned long long)enough,
                  (unsigned long long)ours, (unsigned long long)theirs);
    assert_true(theirs > 0);
    assert_true(ours > 0 && ours <= theirs);
}

/* The stages of a device have unequal parts of it. */
TEST(test_uniform)
{
    uint64_t theirs = plan(&shared, "uniform", "two-ended", 1000, false).enough;
    uint64_t ours = plan(&shared, "tideline", "two-ended", 1000, false).enough;

    print_message("%llu bytes, uniform %llu\n", (unsigned long long)ours,
                  (unsigned long long)theirs);
    assert_true(ours > 1000 && ours <= theirs);
}

/* From what is plenty down to too little. */
TEST(test_told)
{
    uint32_t fitted = 0, refused = 0;

    for (uint64_t memory = 9000000; memory > 4000000; memory -= 500000) {
        struct job_answer answer = plan(&chain, "tideline", "two-ended", memory, true);

        fitted += answer.fits;
        refused += !answer.fits;
        if (strncmp(answer.err.message, "memopt", 6) == 0) {
            fail_msg("%llu bytes: cuts that were said to fit do not", (unsigned long long)memory);
        }
    }
    assert_true(fitted > 0 && refused > 0);
}
