/* SPDX-License-Identifier: Apache-2.0
 *
 * The general operators but products: maps, reductions, softmax, places. A thread makes an element
 * of the result, or of a gradient from all results that it is in, in ascending order; a warp a row
 * that is summed: nothing is scattered.
 */
#include "device/cuda/launch.h"

#include <math_constants.h>

#include "device/common/broadcast.h"

#define REAL    float
#define NAME(f) f##_f32
#define MATH(m) m##f
#include "device/common/maps.inc"

/* --- maps --------------------------------------------------------------------------------------*/

struct map {
    uint32_t map, n_in, k; /* k: whose gradient it is */
    float constants[2];
    const void *x[3]; /* NULL: not read */
    bool integer[3];
    uint64_t elems[3], samples, n; /* of a sample: of each operand, of the result */
    struct pst_spread spread, kept, others;
};

/* The element of x[k] that belongs to element i of a sample of the result. */
template <class S>
__device__ static float operand(const struct map &m, uint32_t k, uint64_t sample, uint64_t i)
{
    uint64_t at;

    if (k >= m.n_in || m.x[k] == NULL) {
        return 0;
    }
    at = sample * m.elems[k] + pst_spread_at(&m.spread, k, i);
    return m.integer[k] ? (float)((const int32_t *)m.x[k])[at] : pst_load(((const S *)m.x[k])[at]);
}

template <class S> __global__ void map_kernel(struct map m, S *y)
{
    PST_EACH(e, m.samples * m.n)
    {
        const uint64_t sample = e / m.n, i = e % m.n;

        pst_store(&y[e],
                  map_value_f32(m.map, m.constants[0], m.constants[1], operand<S>(m, 0, sample, i),
                                operand<S>(m, 1, sample, i), operand<S>(m, 2, sample, i)));
    }
}

/* y: the results; NULL: not read. */
template <class S>
__global__ void map_back_kernel(struct map m, S *dx, const S *dy, const S *y, const S *add)
{
    const uint64_t others = pst_spread_elems(&m.others), elems = m.elems[m.k];

    PST_EACH(e, m.samples * elems)
    {
        const uint64_t sample = e / elems, first = pst_spread_at(&m.kept, 0, e % elems);
        float sum = 0;

        for (uint64_t k = 0; k < others; k++) {
            const uint64_t i = first + pst_spread_at(&m.others, 0, k), at = sample * m.n + i;

            sum += pst_load(dy[at]) * map_slope_f32(m.map, m.k, m.constants[0], m.constants[1],
                                                    operand<S>(m, 0, sample, i),
                                                    operand<S>(m, 1, sample, i),
                                                    y == NULL ? 0 : pst_load(y[at]));
        }
        pst_store_gradient(&dx[e], sum, add == NULL ? NULL : add + e);
    }
}

static struct map map_of(const struct pst_op_request *r, const struct pst_call *call)
{
    struct map m = {};

    m.map = r->op->map;
    m.n_in = r->op->n_in;
    m.constants[0] = r->op->constants[0];
    m.constants[1] = r->op->constants[1];
    m.samples = r->samples;
    m.n = request_out(r)->elems;
    m.spread = request_spread(r, 0);
    for (uint32_t i = 0; i < m.n_in; i++) {
        m.x[i] = call->x[i];
        m.integer[i] = request_in(r, i)->dtype == PST_I32;
        m.elems[i] = request_in(r, i)->elems;
    }
    return m;
}

PST_CUDA_RUN(map_f)
{
    const struct pst_op_request *r = &k->request;
    const struct map m = map_of(r, call);

    PST_TYPED(pst_cuda_bf16(r), PST_LAUNCH(map_kernel<S>, pst_blocks(m.samples * m.n),
                                           pst_cuda_stream(r), m, (S *)call->y[0]));
}

