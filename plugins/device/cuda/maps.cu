/* SPDX-License-Identifier: Apache-2.0
 *
 * Element by element: dropout, activations, gates, what stands after a product; sums of columns.
 */
#include "device/cuda/act.h"

#define COLUMN_BLOCKS 512u /* that sum columns at a time; so many fit on a large GPU */
#define COLUMN_STRIP  256u /* columns of a block that is wide */

struct dropout {
    uint64_t samples, elems; /* elems of a sample */
    uint64_t seed;
    const uint64_t *first_sample; /* changes between launches: on the device */
    uint32_t salt;
    float p; /* 0: nothing is dropped */
};

/* Neighbours of a thread: those that blocks of four random words serve. */
template <unsigned W> constexpr unsigned dropped_at_once = W > 4 ? W : 4;

/* W at once takes samples of whole such groups. */
template <class S, unsigned W>
__global__ void dropout_kernel(S *y, const S *x, const S *base, struct dropout how)
{
    constexpr unsigned own = dropped_at_once<W>;
    const uint32_t threshold = (uint32_t)(how.p * 4294967296.0f);
    const float factor = 1.0f / (1.0f - how.p);
    const uint64_t before = how.p > 0 ? *how.first_sample : 0;

    PST_EACH_CELL(sample, group, how.samples, (how.elems + own - 1) / own)
    {
        struct pst_philox words[own / 4] = {};

        for (unsigned i = 0; how.p > 0 && i < own / 4; i++) {
            words[i] = pst_philox(how.seed, pst_dropout_stream(how.salt, before + sample),
                                  group * (own / 4) + i);
        }
        for (unsigned first = 0; first < own; first += W) {
            const uint64_t at = sample * how.elems + group * own + first;

            if (group * own + first < how.elems) {
                pst_some<S, W> some = pst_read<W>(x + at), under = some;

                if (base != NULL) {
                    under = pst_read<W>(base + at);
                }
                for (unsigned k = 0; k < W; k++) {
                    const uint32_t word = words[(first + k) / 4].v[(first + k) % 4];
                    float value = pst_load(some.v[k]);

                    if (how.p > 0) {
                        value = word >= threshold ? value * factor : 0;
                    }
                    pst_store(&some.v[k], base == NULL ? value : pst_load(under.v[k]) + value);
                }
                pst_write_whole<W>(y + at, some);
            }
        }
    }
}

template <class S, unsigned W>
__global__ void act_kernel(S *y, const S *x, uint32_t act, uint64_t n)
{
    PST_EACH(i, n / W)
    {
        pst_some<S, W> some = pst_read<W>(x + i * W);

        for (unsigned k = 0; k < W; k++) {
            pst_store(&some.v[k], act_of(act, pst_load(some.v[k])));
        }
        pst_write<W>(y + i * W, some);
    }
}

template <class S, unsigned W>
__global__ void act_back_kernel(S *dx, const S *dy, const S *seen, uint32_t act, uint64_t n)
{
    PST_EACH(i, n / W)
    {
        const pst_some<S, W> all = pst_read<W>(seen + i * W);
        pst_some<S, W> some = pst_read<W>(dy + i * W);

        for (unsigned k = 0; k < W; k++) {
            const float at = pst_load(all.v[k]), g = pst_load(some.v[k]);

            pst_store(&some.v[k], act == PST_ACT_RELU ? (at > 0 ? g : 0) : g * act_slope(act, at));
        }
        pst_write<W>(dx + i * W, some);
    }
}

/* Rows x of gate and up, n each; n is a multiple of W. */
template <class S, unsigned W>
__global__ void glu_kernel(S *y, const S *x, uint32_t act, uint64_t rows, uint64_t n)
{
    PST_EACH_CELL(row, group, rows, n / W)
    {
        const S *at = x + row * 2 * n + group * W;
        pst_some<S, W> gates = pst_read<W>(at);
        const pst_some<S, W> ups = pst_read<W>(at + n);

        for (unsigned k = 0; k < W; k++) {
            pst_store(&gates.v[k], act_of(act, pst_load(gates.v[k])) * pst_load(ups.v[k]));
        }
        pst_write_whole<W>(y + row * n + group * W, gates);
    }
}

