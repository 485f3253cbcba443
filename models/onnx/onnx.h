/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside of the ONNX reader. A file goes through it in this order: bytes to messages (file.c),
 * names to values and nodes (model.c), shapes and known numbers (infer.c, fold.c) at several
 * batches (samples.c), what each node becomes (match.c), the graph (emit.c). All values are thought
 * of at a batch of one: that is what a sample of the graph has.
 */
#ifndef PST_MODELS_ONNX_H
#define PST_MODELS_ONNX_H

#include <onnx.pb-c.h>

#include "base/arena.h"
#include "base/names.h"
#include "base/text.h"
#include "block.h"
#include "graph/published.h"
#include "onnx/config.h"

#define ONNX_RANK 8

enum onnx_type { /* of elements, as files number them */
                 ONNX_FLOAT = 1,
                 ONNX_UINT8 = 2,
                 ONNX_INT8 = 3,
                 ONNX_UINT16 = 4,
                 ONNX_INT16 = 5,
                 ONNX_INT32 = 6,
                 ONNX_INT64 = 7,
                 ONNX_BOOL = 9,
                 ONNX_FLOAT16 = 10,
                 ONNX_DOUBLE = 11,
                 ONNX_UINT32 = 12,
                 ONNX_UINT64 = 13,
                 ONNX_BFLOAT16 = 16
};

static inline bool onnx_is_real(uint32_t type)
{
    return type == ONNX_FLOAT || type == ONNX_FLOAT16 || type == ONNX_DOUBLE ||
           type == ONNX_BFLOAT16;
}

/* Operators: name, the oldest version that is read, inputs at least and at most, outputs at most.
 */