PST_CUDA_RUN(map_b)
{
    const struct pst_op_request *r = &k->request;
    struct map m = map_of(r, call);

    for (m.k = 0; m.k < m.n_in; m.k++) {
        void *dx = request_operand(call->dx, m.k);
        const void *add = request_operand(call->add, m.k);

        if (dx != NULL) {
            pst_spread_turn(&m.spread, m.k, &m.kept, &m.others);
            PST_TYPED(pst_cuda_bf16(r),
                      PST_LAUNCH(map_back_kernel<S>, pst_blocks(m.samples * m.elems[m.k]),
                                 pst_cuda_stream(r), m, (S *)dx, (const S *)call->dy,
                                 (const S *)request_operand(call->y, 0), (const S *)add));
        }
    }
}

const struct pst_cuda_family pst_cuda_map_family = {NULL, NULL, NULL, NULL, {map_f, map_b, NULL}};

/* --- reductions --------------------------------------------------------------------------------*/

struct reduced {
    uint32_t reduce;
    uint64_t samples, n_in, n_out; /* elements of a sample */
    struct pst_spread kept, others;
};

/* A warp an element of the result; lanes add every 32nd. */
template <class S> __global__ void reduce_kernel(struct reduced d, S *y, const S *x)
{
    const uint64_t n = pst_spread_elems(&d.others);
    const unsigned lane = threadIdx.x % PST_WARP;

    PST_EACH_ROW(PST_WARP, i, d.samples * d.n_out)
    {
        const S *from = x + i / d.n_out * d.n_in + pst_spread_at(&d.kept, 0, i % d.n_out);
        float max = -CUDART_INF_F;
        double sum = 0;

        for (uint64_t k = lane; k < n; k += PST_WARP) {
            const float value = pst_load(from[pst_spread_at(&d.others, 0, k)]);

            sum += (double)value;
            max = pst_larger(max, value);
        }
        max = pst_warp_max(max);
        sum = pst_warp_sum(sum);
        if (lane == 0) {
            pst_store(&y[i], d.reduce == PST_REDUCE_MAX    ? max
                             : d.reduce == PST_REDUCE_MEAN ? (float)(sum / (double)n)
                                                           : (float)sum);
        }
    }
}

template <class S>
__global__ void reduce_back_kernel(struct reduced d, S *dx, const S *dy, const S *x, const S *y,
                                   const S *add)
{
    const uint64_t n = pst_spread_elems(&d.others);
    const unsigned lane = threadIdx.x % PST_WARP;
    const bool max = d.reduce == PST_REDUCE_MAX;

    PST_EACH_ROW(PST_WARP, i, d.samples * d.n_out)
    {
        const uint64_t from = i / d.n_out * d.n_in + pst_spread_at(&d.kept, 0, i % d.n_out);
        float g = pst_load(dy[i]), count = 0;

        for (uint64_t k = lane; max && k < n; k += PST_WARP) {
            count += pst_load(x[from + pst_spread_at(&d.others, 0, k)]) == pst_load(y[i]);
        }
        count = pst_warp_sum(count); /* that share it */
        g = max ? g / count : d.reduce == PST_REDUCE_MEAN ? g / (float)n : g;
        for (uint64_t k = lane; k < n; k += PST_WARP) {
            const uint64_t e = from + pst_spread_at(&d.others, 0, k);

            pst_store_gradient(&dx[e], !max || pst_load(x[e]) == pst_load(y[i]) ? g : 0,
                               add == NULL ? NULL : add + e);
        }
    }
}

static struct reduced reduced_of(const struct pst_op_request *r)
{
    struct reduced d = {};

    d.reduce = r->op->reduce;
    d.samples = r->samples;
    d.n_in = request_in(r, 0)->elems;
    d.n_out = request_out(r)->elems;
    d.kept = request_reduced(r, false);
    d.others = request_reduced(r, true);
    return d;
}

/* Blocks of a kernel with a warp an item. */
static unsigned warps_of(uint64_t n)
{
    return pst_blocks_each((n + PST_WARPS - 1) / PST_WARPS);
}

PST_CUDA_RUN(reduce_f)
{
    const struct pst_op_request *r = &k->request;
    const struct reduced d = reduced_of(r);

    PST_TYPED(pst_cuda_bf16(r),
              PST_LAUNCH_MEETING(reduce_kernel<S>, warps_of(d.samples * d.n_out),
                                 pst_cuda_stream(r), d, (S *)call->y[0], (const S *)call->x[0]));
}

