/* SPDX-License-Identifier: Apache-2.0
 *
 * The nccl transport with one process for each GPU, under a real launcher, over the doubles of CUDA
 * and NCCL: the losses are those of one process on transport threads, to the bit, and whatever
 * happens to one of the processes ends the job, with the code and the message that belong to it.
 */
#include "test.h"

#include <unistd.h>

#include "mpi_cuda.h"

#include "mpi_job.h"

enum { SECONDS = 1000000000 };

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * SECONDS + (uint64_t)now.tv_nsec;
}

/* What the doubles of this program leave in shared memory ends so: others may have left theirs. */
static char own_end[32];

static int begin(void **state)
{
    snprintf(own_end, sizeof own_end, "-test%ld", (long)getpid());
    assert_int_equal(setenv("PENSTOCK_FAKE_WHOSE", own_end + 1, 1), 0);
    return on_host_begin(state);
}

/* Nothing is left behind in shared memory. */
static void expect_tidy(void)
{
    DIR *folder = opendir("/dev/shm");
    struct dirent *entry;

    assert_non_null(folder);
    while ((entry = readdir(folder)) != NULL) {
        size_t length = strlen(entry->d_name), n = strlen(own_end);
        int pid;

        if (length > n && strcmp(entry->d_name + length - n, own_end) == 0 &&
            sscanf(entry->d_name, "penstock-nccl-%d-", &pid) == 1 && kill(pid, 0) != 0) {
            fail_msg("%s is left", entry->d_name);
        }
    }
    closedir(folder);
}

/* --- the same bits ---------------------------------------------------------------------------- */

/* One process on transport threads; one process on nccl; n processes on nccl. */
static void check(const char *what, const char *path, uint32_t n, const char *const *sets)
{
    struct trace threads, alone, apart;

    mpi_cuda_train(path, sets, "run.transport=threads", 0, &threads);
    mpi_cuda_train(path, sets, "run.transport=nccl", 0, &alone);
    bits_expect_same(what, &alone, &threads);
    mpi_cuda_train(path, sets, "run.transport=nccl", n, &apart);
    bits_expect_same(what, &apart, &threads);
    expect_tidy();
}

TEST(test_pipeline)
{
    const char *path = bits_config("gpt.toml", bits_gpt);

    CHECK("two", path, 2, "cluster.devices=2", "scheduler.use=1f1b", "train.eval_every=2",
          "train.eval_batches=1", "train.sample=4");
    CHECK("four", path, 4, "cluster.devices=4", "scheduler.use=zb-h1");
    CHECK("one", path, 1, "cluster.devices=1");
}

/* Lists that leave transfers open from one batch to the next, which one queue cannot run; and one
   that it could. */
TEST(test_edges)
{
    const char *path = bits_config("gpt.toml", bits_gpt);

    CHECK("2bw", path, 3, "cluster.devices=3", "scheduler.use=2bw", "train.clip=0",
          "train.eval_every=2", "train.eval_batches=1");
    CHECK("2bw in replicas", path, 4, "cluster.devices=4", "scheduler.use=2bw", "train.clip=0",
          "train.degrees=[2]", "train.microbatch=4");
    CHECK("pipedream", path, 3, "cluster.devices=3", "scheduler.use=pipedream", "train.clip=0",
          "model.tied=false");
    CHECK("edges for zb-h1", path, 3, "cluster.devices=3", "scheduler.use=zb-h1", "run.p2p=edge",
          "train.eval_every=2", "train.eval_batches=1");
}

/* One queue is asked for, and is too few. */
TEST(test_one_queue)
{
    struct outcome o =
        penstock("train", bits_config("gpt.toml", bits_gpt), "--set", "cluster.devices=3", "--set",
                 "run.device=cuda", "--set", "run.transport=nccl", "--set", "run.p2p=ordered",
                 "--set", "scheduler.use=2bw", "--set", "train.clip=0");

    expect_code(&o, 2);
    expect_text(o.err, "one queue for sends and receives with run.p2p = \"ordered\"");
    expect_text(o.err, "leave run.p2p away");
    outcome_finish(&o);
}

/* Sums over replicas, tied parameters, running statistics. */
TEST(test_replicas)
{
    CHECK("tied in replicas", bits_config("gpt.toml", bits_gpt), 4, "cluster.devices=4",
          "train.degrees=[2]", "train.microbatch=4", "train.eval_batches=1");
    CHECK("batch norm", bits_config("resnet.toml", bits_resnet), 2, "cluster.devices=2",
          "train.degrees=[2]", "train.microbatch=4", "train.eval_every=2", "train.eval_batches=1");
}

