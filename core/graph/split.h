/* SPDX-License-Identifier: Apache-2.0
 *
 * Tensor parallelism (Shoeybi et al., "Megatron-LM", 2019): the operators of a model divided over
 * the parts of a replica. Each operator has a way of being divided, each tensor a layout, and where
 * two operators need different layouts of a tensor, a conversion stands between them:
 *
 *   whole    forward the same on all parts, gradient too
 *   fanned   forward the same on all parts; gradients are partial: their sum is the gradient
 *   split    each part has its n-th of an axis, and of the gradient
 *   partial  the sum over the parts is the value; gradient the same on all
 *
 *   x whole - ln_1 - fan - c_attn (columns) - attention (heads) - c_proj (rows) - sum - add - whole
 *
 * All parts compute one graph, with other elements of the parameters.
 */
#ifndef PST_GRAPH_SPLIT_H
#define PST_GRAPH_SPLIT_H

#include "graph/graph.h"

/* Conversions. Those along an axis are along the first one of a sample. */
enum pst_convert {
    PST_CONVERT_FAN = 0,     /* whole to fanned; F: the same; B: the sum over the parts */
    PST_CONVERT_SUM = 1,     /* partial to whole; F: the sum; B: the same */
    PST_CONVERT_JOIN = 2,    /* split to whole; F: all parts in their order; B: its own part */
    PST_CONVERT_CUT = 3,     /* whole to split; F: its own part; B: all parts in their order */
    PST_CONVERT_GATHER = 4,  /* split to fanned; F: all parts in their order; B: its own part of the
                                sum */
    PST_CONVERT_SCATTER = 5, /* partial to split; F: its own part of the sum; B: all parts */
    PST_CONVERT_EXCHANGE = 6, /* split to split along another axis, of a sample of as many blocks as
                                 there are parts; F and B: block i is the own block of part i */
    PST_CONVERTS
};

/* The work of a pass (0 F, 1 B) of a conversion. Parts meet in a sum or a gather. */
enum pst_convert_work {
    PST_WORK_NONE = 0,    /* B: the gradient is dy itself */
    PST_WORK_COPY = 1,    /* result := operand */
    PST_WORK_CUT = 2,     /* result := the own n-th of each sample of the operand */
    PST_WORK_SUM = 3,     /* result := the sum of the operands of all parts, in their order */
    PST_WORK_GATHER = 4,  /* of each sample: result := the operands of all parts, in their order */
    PST_WORK_SCATTER = 5, /* of each sample: result := the own n-th of what SUM makes */
    PST_WORK_EXCHANGE = 6 /* of each sample: block i of the result := the block of part i's operand
                             with the own number */
};

static inline enum pst_convert_work pst_convert_work(const struct pst_op *op, uint32_t pass)
{
    static const uint8_t work[PST_CONVERTS][2] = {
        [PST_CONVERT_FAN] = {PST_WORK_COPY, PST_WORK_SUM},
        [PST_CONVERT_SUM] = {PST_WORK_SUM, PST_WORK_NONE},
        [PST_CONVERT_JOIN] = {PST_WORK_GATHER, PST_WORK_CUT},
        [PST_CONVERT_CUT] = {PST_WORK_CUT, PST_WORK_GATHER},
        [PST_CONVERT_GATHER] = {PST_WORK_GATHER, PST_WORK_SCATTER},
        [PST_CONVERT_SCATTER] = {PST_WORK_SCATTER, PST_WORK_GATHER},
        [PST_CONVERT_EXCHANGE] = {PST_WORK_EXCHANGE, PST_WORK_EXCHANGE},
    };

    return pass < 2 ? (enum pst_convert_work)work[op->convert][pass] : PST_WORK_NONE;
}

/* Does this pass of an operator need the other parts? */
static inline bool pst_op_meets(const struct pst_op *op, uint32_t pass)
{
    return pst_op_is_convert(op->kind) && pst_convert_work(op, pass) >= PST_WORK_SUM;
}

/* How operators are divided: parallel.ways. */
enum pst_ways {
    PST_WAYS_AUTO = 0,     /* by columns, rows and heads, what is divisible */
    PST_WAYS_MEGATRON = 1, /* the same; heads must be divisible */
    PST_WAYS_ULYSSES =
        2,            /* rows, and attention by heads (Jacobs et al., "DeepSpeed Ulysses", 2023) */
    PST_WAYS_ROWS = 3 /* what works token by token has rows of tokens and whole weights */
};
extern const char *const pst_ways_names[];

