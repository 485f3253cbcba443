/* SPDX-License-Identifier: Apache-2.0
 *
 * A process for planning: the same binary in a hidden mode, so that a plugin that crashes, never
 * returns or eats all memory ends that process and nothing else. This is the machinery, which knows
 * nothing of what the job text says: start, limits, messages, time, and who is to blame.
 *
 *     parent: pst_worker_ask ── job text ──►  child: pst_worker_begin, pst_worker_started,
 *                           ◄── plan text or error, log records ──   pst_worker_answer
 *
 * A child never outlives its parent, and dies with everything that it started.
 */
#ifndef PST_HOST_CHILD_H
#define PST_HOST_CHILD_H

#include "base/error.h"
#include "host/wire.h"

#define PST_WORKER_FLAG "--planner-child" /* argv[1] of the hidden mode */

struct pst_worker_task {
    const char *job; /* bytes that only the child's side of the caller understands */
    size_t job_length;
    uint64_t time_limit_ns;      /* from pst_worker_started on; 0: none */
    uint64_t memory_limit_bytes; /* address space; 0: none. Not enforced in sanitizer builds */
    bool (*cancelled)(void);     /* may be NULL */
    const char *time_limit_name; /* in messages; NULL: plugins.time_limit */
    bool describes;              /* a plugin is opened and no more: at its limit it is killed */
};

/* This program's main hands argv on to pst_worker_begin when it sees the flag. Without that,
   starting a child would run something else. */
void pst_worker_offer(void);

/*
 * Runs the task to its end, with a question that begins with a word of its own; finishes that wire.
 * free() *ret_answer, which has a NUL behind it, and which nobody checked.
 * Errors: the child's own, with every field; plugin.crash, plugin.timeout, plugin.memory (exit 3)
 * naming the plugin and the function that ran, with what it printed last; run.cancelled;
 * machine.missing (4) where no process can be started.
 * At the time limit the child's own deadline should end the search; 2 s later it gets SIGTERM, 3 s
 * after that SIGKILL.
 */
pst_status pst_worker_ask(struct pst_worker_task *task, struct pst_wire *question,
                          char **ret_answer, size_t *ret_length, struct pst_error *err);

/*
 * The child's side. Sets every limit, then reads the job; free() *ret_job, which has a NUL behind
 * it. False where this process was not started by pst_worker_ask.
 */
bool pst_worker_begin(int argc, char **argv, char **ret_job, size_t *ret_length);
/* Before the first plugin is opened: time counts from here, log records show from here. */
void pst_worker_started(void);
/* Does the parent want the search to end? */
bool pst_worker_stopped(void);
/* Does it, or has the time limit passed? For what has no deadline of its own. */
bool pst_worker_stopped_or_late(void);
/* Sends the answer, or the error if it is NULL, and leaves. */
void pst_worker_answer(struct pst_wire *answer, const struct pst_error *err)
    __attribute__((noreturn));

#endif
