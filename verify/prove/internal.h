/* SPDX-License-Identifier: Apache-2.0
 *
 * The data that the rules share: the report under construction and tables that one rule fills
 * and later ones read. Every table is linear in plan and graph. Private to prove.
 */
#ifndef PST_PROVE_INTERNAL_H
#define PST_PROVE_INTERNAL_H

#include "plan/shards.h"
#include "prove/check.h"

/* Where a stage's pass stands in the list of its rank; PST_NONE: nowhere. BW counts as b and w. */
struct pst_pass_row {
    uint32_t f, b, w, r;
};

/* One transfer that the plan must hold: what a part receives of an overlap of two slices of an
   edge, in one direction. */
struct pst_check_transfer {
    uint32_t send, recv;         /* instructions on their ranks, PST_NONE: missing */
    uint32_t send_seq, recv_seq; /* position on the channel, at either end */
};

/* A guest of one rank: to the other device and back. */
struct pst_check_guest {
    struct pst_check_transfer evict, load;
};

/* How the two ends of an edge cut the samples of a step: into slices of a and of b samples. */
struct pst_check_cut {
    uint32_t a, b;
    uint64_t both;       /* samples after which both begin a slice at once */
    uint64_t n_overlaps; /* in a step, for each part that receives */
};

/* The pieces of a rank's transfers: those of instruction i are bytes[first[i]] to
   bytes[first[i + 1] - 1]. */
struct pst_check_moved {
    uint32_t *first;
    uint64_t *bytes;
};

struct pst_check {
    const struct pst_plan *plan;
    const struct pst_graph *graph;
    const struct pst_check_limits *limits;
    struct pst_check_report *report;
    struct pst_arena arena;
    const struct pst_program *const *programs; /* of all ranks, or NULL */
    const struct pst_plan *source; /* asynchronous: the plan whose lists `plan` has unrolled */
    uint32_t n_batches;            /* of the lists that are looked at; synchronous: 1 */

    struct pst_shard **pieces; /* [parameter] NULL: whole; [member] what each replica of a stage
                                  that uses it updates */
    uint64_t *gradients;       /* [tensor] all contributions to its gradient, as a number */
    uint32_t *stage_of;        /* [operator] */
    uint64_t *list_base;   /* [rank] first entry of its list in flat arrays; [n_devices] = total */
    uint32_t *rank_first;  /* [rank] rows of rank_stages; [n_devices] = total */
    uint32_t *rank_stages; /* stages of each rank, ascending */
    uint64_t *pass_base;   /* [stage] first row of passes; [n_stages] = total */
    struct pst_pass_row *passes;
    uint32_t *known;     /* [flat] first instruction that waits for this one; PST_NONE: none */
    uint64_t *edge_base; /* [edge] first of its transfers, activations before gradients, in each
                            the receiving parts of an overlap in a row */
    struct pst_check_transfer *transfers;
    uint64_t *guest_base;           /* [stage] first row of its guests; [n_stages] = total */
    struct pst_check_guest *guests; /* guest by guest, in each by place */
    uint32_t **guest_tensors, *n_guest_tensors; /* [stage] what one consists of */
    bool *edge_grad;                            /* [edge] gradients flow back on it */
    bool *converts;                             /* [stage] it has conversions over parts */
    bool *scatters;             /* [stage] its W and BW sum gradients over its replicas; with zero 3
                                   all of its passes gather weights from them */
    struct pst_check_cut *cuts; /* [edge] */
};

/* Adds a violation; device and instr are PST_NONE where they do not apply. */
void pst_check_add(struct pst_check *check, const char *rule, uint32_t device, uint32_t instr,
                   const char *format, ...) __attribute__((format(printf, 5, 6)));
/* Adds a violation at instruction `at` of a list of check->plan, which the text names first. */
void pst_check_instr(struct pst_check *check, const char *rule, uint32_t rank, uint32_t at,
                     const char *format, ...) __attribute__((format(printf, 5, 6)));
/* From the check's arena. Zeroed. */
void *pst_check_array(struct pst_check *check, uint64_t count, size_t size);

/* First entries of the lists of check->plan in flat arrays. */
void pst_check_lists(struct pst_check *check);

/* Where a rank is among those of the stage; PST_NONE: the stage is not there. */
static inline uint32_t pst_check_place(const struct pst_check *check, uint32_t rank, uint32_t stage)
{
    return pst_plan_place(&check->plan->stages[stage], rank);
}

/* The replica of the stage that a rank is, or is a part of; PST_NONE: the stage is not there. */
static inline uint32_t pst_check_replica(const struct pst_check *check, uint32_t rank,
                                         uint32_t stage)
{
    return pst_plan_replica(&check->plan->stages[stage], rank);
}

/* The most ranks that share operators of a replica. One: each is a rank, also where the graph has
   parts and a rank stands for all of a replica's. */
static inline uint32_t pst_check_tensor(const struct pst_check *check)
{
    uint32_t most = 1;
    for (uint32_t s = 0; s < check->plan->n_stages; s++) {
        most = check->plan->stages[s].tensor > most ? check->plan->stages[s].tensor : most;
    }
    return most;
}

