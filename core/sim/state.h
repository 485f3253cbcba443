/* SPDX-License-Identifier: Apache-2.0
 *
 * What the simulator keeps of each rank while it runs. Private to sim.
 */
#ifndef PST_SIM_STATE_H
#define PST_SIM_STATE_H

#include "plan/program.h"
#include "sim/durations.h"
#include "sim/timeline.h"

enum pst_sim_queue { QUEUE_SEND = 0, QUEUE_RECV = 1, QUEUE_REDUCE = 2, QUEUE_COUNT };

#define PST_SIM_OPEN UINT64_MAX /* an end that is not known yet */

/* One list of a rank, its instructions dealt to the queues. */
struct pst_sim_list {
    const struct pst_instr *instrs;
    uint32_t n;
    uint32_t *queued[QUEUE_COUNT];
};

/* One run of a list. All times from time 0 of the simulation. */
struct pst_sim_visit {
    struct pst_sim_visit *next; /* the later one of the same rank */
    const struct pst_sim_list *list;
    uint32_t number;                /* 0 for the first list that a rank runs */
    uint32_t batch;                 /* that micro-batch numbers and samples count from */
    uint64_t *posted, *start, *end; /* per instruction */
    uint32_t n_done, n_posted[QUEUE_COUNT];
    uint64_t begin, latest; /* when the list was entered; last end so far */
};

struct pst_sim_rank {
    struct pst_sim_list lists[3]; /* body; fill, drain */
    struct pst_sim_visit *oldest, *current, *spare;
    uint32_t pc;
    struct pst_sim_visit *visit[QUEUE_COUNT]; /* that the head of the queue is in */
    uint32_t head[QUEUE_COUNT];
    uint64_t last_start[QUEUE_COUNT]; /* of transfers; of reductions: the last end */
    uint64_t host_free[2];            /* link to host memory: out, in */
    uint64_t now;
    uint32_t arrived_at; /* collective that this rank has come to, PST_NONE: none */
    bool queued, at_barrier;
    bool requested; /* the head of its sends waits for a shared link */
};

struct pst_sim_collective {
    uint64_t ready_ns;
    uint32_t arrived, n_ranks;
};

struct pst_sim_link {
    uint32_t peer;
    uint64_t free_ns;
};

/* A transfer that has come to the heads of its queues and wants a link that others want too. */
struct pst_sim_request {
    uint64_t time_ns;
    uint32_t from, to;
};

struct pst_sim {
    const struct pst_plan *plan;
    struct pst_arena arena;
    struct pst_sim_durations durations;
    uint32_t n_steps, n_visits; /* visits of each rank */
    bool joins;                 /* a rank leaves a list when all of it has ended */
    bool barrier;               /* and when all ranks have left it */
    uint32_t n_at_barrier;
    struct pst_sim_rank *ranks;
    uint64_t *begins;                       /* [visit number * n_devices + rank] */
    struct pst_sim_collective *collectives; /* REDUCE of each stage, TIE of each tie, NORM */
    uint32_t *worklist;                     /* a ring of n_devices ranks */
    uint32_t first, n_queued;
    uint32_t *n_links;
    struct pst_sim_link **links; /* of each rank: those that it sends on, by peer, ascending */
    uint64_t *node_out, *node_in;
    struct pst_sim_request *requests; /* a binary heap */
    uint32_t n_requests;
    pst_status status;
    struct pst_error *err;
    /* Told of every visit of a rank, in order, once all of it has ended. May be NULL. */
    pst_status (*sink)(void *context, const struct pst_sim *sim, uint32_t rank,
                       const struct pst_sim_visit *visit);
    void *context;
};

/* Everything at its start; what was allocated goes with sim->arena, also after a failure. */
pst_status pst_sim_init(struct pst_sim *sim, const struct pst_plan *plan,
                        const struct pst_graph *graph, const struct pst_cost_model *cost,
                        uint32_t n_steps, struct pst_error *err);

/* The rank begins its next list at its `now`. False: out of memory, in sim->status. */
bool pst_sim_enter(struct pst_sim *sim, uint32_t rank, uint32_t number);
/* Hands visits that have ended to the sink; the current one too where `all` is set. */
void pst_sim_retire(struct pst_sim *sim, uint32_t rank, bool all);

/* Runs to the end (sim.c). */
pst_status pst_sim_finish_all(struct pst_sim *sim);

/* links.c: shared links. */
static inline bool pst_sim_is_far(const struct pst_sim *sim, uint32_t from, uint32_t to)
{
    return sim->node_out != NULL &&
           pst_cost_node(sim->durations.cost, from) != pst_cost_node(sim->durations.cost, to);
}

/* The time from which the link from one rank to the other is free; raised by pst_sim_take_link. */
uint64_t pst_sim_link_free(const struct pst_sim *sim, uint32_t from, uint32_t to);
void pst_sim_take_link(struct pst_sim *sim, uint32_t from, uint32_t to, uint64_t until);
void pst_sim_request(struct pst_sim *sim, const struct pst_sim_request *request);
/* The earliest, the lowest sending rank of several. There must be one. */
struct pst_sim_request pst_sim_next_request(struct pst_sim *sim);

/* record.c: the sink that fills a timeline. Programs may be NULL. */
struct pst_sim_record {
    struct pst_timeline *timeline;
    const struct pst_program *const *programs;
    struct pst_sim_memory *memory;
};
pst_status pst_sim_record_visit(void *context, const struct pst_sim *sim, uint32_t rank,
                                const struct pst_sim_visit *visit);

/* memory.c: the curve of one run of a list. Remembers what operators cost; destroy accepts NULL. */
pst_status pst_sim_memory_create(const struct pst_graph *graph, const struct pst_cost_model *cost,
                                 struct pst_sim_memory **ret_memory, struct pst_error *err);
void pst_sim_memory_destroy(struct pst_sim_memory *memory);
pst_status pst_sim_memory_add(struct pst_sim_memory *memory, const struct pst_program *program,
                              const struct pst_sim_visit *visit, struct pst_timeline *timeline,
                              uint32_t rank, struct pst_error *err);

#endif