/* The way of an operator, which [[parallel.way]] may ask for. */
enum pst_way {
    PST_WAY_AUTO = 0,    /* as pst_division.ways says */
    PST_WAY_WHOLE = 1,   /* each part computes all of it */
    PST_WAY_ROWS = 2,    /* rows of tokens, with whole weights */
    PST_WAY_COLUMN = 3,  /* linear: columns of its matrix */
    PST_WAY_ROW = 4,     /* linear: rows of its matrix */
    PST_WAY_HEADS = 5,   /* attention, rotary positions, norms of queries and keys */
    PST_WAY_VOCAB = 6,   /* embedding: rows of its table; cross-entropy: classes */
    PST_WAY_COLUMNS = 7, /* elementwise and gates; of all experts */
    PST_WAY_EXPERTS = 8  /* some of the experts: no operator has it yet */
};
extern const char *const pst_way_names[];

/* The key, and the operator, that a refusal is about. */
struct pst_division_fault {
    const char *key; /* of [parallel] */
    uint32_t op;     /* of the whole, whose [[parallel.way]] it is; PST_NONE: of no operator */
};

/* How to divide. */
struct pst_division {
    uint32_t parts;            /* 2 or more */
    const uint16_t *degree_of; /* [operator of the whole] 1 or more, and 2 or more somewhere; what
                                 goes from one to another is whole between them. NULL: `parts` for
                                 all */
    bool sequence; /* what works row by row, between layers split by rows and by columns, has rows
                      of tokens (Korthikanti et al., "Reducing activation recomputation in large
                      transformer models", MLSys 2023) */
    uint32_t ways; /* enum pst_ways; rows and ulysses imply sequence */
    const uint8_t *asked; /* [operator of the whole] enum pst_way; NULL: nothing is asked for */
    struct pst_division_fault *ret_fault; /* if splitting fails. May be NULL */
};

static inline uint32_t pst_division_degree(const struct pst_division *how, uint32_t op)
{
    return how->degree_of != NULL ? how->degree_of[op] : how->parts;
}

/* Returns the division in which equal degrees are one number; of others `parts` is the largest. */
struct pst_division pst_division_plain(const struct pst_graph *whole,
                                       const struct pst_division *how);

/* Can stages have other degrees than their neighbours with these ways? */
static inline bool pst_ways_mix(uint32_t ways)
{
    return ways == PST_WAYS_AUTO || ways == PST_WAYS_MEGATRON;
}

/* ret_tied[v]: the first of the operators that have the degree of v, because parameters are shared;
   all: of all operators. */
void pst_graph_tie_degrees(const struct pst_graph *whole, bool all, uint32_t *ret_tied);

/* Errors: config.value where what `ways` demands is not divisible, which is named. */
pst_status pst_graph_check_ways(const struct pst_graph *whole, const struct pst_division *how,
                                struct pst_error *err);

/*
 * The graph that each of the parts computes. It owns `whole` from then on; after a
 * failure the caller does. Errors: config.value where nothing can be divided, or something is in
 * the way, which is named.
 */
pst_status pst_graph_split(struct pst_graph *whole, const struct pst_division *how,
                           struct pst_graph **ret_graph, struct pst_error *err);

/* Where element e of a sample of `elems` elements, as a part has them, is in the whole sample: its
   number there counts random numbers. */
static inline uint64_t pst_part_place(const struct pst_op *op, uint32_t part, uint64_t elems,
                                      uint64_t e)
{
    const uint64_t row = op->row > 0 ? op->row : elems;

    return op->parts > 1 ? (e / row * op->parts + part) * row + e % row : e;
}

/* How many operators of attention each part computes whole, because their heads are not divided.
   The first one: *ret_op. */
uint32_t pst_graph_whole_attention(const struct pst_graph *graph, const struct pst_op **ret_op);

/* Places of the whole parameter on the axis of the box; elements of it. */
uint64_t pst_box_dim(const struct pst_box *box);
uint64_t pst_box_whole(const struct pst_parameter *parameter);

/* How many of `places`, of which each part has `own` and the last what is left, a part has. */
static inline uint64_t pst_own_places(uint64_t places, uint64_t own, uint32_t part)
{
    const uint64_t before = part * own;

    return before >= places ? 0 : places - before < own ? places - before : own;
}

/* Calls run() for each row of elements that stand side by side in the whole parameter and in that
   of the part, ascending in both. A parameter that is not split is one row. Padding is in none. */
typedef void pst_box_run(void *context, uint64_t whole, uint64_t own, uint64_t n);
void pst_box_runs(const struct pst_parameter *parameter, uint32_t part, pst_box_run *run,
                  void *context);

/* Is it split? Else each part has all of it, and the same. */
static inline bool pst_is_split(const struct pst_parameter *parameter)
{
    return parameter->box.parts > 1;
}

#endif
