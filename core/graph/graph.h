/* SPDX-License-Identifier: Apache-2.0
 *
 * The model: operators in topological order, the tensors between them, parameters. Shapes are per
 * sample: a batched tensor of micro-batch size b has b * elems elements, sample by sample. Built by
 * a builder (builder.h) through the functions below, then frozen; from there on read-only and
 * shared by all threads.
 */
#ifndef PST_GRAPH_GRAPH_H
#define PST_GRAPH_GRAPH_H

#include <penstock/model.h>

#include "base/arena.h"
#include "base/names.h"
#include "base/error.h"
#include "graph/general.h"

#define PST_MAX_RANK   8
#define PST_MAX_INPUTS 72 /* data tensors of a model */

enum pst_dtype { PST_F32 = 0, PST_BF16 = 1, PST_F64 = 2, PST_I32 = 3 };

static inline uint32_t pst_dtype_bytes(uint32_t dtype)
{
    return dtype == PST_BF16 ? 2u : dtype == PST_F64 ? 8u : 4u;
}

enum pst_role {
    PST_ROLE_INPUT = 0,      /* data: tokens, targets, images, labels */
    PST_ROLE_ACTIVATION = 1, /* y[0] of an operator; has a gradient unless it hangs on data alone */
    PST_ROLE_AUX = 2         /* further outputs that only the operator's own backward reads */
};

/* What the data reader puts into an input tensor. A model has one tensor of targets, and at least
   one of X. */
enum pst_field {
    PST_FIELD_NONE = 0,
    PST_FIELD_X = 1,       /* what the model learns from: tokens (i32) or features */
    PST_FIELD_TARGET = 2,  /* classes (i32), or numbers in the model's type */
    PST_FIELD_MASKED = 3,  /* targets, too: the tokens that were hidden in X; -1 for all others */
    PST_FIELD_SEGMENT = 4, /* i32: 0 in the first half of the tokens, 1 in the second */
    PST_FIELD_SHIFTED = 5  /* i32: the targets, each one place later, behind a 0 */
};

/*
 * The operators: their result, aux outputs, and what their backward parts need (pst_op_grad_info
 * says the same in masks). "rows" are all axes of x0 but the last; statistics (aux of norms,
 * log-sum-exp) and the loss are f32 in f32 and bf16 models, f64 in f64 models.
 */
