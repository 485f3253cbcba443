/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of a table, and their gradient. Tokens are sorted by entry, then by place, so that those of
 * an entry are a list in ascending order, which is added up in pieces of PIECE tokens: the first by
 * who has the entry, the others before, then their sums in order. Data are not trusted: a token
 * that is out of range makes NaN and has no gradient.
 */
#include "device/cuda/launch.h"

#include <math_constants.h>

#define TILE  2048u /* tokens that a block sorts */
#define PIECE 128u
#define AHEAD 4u /* rows that a thread reads at once */

struct embedding {
    uint64_t tokens;    /* of the micro-batch */
    uint64_t positions; /* tokens of a sample */
    uint64_t summed;    /* tokens whose rows make one of the result */
    uint64_t entries, columns;
    uint32_t padding; /* as in struct pst_op */
};

__device__ static bool is_entry(const struct embedding *shape, int32_t id)
{
    return id >= 0 && (uint64_t)id < shape->entries;
}

__device__ static bool has_gradient(const struct embedding *shape, int32_t id)
{
    return is_entry(shape, id) && (uint32_t)id + 1 != shape->padding;
}

template <class S, unsigned W>
__global__ void embedding_kernel(struct embedding shape, S *y, const int32_t *ids, const S *table,
                                 const S *places)
{
    const uint64_t n = shape.columns;

    PST_EACH_CELL(row, group, shape.tokens / shape.summed, n / W)
    {
        float sum[W] = {};
        pst_some<S, W> some;

        for (uint64_t t = row * shape.summed; t < (row + 1) * shape.summed; t++) {
            const bool valid = is_entry(&shape, ids[t]);

            some = pst_read<W>(table + (valid ? (uint64_t)ids[t] : 0) * n + group * W);
            for (unsigned k = 0; k < W; k++) {
                sum[k] += valid ? pst_load(some.v[k]) : CUDART_NAN_F;
            }
        }
        if (places != NULL) {
            some = pst_read<W>(places + row % shape.positions * n + group * W);
            for (unsigned k = 0; k < W; k++) {
                sum[k] += pst_load(some.v[k]);
            }
        }
        for (unsigned k = 0; k < W; k++) {
            pst_store(&some.v[k], sum[k]);
        }
        pst_write_whole<W>(y + row * n + group * W, some);
    }
}

/* --- tokens by entry ---------------------------------------------------------------------------*/

/* No two are equal. Tokens whose row has no gradient come after all entries. */
__device__ static uint64_t key_of(uint64_t entry, uint64_t token)
{
    return entry << 32 | token;
}

/* How many of n sorted keys are less. */
__device__ static uint64_t less_than(const uint64_t *keys, uint64_t n, uint64_t key)
{
    uint64_t low = 0;

    while (low < n) {
        const uint64_t middle = (low + n) / 2;

        if (keys[middle] < key) {
            low = middle + 1;
        } else {
            n = middle;
        }
    }
    return low;
}

/* Batcher, "Sorting networks and their applications", 1968: bitonic. */
__device__ static void sort_tile(uint64_t *tile)
{
    for (unsigned size = 2; size <= TILE; size *= 2) {
        for (unsigned step = size / 2; step > 0; step /= 2) {
            PST_EACH_THREAD(i, TILE / 2)
            {
                const uint64_t at = 2 * i - (i & (step - 1));
                const uint64_t a = tile[at], b = tile[at + step];

                if ((a > b) == ((at & size) == 0)) {
                    tile[at] = b;
                    tile[at + step] = a;
                }
            }
            __syncthreads();
        }
    }
}

__global__ void sort_kernel(struct embedding shape, const int32_t *ids, uint64_t *keys)
{
    __shared__ uint64_t tile[TILE];

    PST_EACH_BLOCK(block, (shape.tokens + TILE - 1) / TILE)
    {
        const uint64_t first = block * TILE;

        PST_EACH_THREAD(i, TILE)
        {
            const uint64_t t = first + i;
            const int32_t id = t < shape.tokens ? ids[t] : -1;

            tile[i] = key_of(has_gradient(&shape, id) ? (uint64_t)id : shape.entries, t);
        }
        __syncthreads();
        sort_tile(tile);
        PST_EACH_THREAD(i, TILE)
        {
            if (first + i < shape.tokens) {
                keys[first + i] = tile[i];
            }
        }
        __syncthreads();
    }
}

/* Sorted runs, a power of two long, become one of twice the length. */
__global__ void merge_kernel(uint64_t *to, const uint64_t *from, uint64_t run, uint64_t n)
{
    PST_EACH(i, n)
    {
        const uint64_t own = i & ~(run - 1), other = own ^ run;
        const uint64_t left = other < n ? n - other : 0;

        to[(own & other) + (i - own) + less_than(from + other, left < run ? left : run, from[i])] =
            from[i];
    }
}

