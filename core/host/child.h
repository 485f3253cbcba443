/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to questions that are asked apart (apart.h): the machinery of the process that answers,
 * which knows nothing of what goes over: start, limits, messages, time, and who is to blame.
 *
 *     asks: pst_worker_ask ── job ──►  answers: pst_worker_begin, pst_worker_started,
 *                       ◄── answer or error, log records ──   pst_worker_answer
 */
#ifndef PST_HOST_CHILD_H
#define PST_HOST_CHILD_H

#include "host/apart.h"
#include "host/breadcrumb.h"

/* Runs the task to its end. free() *ret_answer, which has a NUL after it and which nobody
   checked. Errors: the process's own, with every field; and those of pst_apart_ask. */
pst_status pst_worker_ask(const struct pst_worker_task *task, const struct pst_wire *question,
                          char **ret_answer, size_t *ret_length, struct pst_error *err);

/* --- child_side.c: the process -----------------------------------------------------------------*/

/* Sets every limit, then reads the job. False where this process was not started for one. */
bool pst_worker_begin(int argc, char **argv, char **ret_job, size_t *ret_length);
/* Before the first plugin is opened: time counts from here, log records show from here. */
void pst_worker_started(void);
/* Sends the answer, or the error if it is NULL, and leaves. */
void pst_worker_answer(const struct pst_wire *answer, const struct pst_error *err)
    __attribute__((noreturn));

/* --- messages ----------------------------------------------------------------------------------*/

#define PST_WORKER_MAGIC      0x50535443u
#define PST_WORKER_JOB_BYTES  ((uint64_t)64 << 20)
#define PST_WORKER_PLAN_BYTES ((uint64_t)2 << 30)
#define PST_WORKER_LOG_BYTES  4096u
#define PST_WORKER_UNSENT     74 /* exit status: the answer could not be sent */

/* In front of the job. */
struct pst_worker_job {
    uint64_t length, memory_limit_bytes;
    uint64_t log_level;
};

enum {
    PST_WORKER_STARTED = 2,
    PST_WORKER_CALL, /* what comes next is written while that plugin is called */
    PST_WORKER_LOG,
    PST_WORKER_PLAN,
    PST_WORKER_ERROR
};

/* In front of each message that comes back. */
struct pst_worker_head {
    uint32_t magic, type;
    uint64_t length;
};

/* --- child_intake.c: what comes back -----------------------------------------------------------*/

struct pst_worker_reader {
    struct pst_worker_head head;
    size_t head_got;
    char *body; /* grows as bytes come, whatever the head promises */
    size_t got, room;
    bool started, broken;
    uint32_t plugin; /* that is called */
    char *plan;      /* the answer: one of the two */
    size_t plan_length;
    bool has_error;
    struct pst_error error;
};

void pst_worker_reader_finish(struct pst_worker_reader *reader);
void pst_worker_reader_take(struct pst_worker_reader *reader, const char *bytes, size_t n);

/* The end of the plugins' output is kept, up to this many bytes. */
#define PST_WORKER_OUTPUT_BYTES ((size_t)64 << 10)

/* In the stream a NUL is followed by '0' + the number of the plugin that is called next. */
struct pst_worker_output {
    char bytes[2 * PST_WORKER_OUTPUT_BYTES + 1];
    size_t length;
    uint64_t dropped; /* bytes before these */
    uint32_t plugin;  /* at the start of bytes */
};

void pst_worker_output_take(struct pst_worker_output *output, const char *bytes, size_t n);
/* As log records under the plugin's id, at PST_LOG_INFO. */
void pst_worker_output_log(struct pst_worker_output *output,
                           const struct pst_breadcrumb_page *page);
/* The last lines, into the details. */
void pst_worker_output_tail(const struct pst_worker_output *output, struct pst_error *err);

/* --- what its end means ------------------------------------------------------------------------*/

enum pst_worker_stop { PST_WORKER_RUNS = 0, PST_WORKER_CANCELLED, PST_WORKER_TIMED_OUT };

struct pst_worker_end {
    enum pst_worker_stop stop;
    bool killed; /* by us */
    int wait_status;
    uint64_t end_ns; /* when */
};

/* PST_OK: there is an answer. Else who is to blame. */
pst_status pst_worker_judge(const struct pst_worker_task *task, const struct pst_worker_end *end,
                            const struct pst_worker_reader *reader,
                            const struct pst_breadcrumb_page *page,
                            const struct pst_worker_output *output, struct pst_error *err);

#endif