PST_CUDA_RUN(reduce_b)
{
    const struct pst_op_request *r = &k->request;
    const struct reduced d = reduced_of(r);
    void *dx = request_operand(call->dx, 0);

    if (dx != NULL) {
        PST_TYPED(pst_cuda_bf16(r),
                  PST_LAUNCH_MEETING(reduce_back_kernel<S>, warps_of(d.samples * d.n_out),
                                     pst_cuda_stream(r), d, (S *)dx, (const S *)call->dy,
                                     (const S *)request_operand(call->x, 0),
                                     (const S *)request_operand(call->y, 0),
                                     (const S *)request_operand(call->add, 0)));
    }
}

const struct pst_cuda_family pst_cuda_reduce_family = {
    NULL, NULL, NULL, NULL, {reduce_f, reduce_b, NULL}};

/* --- softmax: a warp a row ---------------------------------------------------------------------*/

struct softmax {
    uint64_t rows, n, inner;
    bool logarithm;
};

__device__ static uint64_t row_at(const struct softmax &s, uint64_t r)
{
    return r / s.inner * s.n * s.inner + r % s.inner;
}

template <class S> __global__ void softmax_kernel(struct softmax s, S *y, const S *x)
{
    const unsigned lane = threadIdx.x % PST_WARP;

    PST_EACH_ROW(PST_WARP, r, s.rows)
    {
        const uint64_t at = row_at(s, r);
        float max = -CUDART_INF_F, sum = 0;

        for (uint64_t k = lane; k < s.n; k += PST_WARP) {
            max = pst_larger(max, pst_load(x[at + k * s.inner]));
        }
        max = pst_warp_max(max);
        for (uint64_t k = lane; k < s.n; k += PST_WARP) {
            sum += expf(pst_load(x[at + k * s.inner]) - max);
        }
        sum = pst_warp_sum(sum);
        for (uint64_t k = lane; k < s.n; k += PST_WARP) {
            const float value = pst_load(x[at + k * s.inner]) - max;

            pst_store(&y[at + k * s.inner], s.logarithm ? value - logf(sum) : expf(value) / sum);
        }
    }
}

template <class S>
__global__ void softmax_back_kernel(struct softmax s, S *dx, const S *dy, const S *y, const S *add)
{
    const unsigned lane = threadIdx.x % PST_WARP;

    PST_EACH_ROW(PST_WARP, r, s.rows)
    {
        const uint64_t at = row_at(s, r);
        float sum = 0;

        for (uint64_t k = lane; k < s.n; k += PST_WARP) {
            const uint64_t e = at + k * s.inner;

            sum += pst_load(dy[e]) * (s.logarithm ? 1 : pst_load(y[e]));
        }
        sum = pst_warp_sum(sum);
        for (uint64_t k = lane; k < s.n; k += PST_WARP) {
            const uint64_t e = at + k * s.inner;
            const float value = pst_load(y[e]), g = pst_load(dy[e]);

            pst_store_gradient(&dx[e], s.logarithm ? g - expf(value) * sum : value * (g - sum),
                               add == NULL ? NULL : add + e);
        }
    }
}

static struct softmax softmax_of(const struct pst_op_request *r)
{
    const struct pst_axis axis = pst_axis_of(request_out(r), r->op->axis);

    return {r->samples * axis.outer * axis.inner, axis.n, axis.inner, r->op->logarithm};
}

PST_CUDA_RUN(softmax_f)
{
    const struct pst_op_request *r = &k->request;
    const struct softmax s = softmax_of(r);

    PST_TYPED(pst_cuda_bf16(r),
              PST_LAUNCH_MEETING(softmax_kernel<S>, warps_of(s.rows), pst_cuda_stream(r), s,
                                 (S *)call->y[0], (const S *)call->x[0]));
}

