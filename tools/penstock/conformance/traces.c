/* SPDX-License-Identifier: Apache-2.0 */
#include "conformance/traces.h"

#include <dirent.h>
#include <fenv.h>
#include <locale.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "conformance/verdict.h"

#define THREAD_END_MS 200

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

static uint32_t count_children(void)
{
    FILE *file = fopen("/proc/thread-self/children", "r");
    uint32_t n = 0;
    int pid;

    if (file == NULL) {
        return 0;
    }
    while (fscanf(file, "%d", &pid) == 1) {
        n++;
    }
    fclose(file);
    return n;
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
    if (after->n_children != before->n_children) {
        return "a child process";
    }
    if (memcmp(after->handlers, before->handlers, sizeof after->handlers) != 0) {
        return "a signal handler";
    }
    if (memcmp(after->blocked, before->blocked, sizeof after->blocked) != 0) {
        return "another signal mask";
    }
    if (memcmp(after->limits, before->limits, sizeof after->limits) != 0) {
        return "other resource limits";
    }
    if (after->environment != before->environment) {
        return "a changed environment";
    }
    if (after->rounding != before->rounding) {
        return "another rounding mode";
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
