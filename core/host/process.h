/* SPDX-License-Identifier: Apache-2.0
 *
 * A process of this program beside this one, with memory that both see: for what a plugin may
 * break. Never by fork: the caller may have threads and devices open. It never outlives its parent,
 * and ends with everything that it started.
 */
#ifndef PST_HOST_PROCESS_H
#define PST_HOST_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Descriptors of the process beside 1 and 2, the output; everything above is closed. */
enum {
    PST_PROCESS_JOB_FD = 3, /* it reads; these two only where it talks */
    PST_PROCESS_ANSWER_FD = 4,
    PST_PROCESS_PAGE_FD = 5, /* the memory, for pst_process_page */
    PST_PROCESS_NO_FD = 6
};

struct pst_process {
    pid_t pid;
    int job_fd, answer_fd, output_fd; /* on this side, and never waited for; -1: closed */
    void *page;                       /* the memory, zero at first */
    size_t page_bytes;
    int wait_status; /* once it is buried */
};

/*
 * In a group of its own, with no signal blocked or caught and nothing to read. word: NAME=VALUE,
 * takes the place of its like in the environment. Returns 0 or an errno; finish it in any case.
 */
int pst_process_start(struct pst_process *process, char *const *argv, const char *word, bool talks,
                      size_t page_bytes);
/* Has it ended? It stays a zombie, so that its group's number is not given away. */
bool pst_process_has_ended(const struct pst_process *process);
/* SIGTERM to whatever runs there. */
void pst_process_ask_to_end(const struct pst_process *process);
/* Kills all that is left, wherever it went, and buries it. */
void pst_process_end(struct pst_process *process);
void pst_process_close(int *fd);
void pst_process_finish(struct pst_process *process);

/*
 * In the process, before it has threads: the rest runs in a child of it. The process itself stays
 * behind as its keeper, the parent of whatever loses its parent there: when that child ends, or
 * nobody wants it, it kills the rest, calls ended(wait status), and ends as the child did. So a
 * plugin that ends its parent ends the keeper, not penstock. parent: who started the process; 0:
 * anybody. Returns true in the child, which is killed with the keeper; false: there is none.
 */
bool pst_process_step_behind(pid_t parent, void (*ended)(int status));
/* In the process: that memory; NULL where there is none of this size. */
void *pst_process_page(size_t bytes);

#endif
