/* SPDX-License-Identifier: Apache-2.0
 *
 * Layouts of tensors over the parts of a replica, as the proof derives them. Private to prove.
 */
#ifndef PST_PROVE_LAYOUTS_H
#define PST_PROVE_LAYOUTS_H

#include "graph/split.h"
#include "prove/internal.h"

enum pst_layout {
    PST_LAYOUT_WHOLE,   /* the same on all parts, and its gradient */
    PST_LAYOUT_FANNED,  /* the same on all parts; the sum of their gradients is the gradient */
    PST_LAYOUT_PARTIAL, /* the sum over the parts is the value; the gradient is the same on all */
    PST_LAYOUT_BIAS,    /* of the whole tensor's layer, whole; positions of an embedding */
    PST_LAYOUT_NUMBERS, /* sums of each row of logits over the classes of one part */
    PST_LAYOUT_ALL_NUMBERS, /* the sums of all parts, one after the other */
    PST_LAYOUT_OWN,         /* its n-th of an axis, which the operator itself alone reads */
    PST_LAYOUT_TOKENS,      /* its n-th of the first axis, and of the gradient */
    /* On the way from rows of tokens to an exchange, from t, sections parts c; of all of the last
       axis or of neighbouring columns: */
    PST_LAYOUT_PICKED, /* t, some columns */
    PST_LAYOUT_SLICED, /* t, sections, parts, c */
    PST_LAYOUT_DEALT,  /* parts, t, sections, c */
    PST_LAYOUT_PACKED, /* parts t, sections c: a block for each part; sections may be unequal */
    /* On the way from an exchange to rows of tokens: */
    PST_LAYOUT_RETURNED, /* parts t, c: a block of each part */
    PST_LAYOUT_LAID,     /* parts, t, c */
    PST_LAYOUT_TURNED,   /* t, parts, c */
    PST_LAYOUT_SPLIT,    /* its n-th of each section of the last axis, and of the gradient */
    /* On the way from one section to the whole, from n, ..., c of each part: */
    PST_LAYOUT_STACKED, /* parts n, ..., c */
    PST_LAYOUT_APART,   /* parts, n, ..., c */
    PST_LAYOUT_ORDERED  /* n, ..., parts, c */
};

/* The values that a tensor of the graph of a part has. */
struct pst_split_place {
    uint32_t of; /* tensor of the whole */
    uint32_t layout;
    uint32_t degree;     /* how many parts it is over; 0: it is data, which all devices have */
    bool partial;        /* of an operator: each part makes a part of the gradients of its whole
                            parameters, which MERGE adds */
    uint64_t classes;    /* of an operator: rows of its table, or classes, that all parts have */
    bool no_bias;        /* the bias of its layer, which counts once, is not added yet */
    uint32_t n_sections; /* split: of the whole axis */
    uint64_t sections[PST_BOX_SECTIONS];
    uint64_t start;   /* picked to packed: the column of the whole where its sections begin */
    uint64_t padding; /* split: places beyond the whole axis, on the last parts */
};

struct pst_split_walk {
    struct pst_check *check;
    const struct pst_graph *graph, *whole;
    uint32_t parts;                 /* that share the operator that is judged */
    struct pst_split_place *places; /* [tensor of graph] */
    const struct pst_op *op, *of;   /* the operator that is judged, and what it is in the whole */
    bool wrong;                     /* a violation was added: nothing more is looked at */
};

/* A violation by the operator; the first of the walk alone counts. */
void pst_split_fault(struct pst_split_walk *w, const char *rule, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Notes what a tensor is; SPLIT2: it has not the shape of that. */
void pst_split_place(struct pst_split_walk *w, uint32_t tensor, struct pst_split_place place);
/* Columns of the whole that its sections have together. */
uint64_t pst_split_columns(const struct pst_split_place *place);
/* SPLIT1: the parameter is not that of the whole. NULL: there is none in either. */
const struct pst_parameter *pst_split_param(struct pst_split_walk *w, uint32_t slot);

/* layout_table.c: what comes from operators of another degree is whole on both sides; the layout of
   the result of an operator of the model; a conversion, or what else
   stands beside such operators. */
void pst_split_degrees(struct pst_split_walk *w);
void pst_split_way(struct pst_split_walk *w, struct pst_split_place *place);
void pst_split_helper(struct pst_split_walk *w);

#endif
