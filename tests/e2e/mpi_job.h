/* SPDX-License-Identifier: Apache-2.0
 *
 * Jobs of several processes to which something happens while they run: started, found among the
 * processes of this machine, waited for to the last of them. Include bits.h and mpi_rig.h before.
 */
#ifndef PENSTOCK_TESTS_MPI_JOB_H
#define PENSTOCK_TESTS_MPI_JOB_H

#include <dirent.h>

enum { RANKS = 3 };

struct job {
    pid_t launcher, ranks[RANKS];
    int out, err;
    struct outcome outcome;
};

/* The value of a variable in the environment of a process, -1: it has none. */
static inline int variable_of(pid_t pid, const char *name)
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

static inline pid_t parent_of(pid_t pid)
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

static inline void find_ranks(struct job *job)
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

static inline bool has_text(int fd, const char *words)
{
    char text[65536];
    ssize_t n = pread(fd, text, sizeof text - 1, 0);

    text[n > 0 ? n : 0] = '\0';
    return strstr(text, words) != NULL;
}

/* A run without end that has come to its third step; sets: pairs of words, up to a NULL. */
static inline struct job job_start(const char *path, const char *const *sets)
{
    const char *args[SUPPORT_ARGUMENTS] = {"train",  path,
                                           "--json", "--quiet",
                                           "--set",  "cluster.devices=3",
                                           "--set",  "train.steps=100000000"};
    const struct timespec pause = {0, 5000000};
    struct job job = {.out = memfd_create("out", MFD_CLOEXEC),
                      .err = memfd_create("err", MFD_CLOEXEC)};

    for (uint32_t i = 0; sets[i] != NULL; i++) {
        args[8 + 2 * i] = "--set";
        args[9 + 2 * i] = sets[i];
    }
    mpi_rig_launch(RANKS);
    job.launcher = support_spawn(args, job.out, job.err);
    mpi_rig_launch(0);
    for (uint32_t i = 0; !has_text(job.out, "\"step\":3,"); i++) {
        siginfo_t ended = {.si_pid = 0};

        waitid(P_PID, (id_t)job.launcher, &ended, WEXITED | WNOHANG | WNOWAIT);
        if (ended.si_pid != 0 || i == 12000) {
            fail_msg("the job never came to a third step:\n%s", support_drain(job.err));
        }
        nanosleep(&pause, NULL);
    }
    find_ranks(&job);
    return job;
}

/* Has it ended? What a launcher leaves behind is for the init of this machine to wait for, which
   may take its time: the dead who are not buried yet count as gone. */
static inline bool is_gone(pid_t pid)
{
    char path[64], state = 'Z';
    FILE *file;

    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    file = fopen(path, "r");
    if (file != NULL) {
        if (fscanf(file, "%*d (%*[^)]) %c", &state) != 1) {
            state = 'Z'; /* it went meanwhile */
        }
        fclose(file);
    }
    return state == 'Z';
}

/* Waits for the end of the job and of all its processes. */
static inline void job_finish(struct job *job)
{
    const struct timespec pause = {0, 5000000};

    job->outcome.code = support_wait(job->launcher);
    for (uint32_t r = 0; r < RANKS; r++) {
        for (uint32_t i = 0; !is_gone(job->ranks[r]); i++) {
            assert_true(i < 2000);
            nanosleep(&pause, NULL);
        }
    }
    job->outcome.out = support_drain(job->out);
    job->outcome.err = support_drain(job->err);
}

static inline uint32_t count(const char *text, const char *words)
{
    uint32_t n = 0;

    while ((text = strstr(text, words)) != NULL) {
        text += strlen(words);
        n++;
    }
    return n;
}

#endif
