/* SPDX-License-Identifier: Apache-2.0
 *
 * An operator of whole numbers alone: rows of a table, x0 i32 [T], p0 [V, C] -> y [T, C]; 0 for
 * numbers that are in no row. On request it does not look at them, looks at one end, or bears 0
 * alone.
 */
#include "gallery.h"

enum check { BOTH, NONE, ABOVE, ZERO };

struct config {
    uint32_t check;
};

static const struct pst_param params[] = {
    PST_PARAM(struct config, check, PST_PARAM_ENUM, "both", "both|none|above|zero",
              "Which numbers it looks for."),
};

PST_INSTANCE(lookup, struct config)

static pst_status describe(void *self_, const struct pst_operator_question *q,
                           struct pst_operator_row *ret_row)
{
    const struct lookup *self = self_;

    if (q->n_x != 1 || q->n_p != 1 || q->x[0].dtype != PST_I32 || q->x[0].rank != 1 ||
        q->p[0].rank != 2 || q->dtype == PST_BF16) {
        return pst_failf(self->host, PST_ERR_CONFIG, "it takes whole numbers [T] and [V, C]");
    }
    ret_row->n_y = 1;
    ret_row->y[0] = (struct pst_operand){
        .dtype = q->dtype, .rank = 2, .dims = {q->x[0].dims[0], q->p[0].dims[1]}};
    ret_row->w_reads_x = 1;
    ret_row->w_reads_dy = 1;
    ret_row->flags = PST_OPERATOR_CAUSAL;
    return PST_OK;
}

static bool has_row(const struct lookup *self, int64_t number, uint64_t rows)
{
    const bool above = number >= (int64_t)rows, below = number < 0;

    if (self->config->check == ZERO && number != 0) {
        __builtin_trap();
    }
    return self->config->check == NONE    ? true
           : self->config->check == ABOVE ? !above
                                          : !above && !below;
}

/* One thread: the sums of W are in the order of the samples. */
#define KERNELS(real)                                                                              \
    static void run_##real(const struct lookup *self, const struct pst_operator_call *call)        \
    {                                                                                              \
        const struct pst_operand *p = &call->question->p[0];                                       \
        const uint64_t rows = p->dims[0], width = p->dims[1];                                      \
        const int32_t *x = call->x[0];                                                             \
        const real *table = call->p[0], *dy = call->dy;                                            \
        real *y = call->y[0], *dp = call->dp[0];                                                   \
                                                                                                   \
        for (uint64_t i = 0; call->pass == PST_OPERATOR_W && i < rows * width; i++) {              \
            dp[i] = 0;                                                                             \
        }                                                                                          \
        for (uint64_t t = 0; t < call->samples * call->question->x[0].dims[0]; t++) {              \
            const int64_t row = x[t];                                                              \
            const bool is_there = has_row(self, row, rows);                                        \
                                                                                                   \
            for (int64_t c = 0; c < (int64_t)width; c++) {                                         \
                if (call->pass == PST_OPERATOR_F) {                                                \
                    y[(int64_t)(t * width) + c] = is_there ? table[row * (int64_t)width + c] : 0;  \
                } else if (is_there) {                                                             \
                    dp[row * (int64_t)width + c] += dy[(int64_t)(t * width) + c];                  \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
    }

KERNELS(float)
KERNELS(double)

static void run(const void *self_, const struct pst_operator_call *call)
{
    (call->question->dtype == PST_F64 ? run_double : run_float)(self_, call);
}

static const struct pst_operator_kernels cpu = {
    .size = sizeof cpu, .dtypes = 1u << PST_F32 | 1u << PST_F64, .run = run};

static const struct pst_operator_kernels *kernels(void *self, const char *device)
{
    (void)self;
    return strcmp(device, "cpu") == 0 ? &cpu : NULL;
}

static pst_status example(void *self, uint32_t i, uint32_t dtype,
                          struct pst_operator_example *ret_example)
{
    (void)self;
    if (i > 0) {
        return PST_ERR_UNSUPPORTED;
    }
    ret_example->n_x = ret_example->n_p = 1;
    ret_example->x[0] = (struct pst_operand){.dtype = PST_I32, .rank = 1, .dims = {5}};
    ret_example->p[0] = (struct pst_operand){.dtype = dtype, .rank = 2, .dims = {4, 3}};
    ret_example->low = -1;
    ret_example->high = 1;
    ret_example->below[0] = 4;
    return PST_OK;
}

PST_INTERFACE(PST_OPERATOR, struct pst_operator, .describe = describe, .kernels = kernels,
              .example = example)

GALLERY_PLUGIN("operator", "lookup", "1.0", "Rows of a table.",
               PST_PLUGIN_PARAMS(params, struct config), NULL)