#define ONNX_MANY 0x10000u
#define ONNX_OPS(X)                                                                                \
    X(Abs, 6, 1, 1, 1)                                                                             \
    X(Add, 7, 2, 2, 1)                                                                             \
    X(And, 7, 2, 2, 1)                                                                             \
    X(ArgMax, 1, 1, 1, 1)                                                                          \
    X(ArgMin, 1, 1, 1, 1)                                                                          \
    X(AveragePool, 7, 1, 1, 1)                                                                     \
    X(BatchNormalization, 7, 5, 5, 5)                                                              \
    X(Cast, 6, 1, 1, 1)                                                                            \
    X(CastLike, 15, 2, 2, 1)                                                                       \
    X(Ceil, 6, 1, 1, 1)                                                                            \
    X(Clip, 6, 1, 3, 1)                                                                            \
    X(Concat, 4, 1, ONNX_MANY, 1)                                                                  \
    X(Constant, 1, 0, 0, 1)                                                                        \
    X(ConstantOfShape, 9, 1, 1, 1)                                                                 \
    X(Conv, 1, 2, 3, 1)                                                                            \
    X(ConvTranspose, 1, 2, 3, 1)                                                                   \
    X(Cos, 7, 1, 1, 1)                                                                             \
    X(CumSum, 11, 2, 2, 1)                                                                         \
    X(Div, 7, 2, 2, 1)                                                                             \
    X(Dropout, 7, 1, 3, 2)                                                                         \
    X(Elu, 6, 1, 1, 1)                                                                             \
    X(Equal, 7, 2, 2, 1)                                                                           \
    X(Erf, 9, 1, 1, 1)                                                                             \
    X(Exp, 6, 1, 1, 1)                                                                             \
    X(Expand, 8, 2, 2, 1)                                                                          \
    X(Flatten, 1, 1, 1, 1)                                                                         \
    X(Floor, 6, 1, 1, 1)                                                                           \
    X(Gather, 1, 2, 2, 1)                                                                          \
    X(GatherElements, 11, 2, 2, 1)                                                                 \
    X(GatherND, 11, 2, 2, 1)                                                                       \
    X(Gelu, 20, 1, 1, 1)                                                                           \
    X(Gemm, 7, 2, 3, 1)                                                                            \
    X(GlobalAveragePool, 1, 1, 1, 1)                                                               \
    X(Greater, 7, 2, 2, 1)                                                                         \
    X(GreaterOrEqual, 12, 2, 2, 1)                                                                 \
    X(HardSigmoid, 6, 1, 1, 1)                                                                     \
    X(HardSwish, 14, 1, 1, 1)                                                                      \
    X(Identity, 1, 1, 1, 1)                                                                        \
    X(IsNaN, 9, 1, 1, 1)                                                                           \
    X(LRN, 1, 1, 1, 1)                                                                             \
    X(LayerNormalization, 17, 2, 3, 3)                                                             \
    X(LeakyRelu, 6, 1, 1, 1)                                                                       \
    X(Less, 7, 2, 2, 1)                                                                            \
    X(LessOrEqual, 12, 2, 2, 1)                                                                    \
    X(Log, 6, 1, 1, 1)                                                                             \
    X(LogSoftmax, 1, 1, 1, 1)                                                                      \
    X(MatMul, 1, 2, 2, 1)                                                                          \
    X(Max, 8, 1, ONNX_MANY, 1)                                                                     \
    X(MaxPool, 1, 1, 1, 2)                                                                         \
    X(Min, 8, 1, ONNX_MANY, 1)                                                                     \
    X(Mod, 10, 2, 2, 1)                                                                            \
    X(Mul, 7, 2, 2, 1)                                                                             \
    X(Neg, 6, 1, 1, 1)                                                                             \
    X(Not, 1, 1, 1, 1)                                                                             \
    X(Or, 7, 2, 2, 1)                                                                              \
    X(Pad, 2, 1, 4, 1)                                                                             \
    X(Pow, 7, 2, 2, 1)                                                                             \
    X(RMSNormalization, 23, 2, 2, 1)                                                               \
    X(Range, 11, 3, 3, 1)                                                                          \
    X(Reciprocal, 6, 1, 1, 1)                                                                      \
    X(ReduceMax, 1, 1, 2, 1)                                                                       \
    X(ReduceMean, 1, 1, 2, 1)                                                                      \
    X(ReduceProd, 1, 1, 2, 1)                                                                      \
    X(ReduceSum, 1, 1, 2, 1)                                                                       \
    X(Relu, 6, 1, 1, 1)                                                                            \
    X(Reshape, 5, 2, 2, 1)                                                                         \
    X(Resize, 11, 1, 4, 1)                                                                         \
    X(Round, 11, 1, 1, 1)                                                                          \
    X(ScatterND, 11, 3, 3, 1)                                                                      \
    X(SequenceAt, 11, 2, 2, 1)                                                                     \
    X(Shape, 1, 1, 1, 1)                                                                           \
    X(Sigmoid, 6, 1, 1, 1)                                                                         \
    X(Sign, 9, 1, 1, 1)                                                                            \
    X(Sin, 7, 1, 1, 1)                                                                             \
    X(Size, 1, 1, 1, 1)                                                                            \
    X(Slice, 1, 1, 5, 1)                                                                           \
    X(Softmax, 1, 1, 1, 1)                                                                         \
    X(SoftmaxCrossEntropyLoss, 12, 2, 3, 2)                                                        \
    X(Softplus, 1, 1, 1, 1)                                                                        \
    X(SplitToSequence, 11, 1, 2, 1)                                                                \
    X(Split, 2, 1, 2, ONNX_MANY)                                                                   \
    X(Sqrt, 6, 1, 1, 1)                                                                            \
    X(Squeeze, 1, 1, 2, 1)                                                                         \
    X(Sub, 7, 2, 2, 1)                                                                             \
    X(Sum, 8, 1, ONNX_MANY, 1)                                                                     \
    X(Tanh, 6, 1, 1, 1)                                                                            \
    X(Tile, 6, 2, 2, 1)                                                                            \
    X(Transpose, 1, 1, 1, 1)                                                                       \
    X(Trilu, 14, 1, 2, 1)                                                                          \
    X(Unsqueeze, 1, 1, 2, 1)                                                                       \
    X(Where, 9, 3, 3, 1)                                                                           \
    X(Xor, 7, 2, 2, 1)

#define X(name, since, least, most, outputs) ONNX_##name,
enum onnx_op { ONNX_OPS(X) ONNX_N_OPS };
#undef X

/* Numbers that are known before any sample is. */
struct onnx_data {
    bool real;    /* f; else i, which truth values are, too */
    bool uniform; /* all are the first, which alone is there */
    union {
        double *f;
        int64_t *i;
    };
};

