/* SPDX-License-Identifier: Apache-2.0
 *
 * The operators that a model is made of, and what they are told apart by. Shapes are per sample:
 * what a tensor has besides, the axis of the samples, no operator names. x0, x1 ...: inputs, in
 * their order; p0, p1: parameters. "rows" are all axes of x0 but the last. What a kind does not
 * mention does not apply to it and is 0.
 */
#ifndef PENSTOCK_OPS_H
#define PENSTOCK_OPS_H

#include "abi.h"

#define PST_MAX_RANK 8

/* Elements. A model has a type of its own: f32, bf16, or (in tests) f64. */
enum pst_dtype { PST_F32 = 0, PST_BF16 = 1, PST_F64 = 2, PST_I32 = 3 };

/* The data that the reader puts into an input tensor. A model has one tensor of targets, and at
   least one of X. */
enum pst_field {
    PST_FIELD_NONE = 0,
    PST_FIELD_X = 1,       /* what the model learns from: tokens (i32) or features */
    PST_FIELD_TARGET = 2,  /* classes (i32), or numbers in the model's type */
    PST_FIELD_MASKED = 3,  /* targets, too: labels, or without them tokens hidden in X; else -1 */
    PST_FIELD_SEGMENT = 4, /* i32: 0 in the first half of the tokens, 1 in the second */
    PST_FIELD_SHIFTED = 5  /* i32: the targets, each one place later, after a 0 */
};

/* Where a parameter begins. */
enum pst_init {
    PST_INIT_ZERO = 0,
    PST_INIT_ONE = 1,
    PST_INIT_NORMAL = 2,  /* with that standard deviation */
    PST_INIT_UNIFORM = 3, /* of that half width */
    PST_INIT_CONSTANT = 4 /* that number */
};

enum pst_op_kind {
    /* y[t,:] = p0[x0[t],:] + p1[t,:]. x0: i32 [T]; p0 [V,C]; p1 [T,C], optional. As a `bag`,
       without p1, the rows make one vector: [T C] side by side, or their sum [C]. */
    PST_OP_EMBEDDING = 0,
    /* y = act(x0 p0 + p1); act: none, relu, gelu; p0 [in,out], or [out,in] where `transposed`;
       p1 [out], optional */
    PST_OP_LINEAR = 1,
    PST_OP_LAYERNORM = 2, /* over the last axis [C]; p0 gain [C], p1 bias [C]; `eps` */
    /* x0 [T,(H+2K)D] packed q|k|v, heads of D side by side in each -> [T,HD]; or x0 [T,HD] q and
       x1 [S,2KD] k|v, of another sequence. `heads` H, `kv_heads` K: head h reads key head h / (H /
       K) (Ainslie et al., "GQA", EMNLP 2023); `causal`, `window`, `scale`. p0 [buckets,H],
       optional, is added to the scores: by how far the key is from the query, up to
       `max_distance`. */
    PST_OP_ATTENTION = 3,
    PST_OP_ADD = 4, /* y = x0 + dropout(x1), with probability `p` */
    PST_OP_DROPOUT = 5,
    PST_OP_ACT = 6, /* act: relu, gelu or silu */
    /* x0 logits [..., V], x1 i32 targets [...] -> loss [] of a sample: the mean over its rows;
       target -1 is ignored. [train] label_smoothing and z_loss go here. */
    PST_OP_CROSS_ENTROPY = 7,
    /* x0 [H,W,Ci], p0 [kh,kw,Ci/groups,Co], p1 bias [Co], optional; `kernel`, `stride`, `pad`,
       `pad_more`, `dilation`; group g of the results sees group g of the channels */
    PST_OP_CONV2D = 8,
    /* Over micro-batch and all axes but the last [C], then act (relu or none); p0 gain, p1 bias;
       `eps`, `momentum` of the running statistics */
    PST_OP_BATCHNORM = 9,
    PST_OP_MAXPOOL2D = 10, /* x0 [H,W,C]; `kernel`, `stride`, `pad`, `pad_more`, `dilation` */
    PST_OP_AVGPOOL = 11,   /* mean over all axes but the last: [..., C] -> [C] */
    PST_OP_CONCAT = 12,    /* along `axis`, up to 64 inputs */
    /* x0, x1 [...] of the model's type, x1 data -> loss [] of a sample: the mean of (x0 - x1)^2 */
    PST_OP_MSE = 13,
    PST_OP_RMSNORM = 14, /* over the last axis [C]; p0 gain [C]; `eps` */
    /* x0 [H,W,C]: mean over the pixels of a window that are no padding; `whole`: over all, those
       are 0 */
    PST_OP_AVGPOOL2D = 15,
    PST_OP_SHIFT2D = 16, /* x0 [H,W,C]: y[h,w] = x0[h + pad[0], w + pad[1]], 0 beyond the image */
    /* x0 [T,N]: the first `heads` parts of `head_dim` columns are rotated by their row's position
       (Su et al., "RoFormer", in the form of two halves), the rest is copied; `rope` */
    PST_OP_ROTARY = 17,
    PST_OP_GLU = 18, /* x0 [...,2F] gate|up -> act(gate) up [...,F]; silu or gelu */
    /* RMS norm of each head of packed rows x0 [T,N]: the first `heads` parts of D columns with
       gain p0 [D], the next `kv_heads` with gain p1 [D]; the rest is copied; `eps` */
    PST_OP_QKNORM = 19,
    /* Mixture of experts (Shazeer et al., "Outrageously large neural networks", ICLR 2017). x0
       logits [T,E] -> weights [T,E]: the `experts_per_token` (k) greatest of a token's softmax,
       the first of equals, over their sum where `normalize`; 0 for the others. Of a sample an
       expert takes the first ceil(capacity T k / E) tokens that want it; capacity 0: all. Backward
       adds the gradient of the sample's load balancing loss (Fedus et al., "Switch transformers",
       JMLR 2022, section 2.2), aux_loss E sum_e f_e P_e with f_e the tokens that want e over T,
       before any is dropped, and P_e the mean of the softmax; the loss that is told is without
       it. */
    PST_OP_ROUTER = 20,
    /* x0 [T,C], x1 weights [T,E], of which the first `experts_per_token` other than 0 of a token
       count -> y[t] = sum_e x1[t,e] (act(gate) up) p1[e] where gate|up = x0[t] p0[e]; p0 [E,C,2F],
       p1 [E,F,C]; act as GLU */
    PST_OP_EXPERTS = 21,
    /* The operators below read tensors only: PST_OP_PARAMETER and PST_OP_CONSTANT make a tensor
       of a parameter or a constant. */
    PST_OP_PARAMETER = 22, /* y = p0, for each sample the same */
    PST_OP_CONSTANT = 23,  /* y = `data`, f32 (in the model's type) or i32, of the shape `dims` */
    PST_OP_MAP = 24,       /* y = `map` (x0, x1, x2) by element, shapes as in numpy */
    PST_OP_REDUCE = 25,    /* `reduce` over `axes`, which stay with length 1 */
    PST_OP_SOFTMAX = 26,   /* over `axis`; its logarithm where `logarithm` */
    /* y[..., m, n] = sum_k x0[..., m, k] x1[..., k, n], the axes before them as in numpy; the last
       two of an input are the other way round where `swapped` */
    PST_OP_MATMUL = 27,
    PST_OP_RESHAPE = 28, /* y = x0 with the shape `dims` */
    /* y [dims]: element i of axis a is that of axis from[a] of x0 at start[a] + i step[a], `fill`
       where that is none of its places; each axis of x0 comes once. So axes are permuted, cut,
       padded, turned round, repeated. */
    PST_OP_STRIDED = 29,
    /* as mse; x0 logits, x1 probabilities -> the mean of -x1 log s - (1 - x1) log (1 - s), s their
       sigmoid */
    PST_OP_BCE = 30,
    /* y = x0 with `axis` replaced by those of x1: i32 places along it, else NaN */
    PST_OP_GATHER = 31
};

