/* SPDX-License-Identifier: Apache-2.0
 *
 * The products of a mixture of experts. A pair is a token's slot and its expert. Lists of each
 * expert's pairs, in their order, are made on the device, so that a replay follows the router; a
 * block has a square of an expert's product, with f32 sums along the depth: in bf16 by tensor
 * cores.
 */
#include "device/cuda/act.h"

#ifndef PST_CUDA_ON_HOST
#include <mma.h>
#endif

#define SIDE 64u /* of a square */
#define EACH 4u  /* f32: rows and columns of a thread */
#define CORE 16u /* bf16: of what a warp multiplies at once */
#define RUN  16u /* pairs that a thread looks through at once */

struct experts {
    uint64_t tokens, columns, experts, chosen, width; /* tokens: of the micro-batch; width: F */
    int32_t *owners;                                  /* [tokens, chosen]: of a pair; -1: nobody */
    int32_t *counts;                                  /* [experts] */
    int32_t *lists;                                   /* [experts, tokens]: pairs */
};

/* --- who has what ------------------------------------------------------------------------------*/

template <class S> __global__ void owners_kernel(struct experts s, const S *weights)
{
    PST_EACH(t, s.tokens)
    {
        uint64_t slot = 0;

        for (uint64_t e = 0; e < s.experts && slot < s.chosen; e++) {
            if (pst_load(weights[t * s.experts + e]) != 0) {
                s.owners[t * s.chosen + slot++] = (int32_t)e;
            }
        }
        while (slot < s.chosen) {
            s.owners[t * s.chosen + slot++] = -1;
        }
    }
}

/* Sum over the threads before this one, and over all of them; for all threads of a block. */
__device__ static inline uint32_t sum_before(uint32_t value, uint32_t *ret_all)
{
    __shared__ uint32_t sums[PST_THREADS];
    uint32_t before;

    sums[threadIdx.x] = value;
    __syncthreads();
    for (unsigned width = 1; width < PST_THREADS; width *= 2) {
        const uint32_t more = threadIdx.x >= width ? sums[threadIdx.x - width] : 0;

        __syncthreads();
        sums[threadIdx.x] += more;
        __syncthreads();
    }
    before = sums[threadIdx.x] - value;
    *ret_all = sums[PST_THREADS - 1];
    __syncthreads();
    return before;
}

__global__ void lists_kernel(struct experts s)
{
    const uint64_t n = s.tokens * s.chosen;

    PST_EACH_BLOCK(e, s.experts)
    {
        int32_t *list = s.lists + e * s.tokens;

        for (uint64_t start = 0; start < n; start += PST_THREADS * RUN) {
            const uint64_t first = start + threadIdx.x * RUN;
            uint32_t mine = 0, all, at;

            for (uint64_t i = first; i < first + RUN && i < n; i++) {
                mine += s.owners[i] == (int32_t)e;
            }
            at = sum_before(mine, &all);
            for (uint64_t i = first; i < first + RUN && i < n; i++) {
                if (s.owners[i] == (int32_t)e) {
                    list[at++] = (int32_t)i;
                }
            }
            list += all;
        }
        if (threadIdx.x == 0) {
            s.counts[e] = (int32_t)(list - (s.lists + e * s.tokens));
        }
    }
}

/* --- products ----------------------------------------------------------------------------------*/

/* A block's part of both factors: STEP of the depth. Rows are 16 bytes longer than needed, so that
   neighbours of a column are in different banks. */
template <class S> struct alignas(32) factors {
    static constexpr unsigned STEP = 64 / sizeof(S), MORE = 16 / sizeof(S);

    S left[SIDE][STEP + MORE], right[STEP][SIDE + MORE];
};

struct alignas(32) product {
    float sums[SIDE][SIDE + 4];
};

/* Sums of a thread. */
struct plain_sums {
    float v[EACH][EACH] = {};

