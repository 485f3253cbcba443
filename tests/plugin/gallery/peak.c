/* SPDX-License-Identifier: Apache-2.0
 *
 * An operator that uses all that a row can state: y = p0 x + p1 max(x), for each row of [T, C]. The
 * index of the maximum is an aux output, i32 [T]; B leaves the gradient of p1 for W, one for the
 * whole call; F has the maxima of all rows in its workspace. On request it leaves the last index.
 */
#include "gallery.h"

struct config {
    bool leaves;
};

static const struct pst_param params[] = {
    PST_PARAM(struct config, leaves, PST_PARAM_BOOL, "false", NULL,
              "Whether it does not write the last index."),
};

PST_INSTANCE(peak, struct config)

static pst_status describe(void *self_, const struct pst_operator_question *q,
                           struct pst_operator_row *ret_row)
{
    const struct peak *self = self_;
    const struct pst_operand *x = &q->x[0];

    if (q->n_x != 1 || q->n_p != 2 || x->rank != 2 || x->dtype != q->dtype ||
        q->dtype == PST_BF16 || q->p[0].rank != 1 || q->p[0].dims[0] != x->dims[1] ||
        q->p[1].rank != 1 || q->p[1].dims[0] != x->dims[1]) {
        return pst_failf(self->host, PST_ERR_CONFIG, "it takes [T, C], [C] and [C]");
    }
    ret_row->n_y = 2;
    ret_row->y[0] = *x;
    ret_row->y[1] = (struct pst_operand){.dtype = PST_I32, .rank = 1, .dims = {x->dims[0]}};
    ret_row->b_reads_x = ret_row->w_reads_x = 1;
    ret_row->b_reads_p = 3;
    ret_row->b_reads_y = 2;
    ret_row->w_reads_dy = 1;
    ret_row->n_z = 1;
    ret_row->z[0] = (struct pst_operand){.dtype = q->dtype, .rank = 1, .dims = {x->dims[1]}};
    ret_row->z_once = 1;
    ret_row->flags = PST_OPERATOR_COSTLY | PST_OPERATOR_CAUSAL;
    return PST_OK;
}

struct work {
    const struct pst_operator_call *call;
    uint64_t rows, width; /* of all samples */
};

/* F and B: an item is a row. Sums over rows, in their order: an item is a channel. */
#define KERNELS(real)                                                                              \
    static void f_##real(void *work_, uint64_t begin, uint64_t end)                                \
    {                                                                                              \
        const struct work *w = work_;                                                              \
        const real *p0 = w->call->p[0], *p1 = w->call->p[1];                                       \
        real *most = w->call->workspace;                                                           \
        int32_t *index = w->call->y[1];                                                            \
                                                                                                   \
        for (uint64_t t = begin; t < end; t++) {                                                   \
            const real *x = (const real *)w->call->x[0] + t * w->width;                            \
            real *y = (real *)w->call->y[0] + t * w->width;                                        \
                                                                                                   \
            index[t] = 0;                                                                          \
            for (uint64_t c = 1; c < w->width; c++) {                                              \
                index[t] = x[c] > x[index[t]] ? (int32_t)c : index[t];                             \
            }                                                                                      \
            most[t] = x[index[t]];                                                                 \
            for (uint64_t c = 0; c < w->width; c++) {                                              \
                y[c] = p0[c] * x[c] + p1[c] * most[t];                                             \
            }                                                                                      \
        }                                                                                          \
    }                                                                                              \
    static void b_##real(void *work_, uint64_t begin, uint64_t end)                                \
    {                                                                                              \
        const struct work *w = work_;                                                              \
        const real *p0 = w->call->p[0], *p1 = w->call->p[1];                                       \
        const int32_t *index = w->call->y[1];                                                      \
                                                                                                   \
        for (uint64_t t = begin; t < end && w->call->dx[0] != NULL; t++) {                         \
            const real *dy = (const real *)w->call->dy + t * w->width;                             \
            real *dx = (real *)w->call->dx[0] + t * w->width, sum = 0;                             \
                                                                                                   \
            for (uint64_t c = 0; c < w->width; c++) {                                              \
                dx[c] = p0[c] * dy[c];                                                             \
                sum += p1[c] * dy[c];                                                              \
            }                                                                                      \
            dx[index[t]] += sum;                                                                   \
        }                                                                                          \
    }                                                                                              \
    static void z_##real(void *work_, uint64_t begin, uint64_t end)                                \
    {                                                                                              \
        const struct work *w = work_;                                                              \
        const real *x = w->call->x[0], *dy = w->call->dy;                                          \
        const int32_t *index = w->call->y[1];                                                      \
        real *z = w->call->z[0];                                                                   \
                                                                                                   \
        for (uint64_t c = begin; c < end; c++) {                                                   \
            z[c] = 0;                                                                              \
            for (uint64_t t = 0; t < w->rows; t++) {                                               \
                z[c] += dy[t * w->width + c] * x[t * w->width + (uint64_t)index[t]];               \
            }                                                                                      \
        }                                                                                          \
    }                                                                                              \
    static void w_##real(void *work_, uint64_t begin, uint64_t end)                                \
    {                                                                                              \
        const struct work *w = work_;                                                              \
        const real *x = w->call->x[0], *dy = w->call->dy, *z = w->call->z[0];                      \
        real *dp0 = w->call->dp[0], *dp1 = w->call->dp[1];                                         \
                                                                                                   \
        for (uint64_t c = begin; c < end; c++) {                                                   \
            dp1[c] = z[c];                                                                         \
            dp0[c] = 0;                                                                            \
            for (uint64_t t = 0; t < w->rows; t++) {                                               \
                dp0[c] += dy[t * w->width + c] * x[t * w->width + c];                              \
            }                                                                                      \
        }                                                                                          \
    }

