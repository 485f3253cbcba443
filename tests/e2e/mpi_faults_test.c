/* SPDX-License-Identifier: Apache-2.0
 *
 * What becomes of a run with one process per device when something happens to one of them: killed,
 * stopped, told to end, on other data. The job ends, with the code and the one message that belong
 * to it, and leaves no process behind.
 */
#include "test.h"

#include <fcntl.h>

#include "bits_models.h"
#include "mpi_rig.h"

#include "mpi_job.h"

static struct job start(const char *set)
{
    return job_start(bits_config("gpt.toml", bits_gpt),
                     (const char *const[]){"run.transport=mpi", set, NULL});
}

/* The launcher sees it and ends the others; until then one of them tells whom, and who waits. */
TEST(test_killed)
{
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        struct job job = start("run.stall_limit=10 min");
        char words[64];

        kill(job.ranks[rank], SIGKILL);
        job_finish(&job);
        expect_code(&job.outcome, 128 + SIGKILL);
        snprintf(words, sizeof words, "\"message\":\"device %u (rank %u, host ", rank, rank);
        expect_text(job.outcome.out, "\"kind\":\"run.died\"");
        expect_text(job.outcome.out, words);
        expect_text(job.outcome.out, "has ended without a word, killed or crashed");
        expect_text(job.outcome.out, "it was in instruction ");
        expect_text(job.outcome.out, "; waiting for it: device");
        assert_int_equal(count(job.outcome.out, "{\"error\":"), 1);
        outcome_finish(&job.outcome);
    }
}

/* Nobody but the others can see it; they name it, and one of them tells. */
TEST(test_stopped)
{
    /* Long enough for slow processes to begin; those that are looked at for leaks are. */
    const char *limit =
        PENSTOCK_MPI_KEEP[0] != '\0' ? "run.stall_limit=30 s" : "run.stall_limit=4 s";
    static const char *const waiting[RANKS] = {"devices 1, 2.", "", "devices 0, 1."};

    for (uint32_t rank = 0; rank < RANKS; rank += 2) {
        struct job job = start(limit);
        char words[64];

        kill(job.ranks[rank], SIGSTOP);
        job_finish(&job);
        expect_code(&job.outcome, 1);
        snprintf(words, sizeof words, "run stalled: device %u (rank %u, host ", rank, rank);
        expect_text(job.outcome.out, words);
        expect_text(job.outcome.out, "has not been heard of for ");
        expect_text(job.outcome.out, "in instruction ");
        expect_text(job.outcome.out, waiting[rank]);
        assert_int_equal(count(job.outcome.out, "{\"error\":"), 1);
        outcome_finish(&job.outcome);
    }
}

/* Two stand still, one for longer: others may be late on a busy machine, but it is the first that
   all wait for. */
TEST(test_two_stopped)
{
    const bool slow = PENSTOCK_MPI_KEEP[0] != '\0';
    const struct timespec half = {slow ? 15 : 2, 0};
    struct job job = start(slow ? "run.stall_limit=30 s" : "run.stall_limit=4 s");

    kill(job.ranks[0], SIGSTOP);
    nanosleep(&half, NULL);
    kill(job.ranks[1], SIGSTOP);
    job_finish(&job);
    expect_code(&job.outcome, 1);
    expect_text(job.outcome.out, "run stalled: device 0 (rank 0, host ");
    expect_text(job.outcome.out, "waiting for it: device 2.");
    outcome_finish(&job.outcome);
}

static bool is_left(const char *words)
{
    char path[64], text[4096];
    DIR *folder = opendir("/proc");
    struct dirent *entry;
    bool found = false;

    assert_non_null(folder);
    while (!found && (entry = readdir(folder)) != NULL) {
        int fd;
        ssize_t n;

        if (atoi(entry->d_name) <= 0 || atoi(entry->d_name) == (int)getpid()) {
            continue;
        }
        snprintf(path, sizeof path, "/proc/%d/cmdline", atoi(entry->d_name));
        fd = open(path, O_RDONLY | O_CLOEXEC);
        n = fd < 0 ? 0 : read(fd, text, sizeof text);
        found = n > 0 && memmem(text, (size_t)n, words, strlen(words)) != NULL;
        if (fd >= 0) {
            close(fd);
        }
    }
    closedir(folder);
    return found;
}

