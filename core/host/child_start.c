/* SPDX-License-Identifier: Apache-2.0
 *
 * Starts the planner's process. Never fork: the caller may have threads and devices open.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/memory.h"
#include "host/child_run.h"

extern char **environ;

/* Numbers in the parent from here on, so that the child's fixed ones can be set in any order. */
#define HIGH_FD 16

static pst_status fail_start(struct pst_error *err, int code)
{
    pst_status st = pst_fail(err, PST_ERR_UNSUPPORTED, "machine.missing",
                             "no process for planning can be started: %s", strerror(code));

    pst_error_hint(err, "plugins.isolate = \"never\" plans without one");
    return st;
}

void pst_worker_close(int *fd)
{
    if (*fd >= 0) {
        close(*fd);
        *fd = -1;
    }
}

/* The same file under a number that is out of the way; closes the old one. */
static bool lift(int *fd)
{
    int high = fcntl(*fd, F_DUPFD_CLOEXEC, HIGH_FD);

    if (high < 0) {
        return false;
    }
    close(*fd);
    *fd = high;
    return true;
}

static bool make_pipe(int *ret_read, int *ret_write)
{
    int fds[2];

    if (pipe2(fds, O_CLOEXEC) != 0) {
        return false;
    }
    *ret_read = fds[0];
    *ret_write = fds[1];
    return lift(ret_read) && lift(ret_write);
}

static bool make_page(int *ret_fd, struct pst_breadcrumb_page **ret_page)
{
    void *page;

    *ret_fd = memfd_create("penstock-breadcrumb", MFD_CLOEXEC);
    if (*ret_fd < 0 || !lift(ret_fd) || ftruncate(*ret_fd, sizeof **ret_page) != 0) {
        return false;
    }
    page = mmap(NULL, sizeof **ret_page, PROT_READ | PROT_WRITE, MAP_SHARED, *ret_fd, 0);
    if (page == MAP_FAILED) {
        return false;
    }
    *ret_page = page;
    return true;
}

/* The environment with LD_BIND_NOW=1: a function that is missing is found when a plugin is loaded,
   not when it is called. free() it. */
static char **child_environment(void)
{
    static char bind_now[] = "LD_BIND_NOW=1";
    size_t n = 0, k = 0;
    char **copy;

    while (environ != NULL && environ[n] != NULL) {
        n++;
    }
    copy = pst_alloc(n + 2, sizeof *copy);
    for (size_t i = 0; i < n; i++) {
        if (strncmp(environ[i], "LD_BIND_NOW=", 12) != 0) {
            copy[k++] = environ[i];
        }
    }
    copy[k++] = bind_now;
    copy[k] = NULL;
    return copy;
}

struct ends {
    int job, answer, output, page; /* of the child, in the parent's numbers */
};

static int set_up(posix_spawn_file_actions_t *actions, posix_spawnattr_t *attributes,
                  const struct ends *ends)
{
    const struct {
        int from, to;
    } moves[] = {{ends->output, 1},
                 {ends->output, 2},
                 {ends->job, PST_WORKER_JOB_FD},
                 {ends->answer, PST_WORKER_ANSWER_FD},
                 {ends->page, PST_WORKER_PAGE_FD}};
    short flags = POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF;
    sigset_t none, all;
    int code = posix_spawn_file_actions_addopen(actions, 0, "/dev/null", O_RDONLY, 0);

    for (size_t i = 0; code == 0 && i < sizeof moves / sizeof *moves; i++) {
        code = posix_spawn_file_actions_adddup2(actions, moves[i].from, moves[i].to);
    }
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setflags(attributes, flags);
    posix_spawnattr_setpgroup(attributes, 0);
    posix_spawnattr_setsigmask(attributes, &none);
    posix_spawnattr_setsigdefault(attributes, &all);
    return code;
}

static int spawn(const struct ends *ends, pid_t *ret_pid)
{
    char name[] = "penstock", flag[] = PST_WORKER_FLAG, parent[24];
    char *argv[] = {name, flag, parent, NULL}, **environment = child_environment();
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    int code;

    snprintf(parent, sizeof parent, "%ld", (long)getpid());
    code = posix_spawn_file_actions_init(&actions);
    if (code != 0) {
        goto out;
    }
    code = posix_spawnattr_init(&attributes);
    if (code == 0) {
        code = set_up(&actions, &attributes, ends);
        if (code == 0) {
            code = posix_spawn(ret_pid, "/proc/self/exe", &actions, &attributes, argv, environment);
        }
        posix_spawnattr_destroy(&attributes);
    }
    posix_spawn_file_actions_destroy(&actions);
out:
    free(environment);
    return code;
}

pst_status pst_worker_start(struct pst_worker_process *process, struct pst_error *err)
{
    struct ends ends = {-1, -1, -1, -1};
    int code = 0;

    *process =
        (struct pst_worker_process){.pid = -1, .job_fd = -1, .answer_fd = -1, .output_fd = -1};
    if (!make_pipe(&ends.job, &process->job_fd) || !make_pipe(&process->answer_fd, &ends.answer) ||
        !make_pipe(&process->output_fd, &ends.output) || !make_page(&ends.page, &process->page) ||
        fcntl(process->job_fd, F_SETFL, O_NONBLOCK) != 0 ||
        fcntl(process->answer_fd, F_SETFL, O_NONBLOCK) != 0 ||
        fcntl(process->output_fd, F_SETFL, O_NONBLOCK) != 0) {
        code = errno;
    } else {
        code = spawn(&ends, &process->pid);
    }
    pst_worker_close(&ends.job);
    pst_worker_close(&ends.answer);
    pst_worker_close(&ends.output);
    pst_worker_close(&ends.page);
    return code == 0 ? PST_OK : fail_start(err, code);
}