TEST(test_branches)
{
    CHECK("a plan that is a DAG", bits_config("mmt.toml", bits_mmt), 3, "cluster.devices=3");
}

/* --- what happens to one of them ---------------------------------------------------------------
 */

static struct job start(const char *limit)
{
    return job_start(bits_config("gpt.toml", bits_gpt),
                     (const char *const[]){"run.device=cuda", "run.transport=nccl", limit, NULL});
}

/* The launcher sees it and ends the job: mpirun gives the others a second each to heed SIGCONT and
   SIGTERM, then kills them. Nothing that waits for NCCL or the GPU holds that up. */
TEST(test_killed)
{
    for (uint32_t rank = 0; rank < RANKS; rank += 2) {
        struct job job = start("run.stall_limit=10 min");
        uint64_t begin = now_ns();
        char words[64];

        kill(job.ranks[rank], SIGKILL);
        job_finish(&job);
        print_message("all are gone %.1f s after rank %u was killed\n",
                      (double)(now_ns() - begin) / SECONDS, rank);
        assert_true(now_ns() - begin < UINT64_C(5) * SECONDS);
        expect_code(&job.outcome, 128 + SIGKILL);
        snprintf(words, sizeof words, "\"message\":\"device %u (rank %u, host ", rank, rank);
        expect_text(job.outcome.out, "\"kind\":\"run.died\"");
        expect_text(job.outcome.out, words);
        assert_int_equal(count(job.outcome.out, "{\"error\":"), 1);
        outcome_finish(&job.outcome);
        expect_tidy();
    }
}

/* The others name the one that stands still. */
TEST(test_stopped)
{
    for (uint32_t rank = 0; rank < RANKS; rank += 2) {
        struct job job = start("run.stall_limit=4 s");
        uint64_t begin = now_ns();
        char words[64];

        kill(job.ranks[rank], SIGSTOP);
        job_finish(&job);
        assert_true(now_ns() - begin < UINT64_C(20) * SECONDS);
        expect_code(&job.outcome, 1);
        snprintf(words, sizeof words, "run stalled: device %u (rank %u, host ", rank, rank);
        expect_text(job.outcome.out, words);
        assert_int_equal(count(job.outcome.out, "{\"error\":"), 1);
        outcome_finish(&job.outcome);
    }
}

/* NCCL tells one process of an error: the job ends with it. */
TEST(test_an_error)
{
    const char *path = bits_config("gpt.toml", bits_gpt);
    struct outcome o;

    assert_int_equal(setenv("PENSTOCK_FAKE_NCCL", "2 -1 1", 1), 0);
    mpi_rig_launch(2);
    o = penstock("train", path, "--set", "cluster.devices=2", "--set", "run.device=cuda", "--set",
                 "run.transport=nccl");
    mpi_rig_launch(0);
    unsetenv("PENSTOCK_FAKE_NCCL");
    expect_code(&o, 1);
    expect_text(o.err, "rank 1, meeting the other ranks: NCCL: remote process exited");
    outcome_finish(&o);
}

/* Messages of the control bear the name of the transport that the user chose. */
TEST(test_names)
{
    const char *path = bits_config("gpt.toml", bits_gpt);
    struct outcome o;

    mpi_rig_launch(2);
    o = penstock("train", path, "--set", "cluster.devices=3", "--set", "run.device=cuda", "--set",
                 "run.transport=nccl");
    mpi_rig_launch(0);
    expect_code(&o, 2);
    expect_text(o.err, "run.transport = \"nccl\": 2 processes for 3 devices");
    expect_text(o.err, "--set run.transport=nccl");
    outcome_finish(&o);
    /* Another launcher than that of the library: each process finds itself alone. */
    assert_int_equal(setenv("PMI_SIZE", "2", 1), 0);
    o = penstock("train", path, "--set", "cluster.devices=2", "--set", "run.device=cuda", "--set",
                 "run.transport=nccl");
    unsetenv("PMI_SIZE");
    expect_code(&o, 2);
    expect_text(o.err, "run.transport = \"nccl\": the launcher has started 2 processes");
    outcome_finish(&o);
}

int main(void)
{
    return mpi_rig_is_here() && on_host_is_here() ? run_own_tests(begin, support_end)
                                                  : MPI_RIG_SKIP;
}