struct onnx_value {
    const char *name;
    uint32_t type; /* enum onnx_type; 0: not known yet */
    uint32_t rank;
    uint64_t dims[ONNX_RANK];
    const struct onnx_data *data;      /* NULL: not known, or not yet asked for (onnx_known) */
    const Onnx__TensorProto *tensor;   /* an initializer; else NULL */
    const Onnx__ValueInfoProto *input; /* what a sample has; else NULL */
    uint32_t node, output;             /* which made it; PST_NONE: none */
    bool fixed;                        /* hangs on nothing that samples have */
    bool learned;                      /* reals that hang on a parameter */
    bool buffer;                       /* an initializer that PyTorch's optimizer does not have */
    bool parameter;                    /* one that it has */
    const struct onnx_told *told;      /* what has its numbers in PyTorch's program; NULL: unsaid */
    const char *twin;                  /* the initializer that it only begins as; NULL: none */
};

struct onnx_node {
    const Onnx__NodeProto *proto;
    uint32_t op; /* enum onnx_op */
    uint32_t n_in, n_out;
    uint32_t *in, *out; /* values; PST_NONE: left out */
};

/* A parameter, buffer or constant of PyTorch's program, which its newer exporter lists. */
struct onnx_told {
    const char *placeholder, *target; /* what its operators call it, and its module */
    bool parameter;
};

/* An If that became one of its branches. */
struct onnx_choice {
    const struct onnx_choice *next;
    uint32_t number;    /* from 1 on */
    uint32_t condition; /* value */
    const char *name;   /* of the first result */
    bool taken;
};

struct onnx_external; /* the opener */

struct onnx_model {
    struct pst_arena arena;
    struct pst_arena numbers; /* that are known at this batch */
    Onnx__ModelProto *proto;
    const char *path;
    struct onnx_external *external;
    uint32_t opset;
    const struct onnx_config *config;
    uint64_t batch;       /* that values have now */
    uint64_t fixed_batch; /* that the file names in the place of a word; 0: none */
    uint64_t held;        /* bytes of known numbers */
    uint64_t most_held;   /* 0: the limit of files */
    bool full;            /* some were left out for that */
    uint32_t n_nodes, n_values, n_inputs, n_outputs;
    uint32_t room_nodes, room_values; /* while the file is read */
    uint32_t n_inferred, n_bound;     /* by onnx_infer_more: nodes, values */
    uint32_t n_told;
    const struct onnx_told *told;
    const struct onnx_choice *choices;
    struct onnx_node *nodes;
    struct onnx_value *values;
    uint32_t *inputs, *outputs; /* values */
    uint32_t *tied;             /* by value: the one whose numbers it has; NULL: none has */
    bool *tied_swapped;         /* its axes are the other way round */
    struct pst_names names;
};

/* --- file.c ----------------------------------------------------------------------------------- */

/* The message in a file, proven to be one within the limits. onnx__model_proto__free_unpacked it.
   Errors: input.path, input.limit, input.syntax with the byte offset. */
pst_status onnx_file_read(const char *path, Onnx__ModelProto **ret_proto, struct pst_error *err);

/* --- external.c ------------------------------------------------------------------------------- */

/* Opens files beneath the folder of the model at `path`. Never NULL. */
struct onnx_external *onnx_external_open(const char *path);
void onnx_external_close(struct onnx_external *external);
/* Checks that a tensor's bytes are there, `bytes` of them. input.path, input.syntax. */
pst_status onnx_external_check(struct onnx_external *external, const Onnx__TensorProto *tensor,
                               uint64_t bytes, struct pst_error *err);
/* Bytes [first, first + n) of a tensor that was checked. Any thread. */
pst_status onnx_external_read(const struct onnx_external *external, const Onnx__TensorProto *tensor,
                              uint64_t first, uint64_t n, void *ret_bytes, struct pst_error *err);

/* --- tensor.c --------------------------------------------------------------------------------- */

/* Type and shape of an initializer or of a constant, its data as many as it says. */
pst_status onnx_tensor_check(const struct onnx_model *model, const Onnx__TensorProto *tensor,
                             struct onnx_value *ret_value, struct pst_error *err);
/* Elements [first, first + n) as reals or as integers. Any thread. */
pst_status onnx_tensor_reals(const struct onnx_model *model, const Onnx__TensorProto *tensor,
                             uint64_t first, uint64_t n, double *ret_values, struct pst_error *err);
pst_status onnx_tensor_integers(const struct onnx_model *model, const Onnx__TensorProto *tensor,
                                uint64_t first, uint64_t n, int64_t *ret_values,
                                struct pst_error *err);

