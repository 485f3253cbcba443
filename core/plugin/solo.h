/* SPDX-License-Identifier: Apache-2.0
 *
 * A scheduler on its own: an instance stated by numbers instead of a model, and its answer. For
 * `penstock schedule`, for counting what stages hold, and for tests.
 */
#ifndef PST_PLUGIN_SOLO_H
#define PST_PLUGIN_SOLO_H

#include <penstock/ext/claim.h>

#include "plan/plan.h"
#include "plugin/plugin_host.h"

/* Costs of one device's share of the model for one micro-batch; a chunk costs its part of it. */
struct pst_solo_costs {
    uint64_t forward_ns, backward_input_ns, backward_weight_ns;
    uint64_t latency_ns;           /* between two devices */
    uint64_t saved_bytes, saved_weight_bytes;
    uint64_t limit_bytes;          /* room for activations on each device; UINT64_MAX: no limit */
    bool barrier;
};

/* A question in memory of its own; change `stages`, `links`, `activation_bytes` as you like. */
struct pst_solo {
    struct pst_arena arena;
    struct pst_schedule_in in;
    struct pst_topology topology;
    struct pst_schedule_stage *stages;
    struct pst_schedule_link *links;
    uint32_t *out_links;
    uint64_t *activation_bytes;
};

/*
 * The chain that `scheduler` wants on n devices, every device's share divided evenly over its
 * stages (the costs should be divisible). Errors: as topology() fails; plan.infeasible for too few
 * micro-batches or a number that is no multiple of what the scheduler wants.
 */
pst_status pst_solo_chain(struct pst_instance *scheduler, uint32_t n_devices,
                          uint32_t n_microbatches, const struct pst_solo_costs *costs,
                          struct pst_solo *ret_solo, struct pst_error *err);
void pst_solo_finish(struct pst_solo *solo);

/* The three parts of an answer; a synchronous one has only body. */
struct pst_solo_answer {
    struct pst_arena arena;
    uint32_t n_devices;
    struct pst_pass **passes[3]; /* [fill, body, drain][device][position] */
    uint32_t *n_passes[3];
    bool asynchronous;
    bool claimed;
    struct pst_claimed claim;
};

/* Asks schedule(), checks the answer for form and completeness. */
pst_status pst_solo_schedule(struct pst_instance *scheduler, const struct pst_schedule_in *in,
                             struct pst_solo_answer *ret_answer, struct pst_error *err);
void pst_solo_answer_finish(struct pst_solo_answer *answer);

#endif
