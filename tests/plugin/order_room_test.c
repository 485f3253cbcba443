/* SPDX-License-Identifier: Apache-2.0
 *
 * The room that schedulers which choose their order are told, where a cut leaves large buffers of
 * transfers: a small language model with its head on the last device but one, so that logits cross
 * the last cut. Where an order turns out to take too much, the next one leaves room for them.
 */
#include "job_rig.h"
#include "session/session.h"

#include "test.h"

static uint64_t step_ns(uint64_t memory)
{
    struct pst_planned planned = {.plan = NULL};
    struct job_rig rig;
    char toml[1024];
    uint64_t ns = 0;

    snprintf(toml, sizeof toml,
             "[model]\nuse = \"gpt\"\nlayers = 4\ndim = 64\nheads = 4\nvocab = 3200\n"
             "context = 64\n[data]\nkind = \"synthetic\"\n[train]\nbatch = 32\nmicrobatch = 4\n"
             "clip = 0\n[cluster]\ndevices = 4\nmemory = %llu\n[partitioner]\nuse = \"manual\"\n"
             "stages = \"wte,wpe,embed*,h.0.*;h.1.*,h.2.*;h.3.*,ln_f,lm_head;*\"\n"
             "[scheduler]\nuse = \"zb-auto\"\n[[memopt]]\nuse = \"none\"\n",
             (unsigned long long)memory);
    assert_ok(job_rig_init(&rig, toml), &rig.err);
    rig.job.advice = PST_ADVICE_NONE;
    assert_ok(pst_planner_run(&rig.job, rig.graph, &rig.cluster, &rig.cost, NULL, NULL, &planned,
                              &rig.err),
              &rig.err);
    assert_int_equal(pst_predict_step(planned.plan, rig.graph, &rig.cost, false, &ns, &rig.err),
                     PST_OK);
    pst_planned_finish(&planned);
    job_rig_finish(&rig);
    return ns;
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
