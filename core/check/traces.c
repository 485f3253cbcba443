/* SPDX-License-Identifier: Apache-2.0 */
#include "check/traces.h"

#include <dirent.h>
#include <locale.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static uint32_t count_entries(const char *folder)
{
    DIR *dir = opendir(folder);
    const struct dirent *entry;
    uint32_t n = 0;

    if (dir == NULL) {
        return 0;
    }
    while ((entry = readdir(dir)) != NULL) {
        n += entry->d_name[0] != '.';
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

void pst_traces_take(struct pst_traces *ret_traces)
{
    memset(ret_traces, 0, sizeof *ret_traces);
    ret_traces->n_threads = count_entries("/proc/self/task");
    ret_traces->n_descriptors = count_entries("/proc/self/fd");
    ret_traces->n_children = count_children();
    for (int i = 1; i < NSIG; i++) {
        struct sigaction action;

        if (sigaction(i, NULL, &action) == 0) {
            ret_traces->handlers[i] = action.sa_handler;
        }
    }
    if (getcwd(ret_traces->folder, sizeof ret_traces->folder) == NULL) {
        ret_traces->folder[0] = '\0';
    }
    snprintf(ret_traces->locale, sizeof ret_traces->locale, "%s", setlocale(LC_ALL, NULL));
    ret_traces->umask = (uint32_t)umask(022);
    umask(ret_traces->umask);
}

const char *pst_traces_differ(const struct pst_traces *before, const struct pst_traces *after,
                              const char *folder)
{
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
