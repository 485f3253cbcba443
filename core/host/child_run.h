/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to the planner's process: messages, and the parts of the side that waits.
 */
#ifndef PST_HOST_CHILD_RUN_H
#define PST_HOST_CHILD_RUN_H

#include <sys/types.h>

#include "host/breadcrumb.h"
#include "host/child.h"

/* Descriptors of the child; everything above is closed. */
enum {
    PST_WORKER_JOB_FD = 3,
    PST_WORKER_ANSWER_FD = 4,
    PST_WORKER_PAGE_FD = 5,
    PST_WORKER_NO_FD = 6
};

#define PST_WORKER_MAGIC      0x50535443u
#define PST_WORKER_JOB_BYTES  ((uint64_t)64 << 20)
#define PST_WORKER_PLAN_BYTES ((uint64_t)2 << 30)
#define PST_WORKER_LOG_BYTES  4096u
#define PST_WORKER_UNSENT     74 /* exit status: the answer could not be sent */

enum {
    PST_WORKER_JOB = 1,
    PST_WORKER_STARTED,
    PST_WORKER_CALL, /* what comes next is written while that plugin is called */
    PST_WORKER_LOG,
    PST_WORKER_PLAN,
    PST_WORKER_ERROR
};

/* In front of each message. */
struct pst_worker_head {
    uint32_t magic, type;
    uint64_t length;
};

/* In front of the job's text, counted in its length. */
struct pst_worker_job {
    uint64_t memory_limit_bytes;
    uint32_t log_level, reserved;
};

/* --- child_answer.c: messages of the child ----------------------------------------------------*/

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

/* --- child_output.c: what plugins print -------------------------------------------------------*/

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

/* --- child_start.c
 * ------------------------------------------------------------------------------*/

struct pst_worker_process {
    pid_t pid;
    int job_fd, answer_fd, output_fd; /* -1: closed */
    struct pst_breadcrumb_page *page;
};

pst_status pst_worker_start(struct pst_worker_process *process, struct pst_error *err);
void pst_worker_close(int *fd);

/* --- child_end.c
 * --------------------------------------------------------------------------------*/

enum pst_worker_stop { PST_WORKER_RUNS = 0, PST_WORKER_CANCELLED, PST_WORKER_TIMED_OUT };

struct pst_worker_end {
    enum pst_worker_stop stop;
    bool killed;     /* by us */
    int code;        /* CLD_EXITED, CLD_KILLED, CLD_DUMPED */
    int status;      /* exit status or signal */
    uint64_t end_ns; /* when */
};

/* PST_OK: there is a plan. Else who is to blame. */
pst_status pst_worker_judge(const struct pst_worker_task *task, const struct pst_worker_end *end,
                            const struct pst_worker_reader *reader,
                            const struct pst_breadcrumb_page *page,
                            const struct pst_worker_output *output, struct pst_error *err);

#endif