/* --- model.c ---------------------------------------------------------------------------------- */

/* Reads the file and checks its form: names, order, versions, domains, types of what goes in. The
   model is to be destroyed either way. */
pst_status onnx_model_open(const struct onnx_config *config, struct onnx_model *ret_model,
                           struct pst_error *err);
void onnx_model_close(struct onnx_model *model);

/* Tells all nodes for which why() has a reason, by operator: input.unsupported. */
pst_status onnx_refuse(const struct onnx_model *model,
                       const char *(*why)(const struct onnx_model *model,
                                          const struct onnx_node *node, const void *context),
                       const void *context, struct pst_error *err);
/* Returns true if the operator of a node is supported, in this form. */
bool onnx_readable(const struct onnx_model *model, const struct onnx_node *node);
/* How messages call a node: its operator and its name, or that of its first output. */
const char *onnx_node_name(const struct onnx_model *model, const struct onnx_node *node,
                           char text[192]);
/* Input i, output i of a node; NULL where it is left out. */
struct onnx_value *onnx_in(const struct onnx_model *model, const struct onnx_node *node,
                           uint32_t i);
struct onnx_value *onnx_out(const struct onnx_model *model, const struct onnx_node *node,
                            uint32_t i);
/* The node that made a value; NULL: none. */
const struct onnx_node *onnx_maker(const struct onnx_model *model, const struct onnx_value *value);

/* Attributes; what is not there has the default. Lists: NULL, *ret_n 0. */
const Onnx__AttributeProto *onnx_attribute(const struct onnx_node *node, const char *name);
int64_t onnx_int(const struct onnx_node *node, const char *name, int64_t otherwise);
float onnx_float(const struct onnx_node *node, const char *name, float otherwise);
bool onnx_word_is(const struct onnx_node *node, const char *name, const char *word, bool otherwise);
const int64_t *onnx_ints(const struct onnx_node *node, const char *name, uint32_t *ret_n);

/* The word after "name=" in a list "a=x,b=y" of words; NULL: it is not there. */
const char *onnx_find_option(const char *list, const char *name, size_t *ret_n);

/* One more initializer, with the numbers of another one. */
pst_status onnx_add_twin(struct onnx_model *model, uint32_t of, const char *name,
                         uint32_t *ret_value, struct pst_error *err);

/* --- learned.c -------------------------------------------------------------------------------- */

/* The value of a key in the metadata of a message (the field of that number); NULL: none. */
const char *onnx_metadata(struct onnx_model *model, const ProtobufCMessage *message,
                          uint32_t number, const char *key);
#define ONNX_NAME_SCOPES "pkg.torch.onnx.name_scopes"
#define ONNX_SIGNATURE   "pkg.torch.export.ExportedProgram.graph_signature"
/* Finds which initializers are parameters or buffers by the file, before nodes are read. */
pst_status onnx_read_kinds(struct onnx_model *model, struct pst_error *err);
/* Returns true if a node makes a parameter that begins with the numbers of another one. */
bool onnx_is_copy(const struct onnx_model *model, const Onnx__NodeProto *node);
/* Parameters that an exporter joined because they begin alike become several. */
pst_status onnx_part_joined(struct onnx_model *model, struct pst_error *err);
/* Returns true if PyTorch wrote the file. */
bool onnx_is_from_torch(const struct onnx_model *model);
/* Which initializers are one parameter, by the file and the config. */
pst_status onnx_find_ties(struct onnx_model *model, struct pst_error *err);
/* One warning that names what the file does not say: the values that became parameters are
   `params`. */
void onnx_warn_of_guesses(struct onnx_model *model, const uint32_t *params, uint32_t n_params);

/* --- program.c -------------------------------------------------------------------------------- */

/* The operator of PyTorch's program that a node is of, where the file says so, else NULL. */
const char *onnx_program_text(struct onnx_model *model, const struct onnx_node *node);
/* The row of the table to which a Gather gives no gradient (padding_idx); -1: none. */
long onnx_padding(struct onnx_model *model, const struct onnx_node *lookup);
/* Returns true if an embedding divides gradients by how often a token occurs. */
bool onnx_scales_by_frequency(struct onnx_model *model, const struct onnx_node *node);
/* The number by which an AveragePool divides (divisor_override); 0: that of the elements. */
long onnx_divisor(struct onnx_model *model, const struct onnx_node *pool);
/* Returns true if the older exporter made of several lists of indices another one than PyTorch. */
bool onnx_joins_negative_places(struct onnx_model *model, const struct onnx_node *gather);

