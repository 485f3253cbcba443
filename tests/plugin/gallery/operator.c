/* SPDX-License-Identifier: Apache-2.0
 *
 * An operator that does one thing wrong on request: y = p0[0] x, of any shape; W needs a buffer z.
 */
#include "gallery.h"

enum fault {
    NONE,
    GRADIENT,  /* dx is off by a hundredth */
    WEIGHTS,   /* dp is that of the first sample alone */
    OUTSIDE,   /* writes one element too many */
    INPUT,     /* writes to x */
    UNWRITTEN, /* leaves the last element */
    NEIGHBOUR, /* y depends on how many samples there are */
    COUNTER,   /* y depends on how often it was called */
    SPLIT,     /* y depends on where items are split */
    AHEAD,     /* the first element depends on the last */
    REPLAYED,  /* y is another one when it is replayed */
    EVALUATED, /* leaves the last element in evaluation */
    UNWANTED,  /* writes dx, though nobody wants it */
    UNSAID,    /* B reads y, which the row does not say */
    CRASH,
    ENDS,      /* the program, without a failure */
    TYPE,      /* rows that are wrong: the result's type, */
    MASK,      /* an input that there is not, */
    FLOPS,     /* operations that are not a number, */
    ROOM,      /* a shape with an axis of 0, */
    FLAGS,     /* a flag of the future */
    SIZE,      /* the size that its own header says */
    WORKSPACE, /* wants more than there can be */
    NO_EXAMPLES,
    ELSEWHERE, /* no kernels for the device */
    ANYWHERE   /* the same kernels for every device */
};

struct config {
    uint32_t fault;
};

static const struct pst_param params[] = {
    PST_PARAM(struct config, fault, PST_PARAM_ENUM, "none",
              "none|gradient|weights|outside|input|unwritten|neighbour|counter|split|ahead|"
              "replayed|evaluated|unwanted|unsaid|crash|ends|type|mask|flops|room|flags|size|"
              "workspace|no-examples|elsewhere|anywhere",
              "What is wrong."),
};

PST_INSTANCE(rude, struct config)

static uint64_t elems_of(const struct pst_operand *operand)
{
    uint64_t n = 1;

    for (uint32_t i = 0; i < operand->rank; i++) {
        n *= operand->dims[i];
    }
    return n;
}

static void spoil(uint32_t fault, struct pst_operator_row *row)
{
    row->y[0].dtype = fault == TYPE ? PST_I32 : row->y[0].dtype;
    row->b_reads_x |= fault == MASK ? 2 : 0;
    row->flops[1] = fault == FLOPS ? -1 : row->flops[1];
    row->flags |= fault == FLAGS ? 1u << 30 : 0;
    row->size = fault == SIZE ? (uint32_t)sizeof *row : row->size;
    if (fault == ROOM) {
        row->z[0].rank = 1;
        row->z[0].dims[0] = 0;
    }
}

static pst_status describe(void *self_, const struct pst_operator_question *q,
                           struct pst_operator_row *ret_row)
{
    const struct rude *self = self_;

    if (q->n_x != 1 || q->n_p != 1 || elems_of(&q->p[0]) != 1 || q->x[0].dtype != q->dtype) {
        return pst_failf(self->host, PST_ERR_CONFIG, "it takes x of numbers, and p of one");
    }
    if (q->dtype == PST_BF16) {
        return pst_failf(self->host, PST_ERR_UNSUPPORTED, "it does not know bf16");
    }
    ret_row->n_y = 1;
    ret_row->y[0] = q->x[0];
    ret_row->b_reads_x = 1;
    ret_row->b_reads_p = 1;
    ret_row->flags = PST_OPERATOR_CAUSAL;
    ret_row->n_z = 1; /* the sum of dy x of each sample */
    ret_row->z[0].dtype = q->dtype == PST_F64 ? PST_F64 : PST_F32;
    ret_row->flops[0] = ret_row->flops[1] = (double)elems_of(&q->x[0]);
    spoil(self->config->fault, ret_row);
    return PST_OK;
}

static int calls;

struct work {
    const struct pst_operator_call *call;
    uint64_t elems; /* of a sample */
    uint32_t fault;
};