/* Before they have met: one is stopped, one is at something else. MPI_Init tells the others nothing
   of them. */
TEST(test_absent)
{
    const char *path = bits_config("gpt.toml", bits_gpt);
    const struct timespec pause = {0, 5000000};
    char script[64], seconds[32];
    struct outcome o;

    snprintf(seconds, sizeof seconds, "10%d", (int)getpid()); /* found by it */
    snprintf(script, sizeof script, "kill -STOP $$; sleep %s", seconds);
    mpi_rig_launch(1);
    o = penstock("train", path, "--json", "--set", "cluster.devices=3", "--set",
                 "run.transport=mpi", "--set", "run.stall_limit=1 s", ":", "-n", "1", "sh", "-c",
                 script, ":", "-n", "1", "sleep", seconds);
    mpi_rig_launch(0);
    expect_code(&o, 1);
    expect_text(o.out, "\"kind\":\"run.stalled\"");
    expect_text(o.out, "the processes have not met in 10 s: rank 1 (host ");
    expect_text(o.out, ") was stopped, rank 2 (host ");
    expect_text(o.out, ") has not come to MPI_Init; waiting here: rank 0");
    assert_int_equal(count(o.out, "{\"error\":"), 1);
    outcome_finish(&o);
    for (uint32_t i = 0; is_left(seconds) || is_left(path); i++) {
        assert_true(i < 2000);
        nanosleep(&pause, NULL);
    }
}

/* One of them is told: all end after the same step, and rank 0 reports. */
TEST(test_told)
{
    for (uint32_t rank = 0; rank < RANKS; rank += 2) {
        struct job job = start("train.eval_batches=1");

        kill(job.ranks[rank], SIGTERM);
        job_finish(&job);
        expect_code(&job.outcome, 128 + SIGTERM);
        expect_text(job.outcome.out, "\"signal\":15");
        expect_text(job.outcome.out, "\"eval_loss\":null");
        expect_text(job.outcome.err, "penstock: stopped by SIGTERM");
        assert_int_equal(count(job.outcome.out, "\"done\":true"), 1);
        outcome_finish(&job.outcome);
    }
}

/* The launcher passes it on, and does not wait for long. */
TEST(test_interrupted)
{
    struct job job = start("train.eval_batches=0");

    kill(job.launcher, SIGINT);
    job_finish(&job);
    assert_int_not_equal(job.outcome.code, 0);
    outcome_finish(&job.outcome);
}

/* The same name, but another file. */
TEST(test_other_data)
{
    const char *path = bits_config("gpt.toml", bits_gpt);
    char here[128], there[128], file[160];
    struct outcome o;

    snprintf(here, sizeof here, "%s", support_path("here"));
    snprintf(there, sizeof there, "%s", support_path("there"));
    assert_int_equal(mkdir(here, 0700) | mkdir(there, 0700), 0);
    snprintf(file, sizeof file, "%s/data.txt", here);
    assert_int_equal(symlink("/usr/share/common-licenses/GPL-2", file), 0);
    snprintf(file, sizeof file, "%s/data.txt", there);
    assert_int_equal(symlink("/usr/share/common-licenses/GPL-3", file), 0);
    assert_int_equal(chdir(here), 0);
    mpi_rig_launch(1);
    o = penstock("train", path, "--set", "cluster.devices=2", "--set", "run.transport=mpi", "--set",
                 "data.train=/proc/self/cwd/data.txt", ":", "-n", "1", "-wdir", there,
                 PENSTOCK_BINARY, "train", path, "--set", "cluster.devices=2", "--set",
                 "run.transport=mpi", "--set", "data.train=/proc/self/cwd/data.txt");
    mpi_rig_launch(0);
    expect_code(&o, 2);
    expect_text(o.err, "rank 1 (host ");
    expect_text(o.err, "has other training data than rank 0");
    outcome_finish(&o);
}

int main(void)
{
    return mpi_rig_is_here() ? run_own_tests(support_begin, support_end) : MPI_RIG_SKIP;
}
