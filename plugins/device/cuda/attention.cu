/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernels between the products of attention: softmax over the keys of each row, its backward
 * part from the log-sum-exp of the forward pass (Dao et al., "FlashAttention", NeurIPS 2022,
 * section 3), and the gradient of a bias by distance. A block has a row of a head.
 */
#include "device/cuda/launch.h"

#include <math_constants.h>

/* A row sees the keys first ... end - 1; the others have probability 0. */
__device__ static uint64_t end_of(const struct pst_cuda_attention *shape, uint64_t row)
{
    const uint64_t end = shape->first + row + 1;

    return shape->causal && end < shape->keys ? end : shape->keys;
}

__device__ static uint64_t first_of(const struct pst_cuda_attention *shape, uint64_t row)
{
    const uint64_t key = shape->first + row;

    return shape->window != 0 && key >= shape->window ? key + 1 - shape->window : 0;
}

template <class S>
__device__ static float biased(const struct pst_cuda_attention *shape, float score, const S *bias,
                               uint64_t head, uint64_t row, uint64_t key)
{
    if (shape->buckets == NULL) {
        return score;
    }
    return score +
           pst_load(
               bias[(uint64_t)shape->buckets[key + shape->rows - 1 - row] * shape->heads + head]);
}

template <class S>
__global__ void softmax_kernel(struct pst_cuda_attention shape, float *scores, S *probs,
                               const S *bias, float *lse)
{
    PST_EACH_BLOCK(r, shape.heads * shape.rows)
    {
        const uint64_t head = r / shape.rows, row = r % shape.rows;
        const uint64_t first = first_of(&shape, row), n = end_of(&shape, row) - first;
        float *at = scores + r * shape.keys + first, most = -CUDART_INF_F;
        double sum = 0;

        PST_EACH_THREAD(j, n)
        {
            const float score = biased(&shape, at[j], bias, head, row, first + j);

            at[j] = score;
            most = score > most || score != score ? score : most;
        }
        most = pst_block_max(most);
        PST_EACH_THREAD(j, n)
        {
            sum += (double)expf(at[j] - most);
        }
        sum = pst_block_sum(sum);
        PST_EACH_THREAD(j, shape.keys)
        {
            const bool sees = j >= first && j - first < n;

            pst_store(&probs[r * shape.keys + j],
                      sees ? (float)((double)expf(at[j - first] - most) / sum) : 0.0f);
        }
        if (threadIdx.x == 0 && lse != NULL) {
            lse[r] = most + (float)log(sum);
        }
    }
}

template <class S>
__global__ void softmax_back_kernel(struct pst_cuda_attention shape, const float *scores,
                                    float *dprobs, S *probs, S *dscores, const S *bias,
                                    const float *lse)
{
    PST_EACH_BLOCK(r, shape.heads * shape.rows)
    {
        const uint64_t head = r / shape.rows, row = r % shape.rows;
        const uint64_t first = first_of(&shape, row), end = end_of(&shape, row);
        const uint64_t at = r * shape.keys;
        double mean = 0; /* of the slopes under the probabilities */

        PST_EACH_THREAD(i, end - first)
        {
            const uint64_t j = first + i;
            const float p = expf(biased(&shape, scores[at + j], bias, head, row, j) - lse[r]);

            mean += (double)p * (double)dprobs[at + j];
        }
        mean = pst_block_sum(mean);
        PST_EACH_THREAD(j, shape.keys)
        {
            float p = 0, slope = 0;

            if (j >= first && j < end) {
                p = expf(biased(&shape, scores[at + j], bias, head, row, j) - lse[r]);
                slope = p * (dprobs[at + j] - (float)mean);
            }
            dprobs[at + j] = slope;
            pst_store(&probs[at + j], p);
            pst_store(&dscores[at + j], slope);
        }
    }
}

/* Sums along the diagonals of a head: all pairs of one distance. */
__global__ void diagonal_kernel(struct pst_cuda_attention shape, float *sums, const float *slopes)
{
    const uint64_t n = shape.rows + shape.keys - 1;

    PST_EACH(i, shape.heads * n)
    {
        const uint64_t head = i / n, d = i % n; /* key - row + rows - 1 */
        const uint64_t first = d + 1 < shape.rows ? shape.rows - 1 - d : 0;
        float sum = 0;

        for (uint64_t row = first; row < shape.rows && row + d - (shape.rows - 1) < shape.keys;
             row++) {
            sum += slopes[(head * shape.rows + row) * shape.keys + row + d - (shape.rows - 1)];
        }
        sums[i] = sum;
    }
}

