/* SPDX-License-Identifier: Apache-2.0
 *
 * Transport mpi with devices whose memory MPI cannot reach, over the double of CUDA: the losses are
 * those of one process on transport threads, to the bit, for transfers, sums, running statistics
 * and what an asynchronous scheduler leaves open; one that fails ends all.
 */
#include "test.h"

#include <unistd.h>

#include "mpi_cuda.h"

static void check(const char *what, const char *path, uint32_t n, const char *const *sets)
{
    struct trace threads, staged;

    mpi_cuda_train(path, sets, "run.transport=threads", 0, &threads);
    mpi_cuda_train(path, sets, "run.transport=mpi", n, &staged);
    bits_expect_same(what, &staged, &threads);
}

TEST(test_pipeline)
{
    const char *path = bits_config("gpt.toml", bits_gpt);

    CHECK("two", path, 2, "cluster.devices=2", "scheduler.use=1f1b", "train.eval_every=2",
          "train.eval_batches=1");
    CHECK("asynchronous", path, 2, "cluster.devices=2", "scheduler.use=2bw");
}

TEST(test_replicas)
{
    CHECK("tied in replicas", bits_config("gpt.toml", bits_gpt), 4, "cluster.devices=4",
          "train.degrees=[2]", "train.microbatch=4", "train.eval_batches=1");
    CHECK("batch norm", bits_config("resnet.toml", bits_resnet), 2, "cluster.devices=2",
          "train.degrees=[2]", "train.microbatch=4", "train.eval_every=2", "train.eval_batches=1");
}

int main(void)
{
    return mpi_rig_is_here() && on_host_is_here() ? run_own_tests(on_host_begin, support_end)
                                                  : MPI_RIG_SKIP;
}
