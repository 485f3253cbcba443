/* SPDX-License-Identifier: Apache-2.0
 *
 * The question to a scheduler for tests and measurements: a chain of equal shares.
 */
#ifndef TEST_ORDER_CHAIN_H
#define TEST_ORDER_CHAIN_H

#include "planner/order_question.h"
#include "planner/topology.h"

/*
 * The chain that `scheduler` wants on n devices, every device's share divided evenly over its
 * stages (the costs should be divisible). Errors: as topology() fails; plan.infeasible for too few
 * micro-batches or a number that is no multiple of what the scheduler wants; plan.mismatch where it
 * answers one instance only and this is another.
 */
static inline pst_status order_chain(struct pst_instance *scheduler, uint32_t n_devices,
                                     uint32_t n_microbatches,
                                     const struct pst_order_question_costs *costs,
                                     struct pst_order_question *ret_asked, struct pst_error *err)
{
    struct pst_arena arena = {0};
    struct pst_topology topology;
    struct pst_places places;
    pst_status st = pst_order_question_check_shape(scheduler, n_devices, n_microbatches, err);

    if (st == PST_OK) {
        st = pst_scheduler_topology(scheduler, n_devices, &topology, err);
    }
    if (st == PST_OK) {
        st = pst_places_ask(scheduler, &topology, n_devices, &arena, &places, err);
    }
    if (st == PST_OK) {
        st = pst_order_question_check_microbatches(scheduler, &topology, n_microbatches, err);
    }
    if (st == PST_OK) {
        struct pst_order_question_costs all = *costs;

        all.copies = pst_places_copies(&places);
        *ret_asked = pst_order_question_shares(n_devices, places.n * all.copies, places.device_of,
                                               n_microbatches, &all);
        ret_asked->topology = topology;
    }
    pst_arena_finish(&arena);
    return st;
}

#endif
