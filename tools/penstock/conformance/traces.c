/* SPDX-License-Identifier: Apache-2.0 */
#include "conformance/traces.h"

#include <dirent.h>
#include <fenv.h>
#include <locale.h>
#include <malloc.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/float_mode.h"
#include "conformance/verdict.h"

#define THREAD_END_MS 200
#define DESCRIPTORS   64 /* that are compared; more are counted */

static uint32_t count_entries(const char *folder)
{
    DIR *dir = opendir(folder);
    const struct dirent *entry;
    uint32_t n = 0;

    if (dir == NULL) {
        return 0;
    }
    while ((entry = readdir(dir)) != NULL) {
        n += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    }
    closedir(dir);
    return n;
}

static uint32_t count_words(const char *path)
{
    FILE *file = fopen(path, "r");
    uint32_t n = 0;
    char word[64];

    if (file == NULL) {
        return 0;
    }
    while (fscanf(file, "%63s", word) == 1) {
        n++;
    }
    fclose(file);
    return n;
}

/* Its own, and those that it left to the process that waits for it. */
static uint32_t count_children(void)
{
    char path[64];

    snprintf(path, sizeof path, "/proc/%ld/task/%ld/children", (long)getppid(), (long)getppid());
    return count_words("/proc/thread-self/children") + count_words(path);
}

/* What the descriptors lead to: one that was replaced leaves their number. */
static uint64_t digest_descriptors(void)
{
    uint64_t digest = pst_fnv1a(PST_FNV1A, "", 0);

    for (int fd = 0; fd < DESCRIPTORS; fd++) {
        struct stat info;

        if (fstat(fd, &info) == 0) {
            digest = pst_fnv1a(digest, &fd, sizeof fd);
            digest = pst_fnv1a(digest, &info.st_dev, sizeof info.st_dev);
            digest = pst_fnv1a(digest, &info.st_ino, sizeof info.st_ino);
        }
    }
    return digest;
}

static void take_scheduling(struct pst_traces *traces)
{
    struct sched_param param = {.sched_priority = 0};

    CPU_ZERO(&traces->processors);
    sched_getaffinity(0, sizeof traces->processors, &traces->processors);
    traces->nice = getpriority(PRIO_PROCESS, 0);
    traces->policy = sched_getscheduler(0);
    sched_getparam(0, &param);
    traces->priority = param.sched_priority;
}

/* Those of the C library and of the kernel. */
static void take_timers(struct pst_traces *traces)
{
    static const int which[] = {ITIMER_REAL, ITIMER_VIRTUAL, ITIMER_PROF};

    traces->n_timers = count_words("/proc/self/timers");
    for (size_t i = 0; i < sizeof which / sizeof *which; i++) {
        struct itimerval timer = {{0, 0}, {0, 0}};

        getitimer((__itimer_which_t)which[i], &timer);
        traces->n_timers += timer.it_value.tv_sec != 0 || timer.it_value.tv_usec != 0;
    }
}

/* The next one that is free: keys are given out in order, so one that was taken moves it. */
static void take_key(struct pst_traces *traces)
{
    pthread_key_t key;

    if (pthread_key_create(&key, NULL) == 0) {
        traces->next_key = key;
        pthread_key_delete(key);
    }
}

static uint64_t digest_environment(void)
{
    uint64_t digest = pst_fnv1a(PST_FNV1A, "", 0);

    for (char **word = environ; word != NULL && *word != NULL; word++) {
        digest = pst_fnv1a(digest, *word, strlen(*word) + 1);
    }
    return digest;
}

static void take_signals(struct pst_traces *traces)
{
    sigset_t blocked;

    sigemptyset(&blocked);
    pthread_sigmask(SIG_BLOCK, NULL, &blocked);
    for (int i = 1; i < NSIG; i++) {
        struct sigaction action;

        if (sigaction(i, NULL, &action) == 0) {
            traces->handlers[i] = action.sa_handler;
        }
        traces->blocked[i] = sigismember(&blocked, i) == 1;
    }
}

