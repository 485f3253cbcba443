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
#include <penstock/ops.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/names.h"
#include "graph/general.h"

#define PST_BOX_SECTIONS 3
#define PST_MAX_INPUTS   72                  /* data tensors of a model */
#define PST_OP_CALLS     (PST_OP_GATHER + 1) /* kinds of ops.h */

static inline uint32_t pst_dtype_bytes(uint32_t dtype)
{
    return dtype == PST_BF16 ? 2u : dtype == PST_F64 ? 8u : 4u;
}

enum pst_role {
    PST_ROLE_INPUT = 0,      /* data: tokens, targets, images, labels */
    PST_ROLE_ACTIVATION = 1, /* y[0] of an operator; has a gradient unless it hangs on data alone */
    PST_ROLE_AUX = 2         /* further outputs that only the operator's own backward reads */
};

/*
 * Outputs of operators (ops.h) besides their result: aux outputs y1, y2 of F, and buffers z0, z1
 * that B leaves for W (pst_op_grad_info says what the passes read, in masks). Statistics (aux of
 * norms, log-sum-exp) and the loss are f32 in f32 and bf16 models, f64 in f64 models. The rows of
 * the kinds (ops/) say which of them a kind has, and what is in them.
 */
/* Kinds that no model asks for by number: nodes of a costed graph, whatever they compute; plugins'.
 */
enum {
    /* `form` has its sizes (enum pst_costed_size). All that is kept is read by B and by W. No
       device can run it. */
    PST_OP_COSTED = PST_OP_CALLS,
    PST_OP_COSTED_LOSS, /* x... -> loss [] of a sample; of no cost */
    PST_OP_CUSTOM,      /* an operator of a plugin (custom.h) */
    PST_OP_CONVERT,     /* from one layout over the parts of a replica to another (split.h) */
    PST_OP_CE_PART,     /* sums of each row of logits over the classes of one part (ops/loss.c) */
    PST_OP_CE_JOIN,     /* cross-entropy from a part's logits and the sums of all parts */
    PST_OP_KINDS
};

/* Numbers that PST_OP_CE_PART makes of a row. */
enum { PST_CE_GREATEST = 0, PST_CE_EXP_SUM = 1, PST_CE_TARGET = 2, PST_CE_SUM = 3, PST_CE_NUMBERS };

/* dims of the form of PST_OP_COSTED. Where the result is kept, those who read it keep it, too. */
enum pst_costed_size {
    PST_COSTED_RESULT = 0,      /* elements of the result */
    PST_COSTED_KEPT = 1,        /* elements that are kept besides, y1; 0: none */
    PST_COSTED_KEEPS_RESULT = 2 /* 1: it is kept, too */
};

struct pst_tensor {
    const char *name;
    uint32_t role, dtype, field;
    uint32_t rank;
    uint64_t dims[PST_MAX_RANK]; /* per sample where batched */
    bool batched;                /* aux tensors of batch norm are not */
    bool planar;                 /* input: an image, whose arrays have channels first */
    bool needs_grad;
    uint64_t elems, bytes;     /* per sample where batched, else in all */
    uint32_t producer, output; /* operator and which of its outputs; PST_NONE for inputs */
    uint32_t n_consumers;
    const uint32_t *consumers; /* operators, ascending, one entry per use */
};

static inline uint64_t pst_tensor_bytes(const struct pst_tensor *tensor, uint64_t samples)
{
    return tensor->bytes * (tensor->batched ? samples : 1);
}

/*
 * Which elements of a whole parameter one of `parts` parts has: it is split along an axis, on which
 * several things may stand side by side, the sections; a part has its n-th of each of them, in
 * their order (packed q|k|v, split by heads). Where parts does not divide the one section, the last
 * places of the last parts are padding: zero from the beginning; checkpoints store them, and
 * nothing reads them. Read with pst_box_runs (split.h).
 */
