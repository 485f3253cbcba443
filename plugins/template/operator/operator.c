/* SPDX-License-Identifier: Apache-2.0
 *
 * An operator to start from: the PReLU (He et al., "Delving deep into rectifiers", ICCV 2015).
 * Where x is negative, y is x times a slope, which is learned for each channel. It is complete, and
 * trains.
 *
 * To make it yours, in five steps:
 *
 *   1. Copy this folder, or have it copied and renamed:  penstock plugins new operator my-plugin
 *   2. Rename: my-plugin, the name that models write, in CMakeLists.txt and in PST_PLUGIN_HEAD;
 *      my_plugin, the name in C. The shared object must be called operator-<id>.so.
 *   3. Build it unchanged:  cmake -B build && cmake --build build
 *      or, with nothing but a compiler:
 *              cc -std=c11 -O2 -fPIC -shared -fvisibility=hidden $(pkg-config --cflags penstock) \
 *                 -o operator-my-plugin.so operator.c
 *   4. Check it:  penstock plugins check build/operator-my-plugin.so   (everything passes)
 *   5. Edit, and go on checking. A model plugin uses it with
 *              y = pst_nn_custom(b, "my-plugin", "act", 1, &x, 1, &slope, "positive=1");
 *      and a job names it:  operators = ["my-plugin"]  in [model], or the path of the file.
 *
 * <penstock/operator.h> says what every function is promised and must promise.
 */
#include <penstock/penstock.h>

/* The attributes that a model may set, filled by the rows below. */
struct config {
    double positive;
};

/* Key, type, default, range, one sentence. Values are in range before describe() runs. */
static const struct pst_param params[] = {
    PST_PARAM(struct config, positive, PST_PARAM_FLOAT, "1.0", NULL,
              "Slope where x is not negative."),
};

/* An instance is one operator of a model: its host and its attributes. */
PST_INSTANCE(my_plugin, struct config)

/*
 * Shapes are per sample: x0 [..., C], p0 [C] -> y [..., C]. B and W read what the row says, and
 * nothing else: it is kept for them, and costs memory.
 */
static pst_status describe(void *self_, const struct pst_operator_question *q,
                           struct pst_operator_row *ret_row)
{
    const struct my_plugin *self = (const struct my_plugin *)self_;
    const struct pst_operand *x = &q->x[0], *p = &q->p[0];
    double elems = 1;

    if (q->n_x != 1 || q->n_p != 1) {
        return pst_failf(self->host, PST_ERR_CONFIG, "it takes one input and one parameter");
    }
    if (x->dtype != q->dtype || x->rank < 1 || p->rank != 1 || p->dims[0] != x->dims[x->rank - 1]) {
        return pst_failf(self->host, PST_ERR_CONFIG,
                         "its input must be numbers [..., C], and its parameter [C]");
    }
    for (uint32_t i = 0; i < x->rank; i++) {
        elems *= (double)x->dims[i];
    }
    ret_row->n_y = 1;
    ret_row->y[0] = *x;
    ret_row->b_reads_x = ret_row->w_reads_x = 1; /* x0 */
    ret_row->b_reads_p = 1;                      /* p0 */
    ret_row->w_reads_dy = 1;
    ret_row->flags = PST_OPERATOR_CAUSAL; /* a row of y needs no later row of x */
    ret_row->flops[0] = ret_row->flops[1] = ret_row->flops[2] = 2 * elems;
    return PST_OK;
}

/* The call and the attributes, for the functions that compute ranges of items. */
struct work {
    const struct my_plugin *self;
    const struct pst_operator_call *call;
    uint64_t rows, channels; /* of all samples of the call */
};

/*
 * Kernels for one type. F and B: an item is a row, so values do not depend on the rows beside it.
 * W: an item is a channel, whose sum is in the order of the rows, for any number of threads.
 */
