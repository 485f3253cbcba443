/* SPDX-License-Identifier: Apache-2.0
 *
 * pst.scheduler/1: orders the passes of every micro-batch on every logical device. Transfers,
 * copies, reductions and the optimizer step follow from it; the host adds them.
 */
#ifndef PENSTOCK_SCHEDULER_H
#define PENSTOCK_SCHEDULER_H

#include "abi.h"

#define PST_SCHEDULER "pst.scheduler/1"

/* Passes of one stage for one micro-batch. */
enum {
    PST_PASS_F = 1,  /* forward */
    PST_PASS_B = 2,  /* backward for inputs */
    PST_PASS_W = 3,  /* backward for weights, after its B */
    PST_PASS_BW = 4, /* both backwards, fused */
    PST_PASS_R = 5   /* recompute; only from a scheduler that provides places-recompute */
};

/* Which weights a pass reads. */
enum {
    PST_VERSION_SYNC = 1,    /* all passes of a step read one version */
    PST_VERSION_DELAYED = 2, /* 2BW: batch t reads version max(t - 1, 0) */
    /* PipeDream: a stage is updated after every micro-batch, and micro-batch j, counted from the
       start of the run, reads what max(j - (weight_versions - 1), 0) updates have made, forward and
       backward; weight_versions is that of the stage */
    PST_VERSION_STASHED = 3
};

struct pst_topology {
    uint32_t size;
    uint32_t n_stages;            /* 0: one per device, as many as the partitioner makes */
    uint32_t version_rule;        /* PST_VERSION_* */
    uint32_t min_microbatches;    /* at least 1 */
    uint32_t microbatch_multiple; /* their number must be a multiple of this; at least 1 */
    /*
     * Since 1.6. Whole copies of the model on the same devices, each of which takes equally many
     * micro-batches: two run in opposite directions (Chimera, DualPipe; the word "two-way"). 0:
     * one. n_stages, which is not open then, counts the stages of all copies: those of copy c
     * follow those of copy c - 1, in their order. Everything below that speaks of a stage means one
     * of a copy: device_of() places each, schedule() orders each, with links within a copy only,
     * and every stage runs its micro-batches 0 to n_microbatches - 1, which are the copy's own.
     * Limits on micro-batches above are on those of all copies together.
     */
    uint32_t n_copies;
    /* Since 1.6. Slices of a sequence; 0, 1: passes are of whole ones. Micro-batch j n + i of the
       passes is then slice i of n of the sequences of micro-batch j, and there are n times as many
       micro-batches. On every stage forward passes of a sequence go from its first slice to its
       last, backward passes from its last to its first. Only from a scheduler that provides
       sequence-slices, whose parameter `slices` it is: the host reads that, too. */
    uint32_t slices;
};

/* The number of copies, at least 1. */
static inline uint32_t pst_topology_copies(const struct pst_topology *t)
{
    return PST_HAS(t, n_copies) && t->n_copies > 1 ? t->n_copies : 1;
}

struct pst_successor {
    uint32_t microbatch_size, k, in_flight; /* in_flight in micro-batches of the successor */
};

/* A stage whose in-flight count is asked for. */
struct pst_place {
    uint32_t size;
    uint32_t stage, n_stages, n_devices;
    uint32_t n_microbatches, microbatch_size, k; /* of this stage */
    uint32_t n_successors, successor_size;
    const void *successors; /* struct pst_successor; pst_place_successor */
};

static inline const struct pst_successor *pst_place_successor(const struct pst_place *p, uint32_t i)
{
    return (const struct pst_successor *)((const char *)p->successors +
                                          (size_t)i * p->successor_size);
}

/* The micro-batches and weight versions that a stage holds at the peak of its device. */
struct pst_held {
    uint32_t size;
    uint32_t microbatches, weight_versions;
};

struct pst_schedule_stage {
    uint32_t device; /* logical device */
    uint32_t microbatch_size, n_microbatches, k;
    uint64_t forward_ns, backward_input_ns, backward_weight_ns; /* of one micro-batch; of slices
                                                                   the mean */
    uint64_t replay_ns;                                         /* part of B unless R is placed */
    uint64_t saved_bytes;        /* A: kept from F to W of one micro-batch, input included */
    uint64_t saved_weight_bytes; /* AW: the part of A that W alone needs */
    uint64_t input_bytes;        /* Ain: the stage's input */
    uint32_t first_pred, n_pred; /* rows of in->links, as the end they come to */
    uint32_t first_succ, n_succ; /* rows of in->out_links, indices into in->links */
};