/* Where the list of each entry begins; that of the last ends at starts[entries]. */
__global__ void starts_kernel(struct embedding shape, uint32_t *starts, const uint64_t *keys)
{
    PST_EACH(entry, shape.entries + 1)
    {
        starts[entry] = (uint32_t)less_than(keys, shape.tokens, key_of(entry, 0));
    }
}

/* --- gradients ---------------------------------------------------------------------------------*/

/* W columns of the rows of dy that the tokens of these keys went into. */
template <unsigned W, class S>
__device__ static pst_some<float, W> piece_sum(const struct embedding *shape, const S *dy,
                                               const uint64_t *keys, uint64_t n, uint64_t column)
{
    pst_some<float, W> sum = {};

    pst_add_rows<AHEAD>(sum, n, [&](uint64_t i) {
        const uint64_t row = (uint32_t)keys[i] / (uint32_t)shape->summed;

        return dy + row * shape->columns + column;
    });
    return sum;
}

/* Every PIECEth place of the sorted tokens has, of the list that goes on there, the first piece
   that begins there or later. A list's second piece and those that follow are each at one such
   place, side by side. */
template <class S, unsigned W>
__global__ void pieces_kernel(struct embedding shape, float *pieces, const S *dy,
                              const uint64_t *keys, const uint32_t *starts)
{
    PST_EACH_CELL(place, group, shape.tokens / PIECE + 1, shape.columns / W)
    {
        const uint64_t at = place * PIECE;
        const uint64_t entry = at < shape.tokens ? keys[at] >> 32 : shape.entries;

        if (entry < shape.entries) {
            const uint64_t offset = (at - starts[entry]) % PIECE, end = starts[entry + 1];
            const uint64_t first = offset == 0 ? at : at + PIECE - offset;

            if (first > starts[entry] && first < end) {
                const uint64_t n = end - first < PIECE ? end - first : PIECE;

                pst_write_whole<W>(pieces + place * shape.columns + group * W,
                                   piece_sum<W>(&shape, dy, keys + first, n, group * W));
            }
        }
    }
}

template <class S, unsigned W>
__global__ void table_kernel(struct embedding shape, float *dtable, const S *dy,
                             const uint64_t *keys, const uint32_t *starts, const float *pieces)
{
    PST_EACH_CELL(entry, group, shape.entries, shape.columns / W)
    {
        const uint64_t first = starts[entry], n = starts[entry + 1] - first;
        const float *piece = pieces + (first / PIECE + 1) * shape.columns + group * W;
        pst_some<float, W> sum =
            piece_sum<W>(&shape, dy, keys + first, n < PIECE ? n : PIECE, group * W);

        pst_add_rows<AHEAD>(sum, n > PIECE ? (n - 1) / PIECE : 0,
                            [&](uint64_t i) { return piece + i * shape.columns; });
        pst_write_whole<W>(dtable + entry * shape.columns + group * W, sum);
    }
}

static struct embedding shape_of(const struct pst_op_request *r)
{
    const struct pst_parameter *table = request_parameter(r, 0);
    struct embedding shape;

    shape.positions = request_in(r, 0)->elems;
    shape.tokens = r->samples * shape.positions;
    shape.columns = table->dims[1];
    shape.entries = table->elems / shape.columns;
    shape.summed = r->op->bag == PST_BAG_SUM ? shape.positions : 1;
    shape.padding = r->op->padding;
    return shape;
}

struct lists {
    uint64_t *keys, *spare; /* sorted; what they are merged into */
    float *pieces;
    uint32_t *starts;
};

/* So many that pieces are aligned. */
static uint64_t n_keys(const struct embedding *shape)
{
    return (shape->tokens + 3) / 4 * 4;
}

static uint64_t n_pieces(const struct embedding *shape)
{
    return shape->tokens / PIECE + 1;
}

static struct lists lists_of(const struct embedding *shape, void *base)
{
    struct lists lists;

    lists.keys = (uint64_t *)base;
    lists.spare = lists.keys + n_keys(shape);
    lists.pieces = (float *)(lists.spare + n_keys(shape));
    lists.starts = (uint32_t *)(lists.pieces + n_pieces(shape) * shape->columns);
    return lists;
}

