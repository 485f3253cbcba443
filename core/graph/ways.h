/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside of splitting a graph: ways.c chooses how operators are divided, split.c makes the graph of
 * a part of it.
 */
#ifndef PST_GRAPH_WAYS_H
#define PST_GRAPH_WAYS_H

#include "graph/split.h"

enum way {
    WAY_WHOLE = 0,  /* every part computes all of it */
    WAY_COLUMN = 1, /* linear: fanned to split; each part has columns of the matrix */
    WAY_ROW = 2,    /* linear: split to partial; each part has rows of the matrix */
    WAY_HEADS = 3,  /* attention, rotary, norms of queries and keys: split to split; each part has
                       heads */
    WAY_ALIKE = 4,  /* elementwise, glu, dropout: split to split */
    WAY_TOKENS = 5, /* norms, sums, dropout; linear and elementwise under `rows`: each part has rows
                       of the sequence, and all of the parameters */
    WAY_TABLE = 6,  /* embedding: whole to partial; each part has rows of the table */
    WAY_CLASSES = 7, /* cross-entropy: split to whole; each part has classes */
    WAY_EXPERTS = 8 /* experts: fanned to partial; each part has columns of each gate and of what it
                       gates, and the rows of the way down that read these */
};

/* How the last axis of a tensor is split: sections as in struct pst_box. n 0: it is whole, or split
   into rows of tokens, its first axis. */
struct cut {
    bool tokens;
    uint32_t n;
    uint64_t sections[PST_BOX_SECTIONS];
    uint64_t padding; /* as in struct pst_box: of logits alone */
};

struct ways {
    const struct pst_graph *graph; /* the whole one */
    uint32_t parts;
    const uint16_t *degree_of; /* as in struct pst_division. The others are whole here: they read
                                 nothing else, and make nothing else */
    bool sequence;
    bool rows;            /* all that works row by row has rows of tokens */
    bool exchange;        /* attention between them has heads of all tokens */
    const uint8_t *asked; /* [operator] as in struct pst_division */
    uint8_t *way;         /* [operator] */
    struct cut *cuts; /* [tensor] of what readers find: results of rows are whole, after the sum, or
                         rows of tokens */
    bool *plain;      /* [operator] no reader gets its result split into several sections */
    bool *together;   /* [parameter] it is not split */
};

/* Is operator v divided by these ways? Else another degree is meant for it. */
static inline bool pst_ways_ours(const struct ways *ways, uint32_t v)
{
    return ways->degree_of == NULL || ways->degree_of[v] == ways->parts;
}

/* The way that is asked for. */
uint32_t pst_ways_asked(const struct ways *ways, const struct pst_op *op);
/* The name of the way that was chosen: enum pst_way. */
uint32_t pst_ways_name(const struct ways *ways, uint32_t v);
/* Errors: a way that is asked for and was not chosen, as it cannot be had. */
pst_status pst_ways_check_asked(const struct ways *ways, uint32_t *ret_op, struct pst_error *err);
/* Has it heads, which may be divided? */
bool pst_ways_attends(const struct pst_op *op);
/* Chooses ways by Megatron's pattern. All arrays are zeroed before, and belong to the caller. */
void pst_ways_choose(struct ways *ways);
/* The sections, divisible, in which the readers of a tensor in rows of tokens have its heads; n 0:
   they read it otherwise. */
struct cut pst_ways_exchanged(const struct ways *ways, uint32_t tensor);
/* Does an operator work row by row on a sequence, each row on its own? However many there are. */
bool pst_ways_by_row(const struct ways *ways, const struct pst_op *op);
/* The box of a parameter under these ways. */
struct pst_box pst_ways_box(const struct ways *ways, uint32_t parameter);

#endif
