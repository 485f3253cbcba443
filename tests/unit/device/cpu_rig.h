/* SPDX-License-Identifier: Apache-2.0
 *
 * A rig for the cpu device: opens the module as the program does, builds a small graph around one
 * operator, and runs its kernels on poisoned buffers with a guarded workspace.
 */
#ifndef TESTS_CPU_RIG_H
#define TESTS_CPU_RIG_H

#include "module.h"

#include <math.h>

#include "base/bf16.h"
#include "base/philox.h"
#include "far_rig.h"
#include "operator_case.h"

#define RIG_MAX 3

#ifdef __SANITIZE_THREAD__
/* oneDNN is not instrumented: what it does under its own locks looks like a race. */
const char *__tsan_default_suppressions(void);
const char *__tsan_default_suppressions(void)
{
    return "called_from_lib:libdnnl.so.2\n";
}
#endif

static const struct pst_device_ops *rig_ops;

static inline int rig_load(void **state)
{
    rig_ops = load_device_module(PENSTOCK_PLUGIN_DIR "/device-cpu.so");
    return 0;
}

/* Opened and entered. ThreadSanitizer does not see how OpenMP's workers wait for each other: one
   thread there. */
static inline struct pst_device *rig_open(const char *kernels, uint32_t threads)
{
    struct pst_device_config config = {.kernels = kernels};
    struct pst_device *device = NULL;
    struct pst_error err = {0};

#ifdef __SANITIZE_THREAD__
    threads = 1;
#endif
    config.threads = threads;
    if (threads > 1 && rig_ops->open(&config, &device, &err) == PST_ERR_UNSUPPORTED) {
        config.threads = 1; /* built without OpenMP */
    }
    if (device == NULL && rig_ops->open(&config, &device, &err) != PST_OK) {
        fail_msg("%s", err.message);
    }
    rig_ops->enter(device);
    return device;
}

/* --- operands --------------------------------------------------------------------------------- */

struct rig {
    const struct rig_case *test;
    struct pst_graph *graph;
    const struct pst_op *op;
    uint32_t index, dtype, samples, flags;
    struct pst_op_grad grad;
    uint64_t seed, first_sample;
    bool with_add, add_in_place; /* where the kernel takes addends */
    struct rig_buffer x[RIG_MAX], p[2], y[RIG_MAX], dy, add[RIG_MAX], dx[RIG_MAX], z[2], dp[2];
    struct rig_buffer state[2];
};

static inline struct rig_buffer rig_buffer(uint64_t elems, uint32_t dtype)
{
    struct rig_buffer b = {.elems = elems, .bytes = elems * pst_dtype_bytes(dtype), .dtype = dtype};

    b.data = aligned_alloc(64, (b.bytes + 127) / 64 * 64);
    assert_non_null(b.data);
    memset(b.data, 0xFF, (b.bytes + 127) / 64 * 64);
    return b;
}

static inline double rig_value(const struct rig_buffer *b, uint64_t i)
{
    switch (b->dtype) {
    case PST_F32:
        return (double)((const float *)b->data)[i];
    case PST_BF16:
        return (double)pst_bf16_load(((const uint16_t *)b->data)[i]);
    default:
        return (double)((const int32_t *)b->data)[i];
    }
}

static inline void rig_set(struct rig_buffer *b, uint64_t i, double value)
{
    const float f = (float)value;
    uint32_t bits;

    switch (b->dtype) {
    case PST_F32:
        ((float *)b->data)[i] = f;
        break;
    case PST_BF16: /* cut off: these are random operands */
        memcpy(&bits, &f, sizeof bits);
        ((uint16_t *)b->data)[i] = (uint16_t)(bits >> 16);
        break;
    default:
        ((int32_t *)b->data)[i] = (int32_t)value;
        break;
    }
}

static inline void rig_random(struct rig_buffer *b, double low, double high, uint64_t seed,
                              uint64_t stream)
{
    for (uint64_t i = 0; i < b->elems; i++) {
        const double u = (double)pst_uniform(pst_philox(seed, stream, i).v[0]);

        rig_set(b, i, low + (high - low) * u);
    }
}

static inline struct rig_buffer rig_like(const struct rig *rig, uint32_t tensor)
{
    const struct pst_tensor *t = &rig->graph->tensors[tensor];

    return rig_buffer(t->elems * (t->batched ? rig->samples : 1), t->dtype);
}

