/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to lowering (lower.c: timing and transfers; lower_list.c: instruction lists;
 * lower_copies.c: copies between device and host; lower_part_copies.c: those of parts;
 * lower_peers.c: guests of other devices).
 */
#ifndef PST_PLAN_LOWER_H
#define PST_PLAN_LOWER_H

#include "plan/plan.h"

/* One transfer between two ranks, in the one global order. */
struct pst_transfer {
    uint64_t time_ns;                       /* end of the producing pass */
    uint32_t from_rank, from_pass;          /* producer: position in its rank's order */
    uint32_t to_rank, to_pass;              /* first consumer */
    uint32_t edge, first_sample, n_samples; /* of guests: the stage */
    uint32_t guest;                         /* of guests: number of the pair EVICT, LOAD */
    uint8_t payload;
    uint32_t send_gap, recv_gap; /* before which pass of its rank's order it is posted */
};

struct pst_lowering {
    struct pst_plan *plan;
    const struct pst_graph *graph;
    const struct pst_cost_model *cost;
    const struct pst_pass *const *orders;
    const uint32_t *n_passes;
    bool training;
    struct pst_arena arena;  /* temporary */
    uint32_t *home;          /* per rank: lowest stage on it, PST_NONE: none */
    uint32_t *replica;       /* per rank: which one it is, of every stage on it */
    struct pst_times *times; /* per stage, of one micro-batch */
    uint64_t *replay_ns;     /* per stage */
    uint32_t *base;          /* per stage: first row of its micro-batches in the tables below */
    uint32_t *at[6];         /* [pass][row]: position in the rank's order, or PST_NONE */
    uint32_t *last_gradient; /* per stage, the same on all its ranks: position of the last pass that
                                adds to its gradients */
    uint64_t **end_ns;       /* [rank][position] */
    uint32_t *in_first, *in_edges; /* per stage: edges that end there */
    uint32_t *out_first;           /* per stage: edges that start there (they are consecutive) */
    bool *edge_grad;               /* whether a gradient flows back on the edge */
    struct pst_transfer *transfers;
    uint32_t n_transfers;
    uint32_t n_guests;     /* pairs EVICT, LOAD among them */
    uint32_t *evict_at;    /* [guest] the row of its EVICT */
    uint64_t *guest_bytes; /* [stage] of each of its guests */
};

/* Whether the rank holds the stage. */
static inline bool pst_lowering_holds(const struct pst_lowering *low, uint32_t rank, uint32_t stage)
{
    uint32_t home = low->home[rank];

    return home != PST_NONE &&
           low->plan->stages[stage].ranks[0] == low->plan->stages[home].ranks[0];
}

/* Of two stages: on the same ranks? */
static inline bool pst_lowering_together(const struct pst_lowering *low, uint32_t a, uint32_t b)
{
    return low->plan->stages[a].ranks[0] == low->plan->stages[b].ranks[0];
}

/* Whether some rank holds a stage with replicas. */
static inline bool pst_lowering_replicates(const struct pst_plan *plan)
{
    for (uint32_t s = 0; s < plan->n_stages; s++) {
        if (plan->stages[s].n_ranks > 1) {
            return true;
        }
    }
    return false;
}

/* Position of the backward that hands on the input gradient: B or BW. */
static inline uint32_t pst_lowering_backward(const struct pst_lowering *low, uint32_t row)
{
    uint32_t at = low->at[PST_PASS_B][row];

    return at != PST_NONE ? at : low->at[PST_PASS_BW][row];
}

/* lower_groups.c: refuses what lowering cannot do; fills home and replica. */
pst_status pst_lowering_supported(struct pst_lowering *low, struct pst_error *err);

/* Refuses what lowering cannot do; edges by stage; every pass timed in the given order, and
   complete. low->arena holds the tables. */
pst_status pst_lowering_prepare(struct pst_lowering *low, struct pst_error *err);

uint64_t pst_lowering_pass_ns(const struct pst_lowering *low, const struct pst_pass *pass);

/* Places the transfers and writes the plan's lists. */
pst_status pst_lowering_emit(struct pst_lowering *low, struct pst_error *err);

/* Of list instruction `instr`: it waits for instruction `wait`. */
struct pst_wait_pair {
    uint32_t instr, wait;
};

/* OFFLOAD or FETCH of a rank. */
struct pst_copy {
    uint8_t op;
    bool waits_behind;  /* for its part of that pass */
    uint32_t behind;    /* pass of the list's order; PST_NONE: at the head of a part */
    uint32_t waited_by; /* pass of the list's order, or PST_NONE */
    uint32_t out;       /* FETCH: the row of its OFFLOAD; PST_NONE: in an earlier part */
    uint32_t order;     /* among those of its kind behind that pass */
    uint32_t stage, microbatch, node;
    uint32_t at; /* in the list, once that is written */
};

