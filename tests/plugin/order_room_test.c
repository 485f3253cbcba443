/* SPDX-License-Identifier: Apache-2.0
 *
 * The room that schedulers which choose their order are told, where a cut leaves large buffers of
 * transfers: a small language model with its head on the last device but one, so that logits cross
 * the last cut. Where an order turns out to take too much, the next one leaves room for them.
 */
#include "job_answer.h"

static uint64_t step_ns(uint64_t memory)
{
    FINISHED_BY(job_rig_finish) struct job_rig rig;
    char toml[1024];

    snprintf(toml, sizeof toml,
             "[model]\nuse = \"gpt\"\nlayers = 4\ndim = 64\nheads = 4\nvocab = 3200\n"
             "context = 64\n[data]\nkind = \"synthetic\"\n[train]\nbatch = 32\nmicrobatch = 4\n"
             "clip = 0\n[cluster]\ndevices = 4\nmemory = %llu\n[partitioner]\nuse = \"manual\"\n"
             "stages = \"wte,wpe,embed*,h.0.*;h.1.*,h.2.*;h.3.*,ln_f,lm_head;*\"\n"
             "[scheduler]\nuse = \"zb-auto\"\n[[memopt]]\nuse = \"none\"\n",
             (unsigned long long)memory);
    return job_step(&rig, toml, NULL);
}

/* Everywhere from the least memory on there is a plan, that of less memory if there is no other;
   and buffers that the largest pass covers take no room from an order. */
TEST(test_steps)
{
    uint64_t ns[46];

    for (uint64_t m = 16; m < 46; m++) {
        ns[m] = step_ns(m * 1000000);
        assert_true(ns[m] <= ns[16]);
    }
    assert_true(ns[21] < ns[16] * 3 / 4); /* one micro-batch more under way */
}
