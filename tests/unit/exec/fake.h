/* SPDX-License-Identifier: Apache-2.0
 *
 * A device whose kernels are three scalar operators, for tests of the executor alone:
 *   op kind LINEAR        y = p x          B: dx = p dy     W: dp = sum of dy x
 *   op kind CROSS_ENTROPY y = (x0 - x1)^2  B: dx = scale 2 (x0 - x1)
 * It counts what it is asked for and can be told to be slow or to fail.
 */
#ifndef PST_TEST_EXEC_FAKE_H
#define PST_TEST_EXEC_FAKE_H

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "exec/device.h"

struct pst_device {
    uint32_t index;
    void *arena;
    pthread_t owner;
};

struct fake_kernel {
    struct pst_kernel kernel; /* first */
    uint32_t kind, op, pass, samples;
};

/* Settings and counts of the running test. */
static struct fake {
    atomic_uint n_compiled, n_open, n_kernels; /* n_open, n_kernels: not yet closed, destroyed */
    atomic_uint n_foreign;                     /* calls from a thread that never entered */
    atomic_uint flags;                         /* of all kernel calls, or'ed */
    atomic_ullong first_samples;               /* F of operator 0: sum of call->first_sample */
    uint32_t slow_us;                          /* every kernel of device 0 takes that long more */
    uint32_t stuck_ms;                         /* F of operator 1 */
    unsigned long long hold_update;            /* device 1 updates once first_samples is so large */
    atomic_uint n_held_too_long;               /* updates that waited for seconds */
    uint32_t fail_compile;                     /* 1 + operator that cannot be compiled */
    uint64_t workspace_bytes;                  /* that kernels say they need */
} fake;

static void fake_nap(uint64_t us)
{
    struct timespec time = {(time_t)(us / 1000000), (long)(us % 1000000 * 1000)};

    nanosleep(&time, NULL);
}

static void fake_forward(const struct fake_kernel *k, const struct pst_call *call)
{
    const float *x = call->x[0];
    float *y = call->y[0];

    for (uint32_t i = 0; i < k->samples; i++) {
        if (k->kind == PST_OP_LINEAR) {
            y[i] = *(const float *)call->p[0] * x[i];
        } else {
            float d = x[i] - ((const float *)call->x[1])[i];

            y[i] = d * d;
        }
    }
}

static void fake_backward(const struct fake_kernel *k, const struct pst_call *call)
{
    const float *x = call->x[0], *dy = call->dy;
    float *dx = call->dx[0];

    for (uint32_t i = 0; i < k->samples; i++) {
        dx[i] = k->kind == PST_OP_LINEAR
                    ? *(const float *)call->p[0] * dy[i]
                    : call->scale * 2.0f * (x[i] - ((const float *)call->x[1])[i]);
    }
}

static void fake_run(const struct pst_kernel *kernel, const struct pst_call *call)
{
    const struct fake_kernel *k = (const struct fake_kernel *)kernel;
    const float *x = call->x[0], *dy = call->dy;
    float sum = 0;

    atomic_fetch_or(&fake.flags, call->flags);
    if (fake.slow_us > 0 && k->op == 0) {
        fake_nap(fake.slow_us);
    }
    if (fake.stuck_ms > 0 && k->op == 1 && k->pass == PST_KERNEL_F) {
        fake_nap(1000ull * fake.stuck_ms);
    }
    if (k->op == 0 && k->pass == PST_KERNEL_F) {
        atomic_fetch_add(&fake.first_samples, call->first_sample);
    }
    if (k->pass == PST_KERNEL_F) {
        fake_forward(k, call);
    } else if (k->pass == PST_KERNEL_B) {
        fake_backward(k, call);
    } else {
        for (uint32_t i = 0; i < k->samples; i++) {
            sum += dy[i] * x[i];
        }
        call->dp[0][0] = sum;
    }
}

static void fake_destroy(struct pst_kernel *kernel)
{
    atomic_fetch_sub(&fake.n_kernels, 1);
    free(kernel);
}

static pst_status fake_open(const struct pst_device_config *config, struct pst_device **ret_device,
                            struct pst_error *err)
{
    struct pst_device *device = calloc(1, sizeof *device);

    device->index = config->index;
    atomic_fetch_add(&fake.n_open, 1);
    *ret_device = device;
    return PST_OK;
}

static void fake_close(struct pst_device *device)
{
    atomic_fetch_sub(&fake.n_open, 1);
    free(device->arena);
    free(device);
}

static void fake_enter(struct pst_device *device)
{
    device->owner = pthread_self();
}

static void mine(struct pst_device *device)
{
    if (!pthread_equal(device->owner, pthread_self())) {
        atomic_fetch_add(&fake.n_foreign, 1);
    }
}