PST_CUDA_RUN(softmax_b)
{
    const struct pst_op_request *r = &k->request;
    const struct softmax s = softmax_of(r);
    void *dx = request_operand(call->dx, 0);

    if (dx != NULL) {
        PST_TYPED(pst_cuda_bf16(r),
                  PST_LAUNCH_MEETING(softmax_back_kernel<S>, warps_of(s.rows), pst_cuda_stream(r),
                                     s, (S *)dx, (const S *)call->dy, (const S *)call->y[0],
                                     (const S *)request_operand(call->add, 0)));
    }
}

const struct pst_cuda_family pst_cuda_softmax_family = {
    NULL, NULL, NULL, NULL, {softmax_f, softmax_b, NULL}};

/* --- parameters, constants ---------------------------------------------------------------------*/

/* y = values, n of them, for each sample. */
template <class S, class P>
__global__ void repeat_kernel(S *y, const P *values, uint64_t samples, uint64_t n)
{
    PST_EACH_CELL(sample, i, samples, n)
    {
        pst_store(&y[sample * n + i], pst_load(values[i]));
    }
}

PST_CUDA_RUN(parameter_f)
{
    const struct pst_op_request *r = &k->request;
    const uint64_t n = request_out(r)->elems, samples = r->samples;
    const unsigned blocks = pst_blocks_cells(samples, n);

    if (request_parameter(r, 0)->dtype == PST_F32) { /* of bf16 models those of one axis, too */
        PST_TYPED(pst_cuda_bf16(r),
                  PST_LAUNCH((repeat_kernel<S, float>), blocks, pst_cuda_stream(r), (S *)call->y[0],
                             (const float *)call->p[0], samples, n));
    } else {
        PST_LAUNCH((repeat_kernel<pst_half, pst_half>), blocks, pst_cuda_stream(r),
                   (pst_half *)call->y[0], (const pst_half *)call->p[0], samples, n);
    }
}

static uint64_t parameter_workspace(const struct pst_op_request *r)
{
    return r->pass == PST_KERNEL_W
               ? sizeof(float) * pst_cuda_column_floats(r->samples, request_out(r)->elems)
               : 0;
}

PST_CUDA_RUN(parameter_w)
{
    const struct pst_op_request *r = &k->request;

    if (call->dp[0] != NULL) {
        pst_cuda_column_sums(pst_cuda_stream(r), pst_cuda_bf16(r), call->dp[0], call->dy,
                             r->samples, request_out(r)->elems, (float *)call->workspace);
    }
}

const struct pst_cuda_family pst_cuda_parameter_family = {
    NULL, parameter_workspace, NULL, NULL, {parameter_f, NULL, parameter_w}};

/* The numbers go to the device once; integers as they are. */
static pst_status constant_init(struct pst_cuda_kernel *k, struct pst_error *err)
{
    const struct pst_op_request *r = &k->request;
    const uint64_t bytes = request_out(r)->elems * sizeof(float);
    cudaError_t error = cudaMalloc(&k->state, bytes);

    if (error == cudaSuccess) {
        error = cudaMemcpyAsync(k->state, r->op->form->data, bytes, cudaMemcpyHostToDevice,
                                pst_cuda_stream(r));
    }
    if (error == cudaSuccess) {
        error = cudaStreamSynchronize(pst_cuda_stream(r));
    }
    return error == cudaSuccess ? PST_OK
                                : pst_fail(err, PST_ERR_DEVICE, "run.device", "%s: a constant: %s",
                                           r->op->name, cudaGetErrorString(error));
}

static void constant_finish(struct pst_cuda_kernel *k)
{
    cudaFree(k->state);
}

PST_CUDA_RUN(constant_f)
{
    const struct pst_op_request *r = &k->request;
    const uint64_t n = request_out(r)->elems, samples = r->samples;

    PST_TYPED(pst_cuda_bf16(r),
              PST_LAUNCH((repeat_kernel<S, float>), pst_blocks_cells(samples, n),
                         pst_cuda_stream(r), (S *)call->y[0], (const float *)k->state, samples, n));
}

