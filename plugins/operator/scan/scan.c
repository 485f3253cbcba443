/* SPDX-License-Identifier: Apache-2.0
 *
 * The linear recurrence h[t] = a[t] h[t-1] + b[t] along a sequence, of each channel by itself; h is
 * 0 before the first. It is the heart of linear recurrent networks (Martin and Cundy,
 * "Parallelizing linear recurrent neural nets over sequence length", ICLR 2018; De et al.,
 * "Griffin", 2024).
 *
 * Backward, with g[t] the gradient of h[t] by all that follows: g[t] = dy[t] + a[t+1] g[t+1]; then
 * db[t] = g[t] and da[t] = g[t] h[t-1].
 */
#include <penstock/penstock.h>

struct config {
    bool reverse;
};

static const struct pst_param params[] = {
    PST_PARAM(struct config, reverse, PST_PARAM_BOOL, "false", NULL,
              "Whether the recurrence goes from the last element to the first."),
};

PST_INSTANCE(scan, struct config)

/* x0 = a [T,C], x1 = b [T,C] -> h [T,C] */
static pst_status describe(void *self_, const struct pst_operator_question *q,
                           struct pst_operator_row *ret_row)
{
    const struct scan *self = self_;

    if (q->n_x != 2 || q->n_p != 0) {
        return pst_failf(self->host, PST_ERR_CONFIG, "it takes two inputs and no parameter");
    }
    if (q->x[0].dtype != q->dtype || q->x[0].rank != 2 ||
        memcmp(&q->x[0], &q->x[1], sizeof q->x[0]) != 0) {
        return pst_failf(self->host, PST_ERR_CONFIG,
                         "its inputs must be numbers [T, C], of the same shape");
    }
    ret_row->n_y = 1;
    ret_row->y[0] = q->x[0];
    ret_row->b_reads_x = 1; /* a */
    ret_row->b_reads_y = 1; /* h */
    ret_row->flags = self->config->reverse ? 0 : PST_OPERATOR_CAUSAL;
    ret_row->flops[0] = 2 * (double)q->x[0].dims[0] * (double)q->x[0].dims[1];
    ret_row->flops[1] = 3 * (double)q->x[0].dims[0] * (double)q->x[0].dims[1];
    return PST_OK;
}

/* Channels that go along a sequence side by side; an item is so many of one sample. */
#define BLOCK 64u

struct work {
    const struct pst_operator_call *call;
    uint64_t length, channels, blocks;
    bool reverse;
};

/* Element `step` of the recurrence, from 0, is this row. */
static uint64_t row_of(const struct work *w, uint64_t step)
{
    return w->reverse ? w->length - 1 - step : step;
}

#define KERNELS(real)                                                                              \
    static void f_##real(void *work_, uint64_t begin, uint64_t end)                                \
    {                                                                                              \
        const struct work *w = work_;                                                              \
        const real *a = w->call->x[0], *b = w->call->x[1];                                         \
        real *h = w->call->y[0];                                                                   \
                                                                                                   \
        for (uint64_t item = begin; item < end; item++) {                                          \
            const uint64_t first = item % w->blocks * BLOCK, rest = w->channels - first;           \
            const uint64_t n = rest < BLOCK ? rest : BLOCK;                                        \
            const uint64_t base = item / w->blocks * w->length * w->channels + first;              \
            real last[BLOCK] = {0};                                                                \
                                                                                                   \
            for (uint64_t t = 0; t < w->length; t++) {                                             \
                const uint64_t at = base + row_of(w, t) * w->channels;                             \
                                                                                                   \
                for (uint64_t c = 0; c < n; c++) {                                                 \
                    last[c] = a[at + c] * last[c] + b[at + c];                                     \
                    h[at + c] = last[c];                                                           \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
    }                                                                                              \
    static void b_##real(void *work_, uint64_t begin, uint64_t end)                                \
    {                                                                                              \
        const struct work *w = work_;                                                              \
        const real *a = w->call->x[0], *h = w->call->y[0], *dy = w->call->dy;                      \
        real *da = w->call->dx[0], *db = w->call->dx[1];                                           \
                                                                                                   \
        for (uint64_t item = begin; item < end; item++) {                                          \
            const uint64_t first = item % w->blocks * BLOCK, rest = w->channels - first;           \
            const uint64_t n = rest < BLOCK ? rest : BLOCK;                                        \
            const uint64_t base = item / w->blocks * w->length * w->channels + first;              \
            real g[BLOCK] = {0}; /* of the next step, times its a */                               \
                                                                                                   \
            for (uint64_t t = w->length; t-- > 0;) {                                               \
                const uint64_t at = base + row_of(w, t) * w->channels;                             \
                const uint64_t before = t > 0 ? base + row_of(w, t - 1) * w->channels : 0;         \
                                                                                                   \
                for (uint64_t c = 0; c < n; c++) {                                                 \
                    g[c] += dy[at + c];                                                            \
                    if (db != NULL) {                                                              \
                        db[at + c] = g[c];                                                         \
                    }                                                                              \
                    if (da != NULL) {                                                              \
                        da[at + c] = t > 0 ? g[c] * h[before + c] : 0;                             \
                    }                                                                              \
                    g[c] *= a[at + c];                                                             \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
    }

KERNELS(float)
KERNELS(double)

static void run(const void *self_, const struct pst_operator_call *call)
{
    static void (*const passes[2][2])(void *, uint64_t, uint64_t) = {{f_float, b_float},
                                                                     {f_double, b_double}};
    const struct scan *self = self_;
    const uint64_t *dims = call->question->x[0].dims;
    struct work work = {.call = call,
                        .length = dims[0],
                        .channels = dims[1],
                        .blocks = (dims[1] + BLOCK - 1) / BLOCK,
                        .reverse = self->config->reverse};

    call->parallel(call, call->samples * work.blocks,
                   passes[call->question->dtype == PST_F64][call->pass], &work);
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
    static const uint64_t dims[3][2] = {{7, 3}, {1, 2}, {3, BLOCK + 5}};

    (void)self;
    if (i >= 3) {
        return PST_ERR_UNSUPPORTED;
    }
    ret_example->n_x = 2;
    for (uint32_t k = 0; k < 2; k++) {
        ret_example->x[k].dtype = dtype;
        ret_example->x[k].rank = 2;
        memcpy(ret_example->x[k].dims, dims[i], sizeof dims[i]);
    }
    ret_example->low = -1;
    ret_example->high = 1;
    return PST_OK;
}

PST_INTERFACE(PST_OPERATOR, struct pst_operator, .describe = describe, .kernels = kernels,
              .example = example)

static const char *const none[] = {NULL};

static const struct pst_plugin plugin = {
    PST_PLUGIN_HEAD("operator", "scan", "1.0"),
    .summary = "Linear recurrence h[t] = a[t] h[t-1] + b[t] along a sequence.",
    .reference = "Martin and Cundy, ICLR 2018",
    .license = "Apache-2.0",
    .provides = none,
    .needs = none,
    PST_PLUGIN_PARAMS(params, struct config),
    PST_PLUGIN_FUNCTIONS,
};

PST_PLUGIN(plugin)
