/* SPDX-License-Identifier: Apache-2.0
 *
 * pst.memopt-global/1: decides, once stages are cut and passes are in order, which micro-batches
 * leave on other devices what they keep for their backward passes. A memory optimizer offers it
 * beside pst.memopt/1; actions that are decided stage by stage come first. Synchronous schedules
 * only. Since 1.4.
 */
#ifndef PENSTOCK_MEMOPT_GLOBAL_H
#define PENSTOCK_MEMOPT_GLOBAL_H

#include "memopt.h"

#define PST_MEMOPT_GLOBAL "pst.memopt-global/1"

/* A pass of a device, in its order. */
struct pst_global_pass {
    uint32_t op, stage, microbatch; /* op: PST_PASS_* */
    uint64_t start_ns, end_ns;      /* each as early as the order allows */
    uint64_t live_bytes; /* the most that a rank of the device holds, all included, from the end of
                            the pass before to the end of this one, as things stand */
};

struct pst_global_device {
    uint64_t capacity_bytes;       /* of each rank; UINT64_MAX: no limit */
    uint32_t first_pass, n_passes; /* rows of passes */
    uint32_t n_ranks;
};

struct pst_global_stage {
    uint32_t device, n_microbatches;
    const struct pst_stage_view *view; /* its nodes with the actions that are decided */
    const uint32_t *keepers;           /* [micro-batch] device that keeps it already, or PST_NONE */
    const uint64_t *move_bytes; /* [position in view->nodes] what of one micro-batch goes with
                                   the node, on each rank; 0: nothing, or it must stay */
};

struct pst_global_link {
    uint64_t bytes_per_s, latency_ns;
};

/* Owned by the host, valid during the call. */
struct pst_global_in {
    uint32_t size;
    uint32_t n_devices, n_stages, n_passes;
    uint32_t device_size, stage_size, pass_size, link_size;
    const void *devices; /* struct pst_global_device */
    const void *stages;  /* struct pst_global_stage */
    const void *passes;  /* struct pst_global_pass, device by device */
    const void *links;   /* struct pst_global_link, [from * n_devices + to] */
    void *impl;
    /* The passes of `device`, as positions in its order, from the first to the last in which it has
       bytes of this micro-batch of another device, if it is to keep it. False: it may not. [plan]
     */
    bool (*stay)(const struct pst_global_in *in, uint32_t stage, uint32_t microbatch,
                 uint32_t device, uint32_t *ret_first, uint32_t *ret_last);
};

static inline const struct pst_global_device *pst_global_device_at(const struct pst_global_in *in,
                                                                   uint32_t i)
{
    return (const struct pst_global_device *)((const char *)in->devices +
                                              (size_t)i * in->device_size);
}

static inline const struct pst_global_stage *pst_global_stage_at(const struct pst_global_in *in,
                                                                 uint32_t i)
{
    return (const struct pst_global_stage *)((const char *)in->stages + (size_t)i * in->stage_size);
}

static inline const struct pst_global_pass *pst_global_pass_at(const struct pst_global_in *in,
                                                               uint32_t i)
{
    return (const struct pst_global_pass *)((const char *)in->passes + (size_t)i * in->pass_size);
}

static inline const struct pst_global_link *pst_global_link_at(const struct pst_global_in *in,
                                                               uint32_t from, uint32_t to)
{
    return (const struct pst_global_link *)((const char *)in->links +
                                            ((size_t)from * in->n_devices + to) * in->link_size);
}

/*
 * One micro-batch of a stage on another device. With its F at position f of its device's order and
 * its B or BW at b >= f + 3, it is on its way beside pass f + 1, away in passes f + 2 to b - 2, and
 * comes back beside b - 1. When the other device has its bytes, in.stay says.
 */
struct pst_global_move {
    uint32_t size;
    uint32_t stage, microbatch;
    uint32_t device;           /* that keeps it; as many ranks as its own, and not the same */
    uint32_t n_positions;      /* 0: every node of the stage that has move_bytes */
    const uint32_t *positions; /* ascending in view->nodes; for all moves of a stage the same */
};

struct pst_global_out {
    uint32_t size;
    void *impl;
    /* PST_ERR_BUG: the move is not possible, or the micro-batch is away already. [plan] */
    pst_status (*move)(struct pst_global_out *out, const struct pst_global_move *move);
};

struct pst_memopt_global {
    uint32_t size;
    /*
     * May be called again with less capacity, where buffers did not fit without gaps; each answer
     * replaces the one before. The same question gets the same answer.
     *
     * PST_ERR_INFEASIBLE  nothing fits; the message says what would do
     * [plan]
     */
    pst_status (*plan)(void *self, const struct pst_global_in *in, struct pst_global_out *out);
};

#endif
