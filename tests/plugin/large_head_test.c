/* SPDX-License-Identifier: Apache-2.0
 *
 * Models whose logits are larger than all else. A cut behind the head looks cheap as long as nobody
 * counts what lies in the buffers of its transfer; then no cut seems right. What vpipe, which cuts
 * between layers alone, plans, tideline plans as well.
 */
#include "job_rig.h"

#include "test.h"

#define VPIPE "[partitioner]\nuse = \"vpipe\"\n[[memopt]]\nuse = \"vpipe\"\n"
#define TIDE  "[partitioner]\nuse = \"tideline\"\n[[memopt]]\nuse = \"two-ended\"\n"

static bool fits(const char *scheduler, uint64_t memory, const char *strategies)
{
    struct pst_planned planned = {.plan = NULL};
    struct job_rig rig;
    char toml[1024];
    pst_status st;

    snprintf(toml, sizeof toml,
             "[model]\nuse = \"gpt\"\nlayers = 12\ndim = 64\nheads = 4\nvocab = 3200\n"
             "context = 64\n[data]\nkind = \"synthetic\"\n[train]\nbatch = 64\nmicrobatch = 4\n"
             "clip = 0\n[cluster]\ndevices = 4\nmemory = %llu\nhost_bandwidth = 1000000000\n"
             "[scheduler]\nuse = \"%s\"\n%s",
             (unsigned long long)memory, scheduler, strategies);
    assert_ok(job_rig_init(&rig, toml), &rig.err);
    rig.job.advice = PST_ADVICE_NONE;
    st = pst_planner_run(&rig.job, rig.graph, &rig.cluster, &rig.cost, NULL, NULL, &planned,
                         &rig.err);
    pst_planned_finish(&planned);
    job_rig_finish(&rig);
    return st == PST_OK;
}

/* vpipe plans with so much memory; with a fiftieth less it does not. */
static void check(const char *scheduler, uint64_t memory)
{
    assert_false(fits(scheduler, memory - memory / 50, VPIPE));
    assert_true(fits(scheduler, memory, VPIPE));
    assert_true(fits(scheduler, memory, TIDE));
}

TEST(test_synchronous)
{
    check("1f1b", 10958064);
}

TEST(test_asynchronous)
{
    check("2bw", 13529736);
}