const struct pst_cuda_family pst_cuda_constant_family = {
    NULL, NULL, constant_init, constant_finish, {constant_f, NULL, NULL}};

PST_CUDA_RUN(reshape_f)
{
    const struct pst_op_request *r = &k->request;

    cudaMemcpyAsync(call->y[0], call->x[0], r->samples * request_out(r)->bytes,
                    cudaMemcpyDeviceToDevice, pst_cuda_stream(r));
}

const struct pst_cuda_family pst_cuda_reshape_family = {
    NULL, NULL, NULL, NULL, {reshape_f, NULL, NULL}};

/* --- strided -----------------------------------------------------------------------------------*/

/* An axis of the result, and that of x it goes along. */
struct strided_axis {
    uint64_t n, limit, y_stride, x_stride;
    int64_t start, step;
};

struct strided {
    uint32_t rank;
    uint64_t samples, n_in, n_out;
    struct strided_axis axes[PST_MAX_RANK];
    float fill;
};

template <class S> __global__ void strided_kernel(struct strided t, S *y, const S *x)
{
    S fill;

    pst_store(&fill, t.fill);
    PST_EACH(e, t.samples * t.n_out)
    {
        uint64_t at = e / t.n_out * t.n_in;
        bool there = true;

        for (uint32_t a = 0; a < t.rank; a++) {
            const struct strided_axis &axis = t.axes[a];
            const int64_t place =
                axis.start + (int64_t)(e % t.n_out / axis.y_stride % axis.n) * axis.step;

            there = there && place >= 0 && (uint64_t)place < axis.limit;
            at += there ? (uint64_t)place * axis.x_stride : 0;
        }
        y[e] = there ? x[at] : fill;
    }
}

/* The results that show element e: one place along axes that move on, all along those that stand
   still. */
template <class S>
__global__ void strided_back_kernel(struct strided t, S *dx, const S *dy, const S *add)
{
    PST_EACH(e, t.samples * t.n_in)
    {
        uint64_t at = e / t.n_in * t.n_out, times = 1;
        float sum = 0;

        for (uint32_t a = 0; a < t.rank && times != 0; a++) {
            const struct strided_axis &axis = t.axes[a];
            const int64_t by = (int64_t)(e % t.n_in / axis.x_stride % axis.limit) - axis.start;

            if (axis.step == 0) {
                times *= by == 0 ? axis.n : 0;
            } else if (by % axis.step != 0 || by / axis.step < 0 ||
                       (uint64_t)(by / axis.step) >= axis.n) {
                times = 0;
            } else {
                at += (uint64_t)(by / axis.step) * axis.y_stride;
            }
        }
        for (uint64_t k = 0; k < times; k++) {
            uint64_t rest = k, here = at;

            for (uint32_t a = t.rank; a-- > 0;) {
                if (t.axes[a].step == 0) {
                    here += rest % t.axes[a].n * t.axes[a].y_stride;
                    rest /= t.axes[a].n;
                }
            }
            sum += pst_load(dy[here]);
        }
        pst_store_gradient(&dx[e], sum, add == NULL ? NULL : add + e);
    }
}

static struct strided strided_of(const struct pst_op_request *r)
{
    const struct pst_form *form = r->op->form;
    const struct pst_tensor *x = request_in(r, 0), *y = request_out(r);
    struct strided t = {};

    t.rank = form->rank;
    t.samples = r->samples;
    t.n_in = x->elems;
    t.n_out = y->elems;
    t.fill = form->fill;
    for (uint32_t a = 0; a < t.rank; a++) {
        t.axes[a].n = form->dims[a];
        t.axes[a].limit = x->dims[form->from[a]];
        t.axes[a].y_stride = pst_axis_stride(y, y->rank - 1 - a);
        t.axes[a].x_stride = pst_axis_stride(x, x->rank - 1 - form->from[a]);
        t.axes[a].start = form->start[a];
        t.axes[a].step = form->step[a];
    }
    return t;
}