/* Which part of a replica a rank is: the same in all of its stages; 0 where it has none. */
static inline uint32_t pst_check_part(const struct pst_check *check, uint32_t rank)
{
    uint32_t first = check->rank_first[rank];
    const struct pst_plan_stage *stage = first < check->rank_first[rank + 1]
                                             ? &check->plan->stages[check->rank_stages[first]]
                                             : NULL;
    return stage != NULL && stage->tensor > 1 ? pst_plan_part(stage, rank) : 0;
}

static inline bool pst_check_is_pass(uint32_t op)
{
    return op >= PST_I_F && op <= PST_I_R;
}

/* The list stays at it until it has ended. */
static inline bool pst_check_blocks(uint32_t op)
{
    return pst_check_is_pass(op) || op == PST_I_STEP;
}

static inline bool pst_check_is_copy(uint32_t op)
{
    return op == PST_I_OFFLOAD || op == PST_I_FETCH;
}

static inline bool pst_check_is_reduction(uint32_t op)
{
    return op == PST_I_REDUCE || op == PST_I_TIE || op == PST_I_NORM || op == PST_I_GATHER ||
           op == PST_I_MERGE;
}

static inline struct pst_pass_row *pst_check_row(const struct pst_check *check, uint32_t stage,
                                                 uint32_t microbatch, uint32_t place)
{
    uint64_t n_ranks = check->plan->stages[stage].n_ranks;
    return &check->passes[check->pass_base[stage] + microbatch * n_ranks + place];
}

/* "F 2 5", "SEND 3 act 8+4 to 1": an instruction in few words. text holds 64 bytes; returns it. */
char *pst_check_describe(const struct pst_instr *instr, char *text);

/* Micro-batches of a stage in one batch, also where lists are unrolled. */
static inline uint32_t pst_check_per_batch(const struct pst_check *check, uint32_t stage)
{
    return check->plan->stages[stage].n_microbatches / check->n_batches;
}

/* Micro-batches of a stage from one update of its weights to the next, and updates in a batch,
   which are as many for all stages. */
static inline uint32_t pst_check_unit(const struct pst_check *check, uint32_t stage)
{
    return pst_rule_unit(check->plan->version_rule, pst_check_per_batch(check, stage));
}

/* Where a micro-batch stands in the sum of gradients, and which one stands there. */
static inline uint32_t pst_check_turn(const struct pst_check *check, uint32_t microbatch)
{
    uint32_t n = check->graph->slices, slice = microbatch % n;
    return microbatch - slice + (n - 1 - slice);
}

static inline uint32_t pst_check_updates(const struct pst_check *check)
{
    return check->plan->n_stages == 0 ? 1
                                      : pst_check_per_batch(check, 0) / pst_check_unit(check, 0);
}

/* Bytes of a tensor for some samples; saturates. */
static inline uint64_t pst_check_tensor_bytes(const struct pst_tensor *tensor, uint64_t samples)
{
    uint64_t bytes;
    if (__builtin_mul_overflow(tensor->bytes, tensor->batched ? samples : 1, &bytes)) {
        return UINT64_MAX;
    }
    return bytes;
}

/* Ticks of an instruction: one for each call, and one more where it waits for copies. */
static inline uint32_t pst_check_ticks(const struct pst_program *program, uint32_t instr)
{
    const struct pst_program_instr *list = &program->lists[instr];
    uint32_t ticks = list->n_calls > 0 ? 0 : 1;
    for (uint32_t c = 0; c < list->n_calls; c++) {
        ticks += pst_call_ticks(&program->calls[list->first_call + c]);
    }
    return ticks;
}

/* Runs rules; returns true if they found nothing. */
bool pst_check_is_clean(struct pst_check *check, void (*rules)(struct pst_check *check));

/* A member of the stages that use a parameter updates this piece, or all of it. */
static inline struct pst_shard pst_check_piece(const struct pst_check *check, uint32_t parameter,
                                               uint32_t member)
{
    return check->pieces[parameter] != NULL
               ? check->pieces[parameter][member]
               : (struct pst_shard){0, check->graph->params[parameter].elems};
}

/* ZeRO 2: are its gradients summed over the replicas in each pass that makes them, and accumulated
   in pieces? */
static inline bool pst_check_scatters(const struct pst_check *check, uint32_t parameter)
{
    return check->plan->zero >= 2 && check->pieces[parameter] != NULL;
}

/* ZeRO 3: does each replica keep its piece of what passes read, which gather the rest? */
static inline bool pst_check_gathers(const struct pst_check *check, uint32_t parameter)
{
    return check->plan->zero >= 3 && check->pieces[parameter] != NULL;
}

/* Does an operator of the stage use the parameter? If so, its members are those of the pieces. */
static inline bool pst_check_uses(const struct pst_check *check, uint32_t stage, uint32_t parameter)
{
    const struct pst_parameter *of = &check->graph->params[parameter];
    uint32_t u = 0;
    while (u < of->n_users && check->stage_of[of->users[u]] != stage) {
        u++;
    }
    return u < of->n_users;
}