enum pst_op_kind {
    /* y[t,:] = p0[x0[t],:] + p1[t,:]. x0: i32 [T]; p0 [V,C]; p1 [T,C], optional. As a bag, without
       p1, the rows make one vector: [T C] side by side, or their sum [C]. */
    PST_OP_EMBEDDING = 0,
    /* y = act(x p0 + p1); p0 [in,out], or [out,in] where transposed; p1 [out], optional. gelu: y1 =
       x p0 + p1. With act B leaves z0 = dy act'(.), of y's shape and dtype, and W reads it in the
       place of dy; where x is data that is all B does. relu's mask is y > 0. */
    PST_OP_LINEAR = 1,
    /* Over the last axis; p0 gain, p1 bias; y1 mean, y2 1 / deviation, per row. B leaves z0, z1:
       the parameters' gradients of this micro-batch; dx = g + add in one kernel. */
    PST_OP_LAYERNORM = 2,
    /* x0 [T,(H+2K)D] packed q|k|v, heads of D side by side in each -> [T,HD]; or x0 [T,HD] q and x1
       [S,2KD] k|v, of another sequence. Head h reads key head h / (H / K) (Ainslie et al., "GQA",
       EMNLP 2023). y1 log-sum-exp [H,T]. p0 [buckets,H], optional, is added to the scores: by how
       far the key is from the query (distance.h); B leaves its gradient in z0. */
    PST_OP_ATTENTION = 3,
    /* y = x0 + dropout(x1). Gradients are dy itself (aliased), except dropped ones. */
    PST_OP_ADD = 4,
    PST_OP_DROPOUT = 5,
    PST_OP_ACT = 6, /* relu (B reads y), gelu or silu (B reads x) on its own */
    /* x0 logits [..., V], x1 i32 targets [...] -> loss [] of a sample: the mean over its rows;
       target -1 is ignored. y1 log-sum-exp per row. With smoothing s each other class has s / V of
       the target (Szegedy et al., 2016); z_loss times the square of y1 is added to a row (Chowdhery
       et al., "PaLM", 2022). F leaves both out where it does not train. */
    PST_OP_CROSS_ENTROPY = 7,
    /* NHWC: x0 [H,W,Ci], p0 [kh,kw,Ci/groups,Co], p1 bias [Co] (optional); group g of the results
       sees group g of the channels */
    PST_OP_CONV2D = 8,
    /* Over micro-batch and all axes but the last, then act (relu or none); p0 gain, p1 bias; y1
       mean, y2 1 / deviation, [C] of the micro-batch; state 0, 1: running mean, variance. z as
       layer norm. */
    PST_OP_BATCHNORM = 9,
    PST_OP_MAXPOOL2D = 10, /* NHWC; y1: i32 index of the maximum in its window */
    PST_OP_AVGPOOL = 11,   /* mean over all axes but the last: [..., C] -> [C] */
    PST_OP_CONCAT = 12,    /* along `axis`, up to 64 inputs */
    /* x0, x1 [...] of the model's type, x1 data -> loss [] of a sample: the mean of (x0 - x1)^2 */
    PST_OP_MSE = 13,
    PST_OP_RMSNORM = 14, /* over the last axis; p0 gain; y1 1 / root of mean square; z0 as there */
    /* NHWC: mean over the pixels of a window that are no padding; `whole`: over all, those are 0 */
    PST_OP_AVGPOOL2D = 15,
    PST_OP_SHIFT2D = 16, /* NHWC: y[h,w] = x[h + pad[0], w + pad[1]], 0 beyond the image */
    /* x0 [T,N]: the first `heads` parts of `head_dim` columns are rotated by their row's position
       (rotary.h), the rest is copied. */
    PST_OP_ROTARY = 17,
    PST_OP_GLU = 18, /* x0 [...,2F] gate|up -> act(gate) up [...,F]; silu or gelu; B reads x */
    /* RMS norm of each head of packed rows x0 [T,N]: the first H parts of D columns with gain p0
       [D], the next K with gain p1 [D]; the rest is copied. y1 [T,H+K] as RMS norm; z0, z1. */
    PST_OP_QKNORM = 19,
    /* Mixture of experts (Shazeer et al., "Outrageously large neural networks", ICLR 2017). x0
       logits [T,E] -> weights [T,E]: the experts_per_token greatest of a token's softmax, the first
       of equals, over their sum where `normalize`; 0 for the others. Of a sample an expert takes
       the first ceil(capacity T k / E) tokens that want it; capacity 0: all. B reads x, and adds
       the gradient of the sample's load balancing loss (Fedus et al., "Switch transformers", JMLR
       2022, section 2.2), aux_loss E sum_e f_e P_e with f_e the tokens that want e over T, before
       any is dropped, and P_e the mean of the softmax; the loss that is told is without it. */
    PST_OP_ROUTER = 20,
    /* x0 [T,C], x1 weights [T,E], of which the first experts_per_token (k) other than 0 of a token
       count -> y[t] = sum_e x1[t,e] (act(gate) up) p1[e] where gate|up = x0[t] p0[e]; p0 [E,C,2F],
       p1 [E,F,C]; act as GLU. A token's experts have its slots, in their order; what is left is 0:
       y1 [T,k,2F] gate|up; B leaves z0 [T,k,2F], its gradient, and z1 [T,k,F], x1[t,e] act(gate)
       up. */
    PST_OP_EXPERTS = 21,
    /* What follows is what models from files are made of (general.h). */
    PST_OP_PARAMETER, /* y = p0, for each sample the same; W sums dy over the samples */
    PST_OP_CONSTANT,  /* y = the numbers of `form`, f32 (in the model's type) or i32 */
    PST_OP_MAP,       /* y = map(x0, x1, x2) by element, shapes as in numpy; i32 become numbers */
    PST_OP_REDUCE,    /* over `axes`, which stay with length 1 */
    PST_OP_SOFTMAX,   /* over `axis`; its logarithm where `logarithm` */
    /* y[..., m, n] = sum_k x0[..., m, k] x1[..., k, n], the axes before them as in numpy; the last
       two of an input are the other way round where `swapped` */
    PST_OP_MATMUL,
    PST_OP_RESHAPE, /* y = x0 with the shape of `form`. The gradient is dy itself (aliased). */
    PST_OP_STRIDED, /* axes of x0 permuted, cut, padded, repeated as `form` says */
    /* as mse; x0 logits, x1 probabilities -> the mean of -x1 log s - (1 - x1) log (1 - s), s their
       sigmoid */
    PST_OP_BCE,
    PST_OP_GATHER, /* y = x0 with `axis` replaced by those of x1: i32 places along it, else NaN */
    /* A node of a costed graph, whatever it computes: `form` has its sizes (enum pst_costed_size).
       All that is kept is read by B and by W. No device can run it. */
    PST_OP_COSTED,
    PST_OP_COSTED_LOSS, /* x... -> loss [] of a sample; of no cost */
    PST_OP_KINDS
};