PST_CUDA_RUN(strided_f)
{
    const struct pst_op_request *r = &k->request;
    const struct strided t = strided_of(r);

    PST_TYPED(pst_cuda_bf16(r),
              PST_LAUNCH(strided_kernel<S>, pst_blocks(t.samples * t.n_out), pst_cuda_stream(r), t,
                         (S *)call->y[0], (const S *)call->x[0]));
}

PST_CUDA_RUN(strided_b)
{
    const struct pst_op_request *r = &k->request;
    const struct strided t = strided_of(r);
    void *dx = request_operand(call->dx, 0);

    if (dx != NULL) {
        PST_TYPED(pst_cuda_bf16(r),
                  PST_LAUNCH(strided_back_kernel<S>, pst_blocks(t.samples * t.n_in),
                             pst_cuda_stream(r), t, (S *)dx, (const S *)call->dy,
                             (const S *)request_operand(call->add, 0)));
    }
}

const struct pst_cuda_family pst_cuda_strided_family = {
    NULL, NULL, NULL, NULL, {strided_f, strided_b, NULL}};

/* --- gather ------------------------------------------------------------------------------------*/

struct gather {
    uint64_t samples, n; /* places of a sample */
    struct pst_axis axis;
};

template <class S>
__global__ void gather_kernel(struct gather g, S *y, const S *x, const int32_t *places)
{
    PST_EACH(e, g.samples * g.axis.outer * g.n * g.axis.inner)
    {
        const uint64_t outer = e / g.axis.inner / g.n;
        const uint64_t which = outer / g.axis.outer * g.n + e / g.axis.inner % g.n;
        const int32_t place = places[which];

        if (place < 0 || (uint64_t)place >= g.axis.n) {
            pst_store(&y[e], CUDART_NAN_F);
        } else {
            y[e] = x[(outer * g.axis.n + (uint64_t)place) * g.axis.inner + e % g.axis.inner];
        }
    }
}

template <class S>
__global__ void gather_back_kernel(struct gather g, S *dx, const S *dy, const int32_t *places,
                                   const S *add)
{
    PST_EACH(e, g.samples * g.axis.outer * g.axis.n * g.axis.inner)
    {
        const uint64_t outer = e / g.axis.inner / g.axis.n, here = e / g.axis.inner % g.axis.n;
        const int32_t *of_sample = places + outer / g.axis.outer * g.n;
        float sum = 0;

        for (uint64_t k = 0; k < g.n; k++) {
            if (of_sample[k] >= 0 && (uint64_t)of_sample[k] == here) {
                sum += pst_load(dy[(outer * g.n + k) * g.axis.inner + e % g.axis.inner]);
            }
        }
        pst_store_gradient(&dx[e], sum, add == NULL ? NULL : add + e);
    }
}

static struct gather gather_of(const struct pst_op_request *r)
{
    return {r->samples, request_in(r, 1)->elems, pst_axis_of(request_in(r, 0), r->op->axis)};
}

PST_CUDA_RUN(gather_f)
{
    const struct pst_op_request *r = &k->request;
    const struct gather g = gather_of(r);

    PST_TYPED(pst_cuda_bf16(r),
              PST_LAUNCH(gather_kernel<S>, pst_blocks(r->samples * request_out(r)->elems),
                         pst_cuda_stream(r), g, (S *)call->y[0], (const S *)call->x[0],
                         (const int32_t *)call->x[1]));
}

PST_CUDA_RUN(gather_b)
{
    const struct pst_op_request *r = &k->request;
    const struct gather g = gather_of(r);
    void *dx = request_operand(call->dx, 0);

    if (dx != NULL) {
        PST_TYPED(pst_cuda_bf16(r),
                  PST_LAUNCH(gather_back_kernel<S>,
                             pst_blocks(r->samples * request_in(r, 0)->elems), pst_cuda_stream(r),
                             g, (S *)dx, (const S *)call->dy, (const int32_t *)call->x[1],
                             (const S *)request_operand(call->add, 0)));
    }
}

const struct pst_cuda_family pst_cuda_gather_family = {
    NULL, NULL, NULL, NULL, {gather_f, gather_b, NULL}};
