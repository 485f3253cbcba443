/* SPDX-License-Identifier: Apache-2.0
 *
 * A question to plugins. It is answered here, or in a separate process that may crash, hang or
 * exit: the same binary in a hidden mode. One function per message describes both directions
 * (wire.h).
 */
#ifndef PST_HOST_APART_H
#define PST_HOST_APART_H

#include "base/error.h"
#include "base/wire.h"

struct pst_apart_kind {
    const char *word;   /* before questions and answers */
    const char *plugin; /* its kind */
    size_t job_size, answer_size;
    void (*pass_job)(struct pst_wire *w, void *job);
    /* In the process, before time counts; NULL: nothing is left to do. */
    pst_status (*open)(void *job, struct pst_error *err);
    /* `answer` is all zero before and finished afterwards, whatever this returns. */
    pst_status (*ask)(const void *job, bool (*cancelled)(void), void *answer,
                      struct pst_error *err);
    /* A wire that reads fills an answer that is all zero. Errors: the answer breaks a rule. Bytes
       that are not an answer make the wire fail. */
    pst_status (*pass_answer)(struct pst_wire *w, const void *job, void *answer,
                              struct pst_error *err);
    void (*finish)(void *answer);
};

/* Settings of a process that answers a question. */
struct pst_worker_task {
    uint64_t time_limit_ns;      /* from the call of ask() on; 0: none */
    uint64_t memory_limit_bytes; /* address space; 0: none. Not enforced in sanitizer builds */
    bool (*cancelled)(void);     /* may be NULL */
    const char *time_limit_name; /* in messages; NULL: plugins.time_limit */
    bool describes;              /* a plugin is opened and no more: at its limit it is killed */
};

struct pst_job_plugins; /* config/job.h */
/* Bytes that such a process may take when the config says nothing: 80 % of the machine's. */
uint64_t pst_worker_default_memory(void);
/* Returns these settings by the table [plugins]. */
struct pst_worker_task pst_worker_limits(const struct pst_job_plugins *plugins,
                                         bool (*cancelled)(void));

/*
 * name: the plugin's id, or its file. limits: those of the process; NULL: in this one, where
 * `cancelled` may be NULL as well. Errors: as ask(); of a process also
 * plugin.crash, plugin.timeout, plugin.memory (exit 3) naming the plugin and the function that ran,
 * with what it printed last; run.cancelled; machine.process (4) where none can be started or
 * talked to; config.value (2) where the user's memory limit is too little for the planner itself;
 * plugin.contract, exit code 3, where what came back is no answer to that job.
 * At the time limit the process's own deadline should end the search; 2 s later it gets SIGTERM,
 * 3 s after that SIGKILL.
 */
pst_status pst_apart_ask(const struct pst_apart_kind *kind, const void *job, const char *name,
                         const struct pst_worker_task *limits, bool (*cancelled)(void),
                         void *ret_answer, struct pst_error *err);

/* pst_apart_put writes the process's answer; pst_apart_take reads and checks it in the caller. */
void pst_apart_put(const struct pst_apart_kind *kind, const void *job, void *answer,
                   struct pst_wire *w);
pst_status pst_apart_take(const struct pst_apart_kind *kind, const void *job, const char *name,
                          const char *bytes, size_t length, void *ret_answer,
                          struct pst_error *err);

#define PST_WORKER_FLAG "--planner-child" /* argv[1] of the hidden mode */

/* This program's main hands argv on to pst_apart_serve when it sees the flag. Without that,
   starting a process would run something else. */
void pst_worker_offer(void);
/* Runs the process: answers one question, of one of these kinds, and exits. Returns false where it
   was not started by pst_apart_ask. */
bool pst_apart_serve(int argc, char **argv, const struct pst_apart_kind *const *kinds, size_t n);
/* In the process: returns true if the caller has cancelled the search. */
bool pst_worker_stopped(void);
/* Also true once the time limit has passed; for searches without their own deadline. */
bool pst_worker_stopped_or_late(void);

#endif
