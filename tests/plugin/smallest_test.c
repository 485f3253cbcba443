/* SPDX-License-Identifier: Apache-2.0
 *
 * The memory that a refusal names is the least that the job can do with: with it there is a plan,
 * with one byte less there is none and the refusal says the same. Amounts above it are enough, too,
 * also where the strategies find nothing in that amount: a plan for less memory serves.
 */
#include "job_answer.h"

struct strategies {
    const char *partitioner, *scheduler, *memopt;
    uint32_t devices; /* of two layers; each plan has two micro-batches for every one of them */
};

/* What a plan for so much memory takes; 0: there is none, and *ret_enough is what the refusal
   names. alone: the strategies are asked for that amount and no other. */
static uint64_t need_of(const struct strategies *use, uint64_t memory, bool alone,
                        uint64_t *ret_enough)
{
    struct job_answer answer;
    char toml[1024];

    snprintf(toml, sizeof toml,
             "[model]\nuse = \"gpt\"\nlayers = %u\ndim = 64\nheads = 4\nvocab = 256\n"
             "context = 64\n[data]\nkind = \"synthetic\"\n[train]\nbatch = %u\nmicrobatch = 2\n"
             "optimizer = \"sgd\"\n[cluster]\ndevices = %u\nflops = 80e9\n"
             "memory_bandwidth = \"8 GB/s\"\nhost_bandwidth = \"1 GB/s\"\nmemory = %llu\n"
             "[partitioner]\nuse = \"%s\"\n[scheduler]\nuse = \"%s\"\n[[memopt]]\nuse = \"%s\"\n",
             2 * use->devices, 4 * use->devices, use->devices, (unsigned long long)memory,
             use->partitioner, use->scheduler, use->memopt);
    answer = job_answer(toml, alone ? PST_ADVICE_NONE : PST_ADVICE_ALL);
    *ret_enough = answer.enough;
    assert_true(!answer.fits || memory == 0 || answer.capacity == memory);
    /* One amount, or two: that of a stage is not that of a device. */
    assert_null(strstr(answer.err.message, "would do is"));
    return answer.need;
}

TEST(test_named)
{
    static const struct strategies rows[] = {
        {"uniform", "v-min", "two-ended", 2},
        {"uniform", "zb-auto", "offload", 4},
        {"uniform", "1f1b", "bpipe", 4},
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint64_t all = need_of(&rows[i], 0, true, &(uint64_t){0}), enough, less, unused;

        assert_true(all > 0);
        assert_true(need_of(&rows[i], all / 3, false, &enough) == 0);
        print_message("%s, %s, %s: %llu of %llu\n", rows[i].partitioner, rows[i].scheduler,
                      rows[i].memopt, (unsigned long long)enough, (unsigned long long)all);
        assert_true(enough > all / 3 && enough <= all);
        less = need_of(&rows[i], enough, false, &unused);
        assert_true(less == enough); /* or that would have been named */
        assert_true(need_of(&rows[i], enough - 1, false, &unused) == 0);
        assert_true(unused == enough);
    }
}

/* The strategies find nothing in these amounts, and something in less. */
TEST(test_above)
{
    static const struct {
        struct strategies use;
        uint64_t below, step;
        uint32_t n;
    } rows[] = {
        {{"uniform", "zb-auto", "offload", 4}, 5650000, 1250000, 2},
        {{"chain-dp", "zbv", "full", 4}, 4252000, 2000, 1},
    };
    uint32_t n_filled = 0;

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        for (uint32_t k = 0, filled = 0; k < rows[i].n && filled == 0; k++) {
            uint64_t memory = rows[i].below + k * rows[i].step, unused;

            if (need_of(&rows[i].use, memory, true, &unused) == 0) {
                n_filled += ++filled;
                assert_true(need_of(&rows[i].use, memory, false, &unused) > 0);
            }
        }
    }
    print_message("%u amounts filled from below\n", n_filled);
    assert_true(n_filled > 0);
}
