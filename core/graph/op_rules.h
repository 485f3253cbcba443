/* SPDX-License-Identifier: Apache-2.0
 *
 * An operator is one row: everything that core knows of a kind but its kernels. The files of ops/
 * have the rows, a file a family; no other file distinguishes kinds. A row's functions see one
 * operator with its operands and no graph around it. All but `fuse` are pure, on any thread.
 *
 *   pst_graph_add --> kind --> infer            outputs, state
 *   pst_graph_fuse --> fuse, takes_act          fewer operators
 *   pst_op_grad_info --> passes --> grad        what B and W read and leave
 *   pst_op_work --> products, else elementwise, else flops
 *   pst_graph_slice, pst_graph_decode --> by_row --> mixes --> past, positions
 */
#ifndef PST_GRAPH_OP_RULES_H
#define PST_GRAPH_OP_RULES_H

#include "graph/draft.h"

/* One operator, in a draft or in a graph, as the functions of its row see it. */
struct pst_op_case {
    const struct pst_op *op; /* attributes, and indices into the arrays that follow */
    const struct pst_tensor *tensors;
    const struct pst_parameter *params;
    const struct pst_op *ops;  /* grad: the makers of inputs, which costed nodes look at */
    uint32_t dtype;            /* infer: the model's type */
    struct pst_shapes *shapes; /* infer: the answer, empty at first; NULL elsewhere */
    uint32_t pass;             /* work: 0 F, 1 B, 2 W */
    uint32_t slice;            /* work: the slice of a sequence; PST_NONE: the mean of all */
};

struct pst_fusion {
    struct pst_graph_builder *builder;
    uint32_t *uses; /* per tensor: its readers; a tensor that must stay has two more */
};

/* Attributes, as bits: fields of struct pst_op that a model sets and a kind may read. */
enum pst_op_attribute {
    PST_ATTR_ACT = 1ull << 0,
    PST_ATTR_TRANSPOSED = 1ull << 1,
    PST_ATTR_CAUSAL = 1ull << 2,
    PST_ATTR_HEADS = 1ull << 3,
    PST_ATTR_KV_HEADS = 1ull << 4,
    PST_ATTR_WINDOW = 1ull << 5,
    PST_ATTR_HEAD_DIM = 1ull << 6,
    PST_ATTR_ROPE = 1ull << 7,
    PST_ATTR_EXPERTS_PER_TOKEN = 1ull << 8,
    PST_ATTR_NORMALIZE = 1ull << 9,
    PST_ATTR_CAPACITY = 1ull << 10,
    PST_ATTR_AUX_LOSS = 1ull << 11,
    PST_ATTR_MAX_DISTANCE = 1ull << 12,
    PST_ATTR_SCALE = 1ull << 13,
    PST_ATTR_BAG = 1ull << 14,
    PST_ATTR_PADDING = 1ull << 15,
    PST_ATTR_KERNEL = 1ull << 16,
    PST_ATTR_STRIDE = 1ull << 17,
    PST_ATTR_PAD = 1ull << 18,
    PST_ATTR_PAD_MORE = 1ull << 19,
    PST_ATTR_DILATION = 1ull << 20,
    PST_ATTR_GROUPS = 1ull << 21,
    PST_ATTR_WHOLE = 1ull << 22,
    PST_ATTR_P = 1ull << 23,
    PST_ATTR_SMOOTHING = 1ull << 24,
    PST_ATTR_Z_LOSS = 1ull << 25,
    PST_ATTR_EPS = 1ull << 26,
    PST_ATTR_MOMENTUM = 1ull << 27,
    PST_ATTR_MAP = 1ull << 28,
    PST_ATTR_REDUCE = 1ull << 29,
    PST_ATTR_CONSTANTS = 1ull << 30,
    PST_ATTR_AXIS = 1ull << 31,
    PST_ATTR_AXES = 1ull << 32,
    PST_ATTR_SWAPPED = 1ull << 33,
    PST_ATTR_LOGARITHM = 1ull << 34,
    PST_ATTR_CONVERT = 1ull << 35,
    PST_ATTR_PARTS = 1ull << 36,
    PST_ATTR_ROW = 1ull << 37,
    PST_ATTR_CLASSES = 1ull << 38
};

/* Which arrays of its form (general.h) a kind has. */
enum { PST_FORM_DIMS = 1, PST_FORM_PLACES = 2, PST_FORM_DATA = 4 };

/* The usual answer of `mixes`. */
#define PST_MIXES_TOKENS "mixes tokens of a sequence, or has no axis of them"

