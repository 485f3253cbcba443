/* SPDX-License-Identifier: Apache-2.0
 *
 * What becomes of a run with one process per device when something happens to one of them: killed,
 * stopped, told to end, on other data. The job ends, with the code and the one message that belong
 * to it, and leaves no process behind.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>

#include "bits_models.h"
#include "mpi_rig.h"

enum { RANKS = 3 };

struct job {
    pid_t launcher, ranks[RANKS];
    int out, err;
    struct outcome outcome;
};

/* The value of a variable in the environment of a process, -1: it has none. */
static int variable_of(pid_t pid, const char *name)
{
    char path[64], text[65536];
    size_t n, length = strlen(name);
    FILE *file;

    snprintf(path, sizeof path, "/proc/%d/environ", (int)pid);
    file = fopen(path, "rb");
    n = file != NULL ? fread(text, 1, sizeof text - 1, file) : 0;
    if (file != NULL) {
        fclose(file);
    }
    text[n] = '\0';
    for (size_t at = 0; at < n; at += strlen(text + at) + 1) {
        if (strncmp(text + at, name, length) == 0 && text[at + length] == '=') {
            return atoi(text + at + length + 1);
        }
    }
    return -1;
}

static pid_t parent_of(pid_t pid)
{
    char path[64];
    int parent = -1;
    FILE *file;

    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    file = fopen(path, "r");
    if (file != NULL) {
        if (fscanf(file, "%*d (%*[^)]) %*c %d", &parent) != 1) {
            parent = -1;
        }
        fclose(file);
    }
    return parent;
}

static void find_ranks(struct job *job)
{
    DIR *folder = opendir("/proc");
    struct dirent *entry;

    assert_non_null(folder);
    while ((entry = readdir(folder)) != NULL) {
        pid_t pid = atoi(entry->d_name);

        if (pid > 0 && parent_of(pid) == job->launcher) {
            int rank = variable_of(pid, "OMPI_COMM_WORLD_RANK");

            if (rank >= 0 && rank < RANKS) {
                job->ranks[rank] = pid;
            }
        }
    }
    closedir(folder);
    for (uint32_t r = 0; r < RANKS; r++) {
        assert_true(job->ranks[r] > 0);
    }
}

static bool has_text(int fd, const char *words)
{
    char text[65536];
    ssize_t n = pread(fd, text, sizeof text - 1, 0);

    text[n > 0 ? n : 0] = '\0';
    return strstr(text, words) != NULL;
}

/* A run without end that has come to its third step. */
static struct job start(const char *set)
{
    const char *path = bits_config("gpt.toml", bits_gpt);
    const char *args[] = {"train",  path,
                          "--json", "--quiet",
                          "--set",  "cluster.devices=3",
                          "--set",  "run.transport=mpi",
                          "--set",  "train.steps=100000000",
                          "--set",  set,
                          NULL};
    const struct timespec pause = {0, 5000000};
    struct job job = {.out = memfd_create("out", MFD_CLOEXEC),
                      .err = memfd_create("err", MFD_CLOEXEC)};

    mpi_rig_launch(RANKS);
    job.launcher = support_spawn(args, job.out, job.err);
    mpi_rig_launch(0);
    for (uint32_t i = 0; !has_text(job.out, "\"step\":3,"); i++) {
        assert_true(i < 12000);
        nanosleep(&pause, NULL);
    }
    find_ranks(&job);
    return job;
}

/* Waits for the end of the job and of all its processes. */
static void finish(struct job *job)
{
    const struct timespec pause = {0, 5000000};

    job->outcome.code = support_wait(job->launcher);
    for (uint32_t r = 0; r < RANKS; r++) {
        for (uint32_t i = 0; kill(job->ranks[r], 0) == 0; i++) {
            assert_true(i < 2000);
            nanosleep(&pause, NULL);
        }
    }
    job->outcome.out = support_drain(job->out);
    job->outcome.err = support_drain(job->err);
}

static uint32_t count(const char *text, const char *words)
{
    uint32_t n = 0;

    while ((text = strstr(text, words)) != NULL) {
        text += strlen(words);
        n++;
    }
    return n;
}

/* The launcher sees it. */
static void test_killed(void **state)
{
    (void)state;
    for (uint32_t rank = 0; rank < RANKS; rank += 2) {
        struct job job = start("run.stall_limit=10 min");

        kill(job.ranks[rank], SIGKILL);
        finish(&job);
        expect_code(&job.outcome, 128 + SIGKILL);
        outcome_finish(&job.outcome);
    }
}

/* Nobody but the others can see it; they name it, and one of them tells. */
static void test_stopped(void **state)
{
    static const char *const waiting[RANKS] = {"devices 1, 2.", "", "devices 0, 1."};

    (void)state;
    for (uint32_t rank = 0; rank < RANKS; rank += 2) {
        struct job job = start("run.stall_limit=2 s");
        char words[64];

        kill(job.ranks[rank], SIGSTOP);
        finish(&job);
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

/* One of them is told: all end after the same step, and rank 0 reports. */
static void test_told(void **state)
{
    (void)state;
    for (uint32_t rank = 0; rank < RANKS; rank += 2) {
        struct job job = start("train.eval_batches=1");

        kill(job.ranks[rank], SIGTERM);
        finish(&job);
        expect_code(&job.outcome, 128 + SIGTERM);
        expect_text(job.outcome.out, "\"signal\":15");
        expect_text(job.outcome.out, "\"eval_loss\":null");
        expect_text(job.outcome.err, "penstock: stopped by SIGTERM");
        assert_int_equal(count(job.outcome.out, "\"done\":true"), 1);
        outcome_finish(&job.outcome);
    }
}

/* The launcher passes it on, and does not wait for long. */
static void test_interrupted(void **state)
{
    struct job job = start("train.eval_batches=0");

    (void)state;
    kill(job.launcher, SIGINT);
    finish(&job);
    assert_int_not_equal(job.outcome.code, 0);
    outcome_finish(&job.outcome);
}

/* The same name, but another file. */
static void test_other_data(void **state)
{
    const char *path = bits_config("gpt.toml", bits_gpt);
    char here[128], there[128], file[160];
    struct outcome o;

    (void)state;
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
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_killed),     cmocka_unit_test(test_stopped),
        cmocka_unit_test(test_told),       cmocka_unit_test(test_interrupted),
        cmocka_unit_test(test_other_data),
    };

    return mpi_rig_is_here() ? cmocka_run_group_tests(tests, support_begin, support_end)
                             : MPI_RIG_SKIP;
}
