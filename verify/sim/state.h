/* SPDX-License-Identifier: Apache-2.0
 *
 * The state of each rank while the simulator runs. Private to sim.
 */
#ifndef PST_SIM_STATE_H
#define PST_SIM_STATE_H

#include "plan/program.h"
#include "plan/shards.h"
#include "sim/durations.h"
#include "sim/timeline.h"

enum pst_sim_queue { QUEUE_SEND = 0, QUEUE_RECV = 1, QUEUE_REDUCE = 2, QUEUE_COUNT };

static inline uint64_t pst_later(uint64_t a_ns, uint64_t b_ns)
{
    return a_ns > b_ns ? a_ns : b_ns;
}

/* QUEUE_COUNT: none. */
static inline uint32_t pst_sim_queue_of(uint32_t op)
{
    bool sum = op == PST_I_REDUCE || op == PST_I_TIE || op == PST_I_NORM || op == PST_I_GATHER ||
               op == PST_I_MERGE;
    return op == PST_I_SEND   ? QUEUE_SEND
           : op == PST_I_RECV ? QUEUE_RECV
           : sum              ? QUEUE_REDUCE
                              : QUEUE_COUNT;
}

/* Shared resources that a rank requests: a link between nodes for the head of its sends; a core for
   its next pass. */
enum pst_sim_request_kind { PST_SIM_LINK = 0, PST_SIM_CORE = 1, PST_SIM_REQUESTS = 2 };

#define PST_SIM_OPEN UINT64_MAX /* an end that is not known yet */

struct pst_sim_rank {
    const struct pst_instr *list;
    uint32_t n, *queued[QUEUE_COUNT]; /* instructions; those of each queue, in list order */
    /* One run of the list, all times from time 0 of the simulation: */
    uint32_t number;                /* 0 for the first */
    uint64_t *posted, *start, *end; /* per instruction */
    uint64_t *stall;                /* per instruction: time that a pass waited inside for copies;
                                       NULL: the rank has none */
    uint32_t pc, n_done;
    uint32_t n_posted[QUEUE_COUNT], head[QUEUE_COUNT]; /* counted in `queued` */
    uint64_t latest;                                   /* last end so far */
    /* Kept across all runs: */
    uint64_t last_start[QUEUE_COUNT]; /* of transfers; of reductions: the last end */
    uint32_t *link;                   /* per SEND: which of the rank's links in its node */
    uint64_t *link_free;              /* of each */
    uint64_t host_free[2];            /* link to host memory: out, in */
    uint32_t behind;    /* the pass after which nothing but copies was posted; PST_NONE: none */
    uint64_t *call_end; /* of each of its calls, where its stage offloads */
    uint64_t *until;    /* per call, while a pass is timed; else 0 */
    uint64_t now;
    bool at_pass, together; /* at a pass that others begin with it; they begin it at `now` */
    bool is_through;        /* it has had a core for a pass that has not ended on others */
    uint64_t begun;         /* that pass */
    uint32_t arrived_at;    /* collective that this rank has come to, PST_NONE: none */
    bool queued_up, ended;
    struct pst_sim_request {
        bool open;
        uint64_t ns; /* from this time on */
    } requests[PST_SIM_REQUESTS];
};

struct pst_sim_collective {
    uint64_t ready_ns;
    uint32_t arrived, n_ranks;
    const uint32_t *ranks; /* NULL: all */
    uint32_t n_nodes;      /* of its ranks */
};

struct pst_sim {
    const struct pst_plan *plan;
    struct pst_arena arena;
    struct pst_sim_durations durations;
    uint32_t n_runs; /* how often each rank runs its list */
    struct pst_sim_rank *ranks;
    uint64_t *begins;                       /* [run * n_devices + rank] */
    struct pst_sim_collective *collectives; /* by pst_plan_meeting_of */
    uint32_t *worklist;                     /* a ring of n_devices ranks */
    uint32_t first, n_queued;
    bool *converts; /* [stage] the parts of a replica meet in its passes; NULL: there are none */
    uint64_t *node_out, *node_in; /* of each node: when its link is free; NULL: there is one node */
    uint64_t *core_free;          /* of each core: when its pass ends; NULL: ranks share none */
    uint32_t n_cores, n_requests; /* of all ranks, open */
    uint32_t *requests;           /* [n_requests] rank * PST_SIM_REQUESTS + kind */
    pst_status status;
    struct pst_error *err;
    /* Called after every run of a rank's list has ended, in order. May be NULL. */
    void (*sink)(void *context, const struct pst_sim *sim, uint32_t rank);
    /* Called when all ranks have begun so many runs; true ends the simulation. May be NULL. */
    bool (*suffices)(void *context, uint32_t n_begun);
    uint32_t *n_ranks_in; /* [run] ranks that have begun it */
    bool sufficed;
    void *context;
};

/* Everything at its start; what was allocated goes with sim->arena, also after a failure. */
void pst_sim_init(struct pst_sim *sim, const struct pst_plan *plan, const struct pst_graph *graph,
                  const struct pst_cost_model *cost, uint32_t n_runs, struct pst_error *err);

/* sim.c: runs to the end. */
pst_status pst_sim_finish_all(struct pst_sim *sim);

/* An instruction has a start and an end. */
static inline void pst_sim_finish(struct pst_sim_rank *state, uint32_t at, uint64_t start,
                                  uint64_t end)
{
    state->start[at] = start;
    state->end[at] = end;
    state->latest = end > state->latest ? end : state->latest;
    state->n_done++;
}

/* sim_copies.c: arrays of a rank that copies. */
void pst_sim_copies_init(struct pst_sim *sim, uint32_t rank);
/* The call of a pass that its wait number w holds up; PST_NONE: the wait comes before the pass. */
uint32_t pst_sim_waits_at(const struct pst_sim *sim, const struct pst_sim_rank *state,
                          const struct pst_instr *instr, uint32_t wait);
/* Returns the end of a pass that begins now; sets its stall and the ends of its calls. */
uint64_t pst_sim_run_pass(struct pst_sim *sim, struct pst_sim_rank *state, uint32_t at);
/* Times a copy; false where something that it waits for is not known yet. */
bool pst_sim_copy(struct pst_sim *sim, struct pst_sim_rank *state, uint32_t at);

/* The cost of an operator, cached from the last request. */
struct pst_sim_known {
    uint32_t samples, slice;
    struct pst_times times;
};

/* record.c: the sink that fills a timeline. Programs may be NULL. */
struct pst_sim_record {
    struct pst_timeline *timeline;
    const struct pst_plan *plan; /* asynchronous: not the one that is written out */
    uint32_t n_steps;
    const struct pst_program *const *programs;
    const struct pst_cost_model *cost;
    struct pst_sim_known *known; /* per operator */
};
void pst_sim_record_run(void *context, const struct pst_sim *sim, uint32_t rank);

/* sim_memory.c: the curve of one run of a list. */
void pst_sim_memory_add(const struct pst_sim_record *record, const struct pst_sim_rank *run,
                        uint32_t rank);

#endif
