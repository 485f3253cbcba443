/* SPDX-License-Identifier: Apache-2.0
 *
 * One scheduler of the tree on an instance stated by numbers, for tables.
 */
#ifndef BENCH_SCHEDULERS_INSTANCE_H
#define BENCH_SCHEDULERS_INSTANCE_H

#include "planner/order_question.h"
#include "reports/order_bounds.h"

/* Costs of one device's share of the model. */
struct bench_instance {
    uint32_t p, m;
    uint64_t f, b, w, c;          /* c: latency of a link */
    uint64_t saved, saved_weight; /* bytes of a share */
    bool barrier;
    const uint64_t *caps; /* [p] bytes that a device may hold; NULL: no limit */
    /* Makes stages and links unlike each other; may be NULL. */
    void (*shape)(struct pst_order_question *asked);
};

struct bench_figures {
    bool found; /* else it refuses the instance */
    uint64_t span, makespan, work;
    uint64_t peaks[64], most; /* bytes: of each device, of the fullest */
    uint64_t bound_span, bound_makespan;
    double seconds;      /* of schedule() */
    double median, late; /* of the cost under noise: quantiles 0.5 and 0.9 */
};

/* noise: 0, or the fraction that passes vary by and, of a mean pass, links are late by. */
void bench_measure(const char *scheduler, const char *options, const struct bench_instance *x,
                   double noise, struct bench_figures *ret_figures);

#endif