    __device__ static inline unsigned row()
    {
        return threadIdx.x / (SIDE / EACH) * EACH;
    }
    __device__ static inline unsigned column()
    {
        return threadIdx.x % (SIDE / EACH) * EACH;
    }
    __device__ inline void add(const factors<float> &f)
    {
        for (unsigned d = 0; d < f.STEP; d++) {
            for (unsigned i = 0; i < EACH; i++) {
                for (unsigned j = 0; j < EACH; j++) {
                    v[i][j] = __fmaf_rn(f.left[row() + i][d], f.right[d][column() + j], v[i][j]);
                }
            }
        }
    }
    __device__ inline void put(product &p) const
    {
        for (unsigned i = 0; i < EACH; i++) {
            for (unsigned j = 0; j < EACH; j++) {
                p.sums[row() + i][column() + j] = v[i][j];
            }
        }
    }
};

/* Sums of a warp: two neighbours of the 16 parts of a square. */
struct core_sums {
    nvcuda::wmma::fragment<nvcuda::wmma::accumulator, CORE, CORE, CORE, float> v[2];

    __device__ inline core_sums()
    {
        nvcuda::wmma::fill_fragment(v[0], 0.0f);
        nvcuda::wmma::fill_fragment(v[1], 0.0f);
    }
    __device__ static inline unsigned row()
    {
        return threadIdx.x / PST_WARP / 2 * CORE;
    }
    __device__ static inline unsigned column(unsigned i)
    {
        return (threadIdx.x / PST_WARP % 2 * 2 + i) * CORE;
    }
    __device__ inline void add(const factors<pst_half> &f)
    {
        using namespace nvcuda::wmma;
        fragment<matrix_a, CORE, CORE, CORE, __nv_bfloat16, row_major> a;
        fragment<matrix_b, CORE, CORE, CORE, __nv_bfloat16, row_major> b;

        for (unsigned d = 0; d < f.STEP; d += CORE) {
            load_matrix_sync(a, (const __nv_bfloat16 *)(const void *)&f.left[row()][d],
                             f.STEP + f.MORE);
            for (unsigned i = 0; i < 2; i++) {
                load_matrix_sync(b, (const __nv_bfloat16 *)(const void *)&f.right[d][column(i)],
                                 SIDE + f.MORE);
                mma_sync(v[i], a, b, v[i]);
            }
        }
    }
    __device__ inline void put(product &p) const
    {
        for (unsigned i = 0; i < 2; i++) {
            nvcuda::wmma::store_matrix_sync(&p.sums[row()][column(i)], v[i], SIDE + 4,
                                            nvcuda::wmma::mem_row_major);
        }
    }
};

template <class S> using sums_of = std::conditional_t<sizeof(S) == 2, core_sums, plain_sums>;

/* Neighbours of a factor, or zeros. */
template <unsigned W, class S> __device__ static inline pst_some<S, W> some_or_none(const S *at)
{
    return at == NULL ? pst_some<S, W>{} : pst_read<W>(at);
}

/* left(row, d) and right(d, column) say where W neighbours of a square's factors begin, or NULL;
   LEFT_ALONG, RIGHT_ALONG: these are of the depth, else of a row or column. */
template <unsigned W, bool LEFT_ALONG, bool RIGHT_ALONG, class S, class Left, class Right>
__device__ static inline void multiply(factors<S> &f, product &p, uint64_t depth, Left left,
                                       Right right)
{
    constexpr unsigned STEP = factors<S>::STEP;
    sums_of<S> sums;

    for (uint64_t first = 0; first < depth; first += STEP) {
        for (unsigned k = threadIdx.x * W; k < STEP * SIDE; k += PST_THREADS * W) {
            const unsigned row = LEFT_ALONG ? k / STEP : k % SIDE;
            const unsigned d = LEFT_ALONG ? k % STEP : k / SIDE;
            const unsigned column = RIGHT_ALONG ? k / STEP : k % SIDE;
            const unsigned bd = RIGHT_ALONG ? k % STEP : k / SIDE;
            const pst_some<S, W> a = some_or_none<W>(left(row, first + d));
            const pst_some<S, W> b = some_or_none<W>(right(first + bd, column));

            for (unsigned j = 0; j < W; j++) {
                f.left[row + (LEFT_ALONG ? 0 : j)][d + (LEFT_ALONG ? j : 0)] = a.v[j];
                f.right[bd + (RIGHT_ALONG ? j : 0)][column + (RIGHT_ALONG ? 0 : j)] = b.v[j];
            }
        }
        __syncthreads();
        sums.add(f);
        __syncthreads();
    }
    sums.put(p);
    __syncthreads();
}