/* Items are samples. */
#define KERNELS(real)                                                                              \
    static void f_##real(void *work_, uint64_t begin, uint64_t end)                                \
    {                                                                                              \
        const struct work *w = work_;                                                              \
        const real *x = w->call->x[0], *p = w->call->p[0];                                         \
        real *y = w->call->y[0];                                                                   \
                                                                                                   \
        for (uint64_t i = begin * w->elems; i < end * w->elems; i++) {                             \
            y[i] = p[0] * x[i];                                                                    \
            y[i] += (real)(w->fault == NEIGHBOUR  ? w->call->samples                               \
                           : w->fault == SPLIT    ? begin                                          \
                           : w->fault == REPLAYED ? w->call->flags & PST_OPERATOR_REPLAY           \
                           : w->fault == COUNTER  ? (uint64_t)++calls                              \
                                                  : 0);                                             \
        }                                                                                          \
        for (uint64_t s = begin; w->fault == AHEAD && s < end; s++) {                              \
            y[s * w->elems] += x[(s + 1) * w->elems - 1];                                          \
        }                                                                                          \
        if (w->fault == OUTSIDE && end == w->call->samples) {                                      \
            y[end * w->elems] = 0;                                                                 \
        }                                                                                          \
        if ((w->fault == UNWRITTEN || (w->fault == EVALUATED && w->call->flags == 0)) &&           \
            end == w->call->samples) {                                                             \
            memset(&y[end * w->elems - 1], 0xFF, sizeof *y);                                       \
        }                                                                                          \
        if (w->fault == INPUT) {                                                                   \
            memset((void *)(uintptr_t)&x[begin * w->elems], 0, sizeof *x);                         \
        }                                                                                          \
    }                                                                                              \
    static void b_##real(void *work_, uint64_t begin, uint64_t end)                                \
    {                                                                                              \
        const struct work *w = work_;                                                              \
        const real *x = w->call->x[0], *p = w->call->p[0], *dy = w->call->dy;                      \
        const real slope = p[0] * (real)(w->fault == GRADIENT ? 1.01 : 1);                         \
        real *dx = w->call->dx[0], *z = w->call->z[0];                                             \
                                                                                                   \
        for (uint64_t s = begin; s < end; s++) {                                                   \
            real sum = w->fault == UNSAID ? *(const real *)w->call->y[0] : 0;                      \
                                                                                                   \
            for (uint64_t i = s * w->elems; i < (s + 1) * w->elems; i++) {                         \
                sum += dy[i] * x[i];                                                               \
                if (dx != NULL || w->fault == UNWANTED) {                                          \
                    dx[i] = slope * dy[i];                                                         \
                }                                                                                  \
            }                                                                                      \
            z[s] = sum;                                                                            \
        }                                                                                          \
    }                                                                                              \
    static void w_##real(const struct work *w)                                                     \
    {                                                                                              \
        const real *z = w->call->z[0];                                                             \
        real sum = 0, *dp = w->call->dp[0];                                                        \
                                                                                                   \
        for (uint64_t s = 0; s < (w->fault == WEIGHTS ? 1 : w->call->samples); s++) {              \
            sum += z[s];                                                                           \
        }                                                                                          \
        dp[0] = sum;                                                                               \
    }

KERNELS(float)
KERNELS(double)

static void run(const void *self_, const struct pst_operator_call *call)
{
    const struct rude *self = self_;
    struct work work = {call, elems_of(&call->question->x[0]), self->config->fault};
    const bool wide = call->question->dtype == PST_F64;

    if (work.fault == CRASH) {
        __builtin_trap();
    } else if (work.fault == ENDS) {
        gallery_call("exit");
    }
    if (call->pass == PST_OPERATOR_W) {
        (wide ? w_double : w_float)(&work);
        return;
    }
    call->parallel(call, call->samples,
                   call->pass == PST_OPERATOR_F ? (wide ? f_double : f_float)
                                                : (wide ? b_double : b_float),
                   &work);
}

static uint64_t workspace(const void *self_, const struct pst_operator_question *question,
                          const struct pst_operator_row *row, uint32_t pass, uint32_t samples)
{
    const struct rude *self = self_;

    (void)question;
    (void)row;
    (void)pass;
    return self->config->fault == WORKSPACE ? UINT64_MAX - samples : 0;
}

static const struct pst_operator_kernels cpu = {.size = sizeof cpu,
                                                .dtypes = 1u << PST_F32 | 1u << PST_F64,
                                                .workspace = workspace,
                                                .run = run};

static const struct pst_operator_kernels *kernels(void *self_, const char *device)
{
    const struct rude *self = self_;

    return self->config->fault == ANYWHERE ||
                   (strcmp(device, "cpu") == 0 && self->config->fault != ELSEWHERE)
               ? &cpu
               : NULL;
}

static pst_status example(void *self_, uint32_t i, uint32_t dtype,
                          struct pst_operator_example *ret_example)
{
    const struct rude *self = self_;

    if (self->config->fault == NO_EXAMPLES) {
        return pst_failf(self->host, PST_ERR_UNSUPPORTED, "it has none");
    }
    if (i > 0) {
        return PST_ERR_UNSUPPORTED;
    }
    ret_example->n_x = ret_example->n_p = 1;
    ret_example->x[0] = (struct pst_operand){.dtype = dtype, .rank = 1, .dims = {5}};
    ret_example->p[0] = (struct pst_operand){.dtype = dtype, .rank = 1, .dims = {1}};
    ret_example->low = -1;
    ret_example->high = 1;
    return PST_OK;
}

PST_INTERFACE(PST_OPERATOR, struct pst_operator, .describe = describe, .kernels = kernels,
              .example = example)

GALLERY_PLUGIN("operator", "rude", GALLERY_VERSION, "Does one thing wrong.",
               PST_PLUGIN_PARAMS(params, struct config), NULL)