template <class S, unsigned W>
__global__ void glu_back_kernel(S *dx, const S *dy, const S *x, uint32_t act, uint64_t rows,
                                uint64_t n)
{
    PST_EACH_CELL(row, group, rows, n / W)
    {
        const uint64_t at = row * 2 * n + group * W;
        pst_some<S, W> gates = pst_read<W>(x + at), ups = pst_read<W>(x + at + n);
        const pst_some<S, W> slopes = pst_read<W>(dy + row * n + group * W);

        for (unsigned k = 0; k < W; k++) {
            const float gate = pst_load(gates.v[k]), g = pst_load(slopes.v[k]);

            pst_store(&gates.v[k], g * pst_load(ups.v[k]) * act_slope(act, gate));
            pst_store(&ups.v[k], g * act_of(act, gate));
        }
        pst_write_whole<W>(dx + at, gates);
        pst_write_whole<W>(dx + at + n, ups);
    }
}

/* n: of a row; a multiple of W. */
template <class S, unsigned W>
__global__ void bias_act_kernel(S *y, S *h, const float *acc, const float *bias, uint32_t act,
                                uint64_t rows, uint64_t n)
{
    PST_EACH_CELL(row, group, rows, n / W)
    {
        const uint64_t at = row * n + group * W;
        pst_some<float, W> sums = pst_read<W>(acc + at);
        pst_some<S, W> some;

        if (bias != NULL) {
            const pst_some<float, W> more = pst_read<W>(bias + group * W);

            for (unsigned k = 0; k < W; k++) {
                sums.v[k] += more.v[k];
            }
        }
        for (unsigned k = 0; k < W; k++) {
            pst_store(&some.v[k], sums.v[k]);
        }
        if (h != NULL) {
            pst_write_whole<W>(h + at, some);
        }
        for (unsigned k = 0; k < W; k++) {
            pst_store(&some.v[k], act_of(act, sums.v[k]));
        }
        pst_write_whole<W>(y + at, some);
    }
}

/* A block has a strip of columns of a chunk of `each` rows; a thread W neighbours in every
   PST_PARTSth of these rows, in ascending order. Then the threads of a column are added up. */
template <class S, unsigned W>
__global__ void column_kernel(float *partial, const S *x, uint64_t rows, uint64_t each, uint64_t n)
{
    const uint64_t strips = (n + PST_WIDTH * W - 1) / (PST_WIDTH * W);
    __shared__ pst_some<float, W> part[PST_PARTS][PST_WIDTH];

    PST_EACH_BLOCK(i, (rows + each - 1) / each * strips)
    {
        const uint64_t chunk = i / strips, strip = i % strips * PST_WIDTH * W;
        const uint64_t column = strip + threadIdx.x % PST_WIDTH * W;
        const uint64_t first = chunk * each + PST_LANE;
        const uint64_t end = (chunk + 1) * each < rows ? (chunk + 1) * each : rows;
        pst_some<float, W> sum = {};

        if (column < n && first < end) {
            pst_add_rows<8>(sum, (end - first + PST_PARTS - 1) / PST_PARTS,
                            [&](uint64_t k) { return x + (first + k * PST_PARTS) * n + column; });
        }
        part[PST_LANE][threadIdx.x % PST_WIDTH] = sum;
        __syncthreads();
        PST_EACH_THREAD(c, PST_WIDTH * W)
        {
            float whole = 0;

            for (unsigned k = 0; k < PST_PARTS; k++) {
                whole += part[k][c / W].v[c % W];
            }
            if (strip + c < n) {
                partial[chunk * n + strip + c] = whole;
            }
        }
        __syncthreads();
    }
}

