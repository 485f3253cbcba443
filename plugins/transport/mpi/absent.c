/* SPDX-License-Identifier: Apache-2.0
 *
 * Processes that have not come while the others wait in MPI_Init, where MPI tells nothing. Of those
 * of this machine the kernel tells: their ranks stand in their environment, whether they are
 * stopped in their state, and whether they are in MPI_Init, too, in the name of a thread.
 */
#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mpi_environment.h"
#include "base/memory.h"
#include "transport/mpi/module.h"

#define JOINING "pst-mpi-init"
#define JOINED  "pst-mpi"

enum { ROOM = 1 << 16, MOST = 1 << 16 };

void mpi_absent_mark(bool joining)
{
    prctl(PR_SET_NAME, joining ? JOINING : JOINED);
}

struct seen {
    int pid;       /* 0: no process of this machine */
    bool is_other; /* a shell, say, that is to start this program */
    bool stopped, joins;
};

/* Reads a file of /proc, and adds NUL. Returns the length; 0: nothing was read. */
static size_t read_proc(const char *path, char *text, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t used = 0;
    ssize_t n = fd >= 0 ? 1 : 0;

    while (n > 0 && used < size - 1) {
        n = read(fd, text + used, size - 1 - used);
        used += n > 0 ? (size_t)n : 0;
    }
    if (fd >= 0) {
        close(fd);
    }
    text[used] = '\0';
    return used;
}

/* The value of a variable in such an environment; NULL: it has none. */
static const char *find(const char *environment, size_t length, const char *name)
{
    size_t n = strlen(name);

    for (size_t at = 0; at < length; at += strlen(environment + at) + 1) {
        if (strncmp(environment + at, name, n) == 0 && environment[at + n] == '=') {
            return environment + at + n + 1;
        }
    }
    return NULL;
}

/* Each variable that tells this job from others is the same there; where there is none the parent
   is. */
static bool is_of_job(const char *environment, size_t length, long parent)
{
    static const char *const names[] = {"PMIX_NAMESPACE", "SLURM_JOB_ID", "SLURM_STEP_ID"};
    bool told = false;

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *mine = getenv(names[i]), *theirs = find(environment, length, names[i]);

        if (mine != NULL && (theirs == NULL || strcmp(mine, theirs) != 0)) {
            return false;
        }
        told = told || mine != NULL;
    }
    return told || parent == (long)getppid();
}

/* Is this file of /proc the same of both? */
static bool shares(int pid, const char *file)
{
    struct stat mine, theirs;
    char path[64];

    snprintf(path, sizeof path, "/proc/self/%s", file);
    if (stat(path, &mine) != 0) {
        return false;
    }
    snprintf(path, sizeof path, "/proc/%d/%s", pid, file);
    return stat(path, &theirs) == 0 && mine.st_dev == theirs.st_dev && mine.st_ino == theirs.st_ino;
}

/* Has the process a thread of this name? */
static bool has_thread(int pid, const char *name)
{
    char path[320], text[32];
    struct dirent *entry;
    bool found = false;
    DIR *folder;

    snprintf(path, sizeof path, "/proc/%d/task", pid);
    folder = opendir(path);
    while (folder != NULL && !found && (entry = readdir(folder)) != NULL) {
        snprintf(path, sizeof path, "/proc/%d/task/%s/comm", pid, entry->d_name);
        found = read_proc(path, text, sizeof text) > 0 && strncmp(text, name, strlen(name)) == 0 &&
                text[strlen(name)] == '\n';
    }
    if (folder != NULL) {
        closedir(folder);
    }
    return found;
}