/* The element that accumulators of a parameter begin with, on a member that updates this piece. */
static inline uint64_t pst_check_grad_first(const struct pst_check *check, uint32_t parameter,
                                            struct pst_shard piece)
{
    return pst_check_scatters(check, parameter) ? piece.first : 0;
}

/* The rules, in the order in which they run. */
void pst_check_form(struct pst_check *check);      /* FORM1 FORM2 WVER3 */
void pst_check_layouts(struct pst_check *check);   /* SPLIT1 SPLIT2 SPLIT3 SPLIT4 */
void pst_check_partition(struct pst_check *check); /* PART1 PART2 PART3 PART4 PART5 PART6 */
void pst_check_cuts(struct pst_check *check);      /* fills pieces */
/* Is the parameter of a tie in pieces? */
bool pst_check_cuts_tie(const struct pst_plan *plan, uint32_t tie);
void pst_check_passes(struct pst_check *check); /* PASS1 PASS2 WVER1 WVER2; fills passes */
void pst_check_waits(struct pst_check *check);  /* fills known */
void pst_check_copies(struct pst_check *check); /* PASS6 */
void pst_check_drains(struct pst_check *check); /* PASS5 */
/* COMM4, of the parts of a replica: their lists; a number that tells which meetings the passes of a
   program hold; the numbers of all ranks. */
void pst_check_parts(struct pst_check *check);
uint64_t pst_check_meetings_within(const struct pst_check *check,
                                   const struct pst_program *program);
void pst_check_within(struct pst_check *check, const uint64_t *meetings);
/* May all ranks of a stage meet inside this pass? */
bool pst_check_meets_replicas(const struct pst_check *check, const struct pst_instr *instr);
void pst_check_find_meetings(struct pst_check *check); /* fills converts and scatters */
/* May ranks meet inside this pass? */
bool pst_check_meets(const struct pst_check *check, const struct pst_instr *instr);
/* The ranks that begin such a pass together with one: all of its stage if its gradients are summed
   in the pass, else the parts of the rank's replica, in their order. Returns how many; 0: the stage
   is not there. */
uint32_t pst_check_group(const struct pst_check *check, const struct pst_instr *instr,
                         uint32_t rank, const uint32_t **ret_ranks);
/* COMM4, of the replicas of a stage: a number that tells in which order the passes of a program sum
   gradients and gather weights, and what else meets there; the numbers of all ranks. */
uint64_t pst_check_scatters_within(struct pst_check *check, const struct pst_program *program);
void pst_check_replicas(struct pst_check *check, const uint64_t *scatters);
void pst_check_transfers(struct pst_check *check); /* PASS3 COMM1 COMM2; PASS7 */
/* guests.c, for transfers.c: the table; where EVICT or LOAD goes in it, NULL with a violation; the
   rules. */
void pst_check_guest_table(struct pst_check *check);
struct pst_check_transfer *pst_check_guest_transfer(struct pst_check *check, uint32_t rank,
                                                    uint32_t at, const struct pst_instr *instr);
/* Returns the row of an EVICT or LOAD that the rules have accepted. */
struct pst_check_transfer *pst_check_guest_of(const struct pst_check *check, uint32_t rank,
                                              const struct pst_instr *instr);
void pst_check_guests(struct pst_check *check); /* PASS7 COMM1 COMM2 */
/* PASS4 PART4 COMM3; PASS10 SHARD3 COMM4 */
void pst_check_reductions(struct pst_check *check);
void pst_check_live(struct pst_check *check);      /* LIVE1 LIVE2 LIVE4 */
void pst_check_memory(struct pst_check *check);    /* of check->programs */
void pst_check_gradients(struct pst_check *check); /* fills gradients */
/* MEM2 SHARD1 SHARD4 */
void pst_check_params(struct pst_check *check, const struct pst_program *program);
/* SHARD2 SHARD3 COMM4; `phase` is that of the first batch. */
void pst_check_meetings(struct pst_check *check, const struct pst_program *program, uint32_t phase);
/* SHARD2 COMM4, of a SCATTER in a pass whose stage is here. */
void pst_check_scatter(struct pst_check *check, const struct pst_program *program, uint32_t instr,
                       const struct pst_program_call *call);
/* SHARD3 COMM4, of a GATHER in a pass. */
void pst_check_gather(struct pst_check *check, const struct pst_program *program, uint32_t instr,
                      const struct pst_program_call *call);
/* SHARD4, of the square sums that NORM collects. */
void pst_check_trees(struct pst_check *check, const struct pst_square_tree *trees, uint32_t n);
void pst_check_pieces(struct pst_check *check, const struct pst_check_moved *ranks); /* COMM1 */
/* MEM2 NUM1; `phase` is that of the first batch. */
void pst_check_operands(struct pst_check *check, const struct pst_program *program, uint32_t phase);
void pst_check_layout(struct pst_check *check, const struct pst_program *program); /* MEM1 MEM3 */
void pst_check_stated(struct pst_check *check); /* STAT1, of a plan with plan->stated */
void pst_check_overlaps(struct pst_check *check, const struct pst_program *program); /* MEM3 */

#endif
