/* SPDX-License-Identifier: Apache-2.0
 *
 * A scheduler of this build, asked about chains of equal or of different stages.
 */
#ifndef BENCH_SCHEDULERS_H
#define BENCH_SCHEDULERS_H

#include "planner/order_question.h"
#include "plan/order_eval.h"

struct bench_question {
    const char *id, *options; /* "key=value,..." or "" */
    uint32_t p, m;
    uint64_t f, b, w, c;          /* of one stage, one link */
    uint64_t saved, saved_weight; /* bytes of one stage and micro-batch; 0: 1 */
    bool barrier;
    /* Changes the stages; may be NULL. */
    void (*change)(struct pst_order_question *asked, const void *context);
    const void *context;
};

struct bench_answer {
    uint64_t makespan, span, work, peak; /* nanoseconds; most bytes that a device holds */
};

/* Ends the program with a message where something fails. */
void bench_open(const struct bench_question *question, struct pst_instance **ret_instance,
                struct pst_order_question *ret_asked);
struct bench_answer bench_ask(const struct bench_question *question);
/* Best of several runs of schedule() alone, in seconds. */
double bench_time(const struct bench_question *question);

/* What choosing well is worth; prints tables. */
void bench_gains(void);

#endif