struct pst_box {
    uint32_t parts; /* 0, 1: each has all of it */
    uint32_t axis;  /* of dims, from the first */
    uint32_t n_sections;
    uint64_t sections[PST_BOX_SECTIONS]; /* places of the whole on that axis; parts divides
                                            each, or the only one with its padding */
    uint64_t padding; /* places beyond the one section, so that parts divides both together */
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
    uint32_t rule;    /* of the job's (parameter_groups.h); 0 until they are made */
    float muon;       /* not 0: a matrix whose update is orthogonalised, and lr times this then */
    uint32_t n_users; /* > 1: tied; users in order of first use, the first is the owner */
    const uint32_t *users;      /* operators, ascending */
    const uint32_t *user_slots; /* which p[] of that operator */
    struct pst_box box;         /* in the graph of a part; dims and elems are the part's */
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
    uint32_t slices;      /* attention: its rows are one of so many slices of a sequence, and it
                             reads the keys and values of those before it, too; 0: of one */
    uint32_t head_dim;    /* rotary (D) */
    struct pst_rope rope; /* rotary */
    uint32_t experts_per_token; /* router, experts (k) */
    bool normalize;             /* router */
    float capacity, aux_loss;   /* router */
    uint32_t max_distance;      /* attention with p0: beyond it all keys are equally far */
    float scale;                /* attention: of the scores; 0: 1 / sqrt(C / heads) */
    uint32_t bag;               /* embedding: enum pst_bag */
    uint32_t padding; /* embedding: row of p0, counted from 1, that has no gradient; 0: none */
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
    uint64_t positions; /* rotary, attention: samples are rows of one text of at most so many, which
                           attention keeps in its state (pst_graph_decode); 0: each is a text */
    uint32_t convert;   /* convert: enum pst_convert */
    uint32_t parts;     /* convert: how many there are. add, dropout: its elements are those of
                           one of so many parts, for random numbers; embedding, cross-entropy: its
                           rows or classes are; 0: all */
    uint32_t row;       /* dropout: elements of a part that are contiguous in the whole sample; 0:
                           all of the part's sample */
    uint32_t classes;   /* embedding, cross-entropy of parts: rows of the table, or classes, that
                           all of them have together; 0: this one has all */
    uint32_t partial;   /* bit i: each part computes only a part of the gradient of whole
                           parameter i; MERGE adds them */
    struct pst_custom *custom; /* of kind PST_OP_CUSTOM: its plugin; else NULL */
};

struct pst_initial_tensor; /* published.h */
struct pst_published_file;

/* Where values begin that no seed gives: a file. The graph owns it. */
struct pst_initial {
    void *context;
    /* f32 values of the parameter of that name or, where `state` is not PST_NONE, of that state of
       the operator. *ret_found false: it has none. Any thread. NULL: there are none at all. */
    pst_status (*load)(void *context, const char *name, uint32_t state, uint64_t elems,
                       float *ret_values, bool *ret_found, struct pst_error *err);
    void (*destroy)(void *context);
    /* The tensors of the module behind the file; they live as long as the context. NULL: names and
       layouts are the model's own. */
    const struct pst_published_file *(*published)(void *context);
    /* Elements [first, first + n) of a tensor as the module has them: float, int64_t or, of truth
       values, uint8_t. */
    pst_status (*read)(void *context, const struct pst_initial_tensor *tensor, uint64_t first,
                       uint64_t n, void *ret_values, struct pst_error *err);
};

struct pst_costed; /* costed.h */
struct pst_custom; /* custom.h */

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
    uint32_t slices; /* a sample of this graph is one of so many slices of a sequence (slice.c); 1:
                        it is a whole one */
    uint32_t token_batch; /* the loss is the mean over all targets of a step of so many sequences;
                             0: the mean over the means of the sequences */
    uint32_t parts; /* devices that share each operator; the graph is what one of them computes
                       (split.h). 1: no operator is shared */
    bool sequence;  /* tokens are divided among the parts outside split operators */
    uint32_t ways;  /* enum pst_ways on which bits depend: auto, ulysses or rows */
    const char *const *by_name; /* "h.0.mlp.c_fc: whole": operators that are divided in another way
                                   than `ways` says, because pst_division.asked says so */
    uint32_t n_by_name;
    uint64_t digest;         /* of everything above that matters, XXH3 */
    struct pst_graph *whole; /* what the parts compute together: names and shapes in files,
                                initial values. The graph owns it. NULL where parts is 1 */
    const uint32_t *op_of;   /* [operator] the operator of `whole` that it is a part of or serves */
    const uint16_t
        *degree_of; /* [operator of `whole`] how many devices share it, where that differs
                      between operators: `parts` is the most. NULL: `parts` for all */
    struct pst_initial initial;
    struct pst_costed *costed;  /* what the operators are and cost, node i that of operator i; the
                                   loss is none. NULL: they have kernels. The graph owns it. */
    struct pst_custom *customs; /* operators of plugins; the graph owns them */
};

