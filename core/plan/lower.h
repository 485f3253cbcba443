/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to lowering: lower.c times the passes; lower_parts.c cuts an asynchronous order where the
 * optimizer step goes; lower_list.c writes the instruction lists, with the ends of transfers that
 * lower_transfers.c finds and the copies between device and host of lower_copies.c.
 */
#ifndef PST_PLAN_LOWER_H
#define PST_PLAN_LOWER_H

#include "plan/plan.h"

struct pst_lowering {
    struct pst_plan *plan;
    const struct pst_graph *graph;
    const struct pst_cost_model *cost;
    const struct pst_pass *const *orders;
    const uint32_t *n_passes;
    bool training;
    struct pst_arena arena;              /* temporary */
    uint32_t *home;                      /* per rank: lowest stage on it, PST_NONE: none */
    uint32_t *replica;                   /* per rank: which one it is, of that stage */
    uint64_t (*pass_ns)[PST_PASS_R + 1]; /* per stage and slice, of one micro-batch: by
                                            PST_PASS_* */
    uint32_t *base;    /* per stage: first row of its micro-batches in the tables below, which
                          every copy has apart */
    bool *together;    /* per stage: its replicas sum gradients in W and BW, and begin these
                          together; with zero 3 all passes, in which they gather weights */
    uint32_t *at[6];   /* [pass][row]: position in the rank's order, or PST_NONE */
    uint64_t **end_ns; /* [rank][position] */
    uint32_t *in_first, *in_edges; /* per stage: edges that end there */
    uint32_t *out_first;           /* per stage: edges that start there (they are consecutive) */
    bool *edge_grad;               /* true if a gradient flows back on the edge */
    uint64_t *guest_bytes;         /* per stage: of each of its guests; synchronous plans */
};

/* The replica of a stage that the rank is; PST_NONE: it does not hold the stage. A copy has the
   ranks of its home in another order, the same for all its stages. */
static inline uint32_t pst_lowering_replica(const struct pst_lowering *low, uint32_t rank,
                                            uint32_t stage)
{
    const struct pst_plan_stage *s = &low->plan->stages[stage];
    uint32_t width = pst_plan_width(low->plan, s), replica = low->replica[rank] % width;

    while (low->home[rank] != PST_NONE && replica < s->n_ranks && s->ranks[replica] != rank) {
        replica += width;
    }
    return low->home[rank] != PST_NONE && replica < s->n_ranks ? replica : PST_NONE;
}

/* Returns true if each micro-batch passes both stages on one rank. */
static inline bool pst_lowering_together(const struct pst_lowering *low, uint32_t a, uint32_t b)
{
    return low->plan->stages[a].ranks[0] == low->plan->stages[b].ranks[0];
}

/* The row of a micro-batch, as this replica runs it. */
static inline uint32_t pst_lowering_row(const struct pst_lowering *low, uint32_t stage,
                                        uint32_t replica, uint32_t microbatch)
{
    const struct pst_plan_stage *s = &low->plan->stages[stage];

    return low->base[stage] + replica / pst_plan_width(low->plan, s) * s->n_microbatches +
           microbatch;
}

/* Position of the backward that hands on the input gradient: B or BW. */
static inline uint32_t pst_lowering_backward(const struct pst_lowering *low, uint32_t row)
{
    uint32_t at = low->at[PST_PASS_B][row];

    return at != PST_NONE ? at : low->at[PST_PASS_BW][row];
}

/* Refuses plans that lowering does not support, sorts edges by stage and times every pass in the
   given order, which must be complete. low->arena holds the tables. */
pst_status pst_lowering_prepare(struct pst_lowering *low, struct pst_error *err);

static inline uint64_t pst_lowering_pass_ns(const struct pst_lowering *low,
                                            const struct pst_pass *pass)
{
    const uint32_t n = low->graph->slices;

    return low->pass_ns[pass->stage * n + pass->microbatch % n][pass->op];
}