enum pst_bag { PST_BAG_NONE = 0, PST_BAG_CONCAT = 1, PST_BAG_SUM = 2 };
enum pst_act {
    PST_ACT_NONE = 0,
    PST_ACT_RELU = 1,
    PST_ACT_GELU = 2, /* tanh form */
    PST_ACT_SILU = 3  /* x sigmoid(x) */
};

/* dims of the form of PST_OP_COSTED. Where the result is kept, those who read it keep it, too. */
enum pst_costed_size {
    PST_COSTED_RESULT = 0,      /* elements of the result */
    PST_COSTED_KEPT = 1,        /* elements that are kept besides, y1; 0: none */
    PST_COSTED_KEEPS_RESULT = 2 /* 1: it is kept, too */
};

/* How the frequencies of rotary embeddings follow from the pair's number (rotary.h). */
enum pst_rope_scaling { PST_ROPE_NONE = 0, PST_ROPE_LINEAR = 1, PST_ROPE_LLAMA3 = 2 };

struct pst_rope {
    uint32_t scaling; /* enum pst_rope_scaling */
    float theta;
    float factor;                            /* linear, llama3: by which positions shrink */
    float low_freq_factor, high_freq_factor; /* llama3 */
    uint32_t context;                        /* llama3: tokens it was trained with at first */
};

struct pst_tensor {
    const char *name;
    uint32_t role, dtype, field;
    uint32_t rank;
    uint64_t dims[PST_MAX_RANK]; /* per sample where batched */
    bool batched;                /* aux tensors of batch norm are not */
    bool needs_grad;
    uint64_t elems, bytes;     /* per sample where batched, else in all */
    uint32_t producer, output; /* operator and which of its outputs; PST_NONE for inputs */
    uint32_t n_consumers;
    const uint32_t *consumers; /* operators, ascending, one entry per use */
};

enum pst_init {
    PST_INIT_ZERO = 0,
    PST_INIT_ONE = 1,
    PST_INIT_NORMAL = 2,
    PST_INIT_UNIFORM = 3,
    PST_INIT_CONSTANT = 4
};

struct pst_parameter {
    const char *name; /* canonical: "h.0.attn.c_attn.weight"; from the graph, never from a stage */
    uint32_t rank;
    uint64_t dims[PST_MAX_RANK];
    uint64_t elems;
    uint32_t dtype; /* of the working copy that kernels read: f32, or bf16 (then f32 master too) */
    uint32_t init;  /* enum pst_init */
    float init_scale; /* standard deviation, half width, or the constant */
    bool decay;       /* weight decay applies, unless the job says otherwise */
    uint32_t rule;    /* of the job's (train/rules.h); 0 until they are made */
    float muon;       /* not 0: a matrix whose update is orthogonalised, and lr times this then */
    uint32_t n_users; /* > 1: tied; users in order of first use, the first is the owner */
    const uint32_t *users;      /* operators, ascending */
    const uint32_t *user_slots; /* which p[] of that operator */
};

struct pst_op {
    uint32_t kind;
    const char *name;
    uint32_t layer; /* block that it belongs to; ascending with the order */
    uint32_t n_in, n_out, n_param, n_state;
    const uint32_t *in;          /* tensors */
    const uint32_t *out;         /* tensors; out[0] is the result, the rest aux */
    const uint32_t *param;       /* parameters; PST_NONE where an optional one is absent */
    const uint64_t *state_elems; /* f32 values kept per operator over steps (running statistics) */
    /* attributes; what does not apply is 0 */
    uint32_t act;         /* linear, act, batchnorm, glu, experts */
    bool transposed;      /* linear: p0 is stored [out,in] (tied head), else [in,out] */
    bool causal;          /* attention */
    uint32_t heads;       /* attention, qknorm: of queries (H); rotary: of queries and keys */
    uint32_t kv_heads;    /* attention, qknorm: of keys (K), divides heads; 0: as many as heads */
    uint32_t window;      /* causal attention: row t sees t - window + 1 ... t; 0: all up to t */
    uint32_t head_dim;    /* rotary (D) */
    struct pst_rope rope; /* rotary */
    uint32_t experts_per_token; /* router, experts (k) */
    bool normalize;             /* router */
    float capacity, aux_loss;   /* router */
    uint32_t max_distance;      /* attention with p0: beyond it all keys are equally far */
    float scale;                /* attention: of the scores; 0: 1 / sqrt(C / heads) */
    uint32_t bag;               /* embedding: enum pst_bag */
    uint32_t kernel[2], stride[2], pad[2]; /* conv, pool: height, width */
    int32_t pad_more[2];         /* conv, pool: how much more than pad is below and to the right */
    uint32_t dilation[2];        /* conv, maxpool: pixels from one of a window to the next; 0: 1 */
    uint32_t groups;             /* conv: 0: 1 */
    bool whole;                  /* avgpool2d */
    float p;                     /* dropout probability (add, dropout) */
    float smoothing, z_loss;     /* cross-entropy */
    float eps, momentum;         /* norms */
    uint32_t map, reduce;        /* map, reduce: enum pst_map, pst_reduce */
    float constants[2];          /* map */
    uint32_t axis;               /* softmax, gather, concat: counted from the last, which is 0 */
    uint32_t axes;               /* reduce: bit i is axis i, counted so */
    bool swapped[2];             /* matmul: of x0, x1 */
    bool logarithm;              /* softmax */
    const struct pst_form *form; /* constant, reshape, strided */
    uint32_t salt;               /* stream of its random numbers, below 2^20; fusion keeps it */
};