/* The model, also where the graph is that of a part. */
static inline const struct pst_graph *pst_graph_model(const struct pst_graph *graph)
{
    return graph->whole != NULL ? graph->whole : graph;
}

/* How many devices share this operator of the graph. */
static inline uint32_t pst_graph_parts(const struct pst_graph *graph, uint32_t op)
{
    return graph->degree_of != NULL ? graph->degree_of[graph->op_of[op]] : graph->parts;
}

/* --- building ------------------------------------------------------------------------------- */

struct pst_graph_builder; /* grows; see builder.h for the models made with it */

pst_status pst_graph_builder_create(const char *name, uint32_t dtype,
                                    struct pst_graph_builder **ret_builder, struct pst_error *err);
void pst_graph_builder_destroy(struct pst_graph_builder *builder);

/* Names the layer of the operators that follow. */
void pst_graph_layer(struct pst_graph_builder *builder, uint32_t layer);

/* The model's own type of element. */
uint32_t pst_graph_dtype(const struct pst_graph_builder *builder);

/* Add an input tensor (at most PST_MAX_INPUTS), say that it is planar / a parameter; return its
   index, PST_NONE once the builder has failed. */
uint32_t pst_graph_input(struct pst_graph_builder *builder, const char *name, uint32_t field,
                         uint32_t dtype, uint32_t rank, const uint64_t *dims);
void pst_graph_planar(struct pst_graph_builder *builder, uint32_t input);
uint32_t pst_graph_param(struct pst_graph_builder *builder, const char *name, uint32_t rank,
                         const uint64_t *dims, uint32_t init, float init_scale, bool decay);

/*
 * Adds an operator: kind, name, in, n_in, param, n_param and attributes of *op are read (layer and
 * salt are the builder's); outputs are made by shape inference. op->custom becomes the graph's,
 * whatever comes of the call. Returns the tensor out[0], PST_NONE
 * once the builder has failed (the first failure is kept and comes back from pst_graph_finish).
 */
uint32_t pst_graph_add(struct pst_graph_builder *builder, const struct pst_op *op);

/* For whoever builds on behalf of others: the first failure so far; axes of a tensor, false where
   there is no such; the operands of *op with their shapes, as far as there are such. */
pst_status pst_graph_failure(const struct pst_graph_builder *builder, struct pst_error *err);
bool pst_graph_shape(const struct pst_graph_builder *builder, uint32_t tensor, uint32_t *ret_rank,
                     uint64_t *ret_dims);
void pst_graph_operands(const struct pst_graph_builder *builder, const struct pst_op *op,
                        char *text, size_t size);

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

/*
 * Makes of a graph whose samples are texts one whose samples are tokens of a text: sample i is
 * token i, with what attention has seen of those before it in its state, f32 [keys' heads][2:
 * transposed keys, values][positions * depth]. Forward only, in order, while nobody else has the
 * graph; the digest stays. False: it has operators that need whole texts, and nothing was done.
 */
bool pst_graph_decode(struct pst_graph *graph);

/* Sets label smoothing and z-loss of the graph's cross-entropy, while nobody else has the graph;
   the digest changes. config.value: the loss is another one. */
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
/* Like pst_op_work, for one slice of sequences, whose attention also sees the keys of earlier
   slices. slice PST_NONE: the mean over the slices, which pst_op_work returns. */