/* One partial sum, or two, one after the other. */
__global__ void column_end_kernel(float *sums, float *others, const float *partial, uint64_t chunks,
                                  uint64_t n)
{
    const uint64_t groups = (n + PST_WIDTH - 1) / PST_WIDTH;

    PST_EACH_BLOCK(group, others == NULL ? groups : 2 * groups)
    {
        const bool other = group >= groups;
        const uint64_t column = PST_COLUMN(other ? group - groups : group);
        const float sum = pst_column_sum(other ? partial + chunks * n : partial, chunks, n, column);

        if (PST_LANE == 0 && column < n) {
            (other ? others : sums)[column] = sum;
        }
    }
}

void pst_cuda_act_back(cudaStream_t stream, bool bf16, void *dx, const void *dy, const void *seen,
                       uint32_t act, uint64_t n)
{
    PST_TYPED_WIDE(bf16, pst_is_wide(n, dx, dy, seen),
                   PST_LAUNCH((act_back_kernel<S, W>), pst_blocks(n / W), stream, (S *)dx,
                              (const S *)dy, (const S *)seen, act, n));
}

void pst_cuda_bias_act(cudaStream_t stream, bool bf16, void *y, void *h, const float *acc,
                       const float *bias, uint32_t act, uint64_t rows, uint64_t n)
{
    PST_TYPED_WIDE(bf16, pst_is_wide(n, y, h, acc) && pst_is_aligned(bias, NULL, NULL),
                   PST_LAUNCH((bias_act_kernel<S, W>), pst_blocks_cells(rows, n / W), stream,
                              (S *)y, (S *)h, acc, bias, act, rows, n));
}

/* Rows of a partial sum: all blocks are there at a time and end at a time. What few rows they would
   have is not worth a second kernel. */
static uint64_t chunk_rows(uint64_t rows, uint64_t n)
{
    const uint64_t strips = (n + COLUMN_STRIP - 1) / COLUMN_STRIP;
    const uint64_t chunks = strips < COLUMN_BLOCKS ? COLUMN_BLOCKS / strips : 1;
    const uint64_t each = (rows + chunks - 1) / chunks;

    return each > 8 * PST_PARTS ? each : 8 * PST_PARTS;
}

static uint64_t chunks_of(uint64_t rows, uint64_t n)
{
    const uint64_t each = chunk_rows(rows, n);

    return (rows + each - 1) / each;
}

uint64_t pst_cuda_column_floats(uint64_t rows, uint64_t n)
{
    return chunks_of(rows, n) > 1 ? chunks_of(rows, n) * n : 0;
}

void pst_cuda_column_end(cudaStream_t stream, float *sums, float *others, const float *partial,
                         uint64_t chunks, uint64_t n)
{
    PST_LAUNCH_MEETING(column_end_kernel,
                       pst_blocks_each(pst_column_groups(n) * (others == NULL ? 1 : 2)), stream,
                       sums, others, partial, chunks, n);
}

void pst_cuda_column_sums(cudaStream_t stream, bool bf16, float *sums, const void *x, uint64_t rows,
                          uint64_t n, float *partial)
{
    const uint64_t chunks = chunks_of(rows, n);
    float *to = chunks > 1 ? partial : sums;

    PST_TYPED_WIDE(
        bf16, pst_is_wide(n, x, NULL, NULL),
        PST_LAUNCH_MEETING((column_kernel<S, W>),
                           pst_blocks_each(chunks * ((n + PST_WIDTH * W - 1) / (PST_WIDTH * W))),
                           stream, to, (const S *)x, rows, chunk_rows(rows, n), n));
    if (chunks > 1) {
        pst_cuda_column_end(stream, sums, NULL, partial, chunks, n);
    }
}

/* --- families ----------------------------------------------------------------------------------*/

/* A thread for each group where that is possible: random numbers take long. */
static unsigned dropout_blocks(const struct dropout &how, unsigned own)
{
    const uint64_t groups = (how.elems + own - 1) / own;
    const unsigned least = pst_blocks_cells(how.samples, groups);
    const unsigned all = pst_blocks(how.samples * groups);

    return all > least ? all : least;
}

