/* SPDX-License-Identifier: Apache-2.0
 *
 * Exact search on small instances, rung by rung: finds what local search misses, and proves.
 */
#ifndef V_ADAPTIVE_PROVE_H
#define V_ADAPTIVE_PROVE_H

#include "exact.h"
#include "problem.h"

struct va_prover {
    const struct pst_host *host;
    struct instance instance;
    struct va_work work;
    uint64_t *room;   /* [p] caps of the rung in question */
    uint64_t unit_ns; /* of the problem's times */
    uint64_t quantum_ns;
    bool usable; /* small enough */
};

/* `q` counts the times of `in` in units of unit_ns and gets its bound; `in` must outlive the
   prover. */
void va_prover_init(struct va_prover *prover, const struct pst_schedule_in *in,
                    struct va_problem *q, uint64_t unit_ns, const struct pst_host *host);

/* Turns a complete order into sequences of kinds, and finishes it. */
void va_read_order(const struct va_problem *q, struct order *order, uint8_t *ret_order);

/*
 * Looks for an order of `q`, whose caps may be any, that costs less than `*cost`, in so many steps.
 * Depends on q, *cost and nodes alone. Returns what no order of q costs less than; it is the cost
 * where that is proven best. Where a better order was found it replaces `order` and *cost.
 */
uint64_t va_prove(struct va_prover *prover, const struct va_problem *q, uint64_t nodes,
                  uint8_t *order, struct va_cost *cost);

enum va_verdict { VA_OPEN, VA_FOUND, VA_REFUTED };

/* Is there an order of `q` that costs less than `below`? In so many steps; it replaces `order` and
 *cost. */
enum va_verdict va_decide(struct va_prover *prover, const struct va_problem *q, uint64_t nodes,
                          uint64_t below, uint8_t *order, struct va_cost *cost);

#endif
