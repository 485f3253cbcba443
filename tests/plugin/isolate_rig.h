/* SPDX-License-Identifier: Apache-2.0
 *
 * For tests of planning in a process of its own: a small job, `penstock plan` on it with strategies
 * that misbehave, and no process left behind. Include once, after cmocka.
 */
#ifndef TEST_ISOLATE_RIG_H
#define TEST_ISOLATE_RIG_H

#include <dirent.h>

#include "../support.h"

static const char job[] = "[model]\nuse = \"mlp\"\n"
                          "[data]\nkind = \"synthetic\"\n"
                          "[train]\nsteps = 2\nbatch = 8\nmicrobatch = 2\n"
                          "[cluster]\ndevices = 2\n"
                          "[partitioner]\nuse = \"uniform\"\n"
                          "[scheduler]\nuse = \"gpipe\"\n"
                          "[[memopt]]\nuse = \"none\"\n";

/* A planner process of that parent, or 0. What it forked has the same command line. */
static inline pid_t planner_of(pid_t parent)
{
    char path[300], line[256], number[24];
    DIR *dir = opendir("/proc");
    struct dirent *entry;
    pid_t found = 0;

    assert_non_null(dir);
    snprintf(number, sizeof number, "%ld", (long)parent);
    while (found == 0 && (entry = readdir(dir)) != NULL) {
        FILE *file;
        size_t n = 0;

        snprintf(path, sizeof path, "/proc/%s/cmdline", entry->d_name);
        file = entry->d_name[0] >= '0' && entry->d_name[0] <= '9' ? fopen(path, "r") : NULL;
        if (file != NULL) {
            n = fread(line, 1, sizeof line - 1, file);
            fclose(file);
        }
        line[n] = '\0';
        if (n > 9 && strcmp(line, "penstock") == 0 && strcmp(line + 9, "--planner-child") == 0 &&
            strcmp(line + 25, number) == 0) {
            found = (pid_t)atol(entry->d_name);
        }
    }
    closedir(dir);
    return found;
}

/* A process that was killed is seen until it is reaped. */
static inline void expect_gone(pid_t parent)
{
    const struct timespec pause = {0, 10000000};

    for (int i = 0; i < 300 && planner_of(parent) != 0; i++) {
        nanosleep(&pause, NULL);
    }
    assert_int_equal(planner_of(parent), 0);
}

/* `penstock plan` on the job with two overrides and other words (NULL: none); nothing stays. */
static inline struct outcome plan(const char *set, const char *other_set, const char *word)
{
    const char *args[10] = {"plan", support_write("job.toml", job)};
    int n = 2, out = memfd_create("out", MFD_CLOEXEC), err = memfd_create("err", MFD_CLOEXEC);
    struct outcome o;
    pid_t pid;

    if (set != NULL) {
        args[n++] = "--set";
        args[n++] = set;
    }
    if (other_set != NULL) {
        args[n++] = "--set";
        args[n++] = other_set;
    }
    args[n] = word;
    pid = support_spawn(args, out, err);
    o.code = support_wait(pid);
    o.out = support_drain(out);
    o.err = support_drain(err);
    expect_gone(pid);
    return o;
}

#define BY(id, words) "scheduler \"" id "\" (" BAD_FOLDER "/scheduler-" id ".so): " words

static inline int begin(void **state)
{
    setenv("PENSTOCK_PLUGIN_PATH", BAD_FOLDER, 1);
    return support_begin(state);
}

#endif