/* Where values begin that no seed gives: a file. The graph owns it. */
struct pst_initial {
    void *context;
    /* f32 values of the parameter of that name or, where `state` is not PST_NONE, of that state of
       the operator. *ret_found false: it has none. Any thread. NULL: there are none at all. */
    pst_status (*load)(void *context, const char *name, uint32_t state, uint64_t elems,
                       float *ret_values, bool *ret_found, struct pst_error *err);
    void (*destroy)(void *context);
};

struct pst_costed; /* costed.h */

struct pst_graph {
    struct pst_arena arena;
    const char *name;
    uint32_t n_ops, n_tensors, n_params;
    uint32_t n_inputs; /* the first tensors: data */
    struct pst_names op_names, param_names;
    struct pst_op *ops; /* topological order */
    struct pst_tensor *tensors;
    struct pst_parameter *params;
    uint32_t loss;   /* tensor: per-sample result of the loss operator */
    uint32_t logits; /* tensor that generation and accuracy read: logits, or predicted numbers */
    uint64_t digest; /* of everything above that matters, XXH3 */
    struct pst_initial initial;
    struct pst_costed *costed; /* what the operators are and cost, node i that of operator i; the
                                  loss is none. NULL: they have kernels. The graph owns it. */
};

/* --- building ------------------------------------------------------------------------------- */

struct pst_graph_builder; /* grows; see builder.h for the models made with it */

pst_status pst_graph_builder_create(const char *name, uint32_t dtype,
                                    struct pst_graph_builder **ret_builder, struct pst_error *err);
void pst_graph_builder_destroy(struct pst_graph_builder *builder);

/* Names the layer of the operators that follow. */
void pst_graph_layer(struct pst_graph_builder *builder, uint32_t layer);

/* The model's own type of element. */
uint32_t pst_graph_dtype(const struct pst_graph_builder *builder);

/* Add an input tensor (at most PST_MAX_INPUTS) / a parameter; return its index, PST_NONE once the
   builder has failed. */
uint32_t pst_graph_input(struct pst_graph_builder *builder, const char *name, uint32_t field,
                         uint32_t dtype, uint32_t rank, const uint64_t *dims);
uint32_t pst_graph_param(struct pst_graph_builder *builder, const char *name, uint32_t rank,
                         const uint64_t *dims, uint32_t init, float init_scale, bool decay);

/*
 * Adds an operator: kind, name, in, n_in, param, n_param and attributes of *op are read (layer and
 * salt are the builder's); outputs are made by shape inference. Returns the tensor out[0], PST_NONE
 * once the builder has failed (the first failure is kept and comes back from pst_graph_finish).
 */
uint32_t pst_graph_add(struct pst_graph_builder *builder, const struct pst_op *op);

/*
 * Fuses (fuse.c), freezes, checks; the builder is empty afterwards and still to be destroyed.
 * `loss` is the result of a loss operator; logits may be PST_NONE. Tensors are numbered
 * anew: inputs first, then outputs in operator order; an operator's result has the operator's name.
 * Errors: the first failure of the calls before; model.build (PST_ERR_BUG) where a name stands
 * twice, layers descend, or a tensor or parameter is used by nothing.
 */
pst_status pst_graph_finish(struct pst_graph_builder *builder, uint32_t loss, uint32_t logits,
                            struct pst_graph **ret_graph, struct pst_error *err);
void pst_graph_destroy(struct pst_graph *graph);

/* What cross-entropy adds to the graph's loss, while nobody else has the graph; the digest follows.
   config.value: the loss is another one. */