/* y = x kept and scaled, plus base unless that is NULL. */
static void drop(const struct pst_op_request *r, const struct pst_call *call, void *y,
                 const void *x, const void *base)
{
    struct dropout how;

    if (y == NULL) {
        return;
    }
    how.samples = r->samples;
    how.elems = request_out(r)->elems;
    how.seed = call->seed;
    how.salt = r->op->salt;
    how.p = (call->flags & PST_CALL_TRAINING) != 0 ? r->op->p : 0;
    how.first_sample = how.p > 0 ? pst_cuda_first_sample(r->device, call->first_sample) : NULL;
    PST_TYPED_WIDE(pst_cuda_bf16(r), pst_is_wide(how.elems, y, x, base),
                   PST_LAUNCH((dropout_kernel<S, W>), dropout_blocks(how, dropped_at_once<W>),
                              pst_cuda_stream(r), (S *)y, (const S *)x, (const S *)base, how));
}

PST_CUDA_RUN(add_f)
{
    drop(&k->request, call, call->y[0], call->x[1], call->x[0]);
}

PST_CUDA_RUN(dropout_f)
{
    drop(&k->request, call, call->y[0], call->x[0], NULL);
}

/* The gradient goes through the same mask. That of an addition's x[0] is dy itself. */
PST_CUDA_RUN(dropout_b)
{
    const uint32_t which = k->request.op->kind == PST_OP_ADD ? 1 : 0;

    drop(&k->request, call, request_operand(call->dx, which), call->dy, NULL);
}

PST_CUDA_RUN(act_f)
{
    const struct pst_op_request *r = &k->request;
    const uint64_t n = r->samples * request_out(r)->elems;

    PST_TYPED_WIDE(pst_cuda_bf16(r), pst_is_wide(n, call->y[0], call->x[0], NULL),
                   PST_LAUNCH((act_kernel<S, W>), pst_blocks(n / W), pst_cuda_stream(r),
                              (S *)call->y[0], (const S *)call->x[0], r->op->act, n));
}

PST_CUDA_RUN(act_b)
{
    const struct pst_op_request *r = &k->request;
    void *dx = request_operand(call->dx, 0);

    if (dx != NULL) {
        pst_cuda_act_back(pst_cuda_stream(r), pst_cuda_bf16(r), dx, call->dy,
                          r->op->act == PST_ACT_RELU ? call->y[0] : call->x[0], r->op->act,
                          r->samples * request_out(r)->elems);
    }
}

PST_CUDA_RUN(glu_f)
{
    const struct pst_op_request *r = &k->request;
    const uint64_t n = request_columns(request_out(r)), rows = request_rows(r, request_out(r));

    PST_TYPED_WIDE(pst_cuda_bf16(r), pst_is_wide(n, call->y[0], call->x[0], NULL),
                   PST_LAUNCH((glu_kernel<S, W>), pst_blocks_cells(rows, n / W), pst_cuda_stream(r),
                              (S *)call->y[0], (const S *)call->x[0], r->op->act, rows, n));
}

PST_CUDA_RUN(glu_b)
{
    const struct pst_op_request *r = &k->request;
    const uint64_t n = request_columns(request_out(r)), rows = request_rows(r, request_out(r));
    void *dx = request_operand(call->dx, 0);

    if (dx != NULL) {
        PST_TYPED_WIDE(pst_cuda_bf16(r), pst_is_wide(n, dx, call->dy, call->x[0]),
                       PST_LAUNCH((glu_back_kernel<S, W>), pst_blocks_cells(rows, n / W),
                                  pst_cuda_stream(r), (S *)dx, (const S *)call->dy,
                                  (const S *)call->x[0], r->op->act, rows, n));
    }
}

const struct pst_cuda_family pst_cuda_add_family = {
    NULL, NULL, NULL, NULL, {add_f, dropout_b, NULL}};
const struct pst_cuda_family pst_cuda_dropout_family = {
    NULL, NULL, NULL, NULL, {dropout_f, dropout_b, NULL}};
const struct pst_cuda_family pst_cuda_act_family = {NULL, NULL, NULL, NULL, {act_f, act_b, NULL}};
const struct pst_cuda_family pst_cuda_glu_family = {NULL, NULL, NULL, NULL, {glu_f, glu_b, NULL}};
