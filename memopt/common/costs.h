/* SPDX-License-Identifier: Apache-2.0
 *
 * For memory optimizers that search: a stage in flat arrays, with what each node may become, sums
 * and maxima of ranges, and a bound that no plan goes below. Depends on the plugin headers and
 * plugins/call alone; memory is the call's. One thread.
 */
#ifndef MEMOPT_COMMON_COSTS_H
#define MEMOPT_COMMON_COSTS_H

#include "plugin_call.h"

/* The actions that a search may use, and how full the host link may be. */
struct mem_rules {
    bool recompute, offload;
    bool slot_filter;   /* offload only what leaves its staging slot within link_target x period */
    double link_target; /* part of the link's time that plans fill, (0, 1] */
    uint32_t staging;   /* micro-batches of offloaded tensors with room on the device, at least */
    uint64_t min_bytes; /* offload nothing smaller */
    double host_part;   /* of the host memory that the stage may use, [0, 1] */
};

enum { MEM_MAY_KEEP = 1, MEM_MAY_RECOMPUTE = 2, MEM_MAY_OFFLOAD = 4 }; /* 1 << PST_ACTION_* */

/* One stage. Bytes and times are of one micro-batch. */
struct mem_costs {
    const struct pst_host *host;
    uint32_t n;
    uint32_t held, staged;    /* in flight; of them, those whose offloaded tensors have room */
    bool absurd;              /* sums do not fit into 62 bits: arrays are not to be used */
    bool broken;              /* earlier decisions are illegal whatever is done */
    bool chain;               /* every node reads the one before it, or none */
    bool any_offload;         /* some node may be offloaded, to some avail */
    uint64_t capacity, fixed; /* fixed: static bytes and one stage input per micro-batch */
    uint64_t host_bytes;      /* UINT64_MAX: any number */
    uint64_t link_bytes_per_s, link_directions;
    double link_target;
    uint64_t total_ns;                  /* all forwards and backwards */
    uint64_t *forward_ns, *backward_ns; /* [n] */
    int64_t *bytes, *forward_work, *backward_work;
    int64_t *results; /* [n] what a node that is not dropped holds beside, where a reader is */
    bool any_results;
    double *replay_ns; /* [n] forward, with that of sources that would hold their results for it */
    int64_t *sum;      /* [n + 1] bytes of all nodes before */
    uint8_t *may, *first; /* [n] MEM_MAY_*; what earlier optimizers decided, else KEEP */
    bool *crossed;        /* [n] some edge leads from before the node to after it */
    uint32_t *last;       /* [n] last reader in the stage; itself where there is none */
    uint32_t *first_source, *sources; /* [n + 1] rows of positions read */
    uint32_t *first_reader, *readers; /* [n + 1] rows of positions that read it */
    uint32_t *order;                  /* [n] what may be dropped, cheapest replay per byte first */
    uint32_t *by_forward;             /* [n] the same, by its own forward per byte */
    uint32_t n_order;
    int64_t **top_work;  /* [level][v] most of sum[u + 1] + forward work, 2^level from v */
    uint32_t **top_last; /* [level][v] largest last of 2^level nodes from v */
};

/* costs: zero at first; may be loaded again for a view of the same nodes. */
void mem_costs_load(struct mem_costs *costs, const struct pst_host *host,
                    const struct pst_stage_view *view, const struct mem_rules *rules);

/* Largest sum[u + 1] + forward work, and largest last, of nodes first..end-1. */
int64_t mem_costs_top_work(const struct mem_costs *costs, uint32_t first, uint32_t end);
uint32_t mem_costs_top_last(const struct mem_costs *costs, uint32_t first, uint32_t end);

/* Time of the link for the bytes of a micro-batch, rounded up; `planned`: stretched so that the
   link stays as free as the rules want it. */
uint64_t mem_costs_link_ns(const struct mem_costs *costs, uint64_t bytes, bool planned);

/*
 * A period that no legal plan within the capacity goes below. At the two instants of largest
 * residency (of a forward and of a backward pass, everything kept) a dropped node frees at most its
 * copies in flight, the active one only where it may be gone by then; an offloaded one those
 * without a staging slot. The least period in which the missing bytes can be freed, parts of nodes
 * allowed, is the bound. Where even that does not suffice: UINT64_MAX, nothing fits.
 */
uint64_t mem_costs_bound(const struct mem_costs *costs);

#endif
