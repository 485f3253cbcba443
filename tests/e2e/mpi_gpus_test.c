/* SPDX-License-Identifier: Apache-2.0
 *
 * A process for each rank, over the doubles of CUDA and NCCL: processes that NCCL would find on one
 * GPU end before there is a communicator, all with the same word.
 */
#include "test.h"

#include <unistd.h>

#include "on_host_rig.h"

#include "mpi_rig.h"

static const char config[] =
    "[model]\nuse = \"mlp\"\ninputs = 8\nhidden = 8\nlayers = 3\nclasses = 4\n"
    "[data]\nkind = \"synthetic\"\n"
    "[train]\nsteps = 1\nbatch = 4\nmicrobatch = 2\neval_batches = 0\n"
    "[run]\ndevice = \"cuda\"\ntransport = \"nccl\"\n"
    "[cluster]\ndevices = 3\n"
    "[partitioner]\nuse = \"uniform\"\n[scheduler]\nuse = \"1f1b\"\n";

static struct outcome train(const char *gpus, const char *setting)
{
    struct outcome o;

    setenv("ON_HOST_GPUS", gpus, 1);
    mpi_rig_launch(3);
    o = penstock("train", support_write("gpus.toml", config), "--set", setting);
    mpi_rig_launch(0);
    return o;
}

TEST(processes_on_a_gpu)
{
    struct outcome o;

    for (int share = 0; share < 2; share++) { /* with a process for each they mean the same */
        o = train("2", share == 0 ? "run.share=0" : "run.share=1");
        expect_code(&o, 4);
        expect_text(o.err, "ranks 0 and 2 (host ");
        expect_text(o.err, ") would both have GPU 0000:01:00.0");
        outcome_finish(&o);
    }
}

/* A context takes half a GiB: no process may have one on another's GPU. */
TEST(processes_with_a_gpu_each)
{
    struct outcome o;

    setenv("ON_HOST_ONE_GPU", "1", 1);
    for (int staged = 0; staged < 2; staged++) {
        o = train("3", staged == 0 ? "run.transport=nccl" : "run.transport=mpi");
        expect_code(&o, 0);
        outcome_finish(&o);
    }
    unsetenv("ON_HOST_ONE_GPU");
}

int main(void)
{
    return on_host_is_here() && mpi_rig_is_here() ? run_own_tests(on_host_begin, support_end)
                                                  : MPI_RIG_SKIP;
}
