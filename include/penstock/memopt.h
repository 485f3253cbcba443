/* SPDX-License-Identifier: Apache-2.0
 *
 * pst.memopt/1: decides for each node of a stage what becomes of the bytes that it leaves for the
 * backward passes. Asked while a partitioner searches (bound, price) and once per finished stage
 * (plan).
 */
#ifndef PENSTOCK_MEMOPT_H
#define PENSTOCK_MEMOPT_H

#include "model.h"

#define PST_MEMOPT "pst.memopt/1"

enum {
    PST_ACTION_KEEP = 0,
    PST_ACTION_RECOMPUTE = 1,
    PST_ACTION_OFFLOAD = 2, /* to host memory and back */
    PST_ACTION_PEER = 3     /* to another device and back */
};

struct pst_stage_node {
    uint32_t node, layer, flags; /* index in the graph; flags: PST_NODE_* */
    uint32_t action;             /* decided by an earlier memory optimizer; fixed unless KEEP, or
                                    flags have PST_NODE_PRESET */
    uint64_t forward_ns, backward_ns; /* of one micro-batch */
    uint64_t saved_bytes;             /* of one micro-batch */
    uint64_t forward_work_bytes, backward_work_bytes;
    uint32_t first_producer, n_producers; /* rows of view->producers */
    const char *op;        /* kind of operator: "linear"; since 1.3, ask pst_stage_node_op */
    uint64_t output_bytes; /* of the result that other nodes read, of one micro-batch: what a replay
                              after it needs; since 1.4, ask pst_stage_node_output */
    uint32_t output_saved; /* it is part of saved_bytes */
};

/* A convex set of nodes as one stage. Owned by the host, valid during the call. */
struct pst_stage_view {
    uint32_t size;
    uint32_t stage, n_stages;
    uint32_t n_nodes, node_size;
    const void *nodes;         /* struct pst_stage_node, topological order; pst_stage_node_at */
    const uint32_t *producers; /* positions in `nodes` of in-stage producers of a node's inputs */
    uint32_t in_flight;        /* micro-batches held at the peak */
    uint32_t weight_versions;
    uint32_t staging_copies;  /* micro-batches of offloaded tensors with room on the device */
    uint32_t link_directions; /* 1: full duplex; 2: both directions share the host link */
    uint64_t capacity_bytes, static_bytes, input_bytes;
    uint64_t host_capacity_bytes;
    uint64_t link_bytes_per_s; /* per direction; 0: no host link */
    uint64_t slack_ns;         /* idle time per period that the scheduler promises for replays */
};

static inline const struct pst_stage_node *pst_stage_node_at(const struct pst_stage_view *v,
                                                             uint32_t i)
{
    return (const struct pst_stage_node *)((const char *)v->nodes + (size_t)i * v->node_size);
}

/* Kind of operator, NULL where it is not known. */
static inline const char *pst_stage_node_op(const struct pst_stage_view *v, uint32_t i)
{
    return v->node_size >= offsetof(struct pst_stage_node, op) + sizeof(const char *)
               ? pst_stage_node_at(v, i)->op
               : NULL;
}

/* Are output_bytes and output_saved known? Where not, take the result for all that is saved. */
static inline bool pst_stage_node_has_output(const struct pst_stage_view *v)
{
    return v->node_size >= offsetof(struct pst_stage_node, output_saved) + sizeof(uint32_t);
}

static inline uint64_t pst_stage_node_output(const struct pst_stage_view *v, uint32_t i)
{
    return pst_stage_node_has_output(v) ? pst_stage_node_at(v, i)->output_bytes
                                        : pst_stage_node_at(v, i)->saved_bytes;
}

/* Bytes that a node that is not dropped holds beside saved_bytes, for the replay of a dropped node
   that reads it: those of its result, if no backward pass reads it. */
static inline uint64_t pst_stage_node_result(const struct pst_stage_view *v, uint32_t i)
{
    return pst_stage_node_has_output(v) && pst_stage_node_at(v, i)->output_saved == 0
               ? pst_stage_node_at(v, i)->output_bytes
               : 0;
}

/* Where it fits, the period is no shorter than the passes and the peak within capacity_bytes, both
   below UINT64_MAX. Where nothing fits, peak_bytes is the least that the optimizer can do. */
struct pst_stage_price {
    uint32_t size;
    uint32_t fits;
    uint64_t period_ns, peak_bytes; /* of one micro-batch in steady state; of the device */
};

/*
 * Just before the backward of node `before` nodes first to last run again, in their order:
 * positions in view->nodes. Since 1.4.
 *
 * A stage whose replays are listed has them in this order: `before` never ascends, and first <=
 * last <= before. Nodes in the range that must not be replayed, or that another action was decided
 * about, do not run. Whatever a node leaves is there from the run that makes it to its last reader
 * before the next such run, and no longer. So a node that no replay names is kept, one whose bytes
 * are read before its first replay holds these until then, and of any other nothing is parked.
 */
struct pst_replay {
    uint32_t before, first, last;
};

struct pst_action_out {
    uint32_t size;
    void *impl;
    /* `position` in view->nodes. PST_ERR_BUG when the action is not allowed there. [plan] */
    pst_status (*set)(struct pst_action_out *out, uint32_t position, uint32_t action);
    /*
     * Since 1.4, ask PST_CAN: the replays of the stage in their order, at most one per node, once,
     * for the capability "nested". What becomes of each node follows from them, so RECOMPUTE is not
     * set besides; and no earlier memory optimizer may have set it. Only the last one may call
     * this. Copied. PST_ERR_BUG when the rules above are broken. [plan]
     */
    pst_status (*sequence)(struct pst_action_out *out, const struct pst_replay *replays,
                           uint32_t n_replays);
};

struct pst_memopt {
    uint32_t size;
    /* (optional) Never more than the true optimum's period; cheap. [plan] */
    pst_status (*bound)(void *self, const struct pst_stage_view *view, uint64_t *ret_period_ns);
    /* Cheap answer for searches. fits = 0 is an answer, not an error. Deterministic. [plan] */
    pst_status (*price)(void *self, const struct pst_stage_view *view,
                        struct pst_stage_price *ret_price);
    /*
     * The final decision; nodes not set are kept, or preset. The host evaluates it: a plan worse
     * than price() promised is refused.
     *
     * PST_ERR_INFEASIBLE  nothing fits; the message says by how much
     * [plan]
     */
    pst_status (*plan)(void *self, const struct pst_stage_view *view, struct pst_action_out *out);
};

#endif