void pst_traces_take(struct pst_traces *ret_traces)
{
    memset(ret_traces, 0, sizeof *ret_traces);
    ret_traces->n_threads = count_entries("/proc/self/task");
    ret_traces->n_descriptors = count_entries("/proc/self/fd");
    ret_traces->n_children = count_children();
    take_signals(ret_traces);
    for (int i = 0; i < (int)RLIM_NLIMITS; i++) {
        getrlimit((__rlimit_resource_t)i, &ret_traces->limits[i]);
    }
    ret_traces->environment = digest_environment();
    ret_traces->rounding = fegetround();
    ret_traces->float_mode = pst_float_mode();
    ret_traces->descriptors = digest_descriptors();
    ret_traces->group = getpgrp();
    ret_traces->session = getsid(0);
    take_scheduling(ret_traces);
    take_timers(ret_traces);
    take_key(ret_traces);
    if (getcwd(ret_traces->folder, sizeof ret_traces->folder) == NULL) {
        ret_traces->folder[0] = '\0';
    }
    snprintf(ret_traces->locale, sizeof ret_traces->locale, "%s", setlocale(LC_ALL, NULL));
    ret_traces->umask = (uint32_t)umask(022);
    umask(ret_traces->umask);
}

const char *pst_traces_differ(const struct pst_traces *before, struct pst_traces *after,
                              const char *folder)
{
    /* First: without descriptors nothing else can be counted. */
    if (memcmp(after->limits, before->limits, sizeof after->limits) != 0) {
        return "other resource limits";
    }
    for (int i = 0; i < THREAD_END_MS && after->n_threads > before->n_threads; i++) {
        poll(NULL, 0, 1);
        pst_traces_take(after);
    }
    if (after->n_threads != before->n_threads) {
        return "a thread";
    }
    if (after->n_descriptors > before->n_descriptors) {
        return "an open file";
    }
    if (after->n_descriptors < before->n_descriptors) {
        return "a descriptor closed that is not its own";
    }
    if (after->descriptors != before->descriptors) {
        return "a descriptor replaced that is not its own";
    }
    if (after->n_children != before->n_children) {
        return "a child process";
    }
    if (memcmp(after->handlers, before->handlers, sizeof after->handlers) != 0) {
        return "a signal handler";
    }
    if (memcmp(after->blocked, before->blocked, sizeof after->blocked) != 0) {
        return "another signal mask";
    }
    if (after->environment != before->environment) {
        return "a changed environment";
    }
    if (after->rounding != before->rounding) {
        return "another rounding mode";
    }
    if (after->float_mode != before->float_mode) {
        return "another floating-point mode (MXCSR or the x87 control word)";
    }
    if (!CPU_EQUAL(&after->processors, &before->processors)) {
        return "another processor affinity";
    }
    if (after->nice != before->nice || after->policy != before->policy ||
        after->priority != before->priority) {
        return "another priority";
    }
    if (after->n_timers != before->n_timers) {
        return "a timer";
    }
    if (after->group != before->group || after->session != before->session) {
        return "another process group or session";
    }
    if (after->next_key != before->next_key) {
        return "a thread-specific key, whose destructor runs when a thread ends,";
    }
    if (strcmp(after->folder, before->folder) != 0) {
        return "another current folder";
    }
    if (strcmp(after->locale, before->locale) != 0) {
        return "another locale";
    }
    if (after->umask != before->umask) {
        return "another umask";
    }
    return count_entries(folder) != 0 ? "a file" : NULL;
}

/* --- what runs at exit -------------------------------------------------------------------------*/

/* glibc keeps exit handlers in blocks, so one more takes memory only if the last block is full. */
#define BLOCK_MAX 256

static bool block_is_full; /* the last one, when it was filled */

static void do_nothing(void)
{
}

/* Does one more take memory? */
static bool add_handler(void)
{
    const size_t used = mallinfo2().uordblks;

    return atexit(do_nothing) == 0 && mallinfo2().uordblks > used;
}

void pst_traces_fill_exit(void)
{
    uint32_t n = 0, size = 0;

    while (n < BLOCK_MAX && !add_handler()) {
        n++;
    }
    do { /* a second time: how many one holds */
        size++;
    } while (size < BLOCK_MAX && !add_handler());
    for (n = 1; n < size; n++) {
        add_handler();
    }
    block_is_full = size < BLOCK_MAX;
}

bool pst_traces_exit_differs(void)
{
    return block_is_full && !add_handler();
}