/*
 * What the lists of a plan are written from: every rank's passes, part by part; of a synchronous
 * plan the body alone. Those of an asynchronous one have been cut where STEP goes.
 */
struct pst_parts {
    struct pst_plan *plan;
    const struct pst_lowering *low; /* of all passes that were timed; edges by stage */
    const struct pst_pass *const *passes[PST_PARTS]; /* [part][rank] */
    const uint32_t *n_passes[PST_PARTS];
    bool bare; /* asynchronous: without deferred sums and steps */
};

/* One list of one rank, while lower_list.c writes it. */
struct pst_list {
    const struct pst_parts *parts;
    uint32_t rank;
    const uint32_t *replica; /* [stage] which one the rank is; PST_NONE: it does not hold it */
    enum pst_part part;
    const struct pst_pass *passes; /* of the part */
    uint32_t n_passes;
};

static inline bool pst_pass_same(const struct pst_pass *a, const struct pst_pass *b)
{
    return a->op == b->op && a->stage == b->stage && a->microbatch == b->microbatch;
}

/* Instruction `instr` of a list waits for instruction `wait`. */
struct pst_wait_pair {
    uint32_t instr, wait;
};

/* SEND or RECV of a list. Passes are positions in the order of the list, or PST_NONE. */
struct pst_end {
    bool send;
    uint8_t payload;
    uint32_t edge, first_sample, n_samples, peer; /* a guest: `edge` is the stage */
    uint32_t gap;                                 /* the pass before which it is posted */
    uint32_t pass;                                /* the pass that makes or reads the rows */
    uint32_t join;                                /* SEND: the pass that waits for it */
    uint32_t behind, before; /* SEND of a guest: rows of the RECV that it waits for, and of the RECV
                                that waits for it; or PST_NONE */
    uint64_t time_ns;        /* synchronous: when the data leaves */
    uint32_t from_rank, from_pass; /* synchronous: producer, PST_NONE: a guest that comes back */
    uint32_t at;                   /* in the list, once that is written */
};

/* In list order. */
struct pst_ends {
    struct pst_end *rows;
    size_t room;
    uint32_t n;
};

/* lower_transfers.c: the ends of transfers of a list, in rows that are used again. */
pst_status pst_lowering_ends(const struct pst_list *list, struct pst_ends *io_ends,
                             struct pst_error *err);

/* PST_ERR_UNSUPPORTED plan.mismatch where a guest has no passes between to be away. Fills
   guest_bytes. */
pst_status pst_lowering_guests_possible(struct pst_lowering *low, struct pst_error *err);
/* Asynchronous plans have none: plan.mismatch. */
pst_status pst_lowering_no_guests(const struct pst_plan *plan, struct pst_error *err);

/* OFFLOAD or FETCH of a list. */
struct pst_copy {
    uint8_t op;
    bool waits_behind;  /* it waits for its call of the pass `behind` */
    uint32_t behind;    /* the pass that it follows; PST_NONE: at the head of a part */
    uint32_t waited_by; /* the pass that waits for it, or PST_NONE */
    uint32_t out;       /* FETCH: the row of its OFFLOAD; PST_NONE: in an earlier part */
    uint32_t order;     /* sort key among copies of its kind after that pass */
    uint32_t stage, microbatch, node;
    uint32_t at; /* in the list, once that is written */
};

struct pst_copies {
    uint32_t n;
    struct pst_copy *rows;
    struct pst_copy **places; /* in list order */
};

/* lower_copies.c: the copies of a list, none in forward-only plans; tables and rows come from
   `arena`. */
void pst_lowering_copies(const struct pst_list *list, struct pst_arena *arena,
                         struct pst_copies *ret_copies);

/* lower_list.c: writes all lists of every rank. */
pst_status pst_lowering_write(const struct pst_parts *parts, struct pst_error *err);

#endif