enum pst_bag { PST_BAG_NONE = 0, PST_BAG_CONCAT = 1, PST_BAG_SUM = 2 };
enum pst_act {
    PST_ACT_NONE = 0,
    PST_ACT_RELU = 1,
    PST_ACT_GELU = 2, /* tanh form */
    PST_ACT_SILU = 3  /* x sigmoid(x) */
};

/* How the frequencies of rotary embeddings follow from the pair's number. */
enum pst_rope_scaling { PST_ROPE_NONE = 0, PST_ROPE_LINEAR = 1, PST_ROPE_LLAMA3 = 2 };

struct pst_rope {
    uint32_t scaling; /* enum pst_rope_scaling */
    float theta;
    float factor;                            /* linear, llama3: by which positions shrink */
    float low_freq_factor, high_freq_factor; /* llama3 */
    uint32_t context;                        /* llama3: tokens it was trained with at first */
};

/* a, b, c: elements of x0, x1, x2; s, t: constants[0], [1]. Slopes where there is none are as
   PyTorch has them. relu, tanh-gelu and sums of equal shapes have kinds of their own. */
enum pst_map {
    PST_MAP_AFFINE = 0,       /* s a + t */
    PST_MAP_POWER = 1,        /* a^s */
    PST_MAP_CLIP = 2,         /* between s and t */
    PST_MAP_LEAKY = 3,        /* a, or s a where a < 0 */
    PST_MAP_ELU = 4,          /* a, or s (e^a - 1) where a < 0 */
    PST_MAP_HARD_SIGMOID = 5, /* s a + t between 0 and 1 */
    PST_MAP_HARD_SWISH = 6,   /* a times a / 6 + 1 / 2 between 0 and 1 */
    PST_MAP_ABS = 7,
    PST_MAP_EXP = 8,
    PST_MAP_LOG = 9,
    PST_MAP_SQRT = 10,
    PST_MAP_RECIPROCAL = 11,
    PST_MAP_ERF = 12,
    PST_MAP_TANH = 13,
    PST_MAP_SIGMOID = 14,
    PST_MAP_GELU = 15, /* a Phi(a), by erf */
    PST_MAP_SOFTPLUS = 16,
    PST_MAP_SIN = 17,
    PST_MAP_COS = 18,
    PST_MAP_ADD = 19, /* of two */
    PST_MAP_SUB = 20,
    PST_MAP_MUL = 21,
    PST_MAP_DIV = 22,
    PST_MAP_POW = 23,
    PST_MAP_MIN = 24,
    PST_MAP_MAX = 25,
    PST_MAP_EQUAL = 26, /* 1 or 0 */
    PST_MAP_LESS = 27,
    PST_MAP_LESS_EQUAL = 28,
    PST_MAP_SELECT = 29 /* a != 0 ? b : c */
};

enum pst_reduce { PST_REDUCE_SUM = 0, PST_REDUCE_MEAN = 1, PST_REDUCE_MAX = 2 };

#endif