__global__ void bucket_kernel(struct pst_cuda_attention shape, float *dbias, const float *sums,
                              bool add)
{
    const uint64_t n = shape.rows + shape.keys - 1;

    PST_EACH(i, shape.heads * shape.n_buckets)
    {
        const uint64_t head = i % shape.heads;
        float sum = add ? dbias[i] : 0;

        for (uint64_t d = 0; d < n; d++) {
            sum += (uint64_t)shape.buckets[d] == i / shape.heads ? sums[head * n + d] : 0;
        }
        dbias[i] = sum;
    }
}

template <class S, unsigned W>
__global__ void heads_kernel(S *to, const S *from, uint64_t heads, uint64_t rows, uint64_t depth,
                             uint64_t stride, bool join)
{
    const uint64_t groups = depth / W;

    PST_EACH(i, heads * rows * groups)
    {
        const uint64_t row = i / groups % rows, head = i / groups / rows;
        const uint64_t packed = row * stride + head * depth + i % groups * W;

        pst_write<W>(to + (join ? packed : i * W), pst_read<W>(from + (join ? i * W : packed)));
    }
}

static void move_heads(cudaStream_t stream, bool bf16, uint64_t heads, uint64_t rows,
                       uint64_t depth, uint64_t stride, void *to, const void *from, bool join)
{
    PST_TYPED_WIDE(bf16, stride % 8 == 0 && pst_is_wide(depth, to, from, NULL),
                   PST_LAUNCH((heads_kernel<S, W>), pst_blocks(heads * rows * depth / W), stream,
                              (S *)to, (const S *)from, heads, rows, depth, stride, join));
}

void pst_cuda_split_heads(cudaStream_t stream, bool bf16, uint64_t heads, uint64_t rows,
                          uint64_t depth, uint64_t stride, void *apart, const void *packed)
{
    move_heads(stream, bf16, heads, rows, depth, stride, apart, packed, false);
}

void pst_cuda_join_heads(cudaStream_t stream, bool bf16, uint64_t heads, uint64_t rows,
                         uint64_t depth, uint64_t stride, void *packed, const void *apart)
{
    move_heads(stream, bf16, heads, rows, depth, stride, packed, apart, true);
}

template <class S>
__global__ void store_keys_kernel(S *to, const float *dkv, const float *past, uint64_t rows,
                                  uint64_t columns, uint64_t stride)
{
    PST_EACH(i, rows * columns)
    {
        pst_store(&to[i / columns * stride + i % columns],
                  dkv[i] + (past == NULL ? 0.0f : past[i]));
    }
}

void pst_cuda_store_keys(cudaStream_t stream, bool bf16, uint64_t rows, uint64_t columns,
                         uint64_t stride, void *to, const float *dkv, const float *past)
{
    PST_TYPED(bf16, PST_LAUNCH(store_keys_kernel<S>, pst_blocks(rows * columns), stream, (S *)to,
                               dkv, past, rows, columns, stride));
}

void pst_cuda_softmax(cudaStream_t stream, bool bf16, const struct pst_cuda_attention *shape,
                      float *scores, void *probs, const void *bias, float *lse)
{
    PST_TYPED(bf16,
              PST_LAUNCH_MEETING(softmax_kernel<S>, pst_blocks_each(shape->heads * shape->rows),
                                 stream, *shape, scores, (S *)probs, (const S *)bias, lse));
}

void pst_cuda_softmax_back(cudaStream_t stream, bool bf16, const struct pst_cuda_attention *shape,
                           const float *scores, float *dprobs, void *probs, void *dscores,
                           const void *bias, const float *lse)
{
    PST_TYPED(bf16, PST_LAUNCH_MEETING(
                        softmax_back_kernel<S>, pst_blocks_each(shape->heads * shape->rows), stream,
                        *shape, scores, dprobs, (S *)probs, (S *)dscores, (const S *)bias, lse));
}

void pst_cuda_bucket_sums(cudaStream_t stream, const struct pst_cuda_attention *shape, float *dbias,
                          const float *slopes, bool add, float *scratch)
{
    PST_LAUNCH(diagonal_kernel, pst_blocks(shape->heads * (shape->rows + shape->keys - 1)), stream,
               *shape, scratch, slopes);
    PST_LAUNCH(bucket_kernel, pst_blocks(shape->heads * shape->n_buckets), stream, *shape, dbias,
               (const float *)scratch, add);
}