#define KERNELS(real)                                                                              \
    static void f_##real(void *work_, uint64_t begin, uint64_t end)                                \
    {                                                                                              \
        const struct work *w = (const struct work *)work_;                                         \
        const real *x = (const real *)w->call->x[0], *slope = (const real *)w->call->p[0];         \
        const real positive = (real)w->self->config->positive;                                     \
        real *y = (real *)w->call->y[0];                                                           \
                                                                                                   \
        for (uint64_t i = begin * w->channels; i < end * w->channels; i++) {                       \
            y[i] = x[i] * (x[i] < 0 ? slope[i % w->channels] : positive);                          \
        }                                                                                          \
    }                                                                                              \
    static void b_##real(void *work_, uint64_t begin, uint64_t end)                                \
    {                                                                                              \
        const struct work *w = (const struct work *)work_;                                         \
        const real *x = (const real *)w->call->x[0], *slope = (const real *)w->call->p[0];         \
        const real *dy = (const real *)w->call->dy;                                                \
        const real positive = (real)w->self->config->positive;                                     \
        real *dx = (real *)w->call->dx[0];                                                         \
                                                                                                   \
        for (uint64_t i = begin * w->channels; i < end * w->channels; i++) {                       \
            dx[i] = dy[i] * (x[i] < 0 ? slope[i % w->channels] : positive);                        \
        }                                                                                          \
    }                                                                                              \
    static void w_##real(void *work_, uint64_t begin, uint64_t end)                                \
    {                                                                                              \
        const struct work *w = (const struct work *)work_;                                         \
        const real *x = (const real *)w->call->x[0], *dy = (const real *)w->call->dy;              \
        real *dp = (real *)w->call->dp[0];                                                         \
                                                                                                   \
        for (uint64_t c = begin; c < end; c++) {                                                   \
            real sum = 0;                                                                          \
                                                                                                   \
            for (uint64_t i = c; i < w->rows * w->channels; i += w->channels) {                    \
                sum += x[i] < 0 ? dy[i] * x[i] : 0;                                                \
            }                                                                                      \
            dp[c] = sum;                                                                           \
        }                                                                                          \
    }

KERNELS(float)
KERNELS(double)

static void run(const void *self, const struct pst_operator_call *call)
{
    static void (*const passes[2][3])(void *, uint64_t, uint64_t) = {
        {f_float, b_float, w_float}, {f_double, b_double, w_double}};
    const struct pst_operand *x = &call->question->x[0];
    struct work work = {(const struct my_plugin *)self, call, call->samples, x->dims[x->rank - 1]};

    for (uint32_t i = 0; i + 1 < x->rank; i++) {
        work.rows *= x->dims[i];
    }
    call->parallel(call, call->pass == PST_OPERATOR_W ? work.channels : work.rows,
                   passes[call->question->dtype == PST_F64][call->pass], &work);
}

/* The types of models that the kernels know; PST_F64 lets the checker look closely at gradients. */
static const struct pst_operator_kernels cpu = {
    .size = sizeof cpu, .dtypes = 1u << PST_F32 | 1u << PST_F64, .run = run};

static const struct pst_operator_kernels *kernels(void *self, const char *device)
{
    (void)self;
    return strcmp(device, "cpu") == 0 ? &cpu : NULL;
}

/* Operands with which "penstock plugins check" tries it. */
static pst_status example(void *self, uint32_t i, uint32_t dtype,
                          struct pst_operator_example *ret_example)
{
    const uint64_t rows = i == 0 ? 5 : 1, channels = i == 0 ? 3 : 17;

    (void)self;
    if (i > 1) {
        return PST_ERR_UNSUPPORTED; /* there are two */
    }
    ret_example->n_x = ret_example->n_p = 1;
    ret_example->x[0].dtype = ret_example->p[0].dtype = dtype;
    ret_example->x[0].rank = 2;
    ret_example->x[0].dims[0] = rows;
    ret_example->x[0].dims[1] = channels;
    ret_example->p[0].rank = 1;
    ret_example->p[0].dims[0] = channels;
    ret_example->low = -1;
    ret_example->high = 1;
    return PST_OK;
}

/* The interface: functions by name. */
PST_INTERFACE(PST_OPERATOR, struct pst_operator, .describe = describe, .kernels = kernels,
              .example = example)

/* An operator has no capability words. */
static const char *const none[] = {NULL};

/* The description. Static and constant; the host reads it before it runs anything else. A change of
   what the operator computes needs a new version: plans of the old one are refused then, and who
   resumes a checkpoint is warned. */
static const struct pst_plugin plugin = {
    PST_PLUGIN_HEAD("operator", "my-plugin", "0.1"),
    .summary = "PReLU: a learned slope for each channel.", /* one line for "penstock plugins" */
    .reference = "He et al., ICCV 2015",                   /* the paper, if there is one */
    .license = "Apache-2.0",
    .provides = none,
    .needs = none,
    PST_PLUGIN_PARAMS(params, struct config),
    PST_PLUGIN_FUNCTIONS,
};

/* The one symbol that the shared object exports. */
PST_PLUGIN(plugin)
