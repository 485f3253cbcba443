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
#include "base/hash.h"

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

/* Digests the files of the descriptors: a descriptor that was replaced keeps its number. */
static uint64_t digest_descriptors(void)
{
    uint64_t digest = pst_fnv1a_bytes(PST_FNV1A, "", 0);

    for (int fd = 0; fd < DESCRIPTORS; fd++) {
        struct stat info;

        if (fstat(fd, &info) == 0) {
            digest = pst_fnv1a_bytes(digest, &fd, sizeof fd);
            digest = pst_fnv1a_bytes(digest, &info.st_dev, sizeof info.st_dev);
            digest = pst_fnv1a_bytes(digest, &info.st_ino, sizeof info.st_ino);
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

/* Counts the timers of the C library and of the kernel. */
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
    uint64_t digest = pst_fnv1a_bytes(PST_FNV1A, "", 0);

    for (char **word = environ; word != NULL && *word != NULL; word++) {
        digest = pst_fnv1a_bytes(digest, *word, strlen(*word) + 1);
    }
    return digest;
}

static void take_signals(struct pst_traces *traces)
{
    sigset_t blocked;
    stack_t stack = {.ss_sp = NULL};

    sigaltstack(NULL, &stack);
    traces->signal_stack = stack.ss_sp;
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
    const struct pst_traces *a = after, *b = before;

    for (int i = 0; i < THREAD_END_MS && a->n_threads > b->n_threads; i++) {
        poll(NULL, 0, 1);
        pst_traces_take(after);
    }
    const struct {
        bool differs;
        const char *words;
    } rows[] = {
        /* First: without descriptors nothing else can be counted. */
        {memcmp(a->limits, b->limits, sizeof a->limits) != 0, "other resource limits"},
        {a->n_threads != b->n_threads, "a thread"},
        {a->n_descriptors > b->n_descriptors, "an open file"},
        {a->n_descriptors < b->n_descriptors, "a descriptor closed that is not its own"},
        {a->descriptors != b->descriptors, "a descriptor replaced that is not its own"},
        {a->n_children != b->n_children, "a child process"},
        {memcmp(a->handlers, b->handlers, sizeof a->handlers) != 0, "a signal handler"},
        {memcmp(a->blocked, b->blocked, sizeof a->blocked) != 0, "another signal mask"},
        {a->signal_stack != b->signal_stack, "another signal stack"},
        {a->environment != b->environment, "a changed environment"},
        {a->rounding != b->rounding, "another rounding mode"},
        {a->float_mode != b->float_mode,
         "another floating-point mode (MXCSR or the x87 control word)"},
        {!CPU_EQUAL(&a->processors, &b->processors), "another processor affinity"},
        {a->nice != b->nice || a->policy != b->policy || a->priority != b->priority,
         "another priority"},
        {a->n_timers != b->n_timers, "a timer"},
        {a->group != b->group || a->session != b->session, "another process group or session"},
        {a->next_key != b->next_key,
         "a thread-specific key, whose destructor runs when a thread ends,"},
        {strcmp(a->folder, b->folder) != 0, "another current folder"},
        {strcmp(a->locale, b->locale) != 0, "another locale"},
        {a->umask != b->umask, "another umask"},
        {count_entries(folder) != 0, "a file"},
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (rows[i].differs) {
            return rows[i].words;
        }
    }
    return NULL;
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
