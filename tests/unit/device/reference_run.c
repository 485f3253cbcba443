/* SPDX-License-Identifier: Apache-2.0 */
#include "reference_rig.h"

#include "base/bf16.h"
#include "device/cpu/reference/reference.h"

/* Typed copies of everything; exact sizes, so that a sanitizer sees an overrun. */
struct buffers {
    void *x[RIG_INPUTS], *p[RIG_PARAMS], *y[RIG_OUTPUTS], *dy, *dx[RIG_INPUTS], *add[RIG_INPUTS];
    void *z[PST_MAX_SCRATCH], *dp[RIG_PARAMS], *state[2];
};

/* --- typed arrays ------------------------------------------------ */

static double get(const void *array, uint64_t i, uint32_t dtype)
{
    switch (dtype) {
    case PST_F32:
        return (double)((const float *)array)[i];
    case PST_BF16:
        return (double)pst_bf16_load(((const uint16_t *)array)[i]);
    case PST_F64:
        return ((const double *)array)[i];
    default:
        return (double)((const int32_t *)array)[i];
    }
}

static void put(void *array, uint64_t i, uint32_t dtype, double value)
{
    switch (dtype) {
    case PST_F32:
        ((float *)array)[i] = (float)value;
        break;
    case PST_BF16:
        ((uint16_t *)array)[i] = pst_bf16_round((float)value);
        break;
    case PST_F64:
        ((double *)array)[i] = value;
        break;
    default:
        ((int32_t *)array)[i] = (int32_t)value;
    }
}

/* Filled with 0xFF; free() it. */
static void *make_array(uint64_t n, uint32_t dtype)
{
    const size_t bytes = n * pst_dtype_bytes(dtype);
    void *array = malloc(bytes == 0 ? 1 : bytes);

    assert_non_null(array);
    memset(array, 0xFF, bytes);
    return array;
}

static void *typed(const double *values, uint64_t n, uint32_t dtype)
{
    void *array = make_array(n, dtype);

    for (uint64_t i = 0; i < n; i++) {
        put(array, i, dtype, values[i]);
    }
    return array;
}

static void read_back(double *values, const void *array, uint64_t n, uint32_t dtype)
{
    for (uint64_t i = 0; i < n; i++) {
        values[i] = get(array, i, dtype);
    }
}

static uint32_t dtype_in(const struct rig *rig, uint32_t i)
{
    return rig->graph->tensors[rig->op->in[i]].dtype;
}

static uint32_t dtype_out(const struct rig *rig, uint32_t i)
{
    return rig->graph->tensors[rig->op->out[i]].dtype;
}

/* Of dp, state: what is computed with. */
static uint32_t dtype_real(const struct rig *rig)
{
    return rig->dtype == PST_F64 ? PST_F64 : PST_F32;
}

static uint32_t dtype_param(const struct rig *rig, uint32_t i)
{
    return rig->graph->params[rig->op->param[i]].dtype;
}

static void make_buffers(const struct rig *rig, struct buffers *b)
{
    const struct pst_op_grad *grad = &rig->grad;

    memset(b, 0, sizeof *b);
    for (uint32_t i = 0; i < rig->op->n_in; i++) {
        b->x[i] = typed(rig->x[i], rig->n_x[i], dtype_in(rig, i));
        if ((grad->b_dx >> i & 1) != 0) {
            b->dx[i] = make_array(rig->n_x[i], dtype_in(rig, i));
        }
        if (rig->add[i] != NULL) {
            b->add[i] = typed(rig->add[i], rig->n_x[i], dtype_in(rig, i));
        }
        if (rig->add[i] != NULL && rig->add_in_place) {
            free(b->dx[i]);
            b->dx[i] = b->add[i];
        }
    }
    for (uint32_t i = 0; i < RIG_PARAMS && rig->p[i] != NULL; i++) {
        b->p[i] = typed(rig->p[i], rig->n_p[i], dtype_param(rig, i));
        b->dp[i] = make_array(rig->n_p[i], dtype_real(rig));
    }
    for (uint32_t i = 0; i < rig->op->n_out; i++) {
        b->y[i] = make_array(rig->n_y[i], dtype_out(rig, i));
    }
    b->dy = typed(rig->dy, rig->n_y[0], dtype_out(rig, 0));
    for (uint32_t i = 0; i < grad->n_z; i++) {
        b->z[i] = make_array(grad->z_elems[i] * (grad->z_batched[i] ? rig->samples : 1),
                             grad->z_dtype[i]);
    }
    for (uint32_t i = 0; i < rig->op->n_state; i++) {
        b->state[i] = typed(rig->state[i], rig->n_state, dtype_real(rig));
    }
}

