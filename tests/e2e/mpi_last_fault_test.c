/* SPDX-License-Identifier: Apache-2.0
 *
 * A process that is killed after its last pass: the others have passed on all that it sent, and
 * wait for it where all tell each other how the step went.
 */
#include "test.h"

#include <signal.h>

#include "bits_models.h"
#include "mpi_rig.h"

TEST(test_killed_at_the_end)
{
    const char *config = bits_config("gpt.toml", bits_gpt);
    struct outcome outcome;

    setenv("PENSTOCK_FAULT", "rank=1/update:3:kill", 1);
    mpi_rig_launch(3);
    outcome =
        penstock("train", config, "--json", "--quiet", "--set", "cluster.devices=3", "--set",
                 "run.transport=mpi", "--set", "train.steps=3", "--set", "train.eval_batches=0");
    mpi_rig_launch(0);
    unsetenv("PENSTOCK_FAULT");
    expect_code(&outcome, 128 + SIGKILL);
    expect_text(outcome.out, "\"message\":\"device 1 (rank 1, host ");
    expect_text(outcome.out, "; waiting for it: devices 0, 2");
    outcome_finish(&outcome);
}

int main(void)
{
    return mpi_rig_is_here() ? run_own_tests(support_begin, support_end) : MPI_RIG_SKIP;
}
