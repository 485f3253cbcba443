/* SPDX-License-Identifier: Apache-2.0
 *
 * pst.model/1: builds the graph of a model, one call per operator, through a builder of the host
 * that checks shapes in the call. layers.h has functions made of these. Since 1.5.
 */
#ifndef PENSTOCK_BUILD_H
#define PENSTOCK_BUILD_H

#include "ops.h"

#define PST_MODEL "pst.model/1"

/* Names have 1 to 255 bytes of UTF-8 with their scope, no control characters. */
struct pst_input_decl {
    uint32_t size;
    uint32_t field;   /* enum pst_field */
    const char *name; /* without scope */
    uint32_t dtype;   /* PST_I32, or the model's own */
    uint32_t rank;
    const uint64_t *dims; /* [rank], per sample */
};

/* Its value, where a checkpoint or a file of weights gives none, is a function of the job's seed
   and its name. */
struct pst_parameter_decl {
    uint32_t size;
    uint32_t init; /* enum pst_init */
    const char *name;
    uint32_t rank;
    uint32_t decay;       /* 1: weight decay applies, unless the job says otherwise */
    const uint64_t *dims; /* [rank] */
    float value;          /* standard deviation, half width, or the constant */
};

struct pst_op_decl {
    uint32_t size;
    uint32_t kind;    /* enum pst_op_kind, whose comments say what applies to which */
    const char *name; /* "": that of the scope */
    uint32_t n_in, n_param;
    const uint32_t *in;    /* tensors */
    const uint32_t *param; /* parameters; PST_NONE where an optional one is absent */
    uint32_t act;          /* enum pst_act */
    uint32_t transposed;
    uint32_t causal;
    uint32_t heads, kv_heads; /* kv_heads 0: as many as heads */
    uint32_t window; /* causal attention: row t sees t - window + 1 ... t; 0: all up to t */
    uint32_t head_dim;
    uint32_t max_distance;
    float scale; /* of attention's scores; 0: 1 / sqrt(D) */
    struct pst_rope rope;
    uint32_t experts_per_token, normalize;
    float capacity, aux_loss;
    uint32_t bag;                          /* enum pst_bag */
    uint32_t kernel[2], stride[2], pad[2]; /* height, width */
    int32_t pad_more[2];                   /* how much more than pad is below and to the right */
    uint32_t dilation[2];                  /* pixels from one of a window to the next; 0: 1 */
    uint32_t groups;                       /* 0: 1 */
    uint32_t whole;
    float p, eps, momentum;
    uint32_t map, reduce; /* enum pst_map, pst_reduce */
    float constants[2];
    uint32_t axis;       /* counted from the last, which is 0 */
    uint32_t axes;       /* bit i is axis i, counted so */
    uint32_t swapped[2]; /* of x0, x1 */
    uint32_t logarithm;
    uint32_t rank; /* constant, reshape, strided: the result's */
    const uint64_t *dims;
    const uint32_t *from;        /* strided: [rank], as the next two */
    const int64_t *start, *step; /* in elements of the axis */
    float fill;
    uint32_t dtype;   /* constant: PST_F32 or PST_I32, */
    const void *data; /* as many as dims say, 2^26 at most */
};

/* An operator of a plugin (operator.h), which the job names in model.operators. */
struct pst_custom_decl {
    uint32_t size;
    uint32_t n_in, n_param;
    const char *plugin;     /* its id */
    const char *name;       /* "": that of the scope */
    const char *attributes; /* "key=value,...": its parameters; the others have their defaults */
    const uint32_t *in;     /* tensors */
    const uint32_t *param;  /* parameters; PST_NONE where an optional one is absent */
};

/*
 * The graph that is built. Lives until build() returns; what its functions are given they copy.
 * Tensors and parameters are numbers that they return. The first failure is kept, and tells the
 * operator, its operands and their shapes; from then on all return PST_NONE, and so the caller need
 * not look at each result. All [plan].
 */
struct pst_builder {
    uint32_t size;
    uint32_t dtype; /* the model's own: PST_F32, PST_BF16 or PST_F64 */
    void *impl;
    /* Names that follow are in this one: in "h.0" an operator "fc" is "h.0.fc". "": in none. */
    void (*scope)(struct pst_builder *builder, const char *name);
    /* Begins the next layer (block): partitioners prefer to cut between layers. */
    void (*layer)(struct pst_builder *builder);
    uint32_t (*input)(struct pst_builder *builder, const struct pst_input_decl *input);
    /* May be used by several operators: it is tied then. */
    uint32_t (*parameter)(struct pst_builder *builder, const struct pst_parameter_decl *parameter);
    /* The operator's result. One of a model's operators is a loss: nothing reads its result, and
       its x0 is what evaluation and generation read: logits, or predicted numbers. */
    uint32_t (*op)(struct pst_builder *builder, const struct pst_op_decl *op);
    /* Axes of a tensor, which go to ret_dims [PST_MAX_RANK]; PST_NONE: there is no such tensor. */
    uint32_t (*shape)(struct pst_builder *builder, uint32_t tensor, uint64_t *ret_dims);
    /* The result of an operator of a plugin. Since 1.7, ask PST_CAN. */
    uint32_t (*custom)(struct pst_builder *builder, const struct pst_custom_decl *custom);
};

struct pst_model_interface {
    uint32_t size;
    /*
     * Adds all of a model; every tensor and every parameter is used. The same config gives the same
     * graph.
     *
     * PST_ERR_CONFIG       parameters do not go together; the message says which
     * PST_ERR_UNSUPPORTED  the builder's dtype, or something that this host does not know
     * [plan]
     */
    pst_status (*build)(void *self, struct pst_builder *builder);
};

#endif