/* A square: its expert, the rows in the expert's list, the columns. */
struct square {
    uint64_t expert, row, rows, column; /* rows: of the expert */
};

/* false: there is none. */
__device__ static inline bool square_of(const struct experts &s, uint64_t i, uint64_t columns,
                                        struct square *ret_square)
{
    const uint64_t across = (columns + SIDE - 1) / SIDE;
    uint64_t tile = i / across;

    for (uint64_t e = 0; e < s.experts; e++) {
        const uint64_t rows = (uint64_t)s.counts[e], tiles = (rows + SIDE - 1) / SIDE;

        if (tile < tiles) {
            *ret_square = {e, tile * SIDE, rows, i % across * SIDE};
            return true;
        }
        tile -= tiles;
    }
    return false;
}

/* out [pair, columns] = a [row of pair, depth] b [expert], b [depth, columns], or transposed. A row
   of a serves `per` pairs. */
template <class S, unsigned W, class D, bool TRANSPOSED>
__global__ void rows_kernel(struct experts s, D *out, const S *a, uint64_t per, const S *b,
                            uint64_t depth, uint64_t columns, uint64_t squares)
{
    __shared__ factors<S> f;
    __shared__ product p;

    PST_EACH_BLOCK(i, squares)
    {
        struct square q;
        const int32_t *list;
        const S *matrix;

        if (!square_of(s, i, columns, &q)) {
            return;
        }
        list = s.lists + q.expert * s.tokens + q.row;
        matrix = b + q.expert * depth * columns;
        multiply<W, true, TRANSPOSED>(
            f, p, depth,
            [&](unsigned row, uint64_t d) {
                return q.row + row < q.rows && d < depth ? a + (uint64_t)list[row] / per * depth + d
                                                         : NULL;
            },
            [&](uint64_t d, unsigned column) {
                const uint64_t c = q.column + column;

                return d >= depth || c >= columns ? NULL
                       : TRANSPOSED               ? matrix + c * depth + d
                                                  : matrix + d * columns + c;
            });
        for (unsigned k = threadIdx.x; k < SIDE * SIDE; k += PST_THREADS) {
            const uint64_t row = k / SIDE, column = q.column + k % SIDE;

            if (q.row + row < q.rows && column < columns) {
                pst_store(&out[(uint64_t)list[row] * columns + column], p.sums[row][k % SIDE]);
            }
        }
        __syncthreads();
    }
}

/* out [expert, rows, columns] = the sum over its pairs of a [row of pair, rows] on its side times b
   [row of pair, columns]. */