void pst_op_slice_work(const struct pst_graph *graph, uint32_t op, uint32_t slice, uint32_t pass,
                       uint64_t samples, double *ret_flops, double *ret_bytes);
/* Bytes of the input of a softmax in a pass: the scores of all heads of attention, or the logits of
   cross-entropy in f32; 0 for other operators. */
double pst_op_softmax_bytes(const struct pst_graph *graph, uint32_t op, uint32_t slice,
                            uint32_t pass, uint64_t samples);

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

/*
 * slice.c: from whole sequences to one of n slices of them, as many tokens each, while nobody else
 * has the graph; the digest follows. Of b sequences slice i makes micro-batch j n + i where they
 * made j. config.value: an operator looks ahead, or beyond its rows in another way than causal
 * attention does; the sequence is not a multiple of n.
 */
pst_status pst_graph_slice(struct pst_graph *graph, uint32_t n, struct pst_error *err);
/* Undoes pst_graph_slice and pst_graph_mean_tokens. */
void pst_graph_join(struct pst_graph *graph);
/*
 * The loss becomes the mean over all targets of a step of `batch` sequences; 0: it stays. Behind
 * the targets of each sample stands a number: how many targets of the step count. Nobody else has
 * the graph, and it is not sliced; the digest follows. Nothing changes where each number of the
 * targets counts (mse, bce). config.value: more than the loss reads the targets; config.limit: they
 * are too many.
 */
pst_status pst_graph_mean_tokens(struct pst_graph *graph, uint32_t batch, struct pst_error *err);
/* The sum of a sample's losses is divided by the number after its targets over this; 0: there is
   no such number, and it is divided by how many of its own targets count. */
static inline uint64_t pst_graph_counts_over(const struct pst_graph *graph)
{
    return graph->token_batch > 0 ? (uint64_t)graph->token_batch * graph->slices
           : graph->slices > 1    ? graph->slices
                                  : 0;
}
/* Samples of a step as the graph has them. */
static inline uint32_t pst_graph_samples(const struct pst_graph *graph, uint32_t batch)
{
    return batch * graph->slices;
}
/* Which micro-batch is the turn-th whose gradients are added; and back. Of a sequence the last
   slice comes first, as its backward pass does. */
static inline uint32_t pst_graph_turn(const struct pst_graph *graph, uint32_t turn)
{
    return turn + graph->slices - 1 - 2 * (turn % graph->slices);
}
/* Size per sample of the gradients of keys and values that later slices leave for a slice (all but
   the last have them) of an attention operator; 0: the graph is not sliced. */
uint64_t pst_op_past_elems(const struct pst_graph *graph, uint32_t op);
uint64_t pst_op_past_bytes(const struct pst_graph *graph, uint32_t op);
/* Returns true if attention of later slices reads the operator's result while this slice waits for
   its backward pass. Such a result is neither replayed nor offloaded. */
bool pst_op_stays(const struct pst_graph *graph, uint32_t op);

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
/* Returns its kind, or the plugin that has it. */
const char *pst_op_title(const struct pst_op *op);

/* The first operator that may use what comes later in a sequence: attention that is not causal, an
   operator of a plugin that does not state it, or not of the rows of the logits. NULL: none. */
const struct pst_op *pst_graph_looks_ahead(const struct pst_graph *graph);

/* Heads of keys, equal to those of values, of attention and qknorm. */
static inline uint32_t pst_op_kv_heads(const struct pst_op *op)
{
    return op->kv_heads == 0 ? op->heads : op->kv_heads;
}

static inline bool pst_op_has_param(const struct pst_op *op, uint32_t slot)
{
    return slot < op->n_param && op->param[slot] != PST_NONE;
}

/* Returns true if the result is a loss: one number per sample, with no gradient from elsewhere. */
bool pst_op_is_loss(uint32_t kind);
bool pst_op_is_convert(uint32_t kind); /* of layouts (split.h) */

/* Writes initial values: a function of (seed, parameter's canonical name) alone. f32 [elems]. */
void pst_parameter_init(const struct pst_parameter *parameter, uint64_t seed, float *ret_values);

#endif