static void look_at(int pid, char *text, struct seen *seen, uint32_t n_ranks)
{
    const char *const *names = pst_launched_ranks();
    const char *rank = NULL, *end;
    char path[64], state = '?';
    struct seen found = {.pid = pid}, *known;
    size_t length;
    long parent = 0;

    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    read_proc(path, text, ROOM);
    end = strrchr(text, ')'); /* of its name, which may hold anything */
    if (end == NULL || sscanf(end + 1, " %c %ld", &state, &parent) != 2) {
        return;
    }
    snprintf(path, sizeof path, "/proc/%d/environ", pid);
    length = read_proc(path, text, ROOM);
    for (; *names != NULL && rank == NULL; names++) {
        rank = find(text, length, *names);
    }
    if (rank == NULL || strtoul(rank, NULL, 10) >= n_ranks || !is_of_job(text, length, parent) ||
        !shares(pid, "ns/uts")) { /* another name is another host */
        return;
    }
    found.is_other = !shares(pid, "exe");
    found.stopped = state == 'T' || state == 't';
    found.joins = has_thread(pid, JOINING);
    known = &seen[strtoul(rank, NULL, 10)];
    if (known->pid == 0 || (known->is_other && (!found.is_other || found.stopped))) {
        *known = found;
    }
}

static void look(struct seen *seen, uint32_t n_ranks)
{
    DIR *folder = opendir("/proc");
    char *text = pst_alloc(ROOM, 1);
    struct dirent *entry;

    while (folder != NULL && (entry = readdir(folder)) != NULL) {
        if (isdigit((unsigned char)entry->d_name[0])) {
            look_at(atoi(entry->d_name), text, seen, n_ranks);
        }
    }
    free(text);
    if (folder != NULL) {
        closedir(folder);
    }
}

__attribute__((format(printf, 3, 4))) static void add(char *text, size_t size, const char *format,
                                                      ...)
{
    size_t used = strlen(text);
    va_list args;

    va_start(args, format);
    vsnprintf(text + used, size - used, format, args);
    va_end(args);
}

/* Lists ranks that are stopped or not in MPI_Init. Returns their number. */
static uint32_t tell_late(const struct seen *seen, uint32_t n_ranks, char *text, size_t size)
{
    char host[64] = "";
    uint32_t n = 0;

    gethostname(host, sizeof host - 1);
    for (uint32_t r = 0; r < n_ranks; r++) {
        if (seen[r].pid != 0 && (seen[r].stopped || !seen[r].joins)) {
            add(text, size, "%srank %u (host %s, process %d) %s", n++ == 0 ? "" : ", ", r, host,
                seen[r].pid, seen[r].stopped ? "was stopped" : "has not reached MPI_Init");
        }
    }
    return n;
}

/* Ranks of which this machine knows no process, or those that wait; how many. */
static uint32_t list(const struct seen *seen, uint32_t n_ranks, bool waiting, char *text,
                     size_t size)
{
    uint32_t n = 0;

    for (uint32_t r = 0; r < n_ranks; r++) {
        if (waiting ? seen[r].joins && !seen[r].stopped : seen[r].pid == 0) {
            add(text, size, "%s%u", n++ == 0 ? "" : ", ", r);
        }
    }
    return n;
}

bool mpi_absent_tell(char *ret_text, size_t size)
{
    unsigned long n_ranks = strtoul(pst_launched_size(), NULL, 10);
    char waiting[256] = "", others[256] = "";
    struct seen *seen;
    uint32_t n_late, n_waiting, n_others;

    n_ranks = n_ranks == 0 ? 1 : n_ranks < MOST ? n_ranks : MOST;
    seen = pst_alloc(n_ranks, sizeof *seen);
    snprintf(ret_text, size, "%s", "");
    look(seen, (uint32_t)n_ranks);
    n_waiting = list(seen, (uint32_t)n_ranks, true, waiting, sizeof waiting);
    n_others = list(seen, (uint32_t)n_ranks, false, others, sizeof others);
    n_late = tell_late(seen, (uint32_t)n_ranks, ret_text, size);
    free(seen);
    if (n_late == 0 && n_others == 0) {
        add(ret_text, size, "all are in MPI_Init but do not find each other");
    } else if (n_late == 0) {
        add(ret_text, size, "nothing is known here of rank%s %s: on another host, or not started",
            n_others == 1 ? "" : "s", others);
    }
    add(ret_text, size, "; waiting here: rank%s %s", n_waiting == 1 ? "" : "s", waiting);
    return n_late > 0;
}
