/* SPDX-License-Identifier: Apache-2.0
 *
 * Starts the planner's process.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/memory.h"
#include "host/child_run.h"
#include "host/spawn.h"

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

struct ends {
    int job, answer, output, page; /* of the child, in the parent's numbers */
};

/* LD_BIND_NOW: a function that is missing is found when a plugin is loaded, not when it is called.
 */
static int spawn(const struct ends *ends, pid_t *ret_pid)
{
    const struct pst_spawn_move moves[] = {{ends->output, 1},
                                           {ends->output, 2},
                                           {ends->job, PST_WORKER_JOB_FD},
                                           {ends->answer, PST_WORKER_ANSWER_FD},
                                           {ends->page, PST_WORKER_PAGE_FD}};
    char name[] = "penstock", flag[] = PST_WORKER_FLAG, parent[24];
    char *argv[] = {name, flag, parent, NULL};

    snprintf(parent, sizeof parent, "%ld", (long)getpid());
    return pst_spawn("/proc/self/exe", argv, "LD_BIND_NOW=1", moves, sizeof moves / sizeof *moves,
                     PST_WORKER_NO_FD, ret_pid);
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
