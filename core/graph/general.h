/* SPDX-License-Identifier: Apache-2.0
 *
 * What the general operators of a graph (graph.h) have beside their kind: the functions of a map,
 * how a reduction reduces, shapes and places. They take tensors alone: a parameter or a constant
 * becomes one by an operator of its own.
 */
#ifndef PST_GRAPH_GENERAL_H
#define PST_GRAPH_GENERAL_H

#include <stdbool.h>
#include <stdint.h>

/* a, b, c: elements of x0, x1, x2; s, t: constants[0], [1]. Slopes where there is none are as
   PyTorch has them. relu, tanh-gelu and sums of equal shapes have kinds of their own. */
enum pst_map {
    PST_MAP_AFFINE = 0,   /* s a + t */
    PST_MAP_POWER,        /* a^s */
    PST_MAP_CLIP,         /* between s and t */
    PST_MAP_LEAKY,        /* a, or s a where a < 0 */
    PST_MAP_ELU,          /* a, or s (e^a - 1) where a < 0 */
    PST_MAP_HARD_SIGMOID, /* s a + t between 0 and 1 */
    PST_MAP_HARD_SWISH,   /* a times a / 6 + 1 / 2 between 0 and 1 */
    PST_MAP_ABS,
    PST_MAP_EXP,
    PST_MAP_LOG,
    PST_MAP_SQRT,
    PST_MAP_RECIPROCAL,
    PST_MAP_ERF,
    PST_MAP_TANH,
    PST_MAP_SIGMOID,
    PST_MAP_GELU, /* a Phi(a), by erf */
    PST_MAP_SOFTPLUS,
    PST_MAP_SIN,
    PST_MAP_COS,
    PST_MAP_ADD, /* of two */
    PST_MAP_SUB,
    PST_MAP_MUL,
    PST_MAP_DIV,
    PST_MAP_POW,
    PST_MAP_MIN,
    PST_MAP_MAX,
    PST_MAP_EQUAL, /* 1 or 0 */
    PST_MAP_LESS,
    PST_MAP_LESS_EQUAL,
    PST_MAP_SELECT, /* a != 0 ? b : c */
    PST_MAPS
};

#define PST_MAP_READS_Y 8u

struct pst_map_row {
    const char *name;
    uint32_t n_in;
    uint32_t slope_reads[3]; /* d y / d x[i]: bits of the inputs it reads, PST_MAP_READS_Y */
    double flops[2];         /* an element: the map, its slopes; roughly */
};

/* NULL: there is no such map. */
const struct pst_map_row *pst_map_row(uint32_t map);

enum pst_reduce { PST_REDUCE_SUM = 0, PST_REDUCE_MEAN = 1, PST_REDUCE_MAX = 2, PST_REDUCES };

#define PST_FORM_RANK 8

/* A shape per sample, and what goes there. What does not apply is 0. */
struct pst_form {
    uint32_t rank;
    uint64_t dims[PST_FORM_RANK];
    /* strided: element i of axis a is that of axis from[a] of x0 at start[a] + i step[a], `fill`
       where that is none of its places; each axis of x0 comes once */
    uint32_t from[PST_FORM_RANK];
    int64_t start[PST_FORM_RANK], step[PST_FORM_RANK];
    float fill;
    uint32_t dtype;   /* constant: PST_F32 or PST_I32, */
    const void *data; /* as many as dims say; pst_graph_add copies them */
};

#endif