static void free_buffers(struct buffers *b)
{
    for (uint32_t i = 0; i < RIG_INPUTS; i++) {
        free(b->x[i]);
        if (b->add[i] != b->dx[i]) {
            free(b->add[i]);
        }
        free(b->dx[i]);
    }
    for (uint32_t i = 0; i < 2; i++) {
        free(b->p[i]);
        free(b->dp[i]);
        free(b->z[i]);
        free(b->state[i]);
    }
    for (uint32_t i = 0; i < RIG_OUTPUTS; i++) {
        free(b->y[i]);
    }
    free(b->dy);
}

/* Operands of `all` that the mask names. */
static void pick(void *const *all, uint64_t mask, uint32_t n, void **ret_some)
{
    for (uint32_t i = 0; i < n; i++) {
        ret_some[i] = (mask >> i & 1) != 0 ? all[i] : NULL;
    }
}

static void run_pass(const struct rig *rig, struct buffers *b, uint32_t pass)
{
    const struct pst_op_grad *grad = &rig->grad;
    const uint64_t reads[3][3] = {{7, 7, 7},
                                  {grad->b_reads_x, grad->b_reads_p, grad->b_reads_y},
                                  {grad->w_reads_x, grad->w_reads_p, grad->w_reads_y}};
    const bool reads_dy = pass == PST_KERNEL_B ? !pst_op_is_loss(rig->op->kind)
                                               : pass == PST_KERNEL_W && grad->w_reads_dy;
    void *x[RIG_INPUTS], *p[RIG_PARAMS], *y[RIG_OUTPUTS];
    struct pst_call call = {.x = x, .p = p, .y = y, .z = b->z};
    struct pst_kernel *kernel = NULL;
    struct pst_error err = {0};

    pick(b->x, reads[pass][0], RIG_INPUTS, x);
    pick(b->p, reads[pass][1], RIG_PARAMS, p);
    pick(b->y, reads[pass][2], RIG_OUTPUTS, y);
    call.dy = reads_dy ? b->dy : NULL;
    call.dx = pass == PST_KERNEL_B ? b->dx : NULL;
    call.add = pass == PST_KERNEL_B ? b->add : NULL;
    call.dp = pass == PST_KERNEL_W ? (float *const *)(void *)b->dp : NULL;
    call.state = (float *const *)(void *)b->state;
    call.first_sample = rig->first_sample;
    call.seed = rig->seed;
    call.scale = rig->scale;
    call.flags = rig->flags;
    assert_ok(pst_reference_kernel(rig->graph, rig->index, pass, rig->samples, &kernel, &err),
              &err);
    assert_int_equal(kernel->workspace_bytes,
                     pst_reference_workspace(rig->graph, rig->index, pass, rig->samples));
    call.workspace = make_array((kernel->workspace_bytes + 3) / 4, PST_I32);
    kernel->run(kernel, &call);
    free(call.workspace);
    kernel->destroy(kernel);
}

static void read_forward(struct rig *rig, const struct buffers *b)
{
    for (uint32_t i = 0; i < rig->op->n_out; i++) {
        read_back(rig->y[i], b->y[i], rig->n_y[i], dtype_out(rig, i));
    }
    for (uint32_t i = 0; i < rig->op->n_state; i++) {
        read_back(rig->state[i], b->state[i], rig->n_state, dtype_real(rig));
    }
}

void rig_forward(struct rig *rig)
{
    struct buffers b;

    make_buffers(rig, &b);
    run_pass(rig, &b, PST_KERNEL_F);
    read_forward(rig, &b);
    free_buffers(&b);
}

void rig_run(struct rig *rig)
{
    struct buffers b;

    make_buffers(rig, &b);
    run_pass(rig, &b, PST_KERNEL_F);
    if (rig->grad.has_b) {
        run_pass(rig, &b, PST_KERNEL_B);
    }
    if (rig->grad.has_w) {
        run_pass(rig, &b, PST_KERNEL_W);
    }
    read_forward(rig, &b);
    for (uint32_t i = 0; i < rig->op->n_in; i++) {
        if ((rig->grad.b_dx >> i & 1) != 0) {
            read_back(rig->dx[i], b.dx[i], rig->n_x[i], dtype_in(rig, i));
        } else if ((rig->grad.b_alias >> i & 1) != 0) {
            read_back(rig->dx[i], b.dy, rig->n_x[i], dtype_in(rig, i));
        }
    }
    for (uint32_t i = 0; i < RIG_PARAMS && rig->p[i] != NULL; i++) {
        read_back(rig->dp[i], b.dp[i], rig->n_p[i], dtype_real(rig));
    }
    free_buffers(&b);
}