/* --- expand.c --------------------------------------------------------------------------------- */

/* The nodes that stand for a node: it alone, or those of which its operator is made. In model's
   arena. */
void onnx_expand(struct onnx_model *model, Onnx__NodeProto *node, Onnx__NodeProto ***ret_nodes,
                 uint32_t *ret_n);

/* --- infer.c ---------------------------------------------------------------------------------- */

/* Types, shapes and known numbers of all values at that batch. */
pst_status onnx_infer(struct onnx_model *model, uint64_t batch, struct pst_error *err);

/* Infers all that was read since the last call, at a batch of one. Values that cannot be inferred
   stay unknown (type 0); only errors of the config are reported. */
pst_status onnx_infer_more(struct onnx_model *model, struct pst_error *err);

uint64_t onnx_elems(const struct onnx_value *value);
/* Shape and type of several at once, as numpy broadcasts them; false: they do not go together. */
bool onnx_broadcast(uint32_t n, const struct onnx_value *const *values, uint32_t *ret_rank,
                    uint64_t *ret_dims);
/* An axis from 0 on, of an attribute that may count from the end; `rank` where it is none. */
uint32_t onnx_axis(int64_t axis, uint32_t rank);
/* The list that an input or, before some version, an attribute holds; *ret_there false: neither.
   More than `most`, or unknown ones, are refused. */
pst_status onnx_list(struct onnx_model *model, const struct onnx_node *node, uint32_t input,
                     const char *attribute, uint32_t most, int64_t *ret_list, uint32_t *ret_n,
                     bool *ret_there, struct pst_error *err);
/* Where a slice begins and how it goes on, on each axis. */
pst_status onnx_slice(struct onnx_model *model, const struct onnx_node *node, int64_t *ret_start,
                      int64_t *ret_step, uint64_t *ret_dims, struct pst_error *err);
/* Axes that a reduction takes, as bits, and whether they stay. */
pst_status onnx_reduced(struct onnx_model *model, const struct onnx_node *node, uint32_t *ret_axes,
                        bool *ret_keep, struct pst_error *err);
/* The value that SplitToSequence splits, and the run of its axis that a SequenceAt takes; NULL: it
   cannot be read. */
struct onnx_value *onnx_part(struct onnx_model *model, const struct onnx_node *node,
                             uint32_t *ret_axis, uint64_t *ret_first, uint64_t *ret_size);
/* Window of a convolution or a pool over two axes: pads are begins, then ends. */
struct onnx_window {
    uint64_t kernel[2], stride[2], dilation[2], pad[4], out[2];
};
pst_status onnx_window(const struct onnx_model *model, const struct onnx_node *node,
                       struct onnx_window *ret_window, struct pst_error *err);

/* The window of a transposed convolution. */
pst_status onnx_window_back(const struct onnx_model *model, const struct onnx_node *node,
                            struct onnx_window *ret_window, struct pst_error *err);

/* Returns true if a slice begins at 0 on each axis, in steps of 1. */
bool onnx_slice_is_whole(struct onnx_model *model, const struct onnx_node *node);

/* --- samples.c -------------------------------------------------------------------------------- */

/* The axis of the samples in every value; ONNX_RANK: none. What the result needs is refused where
   samples would depend on each other or on their number. Values stay at a batch of one. */
pst_status onnx_find_samples(struct onnx_model *model, uint32_t result, uint8_t *ret_axes,
                             struct pst_error *err);

/* --- fold.c ----------------------------------------------------------------------------------- */

/* Returns true if the operator can be computed on known numbers. */
bool onnx_folds(uint32_t op);
/* Known numbers of a node's outputs, whose shapes are there and whose inputs are known. */
pst_status onnx_fold(struct onnx_model *model, const struct onnx_node *node, struct pst_error *err);
/* The numbers of a value that hangs on no sample, parameters as they are in the file; NULL: it
   hangs on samples, or is too much. */
const struct onnx_data *onnx_known(struct onnx_model *model, struct onnx_value *value);
/* Room for the numbers of a value, all the same or not; NULL: more than are folded. */
struct onnx_data *onnx_data_new(struct onnx_model *model, const struct onnx_value *value,
                                bool uniform);
