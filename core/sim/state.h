/* SPDX-License-Identifier: Apache-2.0
 *
 * What the simulator keeps of each rank while it runs. Private to sim.
 */
#ifndef PST_SIM_STATE_H
#define PST_SIM_STATE_H

#include "sim/durations.h"

enum pst_sim_queue { QUEUE_SEND = 0, QUEUE_RECV = 1, QUEUE_REDUCE = 2, QUEUE_COUNT };

struct pst_sim_rank {
    const struct pst_instr *list;
    uint64_t *start, *end; /* start holds the time of posting until the start is known */
    bool *done;            /* start and end are known */
    uint32_t n, pc;
    uint32_t head[QUEUE_COUNT];       /* no instruction of that queue before it is open */
    uint64_t last_start[QUEUE_COUNT]; /* of transfers; of reductions: the last end */
    uint64_t now;
    uint32_t arrived_at; /* collective that this rank has come to, PST_NONE: none */
    bool queued;
};

struct pst_sim_collective {
    uint64_t ready_ns;
    uint32_t arrived, n_ranks;
};

struct pst_sim {
    const struct pst_plan *plan;
    struct pst_arena arena;
    struct pst_sim_durations durations;
    struct pst_sim_rank *ranks;
    struct pst_sim_collective *collectives; /* REDUCE of each stage, TIE of each tie, NORM */
    uint32_t *worklist;                     /* a ring of n_devices ranks */
    uint32_t first, n_queued;
    uint32_t *n_links, **link_peers; /* of each rank: whom it sends to, ascending */
    uint64_t **link_free;            /* end of the last transfer on that link */
    pst_status status;
    struct pst_error *err;
};

/* Everything at its start; what was allocated goes with sim->arena, also after a failure. */
pst_status pst_sim_init(struct pst_sim *sim, const struct pst_plan *plan,
                        const struct pst_graph *graph, const struct pst_cost_model *cost,
                        uint64_t *const *start, uint64_t *const *end, struct pst_error *err);

#endif