/* Some tokens have all their experts, others one less; some experts may have no token. */
static inline void rig_route(struct rig *rig, uint64_t experts)
{
    for (uint64_t i = 0; i < rig->x[1].elems; i++) {
        const uint64_t t = i / experts, e = i % experts;

        if ((e + 3 * t + t / 5) % experts >= rig->op->experts_per_token - (t % 4 == 1)) {
            rig_set(&rig->x[1], i, 0);
        }
    }
}

/* One more than the largest. */
static inline double rig_integers(const struct rig *rig)
{
    const struct pst_tensor *x = &rig->graph->tensors[rig->op->in[0]];

    switch (rig->op->kind) {
    case PST_OP_EMBEDDING:
        return (double)rig->graph->params[rig->op->param[0]].dims[0];
    case PST_OP_GATHER:
        return (double)x->dims[x->rank - 1 - rig->op->axis];
    case PST_OP_MAP:
        return 2;
    default:
        return (double)x->dims[x->rank - 1];
    }
}

/* Of targets some are -1. */
static inline void rig_fill_input(struct rig *rig, uint32_t i)
{
    const bool classes = rig->op->kind == PST_OP_CROSS_ENTROPY;

    if (rig->x[i].dtype != PST_I32) {
        rig_random(&rig->x[i], rig->test->positive ? 0.5 : -2, 2, rig->seed, i);
        if (rig->op->kind == PST_OP_EXPERTS && i == 1) {
            rig_route(rig, rig->graph->params[rig->op->param[0]].dims[0]);
        }
        return;
    }
    rig_random(&rig->x[i], classes ? -0.999 : 0, rig_integers(rig) - 0.001, rig->seed, i);
    for (uint64_t e = 0; classes && e < rig->x[i].elems; e += 3) {
        rig_set(&rig->x[i], e, -1);
    }
}

static inline void rig_init(struct rig *rig, const struct rig_case *test, uint32_t dtype,
                            uint64_t seed)
{
    memset(rig, 0, sizeof *rig);
    rig->test = test;
    rig->graph = rig_graph(test, dtype);
    rig->dtype = dtype;
    rig->samples = test->samples;
    rig->flags = PST_CALL_TRAINING;
    rig->seed = seed;
    rig->first_sample = 5;
    rig->index = rig_index(rig->graph);
    rig->op = &rig->graph->ops[rig->index];
    pst_op_grad_info(rig->graph, rig->index, &rig->grad);
    for (uint32_t i = 0; i < rig->op->n_in; i++) {
        rig->x[i] = rig_like(rig, rig->op->in[i]);
        rig->dx[i] = rig_like(rig, rig->op->in[i]);
        rig->add[i] = rig_like(rig, rig->op->in[i]);
        rig_fill_input(rig, i);
        rig_random(&rig->add[i], -1, 1, seed, 40 + i);
    }
    for (uint32_t i = 0; i < rig->op->n_param && rig->op->param[i] != PST_NONE; i++) {
        const struct pst_parameter *param = &rig->graph->params[rig->op->param[i]];

        rig->p[i] = rig_buffer(param->elems, param->dtype);
        rig->dp[i] = rig_buffer(param->elems, PST_F32);
        rig_random(&rig->p[i], -1, 1, seed, 10 + i);
    }
    for (uint32_t i = 0; i < rig->op->n_out; i++) {
        rig->y[i] = rig_like(rig, rig->op->out[i]);
    }
    for (uint32_t i = 0; i < rig->op->n_state; i++) {
        rig->state[i] = rig_buffer(rig->op->state_elems[i], PST_F32);
        rig_random(&rig->state[i], 0.5, 1, seed, 50 + i);
    }
    rig->dy = rig_like(rig, rig->op->out[0]);
    rig_random(&rig->dy, -1, 1, seed, 20);
    for (uint32_t i = 0; i < rig->grad.n_z; i++) {
        rig->z[i] = rig_buffer(rig->grad.z_elems[i] * (rig->grad.z_batched[i] ? rig->samples : 1),
                               rig->grad.z_dtype[i]);
    }
}

static inline void rig_finish(struct rig *rig)
{
    for (uint32_t i = 0; i < RIG_MAX; i++) {
        free(rig->x[i].data);
        free(rig->dx[i].data);
        free(rig->add[i].data);
        free(rig->y[i].data);
    }
    for (uint32_t i = 0; i < 2; i++) {
        free(rig->p[i].data);
        free(rig->dp[i].data);
        free(rig->z[i].data);
        free(rig->state[i].data);
    }
    free(rig->dy.data);
    pst_graph_destroy(rig->graph);
}

/* --- running ---------------------------------------------------------------------------------- */

