/* SPDX-License-Identifier: Apache-2.0
 *
 * pst.operator/1: an operator that models of plugins use beside those of ops.h
 * (pst_builder.custom). An instance is one operator of a model: the plugin's parameters are its
 * attributes, and the host fills the config from what the model says. Since 1.7.
 *
 *   model's build()                      the host                         the operator
 *   b->custom("scan", x, p, "k=v") --> create(), describe(shapes) --> shapes, what B and W read,
 * work training step                  --> kernels("cpu")->run(F | B | W) --> y | dx, z | dp
 *
 * Kernels run in the process of the training step, and where "plan", "profile" and other commands
 * measure operators: they are not isolated, and so a job names the operators that it loads
 * (model.operators), and plugins.isolate = "always" refuses those that penstock did not bring.
 */
#ifndef PENSTOCK_OPERATOR_H
#define PENSTOCK_OPERATOR_H

#include "ops.h"

#define PST_OPERATOR "pst.operator/1"

enum {
    PST_OPERATOR_MAX_Y = 3, /* the result and two aux outputs */
    PST_OPERATOR_MAX_P = 2,
    PST_OPERATOR_MAX_Z = 2,
    PST_OPERATOR_MAX_X = 8 /* of an example; an operator may have 64 */
};

/* The type and shape of a tensor or a parameter. This struct never grows. */
struct pst_operand {
    uint32_t dtype; /* enum pst_dtype */
    uint32_t rank;
    uint64_t dims[PST_MAX_RANK]; /* per sample, except of parameters */
};

/* Operands and type with which a model uses the operator. */
struct pst_operator_question {
    uint32_t size;
    uint32_t dtype; /* the model's own: PST_F32, PST_BF16 or PST_F64 */
    uint32_t n_x, n_p;
    const struct pst_operand *x, *p; /* p[1] is given only with p[0] */
};

/* pst_operator_row.flags */
enum {
    PST_OPERATOR_COSTLY = 1u << 0, /* bound by arithmetic; else by memory, and cheap to replay */
    /* Row t of y[0] is made of rows 0 ... t of each x alone: a row is what has one index of the
       first axis, of which all of them have as many. Without it, no text is generated. */
    PST_OPERATOR_CAUSAL = 1u << 1
};

/*
 * All that the host needs to know. Bit i of a mask is operand i. Passes: F computes y of x and p; B
 * computes dx of dy; W computes dp. A pass gets the operands that it says it reads, and NULL for
 * all others. What B and W read is kept from F until then.
 */
struct pst_operator_row {
    uint32_t size;
    uint32_t n_y;                             /* at least 1 */
    struct pst_operand y[PST_OPERATOR_MAX_Y]; /* y[0] has the model's type; y[1], y[2] are for B and
                                                 W alone. Each has values of every sample. */
    uint64_t b_reads_x, w_reads_x;
    uint32_t b_reads_p, b_reads_y, w_reads_p, w_reads_y;
    uint32_t w_reads_dy;
    uint32_t n_z; /* buffers that B writes and W reads; W then runs after B, else when it likes */
    struct pst_operand z[PST_OPERATOR_MAX_Z];
    uint32_t z_once; /* bit i: z[i] has one value for the whole call, not one for each sample */
    uint32_t flags;  /* PST_OPERATOR_* */
    double flops[3]; /* of F, B and W, per sample */
};

/* pst_operator_call.flags */
enum {
    PST_OPERATOR_TRAINING = 1u << 0, /* else it is evaluation */
    PST_OPERATOR_REPLAY = 1u << 1    /* F runs again, so that B need not keep what it reads */
};

enum pst_operator_pass { PST_OPERATOR_F = 0, PST_OPERATOR_B = 1, PST_OPERATOR_W = 2 };

/*
 * One call of a kernel, for `samples` samples, one after the other in each tensor. dy and dx have
 * the types of y[0] and x; dp is f32 (f64 in f64 models). In bf16 models parameters of at most one
 * axis are f32. An i32 operand may hold any value, below 0 and beyond all tables: the kernel must
 * check what it uses as an index.
 */
struct pst_operator_call {
    uint32_t size;
    uint32_t pass, samples, flags;
    const struct pst_operator_question *question; /* as describe() had it, */
    const struct pst_operator_row *row;           /* and its answer */
    const void *const *x, *const *p;              /* read in F all, else as the row says */
    void *const *y;                               /* F writes all; B and W read some */
    const void *dy;                               /* B; W where the row says so */
    void *const *dx;       /* B overwrites those that are not NULL: nobody wants the others */
    void *const *z;        /* B writes, W reads */
    void *const *dp;       /* W overwrites all of p: sums over the samples of this call alone */
    void *workspace;       /* as many bytes as workspace() said, aligned to 64; NULL if it said 0 */
    uint64_t first_sample; /* of the run: number of the first sample */
    void *impl;
    /*
     * Splits items 0 ... n - 1 over the threads that the device has, and returns when all are done.
     * work() gets ranges of items; its results must not depend on where they are split. A kernel
     * starts no threads. It is called from the thread of run() alone.
     */
    void (*parallel)(const struct pst_operator_call *call, uint64_t n,
                     void (*work)(void *context, uint64_t begin, uint64_t end), void *context);
};

/*
 * The kernels of one kind of device. Both functions are pure: they write only to the operands that
 * a call may write and its workspace. They do not allocate, block, or keep state, and run for the
 * same instance on several threads at once. The same call gives the same bits, for any number of
 * threads; and the values of a sample do not depend on which samples are beside it, so that plans
 * with any micro-batches agree. Subnormal numbers count as 0.
 */
struct pst_operator_kernels {
    uint32_t size;
    uint32_t dtypes; /* bit d: has them for models of type d (enum pst_dtype) */
    /* NULL: a call needs no workspace. Else at most 2^48 bytes. [any] */
    uint64_t (*workspace)(const void *self, const struct pst_operator_question *question,
                          const struct pst_operator_row *row, uint32_t pass, uint32_t samples);
    void (*run)(const void *self, const struct pst_operator_call *call); /* [any] */
};

/* Operands with which the checker tries an operator: x and p are uniform in low ... high. */
struct pst_operator_example {
    uint32_t size;
    uint32_t n_x, n_p;
    struct pst_operand x[PST_OPERATOR_MAX_X], p[PST_OPERATOR_MAX_P]; /* dtype: of the question */
    double low, high;
    int32_t
        below[PST_OPERATOR_MAX_X]; /* of x[i] of type PST_I32: the numbers are 0 ... below - 1 */
};

struct pst_operator {
    uint32_t size;
    /*
     * Fills the row, which is zeroed but for its size. Pure.
     *
     * PST_ERR_CONFIG       these operands or attributes do not fit; the message says why
     * PST_ERR_UNSUPPORTED  the dtype, or something else that this plugin does not know
     * [plan]
     */
    pst_status (*describe)(void *self, const struct pst_operator_question *question,
                           struct pst_operator_row *ret_row);
    /* Returns the kernels for a kind of device, NULL if there are none: static, and equal for every
       call. Hosts of ABI 1.7 run only those for "cpu", and refuse the operator on others. [any] */
    const struct pst_operator_kernels *(*kernels)(void *self, const char *device);
    /* Example number i, from 0; PST_ERR_UNSUPPORTED: there are no more. For the checker, which
       wants at least one. `dtype`: of the model. [plan] */
    pst_status (*example)(void *self, uint32_t i, uint32_t dtype,
                          struct pst_operator_example *ret_example);
};

#endif
