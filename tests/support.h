/* SPDX-License-Identifier: Apache-2.0
 *
 * For tests that run the program: a folder of their own, files in it, and one call that gives exit
 * code, standard output and standard error. Include cmocka before.
 */
#ifndef PENSTOCK_TESTS_SUPPORT_H
#define PENSTOCK_TESTS_SUPPORT_H

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SUPPORT_ARGUMENTS 32
#define SUPPORT_LIMIT_S   120 /* a command that takes longer is killed, and the test fails */

extern char **environ;

struct outcome {
    int code;        /* exit code; 128 + signal where a signal ended it */
    char *out, *err; /* NUL-terminated; outcome_finish frees them */
};

static char support_folder[32];

/* Set-up and tear-down, of a group or of each test. */
static inline int support_begin(void **state)
{
    strcpy(support_folder, "/tmp/penstock-test-XXXXXX");
    return mkdtemp(support_folder) == NULL ? -1 : 0;
}

static inline int support_end(void **state)
{
    char command[128];

    snprintf(command, sizeof command, "rm -rf '%s'", support_folder);
    return system(command) == 0 ? 0 : -1;
}

/* Path of a file in the test's folder; one of 16 static texts, the oldest is reused. */
static inline const char *support_path(const char *name)
{
    static char paths[16][128];
    static int next;
    char *path = paths[next++ % 16];

    snprintf(path, sizeof paths[0], "%s/%s", support_folder, name);
    return path;
}

/* Writes a file into the test's folder; returns its path. */
static inline const char *support_write(const char *name, const char *text)
{
    const char *path = support_path(name);
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
    return path;
}

/* All of a file, or NULL where there is none; free() it. */
static inline char *support_read(const char *path)
{
    FILE *file = fopen(path, "rb");
    char *text;
    long size;

    if (file == NULL) {
        return NULL;
    }
    fseek(file, 0, SEEK_END);
    size = ftell(file);
    rewind(file);
    text = malloc((size_t)size + 1);
    assert_non_null(text);
    assert_int_equal(fread(text, 1, (size_t)size, file), size);
    text[size] = '\0';
    fclose(file);
    return text;
}

static inline char *support_drain(int fd)
{
    off_t size = lseek(fd, 0, SEEK_END);
    char *text = malloc((size_t)size + 1);

    assert_non_null(text);
    assert_int_equal(pread(fd, text, (size_t)size, 0), size);
    text[size] = '\0';
    close(fd);
    return text;
}

#define SUPPORT_LAUNCHER 40
/* What is started in the place of the program, with the program and its arguments behind: up to a
   NULL; none: the program itself. */
static const char *support_launcher[SUPPORT_LAUNCHER + 1];

/* Starts the program; args end with NULL. Its streams go to the two files. */
static inline pid_t support_spawn(const char *const *args, int out, int err)
{
    char *argv[SUPPORT_LAUNCHER + SUPPORT_ARGUMENTS + 2] = {NULL};
    posix_spawn_file_actions_t actions;
    pid_t pid = -1;
    int n = 0;

    while (support_launcher[n] != NULL) {
        argv[n] = (char *)support_launcher[n];
        n++;
    }
    argv[n++] = (char *)PENSTOCK_BINARY;
    for (int i = 0; args[i] != NULL; i++) {
        assert_true(i < SUPPORT_ARGUMENTS);
        argv[n++] = (char *)args[i];
    }
    assert_int_equal(posix_spawn_file_actions_init(&actions), 0);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, out, 1);
    posix_spawn_file_actions_adddup2(&actions, err, 2);
    assert_int_equal(posix_spawn(&pid, argv[0], &actions, NULL, argv, environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    return pid;
}

/* Waits for it, but not for ever. */
static inline int support_wait(pid_t pid)
{
    const struct timespec pause = {0, 2000000};
    int status = 0;

    for (int i = 0; i < SUPPORT_LIMIT_S * 500; i++) {
        pid_t done = waitpid(pid, &status, WNOHANG);

        if (done == pid) {
            return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        }
        assert_true(done == 0 || errno == EINTR);
        nanosleep(&pause, NULL);
    }
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    fail_msg("the command did not end within %d s", SUPPORT_LIMIT_S);
    return -1;
}

static inline struct outcome support_run(const char *const *args)
{
    struct outcome outcome;
    int out = memfd_create("out", MFD_CLOEXEC), err = memfd_create("err", MFD_CLOEXEC);

    assert_true(out >= 0 && err >= 0);
    outcome.code = support_wait(support_spawn(args, out, err));
    outcome.out = support_drain(out);
    outcome.err = support_drain(err);
    return outcome;
}

/* struct outcome o = penstock("train", path, "--json"); */
#define penstock(...) support_run((const char *const[]){__VA_ARGS__, NULL})

static inline void outcome_finish(struct outcome *outcome)
{
    free(outcome->out);
    free(outcome->err);
}

/* Fails the test, with both streams shown, unless the code is the expected one. */
static inline void expect_code(const struct outcome *outcome, int code)
{
    if (outcome->code != code) {
        fail_msg("exit code %d, expected %d\n--- out\n%s--- err\n%s", outcome->code, code,
                 outcome->out, outcome->err);
    }
}

/* Fails unless `text` (a stream of the outcome) holds the words. */
static inline void expect_text(const char *text, const char *words)
{
    if (strstr(text, words) == NULL) {
        fail_msg("\"%s\" is missing in:\n%s", words, text);
    }
}

#endif