template <class S, unsigned W>
__global__ void sums_kernel(struct experts s, float *out, const S *a, uint64_t a_per, uint64_t rows,
                            const S *b, uint64_t b_per, uint64_t columns)
{
    const uint64_t down = (rows + SIDE - 1) / SIDE, across = (columns + SIDE - 1) / SIDE;
    __shared__ factors<S> f;
    __shared__ product p;

    PST_EACH_BLOCK(i, s.experts * down * across)
    {
        const uint64_t e = i / across / down, first_row = i / across % down * SIDE;
        const uint64_t first_column = i % across * SIDE, n = (uint64_t)s.counts[e];
        const int32_t *list = s.lists + e * s.tokens;

        multiply<W, false, false>(
            f, p, n,
            [&](unsigned row, uint64_t d) {
                return d < n && first_row + row < rows
                           ? a + (uint64_t)list[d] / a_per * rows + first_row + row
                           : NULL;
            },
            [&](uint64_t d, unsigned column) {
                return d < n && first_column + column < columns
                           ? b + (uint64_t)list[d] / b_per * columns + first_column + column
                           : NULL;
            });
        for (unsigned k = threadIdx.x; k < SIDE * SIDE; k += PST_THREADS) {
            const uint64_t row = first_row + k / SIDE, column = first_column + k % SIDE;

            if (row < rows && column < columns) {
                out[(e * rows + row) * columns + column] = p.sums[k / SIDE][k % SIDE];
            }
        }
        __syncthreads();
    }
}

/* --- between them ------------------------------------------------------------------------------*/

/* a = weight act(gate) up of each pair; gates of pairs that nobody has are 0. */
template <class S>
__global__ void gates_kernel(struct experts s, uint32_t act, S *a, S *gates, const S *weights)
{
    PST_EACH_CELL(pair, i, s.tokens * s.chosen, s.width)
    {
        S *h = gates + pair * 2 * s.width + i;
        const int32_t e = s.owners[pair];

        if (e < 0) {
            pst_store(&h[0], 0.0f);
            pst_store(&h[s.width], 0.0f);
        } else {
            const float weight = pst_load(weights[pair / s.chosen * s.experts + (uint64_t)e]);

            pst_store(&a[pair * s.width + i],
                      weight * (act_of(act, pst_load(h[0])) * pst_load(h[s.width])));
        }
    }
}

/* A warp has a token. g: gradient of act(gate) up, without the weight. */
template <class S>
__global__ void gates_back_kernel(struct experts s, uint32_t act, const float *g, const S *gates,
                                  const S *weights, S *dgates, S *a, S *dweights)
{
    PST_EACH_ROW(PST_WARP, t, s.tokens)
    {
        const unsigned lane = threadIdx.x % PST_WARP;

        for (uint64_t e = lane; dweights != NULL && e < s.experts; e += PST_WARP) {
            pst_store(&dweights[t * s.experts + e], 0.0f);
        }
        __syncwarp();
        for (uint64_t pair = t * s.chosen; pair < (t + 1) * s.chosen; pair++) {
            const S *h = gates + pair * 2 * s.width;
            S *dh = dgates + pair * 2 * s.width;
            const int32_t e = s.owners[pair];
            const float weight = e < 0 ? 0 : pst_load(weights[t * s.experts + (uint64_t)e]);
            double sum = 0;

            for (uint64_t i = lane; i < s.width; i += PST_WARP) {
                const float gate = pst_load(h[i]), up = pst_load(h[s.width + i]);
                const float y = act_of(act, gate), slope = e < 0 ? 0 : g[pair * s.width + i];

                sum += (double)(y * up) * (double)slope;
                pst_store(&dh[i], weight * slope * up * act_slope(act, gate));
                pst_store(&dh[s.width + i], weight * slope * y);
                pst_store(&a[pair * s.width + i], weight * (y * up));
            }
            sum = pst_warp_sum(sum);
            if (lane == 0 && e >= 0 && dweights != NULL) {
                pst_store(&dweights[t * s.experts + (uint64_t)e], (float)sum);
            }
        }
    }
}

/* A token's sum over its pairs, in their order. */
template <class S> __global__ void gather_kernel(struct experts s, S *y, const float *parts)
{
    PST_EACH_CELL(t, c, s.tokens, s.columns)
    {
        float sum = 0;

        for (uint64_t pair = t * s.chosen; pair < (t + 1) * s.chosen; pair++) {
            sum += s.owners[pair] < 0 ? 0 : parts[pair * s.columns + c];
        }
        pst_store(&y[t * s.columns + c], sum);
    }
}

