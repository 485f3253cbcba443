/* SPDX-License-Identifier: Apache-2.0
 *
 * What planning charges for the sum of a tied gradient that is open while other operators of its
 * layer run backward. The last stage is `ln_f`, the head and the loss, which are one layer; the
 * table of 100 rows of 256 numbers is tied. `ln_f` takes most, for rows are many and the table is
 * small, and runs after the head: with prefetch = 1 all of the table's gradient, 102,400 bytes, is
 * there meanwhile. With 0 it has been added to the piece.
 */
#include "job_rig.h"

#include "test.h"

static uint64_t estimate(uint32_t zero, uint32_t prefetch)
{
    struct pst_planned planned = {.plan = NULL};
    struct job_rig rig;
    char toml[1024];
    uint64_t bytes;

    snprintf(toml, sizeof toml,
             "[model]\nuse = \"gpt\"\nlayers = 1\ndim = 256\nheads = 2\nvocab = 100\n"
             "context = 128\n[data]\nkind = \"synthetic\"\n[train]\nbatch = 128\n"
             "microbatch = 64\ndegrees = [4]\n[cluster]\ndevices = 8\n"
             "[partitioner]\nuse = \"manual\"\nstages = \"wte,drop,h.0.*;*\"\n"
             "[scheduler]\nuse = \"gpipe\"\n[[memopt]]\nuse = \"none\"\n"
             "[parallel]\nzero = %u\nprefetch = %u\n",
             zero, prefetch);
    assert_ok(job_rig_init(&rig, toml), &rig.err);
    rig.job.advice = PST_ADVICE_NONE;
    assert_ok(pst_planner_run(&rig.job, rig.graph, &rig.cluster, &rig.cost, NULL, NULL, &planned,
                              &rig.err),
              &rig.err);
    bytes = planned.plan->stages[1].estimated_bytes;
    pst_planned_finish(&planned);
    job_rig_finish(&rig);
    return bytes;
}

TEST(test_tied_gradient)
{
    for (uint32_t zero = 2; zero <= 3; zero++) {
        assert_int_equal(estimate(zero, 1) - estimate(zero, 0), 100 * 256 * sizeof(float));
    }
}