static pst_status fake_arena(struct pst_device *device, uint64_t bytes, void **ret_base,
                             struct pst_error *err)
{
    mine(device);
    device->arena = aligned_alloc(256, (bytes + 255) / 256 * 256);
    memset(device->arena, 0xFF, bytes);
    *ret_base = device->arena;
    return PST_OK;
}

static pst_status fake_supports(struct pst_device *device, uint32_t dtype, struct pst_error *err)
{
    mine(device);
    return dtype == PST_F32 ? PST_OK
                            : pst_fail(err, PST_ERR_UNSUPPORTED, "machine.dtype", "f32 only");
}

static uint64_t fake_workspace(struct pst_device *device, const struct pst_graph *graph,
                               uint32_t op, uint32_t pass, uint32_t samples)
{
    (void)device, (void)graph, (void)op, (void)pass, (void)samples;
    return 0;
}

static pst_status fake_compile(struct pst_device *device, const struct pst_graph *graph,
                               uint32_t op, uint32_t pass, uint32_t samples,
                               struct pst_kernel **ret_kernel, struct pst_error *err)
{
    struct fake_kernel *k;

    mine(device);
    if (fake.fail_compile == op + 1) {
        return pst_fail(err, PST_ERR_DEVICE, "machine.kernel", "no such kernel");
    }
    k = calloc(1, sizeof *k);
    k->kernel = (struct pst_kernel){fake_run, fake_destroy, fake.workspace_bytes, NULL};
    k->kind = graph->ops[op].kind;
    k->op = op;
    k->pass = pass;
    k->samples = samples;
    atomic_fetch_add(&fake.n_compiled, 1);
    atomic_fetch_add(&fake.n_kernels, 1);
    *ret_kernel = &k->kernel;
    return PST_OK;
}

static void fake_copy(struct pst_device *device, void *dst, const void *src, uint64_t bytes)
{
    mine(device);
    memcpy(dst, src, bytes);
}

static void fake_zero(struct pst_device *device, void *dst, uint64_t bytes)
{
    mine(device);
    memset(dst, 0, bytes);
}

static void fake_accumulate(struct pst_device *device, float *dst, const float *src, uint64_t elems)
{
    mine(device);
    for (uint64_t i = 0; i < elems; i++) {
        dst[i] += src[i];
    }
}

static void fake_sum(struct pst_device *device, void *dst, const void *a, const void *b,
                     uint64_t elems, uint32_t dtype)
{
    mine(device);
    for (uint64_t i = 0; i < elems; i++) {
        ((float *)dst)[i] = ((const float *)a)[i] + ((const float *)b)[i];
    }
}

static double fake_square_sum(struct pst_device *device, const float *values, uint64_t elems)
{
    double sum = 0;

    mine(device);
    for (uint64_t i = 0; i < elems; i++) {
        sum += (double)values[i] * values[i];
    }
    return sum;
}

/* Plain descent; weight decay is an added 1000 so that a test sees whom it reached. */
static void fake_update(struct pst_device *device, const struct pst_update *update, float *weights,
                        const float *grad, float *s0, float *s1, void *working,
                        uint32_t working_dtype, uint64_t elems)
{
    (void)s0, (void)s1, (void)working, (void)working_dtype;
    mine(device);
    for (uint32_t i = 0; device->index == 1 && atomic_load(&fake.first_samples) < fake.hold_update;
         i++) {
        if (i == 5000) {
            atomic_fetch_add(&fake.n_held_too_long, 1);
            break;
        }
        fake_nap(1000);
    }
    for (uint64_t i = 0; i < elems; i++) {
        weights[i] -= update->lr * (update->grad_scale * grad[i]);
        weights[i] += update->weight_decay > 0 ? 1000.0f : 0.0f;
    }
}

static void fake_refresh(struct pst_device *device, void *working, const float *weights,
                         uint32_t working_dtype, uint64_t elems)
{
    (void)device, (void)working, (void)weights, (void)working_dtype, (void)elems;
}

static const struct pst_device_ops fake_device = {
    .size = sizeof fake_device,
    .id = "fake",
    .open = fake_open,
    .close = fake_close,
    .enter = fake_enter,
    .arena = fake_arena,
    .supports = fake_supports,
    .workspace = fake_workspace,
    .compile = fake_compile,
    .upload = fake_copy,
    .download = fake_copy,
    .zero = fake_zero,
    .accumulate = fake_accumulate,
    .sum = fake_sum,
    .square_sum = fake_square_sum,
    .update = fake_update,
    .refresh = fake_refresh,
};

#endif
