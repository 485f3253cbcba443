/* SPDX-License-Identifier: Apache-2.0
 *
 * A scheduler on its own: an instance stated by numbers instead of a model, and its answer. For
 * `penstock schedule`, for counting what stages hold, and for tests.
 */
#ifndef PST_PLANNER_ORDER_QUESTION_H
#define PST_PLANNER_ORDER_QUESTION_H

#include <penstock/ext/claim.h>

#include "plan/order_eval.h"
#include "plan/plan.h"
#include "planner/schedule_intake.h"
#include "host/plugin_host.h"

/* Costs of one device's share of the model for one micro-batch; a chunk costs its part of it. */
struct pst_order_question_costs {
    uint64_t forward_ns, backward_input_ns, backward_weight_ns;
    uint64_t latency_ns; /* between two devices */
    uint64_t saved_bytes, saved_weight_bytes;
    uint64_t limit_bytes; /* room for activations on each device; UINT64_MAX: no limit */
    uint32_t copies;      /* of the chain, which share the micro-batches; 0, 1: one */
    bool barrier;
};

/* A question in memory of its own; change `stages`, `links`, `activation_bytes` as you like. */
struct pst_order_question {
    struct pst_arena arena;
    struct pst_schedule_in in;
    struct pst_topology topology;
    struct pst_schedule_stage *stages;
    struct pst_schedule_link *links;
    uint32_t *out_links;
    uint64_t *activation_bytes;
};

/* A chain of n_stages stages, or as many copies of one as there are, stage s on device_of[s] (NULL:
   on device s); the costs are those of every stage. */
struct pst_order_question pst_order_question_line(uint32_t n_devices, uint32_t n_stages,
                                                  const uint32_t *device_of,
                                                  uint32_t n_microbatches,
                                                  const struct pst_order_question_costs *costs);

/* Like pst_order_question_line, but the costs are those of a device's share of the model: its
   stages take equal parts of it. Each copy of the chain has the full costs. */
struct pst_order_question pst_order_question_shares(uint32_t n_devices, uint32_t n_stages,
                                                    const uint32_t *device_of,
                                                    uint32_t n_microbatches,
                                                    const struct pst_order_question_costs *costs);

/* Micro-batches of the first stage, those of all copies. */
static inline uint32_t pst_order_question_microbatches(const struct pst_order_question *asked)
{
    return asked->stages[0].n_microbatches * pst_topology_copies(&asked->topology);
}

/* Empty tables, no limit on memory, into an all-zero asked. */
void pst_order_question_alloc(struct pst_order_question *asked, uint32_t n_devices,
                              uint32_t n_stages, uint32_t n_links);

/* problem.c: config.key where parameters, called `what`, have one of the two keys of a
   config's table that say which plugin, which here is said by `who`. */
pst_status pst_order_question_check_options(struct pst_config *config, const char *what,
                                            const char *who, struct pst_error *err);

/* plan.mismatch where the scheduler answers one instance only and this is another. */
pst_status pst_order_question_check_shape(struct pst_instance *scheduler, uint32_t n_devices,
                                          uint32_t n_microbatches, struct pst_error *err);
/* plan.infeasible where the scheduler wants another number. */
pst_status pst_order_question_check_microbatches(const struct pst_instance *scheduler,
                                                 const struct pst_topology *topology, uint32_t n,
                                                 struct pst_error *err);

/* Fills first_pred, n_pred, first_succ, n_succ of the stages, and out_links, from the links; sorts
   these. For other graphs than chains. */
void pst_order_question_connect(struct pst_order_question *asked);
void pst_order_question_finish(struct pst_order_question *asked);

/* The one instance that a scheduler answers (pst.fixed-shape/1); *ret_fixed: is there only one? */
struct pst_order_question_shape {
    uint32_t n_devices, n_stages, n_microbatches;
};
pst_status pst_order_question_shape(struct pst_instance *scheduler, bool *ret_fixed,
                                    struct pst_order_question_shape *ret_shape,
                                    struct pst_error *err);

/* Several batches in a row as one order: micro-batch j of batch t is number t * n_microbatches + j
   of `in`. A synchronous batch may begin before the last one ends. */
struct pst_batches {
    struct pst_arena arena;
    struct pst_schedule_in in;
    struct pst_pass **passes; /* [device][position] */
    uint32_t *n_passes;
};

/* n_batches >= 1. config.limit where there are more passes than 32 bits count. */
pst_status pst_batches_unroll(const struct pst_orders *answer, const struct pst_schedule_in *in,
                              uint32_t n_batches, struct pst_batches *ret_stream,
                              struct pst_error *err);
void pst_batches_finish(struct pst_batches *stream);
/* Unrolls the batches and computes when each pass runs. Finish both in any case. Errors: also those
   of pst_order_evaluate. */
pst_status pst_batches_evaluate(const struct pst_orders *answer, const struct pst_schedule_in *in,
                                uint32_t n_batches, struct pst_batches *ret_stream,
                                struct pst_order_eval *ret_eval, struct pst_error *err);

#endif
