/* SPDX-License-Identifier: Apache-2.0
 *
 * Transport mpi with devices whose memory MPI cannot reach, over the double of CUDA: the losses are
 * those of one process on transport threads, to the bit, for transfers, sums, running statistics
 * and what an asynchronous scheduler leaves open; one that fails ends all.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <unistd.h>

#include "on_host_rig.h"

#include "bits_models.h"
#include "mpi_rig.h"

enum { MOST = 12 };

static void check(const char *what, const char *path, uint32_t n, const char *const *sets)
{
    const char *with[MOST + 3];
    struct trace threads, staged;
    uint32_t i = 0;

    for (; sets[i] != NULL; i++) {
        with[i] = sets[i];
    }
    with[i] = "run.device=cuda";
    with[i + 1] = "run.transport=threads";
    with[i + 2] = NULL;
    bits_train(path, with, &threads);
    with[i + 1] = "run.transport=mpi";
    mpi_rig_launch(n);
    bits_train(path, with, &staged);
    mpi_rig_launch(0);
    bits_expect_same(what, &staged, &threads);
}

#define CHECK(what, path, n, ...) check(what, path, n, (const char *const[]){__VA_ARGS__, NULL})

static void test_pipeline(void **state)
{
    const char *path = bits_config("gpt.toml", bits_gpt);

    (void)state;
    CHECK("two", path, 2, "cluster.devices=2", "scheduler.use=1f1b", "train.eval_every=2",
          "train.eval_batches=1");
    CHECK("asynchronous", path, 2, "cluster.devices=2", "scheduler.use=2bw");
}

static void test_replicas(void **state)
{
    (void)state;
    CHECK("tied in replicas", bits_config("gpt.toml", bits_gpt), 4, "cluster.devices=4",
          "train.degrees=[2]", "train.microbatch=4", "train.eval_batches=1");
    CHECK("batch norm", bits_config("resnet.toml", bits_resnet), 2, "cluster.devices=2",
          "train.degrees=[2]", "train.microbatch=4", "train.eval_every=2", "train.eval_batches=1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_pipeline),
                                       cmocka_unit_test(test_replicas)};

    return mpi_rig_is_here() && on_host_is_here()
               ? cmocka_run_group_tests(tests, on_host_begin, support_end)
               : MPI_RIG_SKIP;
}