KERNELS(float)
KERNELS(double)

static void run(const void *self_, const struct pst_operator_call *call)
{
    static void (*const passes[2][4])(void *, uint64_t, uint64_t) = {
        {f_float, b_float, w_float, z_float}, {f_double, b_double, w_double, z_double}};
    const struct peak *self = self_;
    const uint64_t *dims = call->question->x[0].dims;
    const bool wide = call->question->dtype == PST_F64;
    struct work work = {call, call->samples * dims[0], dims[1]};
    int32_t *indices = call->y[1], kept = 0;

    if (self->config->leaves && call->pass == PST_OPERATOR_F) {
        kept = indices[work.rows - 1];
    }
    call->parallel(call, call->pass == PST_OPERATOR_W ? work.width : work.rows,
                   passes[wide][call->pass], &work);
    if (self->config->leaves && call->pass == PST_OPERATOR_F) {
        indices[work.rows - 1] = kept;
    }
    if (call->pass == PST_OPERATOR_B) {
        call->parallel(call, work.width, passes[wide][3], &work);
    }
}

static uint64_t workspace(const void *self, const struct pst_operator_question *question,
                          const struct pst_operator_row *row, uint32_t pass, uint32_t samples)
{
    (void)self;
    (void)row;
    return pass == PST_OPERATOR_F ? samples * question->x[0].dims[0] * sizeof(double) : 0;
}

static const struct pst_operator_kernels cpu = {.size = sizeof cpu,
                                                .dtypes = 1u << PST_F32 | 1u << PST_F64,
                                                .workspace = workspace,
                                                .run = run};

static const struct pst_operator_kernels *kernels(void *self, const char *device)
{
    (void)self;
    return strcmp(device, "cpu") == 0 ? &cpu : NULL;
}

static pst_status example(void *self, uint32_t i, uint32_t dtype,
                          struct pst_operator_example *ret_example)
{
    const struct pst_operand c = {.dtype = dtype, .rank = 1, .dims = {5}};

    (void)self;
    if (i > 0) {
        return PST_ERR_UNSUPPORTED;
    }
    ret_example->n_x = 1;
    ret_example->n_p = 2;
    ret_example->x[0] = (struct pst_operand){.dtype = dtype, .rank = 2, .dims = {3, 5}};
    ret_example->p[0] = ret_example->p[1] = c;
    ret_example->low = -1;
    ret_example->high = 1;
    return PST_OK;
}

PST_INTERFACE(PST_OPERATOR, struct pst_operator, .describe = describe, .kernels = kernels,
              .example = example)

GALLERY_PLUGIN("operator", "peak", "1.0", "Rows and their maxima.",
               PST_PLUGIN_PARAMS(params, struct config), NULL)
