/* SPDX-License-Identifier: Apache-2.0
 *
 * One question to one scheduler from start to end: open it, state the instance, take its answer.
 * In this process, or in one of its own that may crash, hang or leave.
 */
#ifndef PST_ASK_SCHEDULE_JOB_H
#define PST_ASK_SCHEDULE_JOB_H

#include "host/apart.h"
#include "planner/order_question.h"

#define PST_SCHEDULE_SCALE 1000000 /* nanoseconds and bytes of a unit of costs before division */

struct pst_schedule_job {
    const char *id;          /* NULL: the file's own */
    const char *path;        /* NULL: as found by id */
    const char *options;     /* "key=value,..." or NULL */
    uint32_t n_devices;      /* 0: of the one instance that it answers */
    uint32_t n_microbatches; /* likewise */
    bool barrier;
    bool again; /* ask for twice the micro-batches as well */
    /* A chain that the scheduler places: in millionths of a unit; unused with a problem. */
    struct pst_order_question_costs costs;
    /* Stages and links as they are, or NULL. A device of PST_NONE: where the scheduler wants it. */
    const struct pst_order_question *problem;
};

struct pst_schedule_result {
    char id[64], version[32];
    uint64_t scale; /* nanoseconds and bytes that a unit became; a problem's are as stated: 1 */
    struct pst_order_question asked;
    struct pst_orders answer;
    bool has_twice; /* it answered twice the micro-batches as well */
    struct pst_order_question twice;
    struct pst_orders twice_answer;
};

/* Errors: of opening and creating the plugin; of placing it and of pst_orders_ask; usage where
   a number is missing. limits: those of a process of its own, by the rules of pst_worker_ask; NULL:
   in this one, where `cancelled` may be NULL as well. */
pst_status pst_schedule_job_run(const struct pst_schedule_job *job,
                                const struct pst_worker_task *limits, bool (*cancelled)(void),
                                struct pst_schedule_result *ret_result, struct pst_error *err);
void pst_schedule_result_finish(struct pst_schedule_result *result);

extern const struct pst_apart_kind pst_schedule_kind;

#endif