/* --- passes ------------------------------------------------------------------------------------*/

/* Pieces of the workspace. parts: f32 [pair, columns]; before that F has gates there that nobody
   keeps, and B the gradients of a. */
struct places {
    struct experts s;
    void *a, *parts;
    uint64_t bytes;
};

static struct places places_of(const struct pst_op_request *r, void *base)
{
    const struct pst_tensor *x = request_in(r, 0);
    const uint64_t *dims = request_parameter(r, 0)->dims, size = pst_dtype_bytes(r->dtype);
    struct places p = {};
    uint64_t pairs, wide, parts;

    p.s.tokens = r->samples * x->dims[0];
    p.s.columns = x->dims[1];
    p.s.experts = dims[0];
    p.s.chosen = r->op->experts_per_token;
    p.s.width = dims[2] / 2;
    pairs = p.s.tokens * p.s.chosen;
    p.s.owners = (int32_t *)pst_cuda_carve(base, &p.bytes, pairs * sizeof(int32_t));
    p.s.counts = (int32_t *)pst_cuda_carve(base, &p.bytes, p.s.experts * sizeof(int32_t));
    p.s.lists =
        (int32_t *)pst_cuda_carve(base, &p.bytes, p.s.experts * p.s.tokens * sizeof(int32_t));
    if (r->pass != PST_KERNEL_W) {
        wide = p.s.width * (r->pass == PST_KERNEL_F ? 2 * size : sizeof(float));
        parts = p.s.columns * sizeof(float);
        p.a = r->pass == PST_KERNEL_F ? pst_cuda_carve(base, &p.bytes, pairs * p.s.width * size)
                                      : NULL;
        p.parts = pst_cuda_carve(base, &p.bytes, pairs * (wide > parts ? wide : parts));
    }
    return p;
}

static uint64_t workspace(const struct pst_op_request *r)
{
    return places_of(r, NULL).bytes;
}

template <class S>
static void find_pairs(cudaStream_t stream, const struct experts &s, const void *weights)
{
    PST_LAUNCH(owners_kernel<S>, pst_blocks(s.tokens), stream, s, (const S *)weights);
    PST_LAUNCH_MEETING(lists_kernel, pst_blocks_each(s.experts), stream, s);
}

template <class S, class D, bool TRANSPOSED>
static void multiply_rows(cudaStream_t stream, const struct experts &s, D *out, const void *a,
                          uint64_t per, const void *b, uint64_t depth, uint64_t columns)
{
    const uint64_t most = s.tokens * s.chosen / SIDE + s.experts;
    const uint64_t squares = most * ((columns + SIDE - 1) / SIDE);

    if (columns % 8 == 0 && pst_is_wide(depth, a, b, NULL)) {
        PST_LAUNCH_MEETING((rows_kernel<S, 16 / sizeof(S), D, TRANSPOSED>),
                           pst_blocks_each(squares), stream, s, out, (const S *)a, per,
                           (const S *)b, depth, columns, squares);
    } else {
        PST_LAUNCH_MEETING((rows_kernel<S, 1, D, TRANSPOSED>), pst_blocks_each(squares), stream, s,
                           out, (const S *)a, per, (const S *)b, depth, columns, squares);
    }
}

template <class S> static void forward(const struct pst_op_request *r, const struct pst_call *call)
{
    const struct places p = places_of(r, call->workspace);
    const cudaStream_t stream = pst_cuda_stream(r);
    S *gates = (S *)(call->y[1] == NULL ? p.parts : call->y[1]), *a = (S *)p.a;

    find_pairs<S>(stream, p.s, call->x[1]);
    multiply_rows<S, S, false>(stream, p.s, gates, call->x[0], p.s.chosen, call->p[0], p.s.columns,
                               2 * p.s.width);
    PST_LAUNCH(gates_kernel<S>, pst_blocks_cells(p.s.tokens * p.s.chosen, p.s.width), stream, p.s,
               r->op->act, a, gates, (const S *)call->x[1]);
    multiply_rows<S, float, false>(stream, p.s, (float *)p.parts, a, 1, call->p[1], p.s.width,
                                   p.s.columns);
    PST_LAUNCH(gather_kernel<S>, pst_blocks_cells(p.s.tokens, p.s.columns), stream, p.s,
               (S *)call->y[0], (const float *)p.parts);
}