static inline double onnx_real(const struct onnx_data *data, uint64_t i)
{
    return data->real ? data->f[data->uniform ? 0 : i] : (double)data->i[data->uniform ? 0 : i];
}
static inline int64_t onnx_integer(const struct onnx_data *data, uint64_t i)
{
    return data->real ? (int64_t)data->f[data->uniform ? 0 : i] : data->i[data->uniform ? 0 : i];
}

/* --- match.c ---------------------------------------------------------------------------------- */

/* A parameter of the graph, out of an initializer. */
struct onnx_param {
    uint32_t base; /* the value: an initializer, or what an operator fills with one number */
    uint32_t rank;
    uint64_t dims[ONNX_RANK];
    uint64_t first; /* row of the initializer's first axis at which it begins */
    bool image;     /* its axes are those of the initializer in the order 2, 3, 1, 0 */
    bool turned;    /* an image from which each window is written: [in, out, ...], backwards */
};

struct onnx_match;
struct onnx_emitter;
typedef void onnx_emit_fn(struct onnx_emitter *e, const struct onnx_match *match);

/* The operator of the graph that a node becomes, together with nodes before it. */
struct onnx_match {
    const struct onnx_node *node;
    onnx_emit_fn *emit;
    struct pst_op op; /* kind and attributes */
    uint32_t n_in, n_param;
    uint32_t in[PST_MAX_INPUTS]; /* values that it reads as tensors */
    struct onnx_param param[2];
    bool has_param[2];
    bool flag; /* attention: q, k and v lie side by side in the first input */
};

/* Fills *ret_match unless the node can be nothing in a graph. */
bool onnx_match(struct onnx_model *model, const struct onnx_node *node,
                struct onnx_match *ret_match);
/* The parameter that a value is, its axes in the order of the initializer or, where *ret_swapped,
   the other way round; axes of length 1 apart. */
bool onnx_parameter(const struct onnx_model *model, const struct onnx_value *value,
                    struct onnx_param *ret_param, bool *ret_swapped);
/* The number that all elements of a value are, which no parameter is. */
bool onnx_number(struct onnx_model *model, const struct onnx_value *value, double *ret_number);
/* The value before nodes that change neither numbers nor shape. */
struct onnx_value *onnx_skip(struct onnx_model *model, struct onnx_value *value);
/* Returns true if a Dropout drops; *ret_p: its probability. */
bool onnx_drops(struct onnx_model *model, const struct onnx_node *node, double *ret_p);

/* --- emit.c, emit_ops.c ----------------------------------------------------------------------- */

extern onnx_emit_fn onnx_emit_linear, onnx_emit_embedding, onnx_emit_norm, onnx_emit_attention,
    onnx_emit_conv, onnx_emit_batchnorm, onnx_emit_pool, onnx_emit_global_pool, onnx_emit_map,
    onnx_emit_reduce, onnx_emit_softmax, onnx_emit_matmul, onnx_emit_gemm, onnx_emit_view,
    onnx_emit_transpose, onnx_emit_slice, onnx_emit_split, onnx_emit_part, onnx_emit_pad,
    onnx_emit_expand, onnx_emit_concat, onnx_emit_gather, onnx_emit_dropout, onnx_emit_lrn,
    onnx_emit_trilu, onnx_emit_tile, onnx_emit_conv_transpose, onnx_emit_resize;

/* Where the values of a graph's parameters and running statistics lie. */
struct onnx_origin {
    const char *name;        /* of the parameter or the operator */
    struct onnx_param param; /* of an operator: base is the mean */
    uint32_t variance;       /* value; PST_NONE: it is a parameter */
};

struct onnx_origins {
    uint32_t n;
    struct onnx_origin *origins;
};

/* The model's graph into m, and where its values come from, in model's arena. */
pst_status onnx_emit(struct onnx_model *model, struct pst_model *m, struct pst_model_ends *ret_ends,
                     struct onnx_origins *ret_origins, struct pst_error *err);

/* --- publish.c -------------------------------------------------------------------------------- */

/* The tensors of the module behind the file, in model's arena. */
void onnx_publish(struct onnx_model *model, const struct onnx_origins *origins,
                  struct pst_published_file *ret_file);

#define ONNX_BAD(kind, ...) pst_fail_at(err, PST_ERR_CONFIG, kind, model->path, 0, 0, __VA_ARGS__)

#endif