static inline void rig_pick(const struct rig_buffer *all, uint64_t mask, uint32_t n,
                            void **ret_some)
{
    for (uint32_t i = 0; i < n; i++) {
        ret_some[i] = (mask >> i & 1) != 0 ? all[i].data : NULL;
    }
}

#define RIG_GUARD 256u

/* One pass with exactly the operands that the autodiff table names, the outputs poisoned. */
static inline void rig_pass(struct rig *rig, struct pst_device *device, uint32_t pass)
{
    const struct pst_op_grad *g = &rig->grad;
    const uint64_t reads[3][3] = {{7, 7, 7},
                                  {g->b_reads_x, g->b_reads_p, g->b_reads_y},
                                  {g->w_reads_x, g->w_reads_p, g->w_reads_y}};
    void *x[RIG_MAX], *p[2], *y[RIG_MAX], *dx[RIG_MAX], *add[RIG_MAX], *z[2], *dp[2], *state[2];
    struct pst_call call = {.x = x, .p = p, .y = y, .seed = rig->seed, .flags = rig->flags};
    struct pst_kernel *kernel = NULL;
    struct pst_error err = {0};
    struct rig_far far = {.ops = rig_ops};
    unsigned char *workspace;
    uint64_t bytes;

    rig_pick(rig->x, reads[pass][0], RIG_MAX, x);
    rig_pick(rig->p, reads[pass][1], 2, p);
    rig_pick(rig->y, reads[pass][2], RIG_MAX, y);
    rig_pick(rig->dx, pass == PST_KERNEL_B ? g->b_dx : 0, RIG_MAX, dx);
    rig_pick(rig->add, pass == PST_KERNEL_B && rig->with_add ? g->b_adds : 0, RIG_MAX, add);
    rig_pick(rig->z, pass == PST_KERNEL_F ? 0 : 3, 2, z);
    rig_pick(rig->dp, pass == PST_KERNEL_W ? 3 : 0, 2, dp);
    rig_pick(rig->state, 3, 2, state);
    for (uint32_t i = 0; i < rig->op->n_in && rig->add_in_place; i++) {
        if (add[i] != NULL) {
            memcpy(dx[i], add[i], rig->add[i].bytes);
            add[i] = dx[i];
        }
    }
    call.dy = (pass == PST_KERNEL_B && !pst_op_is_loss(rig->op->kind)) ||
                      (pass == PST_KERNEL_W && g->w_reads_dy)
                  ? rig_far_of(&far, device, rig->dy.data, rig->dy.bytes)
                  : NULL;
    rig_far_all(&far, device, x, rig->x, RIG_MAX);
    rig_far_all(&far, device, p, rig->p, 2);
    rig_far_all(&far, device, y, rig->y, RIG_MAX);
    rig_far_all(&far, device, dx, rig->dx, RIG_MAX);
    rig_far_all(&far, device, add, rig->add, RIG_MAX);
    rig_far_all(&far, device, z, rig->z, 2);
    rig_far_all(&far, device, dp, rig->dp, 2);
    rig_far_all(&far, device, state, rig->state, 2);
    call.dx = dx;
    call.add = add;
    call.z = z;
    call.dp = (float *const *)(void *)dp;
    call.state = (float *const *)(void *)state;
    call.first_sample = rig->first_sample;
    call.scale = 0.25f;
    if (rig_ops->compile(device, rig->graph, rig->index, pass, rig->samples, &kernel, &err) !=
        PST_OK) {
        fail_msg("%s, pass %u: %s", rig->test->name, pass, err.message);
    }
    bytes = kernel->workspace_bytes;
    assert_true(bytes == rig_ops->workspace(device, rig->graph, rig->index, pass, rig->samples));
    workspace = aligned_alloc(64, (bytes + RIG_GUARD + 63) / 64 * 64);
    assert_non_null(workspace);
    memset(workspace, 0xFF, bytes);
    memset(workspace + bytes, 0xA5, RIG_GUARD);
    call.workspace = rig_far_of(&far, device, workspace, bytes + RIG_GUARD);
    kernel->run(kernel, &call);
    rig_far_back(&far, device);
    for (uint32_t i = 0; i < RIG_GUARD; i++) {
        assert_int_equal(workspace[bytes + i], 0xA5);
    }
    free(workspace);
    kernel->destroy(kernel);
}

static inline void rig_run(struct rig *rig, struct pst_device *device)
{
    rig_pass(rig, device, PST_KERNEL_F);
    if (rig->grad.has_b) {
        rig_pass(rig, device, PST_KERNEL_B);
    }
    if (rig->grad.has_w) {
        rig_pass(rig, device, PST_KERNEL_W);
    }
}

#endif