template <class S> static void backward(const struct pst_op_request *r, const struct pst_call *call)
{
    const struct places p = places_of(r, call->workspace);
    const cudaStream_t stream = pst_cuda_stream(r);
    S *dx = (S *)request_operand(call->dx, 0);
    float *parts = (float *)p.parts;

    find_pairs<S>(stream, p.s, call->x[1]);
    multiply_rows<S, float, true>(stream, p.s, parts, call->dy, p.s.chosen, call->p[1], p.s.columns,
                                  p.s.width);
    PST_LAUNCH_MEETING(gates_back_kernel<S>, pst_blocks(p.s.tokens * PST_WARP), stream, p.s,
                       r->op->act, (const float *)parts, (const S *)call->y[1],
                       (const S *)call->x[1], (S *)call->z[0], (S *)call->z[1],
                       (S *)request_operand(call->dx, 1));
    if (dx != NULL) {
        multiply_rows<S, float, true>(stream, p.s, parts, call->z[0], 1, call->p[0], 2 * p.s.width,
                                      p.s.columns);
        PST_LAUNCH(gather_kernel<S>, pst_blocks_cells(p.s.tokens, p.s.columns), stream, p.s, dx,
                   (const float *)parts);
    }
}

template <class S>
static void sum_gradient(cudaStream_t stream, const struct experts &s, float *out, const void *a,
                         uint64_t a_per, uint64_t rows, const void *b, uint64_t b_per,
                         uint64_t columns)
{
    const uint64_t squares = (rows + SIDE - 1) / SIDE * ((columns + SIDE - 1) / SIDE);

    if (out != NULL && columns % 8 == 0 && pst_is_wide(rows, a, b, NULL)) {
        PST_LAUNCH_MEETING((sums_kernel<S, 16 / sizeof(S)>), pst_blocks_each(s.experts * squares),
                           stream, s, out, (const S *)a, a_per, rows, (const S *)b, b_per, columns);
    } else if (out != NULL) {
        PST_LAUNCH_MEETING((sums_kernel<S, 1>), pst_blocks_each(s.experts * squares), stream, s,
                           out, (const S *)a, a_per, rows, (const S *)b, b_per, columns);
    }
}

template <class S> static void weights(const struct pst_op_request *r, const struct pst_call *call)
{
    const struct places p = places_of(r, call->workspace);
    const cudaStream_t stream = pst_cuda_stream(r);

    find_pairs<S>(stream, p.s, call->x[1]);
    sum_gradient<S>(stream, p.s, (float *)request_dp(r, call, 0), call->x[0], p.s.chosen,
                    p.s.columns, call->z[0], 1, 2 * p.s.width);
    sum_gradient<S>(stream, p.s, (float *)request_dp(r, call, 1), call->z[1], 1, p.s.width,
                    call->dy, p.s.chosen, p.s.columns);
}

PST_CUDA_RUN(experts_f)
{
    PST_TYPED(pst_cuda_bf16(&k->request), forward<S>(&k->request, call));
}

PST_CUDA_RUN(experts_b)
{
    PST_TYPED(pst_cuda_bf16(&k->request), backward<S>(&k->request, call));
}

PST_CUDA_RUN(experts_w)
{
    PST_TYPED(pst_cuda_bf16(&k->request), weights<S>(&k->request, call));
}

const struct pst_cuda_family pst_cuda_experts_family = {
    NULL, workspace, NULL, NULL, {experts_f, experts_b, experts_w}};