/* 0 or NULL: the field does not apply, or its default holds. */
struct pst_op_rules {
    struct {
        const char *name;
        uint32_t min_in, max_in;    /* inputs */
        uint32_t n_param, required; /* parameters; mask of those that cannot be absent */
    } kind;
    uint64_t attributes;              /* enum pst_op_attribute: any other that is set is refused */
    const char *aux[PST_MAX_OUT - 1]; /* names of y1, y2, after the operator's own and a dot */
    uint32_t aux_row_axis;            /* the axis of rows of aux outputs */
    uint32_t form;                    /* PST_FORM_*: the arrays that a builder brings */
    bool loss;                        /* the result is a loss: one number a sample */
    bool classes;                     /* x1 are targets: classes, of which -1 does not count */
    bool apart;                       /* the result has no gradient, whatever it is made of */
    bool converts;                    /* it has parts meet, or cut what they have (split.h) */
    bool costly;                      /* else it is PST_NODE_CHEAP, unless it is a loss */
    uint32_t flags;                   /* PST_NODE_* besides */
    uint32_t (*more_flags)(const struct pst_op *op); /* PST_NODE_* of this operator, too */
    /* Returns its name for people; NULL: that of its kind. */
    const char *(*title)(const struct pst_op *op);

    /* Shapes: checks operands and attributes, appends outputs and state to c->shapes. The numbers
       of operands are right. False: *err says why, as model.shape, and names the operator. */
    bool (*infer)(const struct pst_op_case *c, struct pst_error *err);

    /* Gradients: what B and W read, whatever the attributes are, and then what depends on them.
       Both speak as if every input needed a gradient, and W took place; b_dx is all inputs but
       those of b_alias, has_b and has_w follow (pst_op_grad_info). */
    struct pst_op_grad passes;
    void (*grad)(const struct pst_op_case *c, struct pst_op_grad *info);
    bool z_needs_params; /* B reads parameters even where no input needs a gradient */

    /* Work: FLOPs per sample of a pass. The first that applies: `products`, which count exactly;
       `elementwise`; `flops` of F, B and W per element of y, or of x0 (a loss, or
       `counts_x`). */
    double (*products)(const struct pst_op_case *c);
    double (*elementwise)(const struct pst_op_case *c);
    double flops[3];
    bool counts_x;
    bool reads_rows;    /* F reads only those rows of p0 that x0 names */
    uint32_t f_skips_x; /* bits: inputs that B reads and F does not */
    /* Bytes per sample that go into a softmax. */
    double (*softmax)(const struct pst_op_case *c);

    /* Rows of tokens: a row of the result depends only on the same row of the inputs, and on rows
       before it through `past`. `mixes` says why attributes prevent that (the end of a sentence
       that begins with the operator), NULL: they do not; `decode`: forward, and row by row. */
    bool by_row;
    const char *(*mixes)(const struct pst_op_case *c, bool decode);
    /* Elements per sample that the rows of a slice leave for later ones: keys and values. */
    uint64_t (*past)(const struct pst_op_case *c);
    bool positions; /* it counts rows from the first of a sequence */

    /* Fusion: merges this operator of a draft into the maker of an input, where that is possible;
       mask of the functions (enum pst_act) that may merge into this kind. */
    void (*fuse)(const struct pst_fusion *fusion, struct pst_op *op);
    uint32_t takes_act;
};

extern const struct pst_op_rules pst_op_embedding, pst_op_linear, pst_op_layernorm,
    pst_op_attention, pst_op_add, pst_op_dropout, pst_op_act, pst_op_cross_entropy, pst_op_conv2d,
    pst_op_batchnorm, pst_op_maxpool2d, pst_op_avgpool, pst_op_concat, pst_op_mse, pst_op_rmsnorm,
    pst_op_avgpool2d, pst_op_shift2d, pst_op_rotary, pst_op_glu, pst_op_qknorm, pst_op_router,
    pst_op_experts, pst_op_parameter, pst_op_constant, pst_op_map, pst_op_reduce, pst_op_softmax,
    pst_op_matmul, pst_op_reshape, pst_op_strided, pst_op_bce, pst_op_gather, pst_op_costed,
    pst_op_costed_loss, pst_op_custom, pst_op_convert, pst_op_ce_part, pst_op_ce_join;

/* NULL: there is no such kind. */
const struct pst_op_rules *pst_op_rules_of(uint32_t kind);

/* Name of an attribute that is set and that the kind does not read; NULL: there is none. */
const char *pst_op_stray_attribute(const struct pst_op *op);

static inline struct pst_op_case pst_op_case_of(const struct pst_graph *graph,
                                                const struct pst_op *op)
{
    return (struct pst_op_case){
        .op = op, .tensors = graph->tensors, .params = graph->params, .ops = graph->ops};
}

/* Returns why a row of the result depends on more than `by_row` says, NULL: it does not. */
const char *pst_op_mixing(const struct pst_graph *graph, const struct pst_op *op, bool decode);

/* The axis of a tensor that is that of rows, where it has one. */
static inline uint32_t pst_row_axis(const struct pst_graph *graph, const struct pst_tensor *tensor)
{
    return tensor->role == PST_ROLE_AUX
               ? pst_op_rules_of(graph->ops[tensor->producer].kind)->aux_row_axis
               : 0;
}

/* Number of slices of a sequence before this one; PST_NONE: the mean. */
static inline double pst_op_slices_before(const struct pst_op *op, uint32_t slice)
{
    return slice == PST_NONE ? ((double)op->slices - 1) / 2 : (double)slice;
}

#endif