static uint64_t workspace(const struct pst_op_request *r)
{
    const struct embedding shape = shape_of(r);
    const uint64_t table = 2 * n_keys(&shape) * sizeof(uint64_t) +
                           n_pieces(&shape) * shape.columns * sizeof(float) +
                           (shape.entries + 1) * sizeof(uint32_t);
    uint64_t places = 0;

    if (r->pass != PST_KERNEL_W) {
        return 0;
    }
    if (request_has_param(r, 1)) {
        places = pst_cuda_column_floats(r->samples, shape.positions * shape.columns);
    }
    return places * sizeof(float) > table ? places * sizeof(float) : table;
}

/* Keys hold 32-bit numbers. */
static pst_status init(struct pst_cuda_kernel *k, struct pst_error *err)
{
    const struct embedding shape = shape_of(&k->request);

    if (shape.tokens > INT32_MAX / 2 || shape.entries > INT32_MAX) {
        return pst_fail(err, PST_ERR_UNSUPPORTED, "device.kernel",
                        "device cuda: too many tokens in a micro-batch, or rows in a table");
    }
    return PST_OK;
}

/* Elements of the table of positions that are of slices before this one. */
static uint64_t places_before(const struct embedding *shape, const struct pst_call *call)
{
    return call->slice * shape->positions * shape->columns;
}

PST_CUDA_RUN(embedding_f)
{
    const struct pst_op_request *r = &k->request;
    const struct embedding shape = shape_of(r);
    const void *places = request_param(r, call, 1);
    const uint64_t before = places == NULL ? 0 : places_before(&shape, call);

    PST_TYPED_WIDE(pst_cuda_bf16(r), pst_is_wide(shape.columns, call->y[0], call->p[0], places),
                   PST_LAUNCH((embedding_kernel<S, W>),
                              pst_blocks_cells(shape.tokens / shape.summed, shape.columns / W),
                              pst_cuda_stream(r), shape, (S *)call->y[0],
                              (const int32_t *)call->x[0], (const S *)call->p[0],
                              (const S *)places + before));
}

static void sort_tokens(cudaStream_t stream, const struct embedding *shape, const int32_t *ids,
                        struct lists *lists)
{
    PST_LAUNCH_MEETING(sort_kernel, pst_blocks_each((shape->tokens + TILE - 1) / TILE), stream,
                       *shape, ids, lists->keys);
    for (uint64_t run = TILE; run < shape->tokens; run *= 2) {
        uint64_t *merged = lists->spare;

        PST_LAUNCH(merge_kernel, pst_blocks(shape->tokens), stream, merged,
                   (const uint64_t *)lists->keys, run, shape->tokens);
        lists->spare = lists->keys;
        lists->keys = merged;
    }
    PST_LAUNCH(starts_kernel, pst_blocks(shape->entries + 1), stream, *shape, lists->starts,
               (const uint64_t *)lists->keys);
}

template <class S, unsigned W>
static void sum_table(cudaStream_t stream, const struct embedding *shape, float *dtable,
                      const S *dy, const struct lists *lists)
{
    const uint64_t groups = shape->columns / W;

    PST_LAUNCH((pieces_kernel<S, W>), pst_blocks_cells(n_pieces(shape), groups), stream, *shape,
               lists->pieces, dy, (const uint64_t *)lists->keys, (const uint32_t *)lists->starts);
    PST_LAUNCH((table_kernel<S, W>), pst_blocks_cells(shape->entries, groups), stream, *shape,
               dtable, dy, (const uint64_t *)lists->keys, (const uint32_t *)lists->starts,
               (const float *)lists->pieces);
}

PST_CUDA_RUN(embedding_w)
{
    const struct pst_op_request *r = &k->request;
    const struct embedding shape = shape_of(r);
    cudaStream_t stream = pst_cuda_stream(r);
    float *dtable = (float *)request_dp(r, call, 0), *dplaces = (float *)request_dp(r, call, 1);
    struct lists lists;

    if (dtable != NULL) {
        lists = lists_of(&shape, call->workspace);
        sort_tokens(stream, &shape, (const int32_t *)call->x[0], &lists);
        PST_TYPED_WIDE(pst_cuda_bf16(r), pst_is_wide(shape.columns, dtable, call->dy, NULL),
                       (sum_table<S, W>(stream, &shape, dtable, (const S *)call->dy, &lists)));
    }
    if (dplaces != NULL && r->graph->slices > 1) {
        cudaMemsetAsync(dplaces, 0, request_parameter(r, 1)->elems * sizeof *dplaces, stream);
    }
    if (dplaces != NULL) {
        pst_cuda_column_sums(stream, pst_cuda_bf16(r), dplaces + places_before(&shape, call),
                             call->dy, r->samples, shape.positions * shape.columns,
                             (float *)call->workspace);
    }
}

const struct pst_cuda_family pst_cuda_embedding_family = {
    NULL, workspace, init, NULL, {embedding_f, NULL, embedding_w}};