struct pst_schedule_link {
    uint32_t from, to;    /* stages */
    uint64_t transfer_ns; /* of one micro-batch of `from`; 0 on one device */
};

struct pst_schedule_in {
    uint32_t size;
    uint32_t n_devices, n_stages, stage_size, n_links, link_size;
    const void *stages;               /* struct pst_schedule_stage; topological order */
    const void *links;                /* struct pst_schedule_link; sorted by `to`, then `from` */
    const uint32_t *out_links;        /* link indices sorted by `from`, then `to` */
    const uint64_t *activation_bytes; /* per logical device: room for saved bytes; UINT64_MAX */
    /* 1: no device begins the next step before all have ended this one, so the step costs its
       makespan. 0: each goes on as soon as its own part is done, and the step costs its span. */
    uint32_t barrier;
    uint32_t slices; /* as in struct pst_topology; since 1.6 */
};

static inline const struct pst_schedule_stage *pst_schedule_stage_at(
    const struct pst_schedule_in *in, uint32_t i)
{
    return (const struct pst_schedule_stage *)((const char *)in->stages +
                                               (size_t)i * in->stage_size);
}

static inline const struct pst_schedule_link *pst_schedule_link_at(const struct pst_schedule_in *in,
                                                                   uint32_t i)
{
    return (const struct pst_schedule_link *)((const char *)in->links + (size_t)i * in->link_size);
}

/*
 * Parts of an asynchronous schedule: n batches run as fill, n - 1 times body, drain. Micro-batch
 * numbers count from the first one of the batch that the part closes (fill: of the first batch), so
 * a number from n_microbatches on belongs to the batch after it.
 */
enum { PST_PART_FILL = 1, PST_PART_BODY = 2, PST_PART_DRAIN = 3 };

struct pst_schedule_out {
    uint32_t size;
    void *impl;
    /* Appends one pass to the list of `device`. PST_ERR_BUG when it is illegal there. [plan] */
    pst_status (*emit)(struct pst_schedule_out *out, uint32_t device, uint32_t pass, uint32_t stage,
                       uint32_t microbatch);
    /* Runs F(stage_f, mb_f) and the backward (pass_b: B or BW) as one pair. [plan] */
    pst_status (*pair)(struct pst_schedule_out *out, uint32_t device, uint32_t stage_f,
                       uint32_t mb_f, uint32_t pass_b, uint32_t stage_b, uint32_t mb_b);
    /* Later passes belong to this part (PST_PART_*); asynchronous schedules only. [plan] */
    pst_status (*part)(struct pst_schedule_out *out, uint32_t part);
};

struct pst_scheduler {
    uint32_t size;
    /* Stages for n logical devices, version rule, limits on micro-batches. [plan] */
    pst_status (*topology)(void *self, uint32_t n_devices, struct pst_topology *ret_topology);
    /* (optional) Logical device of a stage, below n_devices; without it stage s sits on device s.
       Where topology() leaves n_stages at 0 that is so in any case, and this must say so. Pure.
       [plan] */
    uint32_t (*device_of)(void *self, uint32_t n_devices, uint32_t n_stages, uint32_t stage);
    /* (optional) Without it, and where there are copies, the host schedules a unit-cost chain and
       counts. [plan] */
    pst_status (*in_flight)(void *self, const struct pst_place *place, struct pst_held *ret_held);
    /*
     * Orders the passes of every device for one training step: out->emit once per pass, in the
     * order in which its device shall run them. `in` lives until this returns.
     *
     * PST_ERR_INFEASIBLE  too few micro-batches or too little memory; the message says what would
     * do [plan]
     */
    pst_status (*schedule)(void *self, const struct pst_schedule_in *in,
                           struct pst_schedule_out *out);
};

#define PST_FIXED_SHAPE "pst.fixed-shape/1"

/* (optional) For a scheduler that answers one instance only, e.g. an order read from a file. */
struct pst_fixed_shape {
    uint32_t size;
    /* The numbers that topology() and schedule() will accept. [plan] */
    pst_status (*shape)(void *self, uint32_t *ret_n_devices, uint32_t *ret_n_stages,
                        uint32_t *ret_n_microbatches);
};

#endif
