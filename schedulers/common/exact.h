/* SPDX-License-Identifier: Apache-2.0
 *
 * The exact search: instance, bounds, greedy orders, and a depth-first decision procedure "is there
 * an order that costs at most T?". All micro-batches are alike, so passes of one kind on one stage
 * run in ascending order without loss; a state is then a few counters and clocks.
 */
#ifndef SCHEDULERS_COMMON_EXACT_H
#define SCHEDULERS_COMMON_EXACT_H

#include "order.h"

enum { KIND_F = 0, KIND_B = 1, KIND_W = 2, KINDS = 3 };
enum { EXACT_MAKESPAN = 0, EXACT_SPAN = 1 };
/* The limits of the exact search: chunks of a device, and passes in all. */
enum { MAX_CHUNKS = 20, MAX_PASSES = 20000 };

#define NEVER UINT64_MAX

/* A neighbour of a stage in one direction. */
struct near {
    uint32_t stage;
    bool local; /* on the same device: no transfer */
    uint64_t latency;
};

struct instance { /* stages and links of any DAG */
    const struct pst_schedule_in *in;
    uint32_t n_devices, n_stages, m;
    uint32_t *device_of, *n_on;     /* stage -> device; stages of a device */
    uint32_t **on;                  /* [device][i]: its stages, ascending */
    uint64_t *time[KINDS];          /* [stage] */
    int64_t *held[KINDS];           /* [stage]: change of held bytes, F at start, others at end */
    const uint64_t *room;           /* [device] */
    struct near **before, **behind; /* [stage] */
    uint32_t *n_before, *n_behind;
    uint64_t *slowest[2]; /* [F, B][stage]: largest latency to those that read its result */
    uint64_t *head;       /* [stage]: least time until the first F of it can start */
    uint64_t *up;   /* [stage]: least time from the end of a B of it to the end of the last W that
                       waits for it, the lag of that device included */
    uint64_t *down; /* [stage]: the same from the end of an F of it */
    uint64_t *back; /* [stage]: least time from the end of an F of it to the end of its B */
    uint64_t *lag;  /* [device]: a device must end so much before the last deadline */
    uint64_t last_start; /* span, starts_known: the last device's; else 0 */
    bool *leads;         /* [stage * n_stages + stage]: links lead from the one to the other */
    bool starts_known;   /* every device begins at the head of its first stage, in any order */
    uint32_t objective;
};

static inline bool instance_leads(const struct instance *inst, uint32_t from, uint32_t to)
{
    return inst->leads[(size_t)from * inst->n_stages + to];
}

void instance_init(struct instance *inst, const struct pst_schedule_in *in, uint32_t m,
                   uint32_t objective);
/* The largest bound that needs no search. */
uint64_t instance_bound(const struct instance *inst);

/* The state of a run, in greedy and exact search. */
struct state {
    uint32_t *count[KINDS]; /* [stage]: passes begun */
    uint64_t **arrival[2];  /* [F, B][stage]: [micro-batch] end of the pass */
    uint64_t *free_at;      /* [device] */
    uint64_t *start;        /* [device]: of its first pass; NEVER before */
    uint64_t *held;         /* [device]: bytes, after all that has begun has ended */
    uint64_t now;
    struct order order; /* what has begun, in order */
};

void state_init(struct state *state, const struct instance *inst);
/* Gives its memory back, the order apart. */
void state_finish(struct state *state);
/* Could the next pass of this kind start now, as far as needs go? (Memory apart.) */
bool state_ready(const struct state *state, const struct instance *inst, uint32_t stage,
                 uint32_t kind);
/* When its needs will be there if all that has begun ends; NEVER where something has not begun. */
uint64_t state_ready_at(const struct state *state, const struct instance *inst, uint32_t stage,
                        uint32_t kind);
bool state_fits(const struct state *state, const struct instance *inst, uint32_t stage,
                uint32_t kind);
void state_begin(struct state *state, const struct instance *inst, uint32_t stage, uint32_t kind);
void state_undo(struct state *state, const struct instance *inst, uint32_t stage, uint32_t kind,
                uint64_t free_before, uint64_t start_before);
uint64_t state_cost(const struct state *state, const struct instance *inst);

/* The best of many greedy orders. Memory holds one micro-batch: then there is one. */
void greedy_best(const struct instance *inst, struct order *ret_order, uint64_t *ret_cost);

struct verdict {
    bool found;     /* order and cost are set: cost <= T */
    bool exhausted; /* proven that there is none */
    struct order order;
    uint64_t cost;
};

/* An order that the caller may leave empty while it knows one of that cost, and a proven bound. */
struct exact_answer {
    struct order order;
    uint64_t cost, bound;
};

/* Can the search take an instance of this size? */
bool exact_can_search(const struct instance *inst);
/* Every cost is a multiple of this. */
uint64_t exact_quantum(const struct instance *inst);
/*
 * Brings cost and bound of the answer together until they meet, then the order is optimal, or
 * `nodes` steps are used up. A better order replaces the one given.
 */
void exact_narrow(const struct instance *inst, const struct pst_host *host, uint64_t nodes,
                  struct exact_answer *answer);

/* At most *nodes steps, which are taken off. */
struct verdict search_decide(const struct instance *inst, const struct pst_host *host,
                             uint64_t limit, uint64_t *nodes);

/* States seen under one limit. */
struct visited {
    uint64_t (*keys)[2];
    uint64_t *times;
    size_t mask, n;
};

void visited_init(struct visited *visited);
void visited_finish(struct visited *visited);
/* True if the state was seen at this time or before; else notes it. Full or out of memory: forgets,
   which costs time only. */
bool visited_before(struct visited *visited, const uint64_t *words, size_t n, uint64_t now);

#endif
