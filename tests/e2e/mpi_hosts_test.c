/* SPDX-License-Identifier: Apache-2.0
 *
 * Two hosts, which are network namespaces of this one: the same bits over TCP as in one process.
 * Needs root and iproute2, and is skipped without.
 */
#include "test.h"

#include "bits_models.h"
#include "mpi_rig.h"

#define HOSTS PENSTOCK_SOURCE_DIR "/tests/e2e/mpi_hosts.sh"
#define AGENT PENSTOCK_SOURCE_DIR "/tests/e2e/mpi_agent.sh"

static char name[32];

static bool hosts(const char *what)
{
    char command[512];

    snprintf(command, sizeof command, HOSTS " %s %s 2>&1", what, name);
    return system(command) == 0;
}

/* From now on: n processes, of which each of the two hosts takes two. */
static void launch(uint32_t n)
{
    static char here[40], there[96], count[16];
    static const char *const words[] = {"/usr/bin/env",
                                        "ip",
                                        "netns",
                                        "exec",
                                        here,
                                        PENSTOCK_MPIEXEC,
                                        "--mca",
                                        "plm",
                                        "rsh",
                                        "--mca",
                                        "plm_rsh_agent",
                                        AGENT,
                                        "--mca",
                                        "oob_tcp_if_include",
                                        "10.77.0.0/24",
                                        "--mca",
                                        "btl_tcp_if_include",
                                        "10.77.0.0/24",
                                        "--mca",
                                        "pml",
                                        "ob1",
                                        "--mca",
                                        "btl",
                                        "tcp,self,vader",
                                        "--mca",
                                        "mpi_yield_when_idle",
                                        "1",
                                        "--bind-to",
                                        "none",
                                        "-H",
                                        there,
                                        "-n",
                                        count,
                                        NULL};

    snprintf(count, sizeof count, "%u", n);
    snprintf(here, sizeof here, "%sh", name);
    snprintf(there, sizeof there, "%sa:2,%sb:2", name, name);
    memset(support_launcher, 0, sizeof support_launcher);
    memcpy(support_launcher, words, sizeof words);
    mpi_rig_environment();
}

TEST(test_bits)
{
    const char *path = bits_config("gpt.toml", bits_gpt);
    const char *sets[] = {"cluster.devices=4", "train.eval_batches=1", "scheduler.use=1f1b", NULL,
                          NULL};
    struct trace alone, apart;

    bits_train(path, sets, &alone);
    sets[3] = "run.transport=mpi";
    launch(4);
    bits_train(path, sets, &apart);
    mpi_rig_launch(0);
    bits_expect_same("two hosts", &apart, &alone);
}

/* The host of the one that is stopped knows, and tells before the other one says what it does not
   know. */
TEST(test_absent)
{
    const char *path = bits_config("gpt.toml", bits_gpt);
    struct outcome o;
    char words[128];

    launch(3);
    o = penstock("train", path, "--set", "cluster.devices=4", "--set", "run.transport=mpi", "--set",
                 "run.stall_limit=1 s", ":", "-n", "1", "sh", "-c", "kill -STOP $$");
    mpi_rig_launch(0);
    expect_code(&o, 1);
    snprintf(words, sizeof words, "rank 3 (host %sb, process ", name);
    expect_text(o.err, words);
    expect_text(o.err, ") was stopped; waiting here: rank 2; ");
    outcome_finish(&o);
}

int main(void)
{
    int code;

    if (!mpi_rig_is_here()) {
        return MPI_RIG_SKIP;
    }
    snprintf(name, sizeof name, "pst%d", (int)getpid());
    if (geteuid() != 0 || !hosts("up")) {
        printf("skipped: network namespaces take root and iproute2\n");
        hosts("down");
        return MPI_RIG_SKIP;
    }
    code = run_own_tests(support_begin, support_end);
    hosts("down");
    return code;
}