struct pst_copies {
    uint32_t n;
    struct pst_copy *rows;
    struct pst_copy **places; /* in list order */
};

/* The passes of one list of a rank: of a step, or of a part. */
struct pst_copy_order {
    const struct pst_pass *passes;
    uint32_t n;
    const uint32_t *base; /* per stage: first row of its micro-batches in `at` */
    uint32_t *const *at;  /* [pass][row]: position in the list, or PST_NONE */
    bool part;
    /* Of a part, numbered like its own: the pass that always runs right before the first of the
       list, and the one that always runs right behind its last; NULL: there is none such. */
    const struct pst_pass *before, *behind;
};

/* The copies of a rank; none in forward-only plans. Rows come from low->arena. */
pst_status pst_lowering_copies(struct pst_lowering *low, uint32_t rank,
                               struct pst_copies *ret_copies, struct pst_error *err);

/* Those of any list; tables and rows come from `arena`. */
pst_status pst_lowering_copies_of(const struct pst_lowering *low, uint32_t rank,
                                  const struct pst_copy_order *order, struct pst_arena *arena,
                                  struct pst_copies *ret_copies, struct pst_error *err);

/* Adds what copies wait for and who waits for them, three pairs a copy at most; n pairs are there.
   Returns how many there are then. */
uint32_t pst_lowering_copy_waits(const struct pst_copies *copies, const uint32_t *pass_at,
                                 struct pst_wait_pair *pairs, uint32_t n);

/*
 * lower_peers.c. What EVICT and LOAD add to the transfers: the first behind its F, the second
 * before the pass that precedes the backward pass. PST_ERR_UNSUPPORTED plan.mismatch where no
 * passes stand between. Fills guest_bytes.
 */
pst_status pst_lowering_guests_possible(struct pst_lowering *low, struct pst_error *err);
/* Asynchronous plans have none: plan.mismatch. */
pst_status pst_lowering_no_guests(const struct pst_plan *plan, struct pst_error *err);
/* Rows behind those that are there, counted in low->n_transfers; count_only: no rows. */
void pst_lowering_add_guests(struct pst_lowering *low, bool count_only);
/* Once rows are sorted: finds those of each guest. False: out of memory. */
bool pst_lowering_index_guests(struct pst_lowering *low);
/* First pass of the rank that ends after `time`. */
uint32_t pst_lowering_running_at(const struct pst_lowering *low, uint32_t rank, uint64_t time);
/* Who waits for what, four pairs a row at most, of row i if it is a guest's and has an end on the
   rank. pass_at, transfer_at: places in the list; norm: that of NORM, or PST_NONE. */
void pst_lowering_guest_waits(const struct pst_lowering *low, uint32_t rank, uint32_t i,
                              const uint32_t *pass_at, const uint32_t *transfer_at, uint32_t norm,
                              struct pst_wait_pair *pairs, uint32_t *n);

/* Sorts the pairs, drops doubles, and gives each instruction its waits, from `arena`. */
pst_status pst_lowering_join(struct pst_arena *arena, struct pst_instr *instrs,
                             struct pst_wait_pair *pairs, size_t n, struct pst_error *err);

/*
 * An asynchronous plan: every rank's passes, part by part as they are written, after the parts have
 * been cut where STEP goes.
 */
struct pst_parts {
    struct pst_plan *plan;
    const struct pst_lowering *low; /* of all batches that were timed; edges by stage */
    const struct pst_pass *const *passes[PST_PARTS]; /* [part][rank] */
    const uint32_t *n_passes[PST_PARTS];
    bool bare; /* without deferred sums and steps */
};

/* Of each rank of an unrolled plan: how many passes it ends if it halts before pass number
   io_passes[rank] and transfers meet at both ends. */
pst_status pst_lowering_reach(const struct pst_plan *unrolled, uint32_t *io_passes,
                              struct pst_error *err);

/* lower_part_copies.c: the copies of one part of a rank; tables and rows come from `arena`. */
pst_status pst_parts_copies(const struct pst_parts *parts, uint32_t rank, enum pst_part part,
                            struct pst_arena *arena, struct pst_copies *ret_copies,
                            struct pst_error *err);

/* Writes fill, body and drain of every rank. */
pst_status pst_parts_emit(const struct pst_parts *parts, struct pst_error *err);

#endif