pst_status pst_graph_set_loss(struct pst_graph *graph, float smoothing, float z_loss,
                              struct pst_error *err);

/* --- autodiff: what B and W of an operator read, write and leave for each other --------------- */

#define PST_MAX_SCRATCH 2 /* z buffers: what B leaves for W of the same operator */

struct pst_op_grad {
    bool has_b, has_w; /* there is anything to do in that pass */
    /* Bit i: operand i; dy is always read (not by a loss). */
    uint64_t b_reads_x, b_reads_p, b_reads_y;
    uint64_t w_reads_x, w_reads_p, w_reads_y;
    bool w_reads_dy;
    uint64_t b_dx;    /* inputs whose gradient B computes */
    uint64_t b_alias; /* inputs whose gradient is dy itself: no kernel writes it */
    uint64_t b_adds;  /* inputs for which the kernel takes an addend: dx = g + add */
    uint32_t n_z;     /* buffers that B writes and W reads */
    uint64_t z_elems[PST_MAX_SCRATCH]; /* of dtype z_dtype; per sample where z_batched */
    bool z_batched[PST_MAX_SCRATCH];
    uint32_t z_dtype[PST_MAX_SCRATCH];
};

/*
 * Gradients that nobody needs (inputs that are data) are left out, and with the last of them
 * b_reads_p: B then reads weights no more. All zero for an operator that hangs on data alone.
 */
void pst_op_grad_info(const struct pst_graph *graph, uint32_t op, struct pst_op_grad *ret_info);

/*
 * Floating-point operations and bytes read and written by one pass (0 F, 1 B, 2 W) for `samples`
 * samples. Products count exactly (2 M N K), elementwise work roughly; 0 where the pass is empty.
 */
void pst_op_work(const struct pst_graph *graph, uint32_t op, uint32_t pass, uint64_t samples,
                 double *ret_flops, double *ret_bytes);

/*
 * The planning view for strategies: one node per operator; saved_bytes are those of out[0] (if any
 * backward reads it) and of aux tensors; batch norm's statistics, which are per micro-batch, count
 * in full. param_bytes are those of the f32 master weights, a tied parameter's at every user. Work
 * bytes are left 0 for the profile to fill. Owned by the graph's arena; not thread-safe.
 */
void pst_graph_make_view(struct pst_graph *graph, uint32_t batch, struct pst_graph_view **ret_view);
/* The view of nodes whose edges are not yet counted, and of edges by (from, to). */
struct pst_graph_view pst_graph_view_of(struct pst_arena *arena, struct pst_node *nodes,
                                        uint32_t n_nodes, const struct pst_edge *edges,
                                        uint32_t n_edges, uint32_t batch);

/* Marks matrices for Muon: per parameter the factor of lr, 0: it is none. While nobody else has the
   graph; the digest follows. */
void pst_graph_set_muon(struct pst_graph *graph, const float *factors);

/* The room that Muon's update of a matrix wants beside its state: X, what X becomes, and two
   squares of the shorter side. Offsets in floats; pieces begin at multiples of 64 bytes. */
struct pst_muon_room {
    uint64_t side, next, square, other, floats;
};
static inline struct pst_muon_room pst_muon_room(uint64_t rows, uint64_t columns)
{
    const uint64_t side = rows < columns ? rows : columns;
    const uint64_t matrix = (rows * columns + 15) / 16 * 16, square = (side * side + 15) / 16 * 16;

    return (struct pst_muon_room){.side = side,
                                  .next = matrix,
                                  .square = 2 * matrix,
                                  .other = 2 * matrix + square,
                                  .floats = 2 * matrix + square + side * side};
}
/* Bytes of it that a parameter's update wants; 0: it is none of Muon's. */
static inline uint64_t pst_parameter_room(const struct pst_parameter *parameter)
{
    return parameter->muon == 0
               ? 0
               : pst_muon_room(parameter->dims[0], parameter->dims[1]).floats * sizeof(float);
}

/* Elements of all parameters together; a tied one counts once. */
uint64_t pst_graph_parameters(const struct pst_graph *graph);

const char *pst_op_kind_name(uint32_t kind);

/* Of attention and qknorm: heads of keys, and as many of values. */
static inline uint32_t pst_op_kv_heads(const struct pst_op *op)
{
    return op->kv_heads == 0 ? op->heads : op->kv_heads;
}

/* Its result is a loss: one number per sample, whose gradient nobody hands in. */
static inline bool pst_op_is_loss(uint32_t kind)
{
    return kind == PST_OP_CROSS_ENTROPY || kind == PST_OP_MSE || kind == PST_OP_BCE ||
           kind == PST_OP_COSTED_LOSS;
}

#endif
