/* SPDX-License-Identifier: Apache-2.0
 *
 * Layer norm and root mean square norm over rows, or the latter over the heads of queries and keys
 * in packed rows; means NULL: root mean square. A row is read once: a warp or a block holds it in
 * registers. B finds the gradients of the parameters on its way. F can begin with the sum that it
 * is the norm of, which is rounded and written as a kernel of its own would.
 */
#include "device/cuda/launch.h"

#define BACK_BLOCKS 256u /* at most; two for each multiprocessor of a large GPU */

#ifdef __CUDA_ARCH__
#define UNROLLED _Pragma("unroll")
#else
#define UNROLLED
#endif

/* The neighbours that a thread has of a row: W in every T W, up to K such. K 0: as many as there
   are, none of which is held. What is held is in registers only where this is unrolled. */
#define EACH_PART(k, c, n)                                                                         \
    UNROLLED for (uint64_t k = 0, c = threadIdx.x % T * W; K == 0 ? c < (n) : k < K;               \
                  k++, c += T * W) if (K == 0 || c < (n))
#define HELD (K == 0 ? 1 : K)

/* Where rows lie: one behind the other, or (PACKED) as the first `heads` parts of rows that have so
   many columns; the first `queries` parts have a gain of their own, and what is behind all is
   copied. */
struct norm_layout {
    uint64_t rows, n, heads, queries, columns; /* heads: 0 where not packed */
};

template <unsigned PACKED>
__device__ static inline uint64_t start_of(const struct norm_layout &m, uint64_t row)
{
    return PACKED ? row / m.heads * m.columns + row % m.heads * m.n : row * m.n;
}

template <unsigned PACKED>
__device__ static inline bool is_key(const struct norm_layout &m, uint64_t row)
{
    return PACKED && row % m.heads >= m.queries;
}

template <unsigned W, class S>
__device__ static inline void copy_rest(const struct norm_layout &m, S *y, const S *x)
{
    const uint64_t first = m.heads * m.n, groups = (m.columns - first) / W;

    PST_EACH(i, m.rows / m.heads * groups)
    {
        const uint64_t at = i / groups * m.columns + first + i % groups * W;

        pst_write<W>(y + at, pst_read<W>(x + at));
    }
}

template <class S, unsigned W, unsigned K, unsigned T> struct row_part {
    const S *row;
    pst_some<S, W> held[HELD];
};

template <class S, unsigned W, unsigned K, unsigned T>
__device__ static inline void hold(row_part<S, W, K, T> &part, const S *row, uint64_t n)
{
    part.row = row;
    if (K > 0) {
        EACH_PART(k, c, n)
        {
            part.held[k] = pst_read<W>(row + c);
        }
    }
}

/* What a row is the sum of; sum NULL: it is there. */
template <class S> struct norm_sum {
    S *sum;
    const S *base, *more;
};

/* A thread has the same elements from here on. */
template <class S, unsigned W, unsigned K, unsigned T>
__device__ static inline void hold_sum(row_part<S, W, K, T> &part, const norm_sum<S> &of,
                                       uint64_t start, uint64_t n)
{
    part.row = of.sum + start;
    EACH_PART(k, c, n)
    {
        const pst_some<S, W> under = pst_read<W>(of.base + start + c);
        pst_some<S, W> some = pst_read<W>(of.more + start + c);

        for (unsigned j = 0; j < W; j++) {
            pst_store(&some.v[j], pst_load(under.v[j]) + pst_load(some.v[j]));
        }
        if (K > 0) {
            part.held[k] = some;
        } else {
            pst_write<W>(of.sum + start + c, some);
        }
    }
    if (K > 0) { /* behind all reads, so that none of them waits for another */
        EACH_PART(k, c, n)
        {
            pst_write<W>(of.sum + start + c, part.held[k]);
        }
    }
}

template <class S, unsigned W, unsigned K, unsigned T>
__device__ static inline pst_some<S, W> some_of(const row_part<S, W, K, T> &part, uint64_t k,
                                                uint64_t c)
{
    return K > 0 ? part.held[k] : pst_read<W>(part.row + c);
}

/* Mean first, then squares around it: what lies far from 0 loses nothing. */
template <class S, unsigned W, unsigned K, unsigned T>
__device__ static inline void statistics(const row_part<S, W, K, T> &part, uint64_t n, bool rms,
                                         float eps, float *ret_mean, float *ret_rstd)
{
    float mean = 0, squares = 0, values[W];

    if (!rms) {
        EACH_PART(k, c, n)
        {
            const pst_some<S, W> some = some_of(part, k, c);

            for (unsigned j = 0; j < W; j++) {
                values[j] = pst_load(some.v[j]);
            }
            mean += pst_tree_sum(values);
        }
        mean = pst_team_sum<T>(mean) / (float)n;
    }
    EACH_PART(k, c, n)
    {
        const pst_some<S, W> some = some_of(part, k, c);

        for (unsigned j = 0; j < W; j++) {
            values[j] = pst_load(some.v[j]) - mean;
            values[j] *= values[j];
        }
        squares += pst_tree_sum(values);
    }
    *ret_mean = mean;
    *ret_rstd = 1 / sqrtf(pst_team_sum<T>(squares) / (float)n + eps);
}

template <class S, unsigned W, unsigned K, unsigned T, unsigned PACKED, unsigned SUMS>
__global__ void norm_kernel(S *y, const S *x, norm_sum<S> of, const float *first_gain,
                            const float *key_gain, const float *bias, float eps,
                            struct norm_layout m, float *means, float *rstds)
{
    if (PACKED) {
        copy_rest<W>(m, y, x);
    }
    PST_EACH_ROW(T, row, m.rows)
    {
        const uint64_t at = start_of<PACKED>(m, row), n = m.n;
        const float *gain = is_key<PACKED>(m, row) ? key_gain : first_gain;
        row_part<S, W, K, T> part;
        float mean, rstd;

        if (SUMS) {
            hold_sum(part, of, at, n);
        } else {
            hold(part, x + at, n);
        }
        statistics(part, n, bias == NULL, eps, &mean, &rstd);
        EACH_PART(k, c, n)
        {
            const pst_some<float, W> gains = pst_read<W>(gain + c);
            pst_some<float, W> biases = {};
            pst_some<S, W> some = some_of(part, k, c);

            if (bias != NULL) {
                biases = pst_read<W>(bias + c);
            }
            for (unsigned j = 0; j < W; j++) {
                const float value = (pst_load(some.v[j]) - mean) * rstd * gains.v[j];

                pst_store(&some.v[j], bias == NULL ? value : value + biases.v[j]);
            }
            pst_write<W>(y + at + c, some);
        }
        if (threadIdx.x % T == 0 && rstds != NULL) {
            rstds[row] = rstd;
            if (means != NULL) {
                means[row] = mean;
            }
        }
    }
}

template <class S> struct norm_back {
    const S *x, *dy, *add; /* add may be NULL */
    S *dx;                 /* may be NULL */
    const float *gain, *key_gain, *means, *rstds;
    float *dgain, *dother; /* partial [blocks, n]; dother: of the bias, or of the gain of keys */
    struct norm_layout m;
    uint64_t each; /* rows of a block */
};

/* rstd (g - mean(g) - xhat mean(g xhat)) with g = dy gain; without the first mean where rms. */
template <class S, unsigned W, unsigned K, unsigned T>
__device__ static inline void put_dx(const norm_back<S> &b, uint64_t start, const float *gain,
                                     const row_part<S, W, K, T> &x, const row_part<S, W, K, T> &dy,
                                     float mean, float rstd, float sum, float projection)
{
    EACH_PART(k, c, b.m.n)
    {
        const pst_some<S, W> at = some_of(x, k, c), slope = some_of(dy, k, c);
        const pst_some<float, W> gains = pst_read<W>(gain + c);
        pst_some<S, W> some, addend;

        if (b.add != NULL) {
            addend = pst_read<W>(b.add + start + c);
        }
        for (unsigned j = 0; j < W; j++) {
            const float xhat = (pst_load(at.v[j]) - mean) * rstd;
            const float g = pst_load(slope.v[j]) * gains.v[j];

            pst_store_gradient(&some.v[j], rstd * (g - sum - xhat * projection),
                               b.add == NULL ? (const S *)NULL : &addend.v[j]);
        }
        pst_write<W>(b.dx + start + c, some);
    }
}

/* One row; adds to the sums of columns, which are held as the row is, or else in memory. */
template <unsigned PACKED, class S, unsigned W, unsigned K, unsigned T>
__device__ static inline void row_back(const norm_back<S> &b, uint64_t row, float (&gains)[HELD][W],
                                       float (&others)[HELD][W], float *dgain, float *dother)
{
    const float mean = b.means == NULL ? 0 : b.means[row], rstd = b.rstds[row];
    const uint64_t start = start_of<PACKED>(b.m, row), n = b.m.n;
    const bool key = is_key<PACKED>(b.m, row);
    const float *all_gains = key ? b.key_gain : b.gain;
    row_part<S, W, K, T> x, dy;
    float sum = 0, projection = 0;

    hold(x, b.x + start, n);
    hold(dy, b.dy + start, n);
    EACH_PART(k, c, n)
    {
        const pst_some<S, W> at = some_of(x, k, c), slope = some_of(dy, k, c);
        const pst_some<float, W> gain = pst_read<W>(all_gains + c);
        float g[W], projected[W];

        for (unsigned j = 0; j < W; j++) {
            const float xhat = (pst_load(at.v[j]) - mean) * rstd, d = pst_load(slope.v[j]);

            *(K > 0 ? &gains[k][j] : &dgain[c + j]) += key ? 0 : d * xhat;
            *(K > 0 ? &others[k][j] : &dother[c + j]) += !PACKED ? d : key ? d * xhat : 0;
            g[j] = d * gain.v[j];
            projected[j] = g[j] * xhat;
        }
        sum += pst_tree_sum(g);
        projection += pst_tree_sum(projected);
    }
    if (b.dx != NULL) {
        sum = b.means == NULL ? 0 : pst_team_sum<T>(sum) / (float)n;
        projection = pst_team_sum<T>(projection) / (float)n;
        put_dx(b, start, all_gains, x, dy, mean, rstd, sum, projection);
    }
}

/* What the teams of a block have held, in order. */
template <unsigned W, unsigned K, unsigned T>
__device__ static inline void put_sums(float *partial, const float (&held)[HELD][W], uint64_t n)
{
    __shared__ float total[T * W * HELD];

    for (unsigned team = 0; team < PST_THREADS / T; team++) {
        if (threadIdx.x / T == team) {
            EACH_PART(k, c, n)
            {
                for (unsigned j = 0; j < W; j++) {
                    total[c + j] = (team == 0 ? 0 : total[c + j]) + held[k][j];
                }
            }
        }
        __syncthreads();
    }
    PST_EACH_THREAD(c, n)
    {
        partial[c] = total[c];
    }
    __syncthreads();
}

/* Two blocks share a multiprocessor, so that one computes while the other reads. */
template <class S, unsigned W, unsigned K, unsigned T, unsigned PACKED>
__global__ __launch_bounds__(PST_THREADS, K <= 4 ? 2 : 1) void norm_back_kernel(norm_back<S> b)
{
    const uint64_t first = blockIdx.x * b.each;
    const uint64_t end = first + b.each < b.m.rows ? first + b.each : b.m.rows;
    float *dgain = b.dgain + blockIdx.x * b.m.n, *dother = b.dother + blockIdx.x * b.m.n;
    float gains[HELD][W] = {}, others[HELD][W] = {};

    if (PACKED && b.dx != NULL) {
        copy_rest<W>(b.m, b.dx, b.dy);
    }
    if (K == 0) {
        EACH_PART(k, c, b.m.n)
        {
            dgain[c] = dother[c] = 0;
        }
    }
    for (uint64_t row = first + threadIdx.x / T; row < end; row += PST_THREADS / T) {
        row_back<PACKED, S, W, K, T>(b, row, gains, others, dgain, dother);
    }
    if (K > 0) {
        put_sums<W, K, T>(dgain, gains, b.m.n);
        put_sums<W, K, T>(dother, others, b.m.n);
    }
}

static bool is_rms(const struct pst_op_request *r)
{
    return r->op->kind != PST_OP_LAYERNORM;
}

static struct norm_layout layout_of(const struct pst_op_request *r)
{
    const struct pst_tensor *x = request_in(r, 0);
    struct norm_layout m = {};

    m.rows = request_rows(r, x);
    m.n = m.columns = request_columns(x);
    if (r->op->kind == PST_OP_QKNORM) {
        m.queries = r->op->heads;
        m.heads = m.queries + pst_op_kv_heads(r->op);
        m.rows *= m.heads;
        m.n = request_parameter(r, 0)->elems;
    }
    return m;
}

static uint64_t back_rows(uint64_t rows)
{
    const uint64_t each = (rows + BACK_BLOCKS - 1) / BACK_BLOCKS;

    return (each + PST_WARPS - 1) / PST_WARPS * PST_WARPS;
}

static uint64_t back_blocks(uint64_t rows)
{
    return (rows + back_rows(rows) - 1) / back_rows(rows);
}

static uint64_t workspace(const struct pst_op_request *r)
{
    const struct norm_layout m = layout_of(r);

    return r->pass == PST_KERNEL_B ? 2 * sizeof(float) * back_blocks(m.rows) * m.n : 0;
}

/* Launches a template for rows that a warp holds, for those that a block holds, for any others.
   Parts of packed rows are short. */
#define LAUNCH_ROWS(m, ...)                                                                        \
    do {                                                                                           \
        constexpr unsigned wide = 16 / sizeof(S);                                                  \
        const bool even = (m).n % 8 == 0 && (m).columns % 8 == 0;                                  \
                                                                                                   \
        if ((m).heads != 0 && even && (m).n <= 2 * wide * PST_WARP) {                              \
            enum : unsigned { W = wide, K = 2, T = PST_WARP, PACKED = 1 };                         \
            __VA_ARGS__;                                                                           \
        } else if ((m).heads != 0) {                                                               \
            enum : unsigned { W = 1, K = 0, T = PST_THREADS, PACKED = 1 };                         \
            __VA_ARGS__;                                                                           \
        } else if (!even || (m).n > 4 * wide * PST_THREADS) {                                      \
            enum : unsigned { W = 1, K = 0, T = PST_THREADS, PACKED = 0 };                         \
            __VA_ARGS__;                                                                           \
        } else if ((m).n <= 4 * wide * PST_WARP) {                                                 \
            enum : unsigned { W = wide, K = 4, T = PST_WARP, PACKED = 0 };                         \
            __VA_ARGS__;                                                                           \
        } else if ((m).n <= 8 * wide * PST_WARP) {                                                 \
            enum : unsigned { W = wide, K = 8, T = PST_WARP, PACKED = 0 };                         \
            __VA_ARGS__;                                                                           \
        } else {                                                                                   \
            enum : unsigned { W = wide, K = 4, T = PST_THREADS, PACKED = 0 };                      \
            __VA_ARGS__;                                                                           \
        }                                                                                          \
    } while (0)

template <class S, unsigned SUMS>
static void forward(const struct pst_cuda_kernel *k, const struct pst_call *call,
                    const norm_sum<S> &of)
{
    const struct pst_op_request *r = &k->request;
    const struct norm_layout m = layout_of(r);
    const bool rms = is_rms(r);
    const float *gain = (const float *)call->p[0];
    const float *key_gain = m.heads == 0 ? NULL : (const float *)call->p[1];
    const float *bias = rms ? NULL : (const float *)call->p[1];
    float *means = rms ? NULL : (float *)call->y[1], *rstds = (float *)call->y[rms ? 1 : 2];

    LAUNCH_ROWS(m, PST_LAUNCH_MEETING((norm_kernel < S, W, K, T, PACKED, !PACKED && SUMS >),
                                      pst_blocks(m.rows * T), pst_cuda_stream(r), (S *)call->y[0],
                                      (const S *)call->x[0], of, gain, key_gain, bias, r->op->eps,
                                      m, means, rstds));
}

template <class S>
static void backward(const struct pst_cuda_kernel *k, const struct pst_call *call)
{
    const struct pst_op_request *r = &k->request;
    const struct norm_layout m = layout_of(r);
    const uint64_t blocks = back_blocks(m.rows);
    const cudaStream_t stream = pst_cuda_stream(r);
    norm_back<S> b;

    b.x = (const S *)call->x[0];
    b.dy = (const S *)call->dy;
    b.add = (const S *)request_operand(call->add, 0);
    b.dx = (S *)request_operand(call->dx, 0);
    b.gain = (const float *)request_operand(call->p, 0);
    b.key_gain = m.heads == 0 ? NULL : (const float *)request_operand(call->p, 1);
    b.means = is_rms(r) ? NULL : (const float *)call->y[1];
    b.rstds = (const float *)call->y[is_rms(r) ? 1 : 2];
    b.m = m;
    b.each = back_rows(m.rows);
    b.dgain = (float *)call->workspace;
    b.dother = b.dgain + blocks * m.n;
    LAUNCH_ROWS(m, PST_LAUNCH_MEETING((norm_back_kernel<S, W, K, T, PACKED>), blocks, stream, b));
    pst_cuda_column_end(stream, (float *)call->z[0], b.dgain, blocks, m.n);
    if (r->op->kind != PST_OP_RMSNORM) {
        pst_cuda_column_end(stream, (float *)call->z[1], b.dother, blocks, m.n);
    }
}

PST_CUDA_RUN(norm_f)
{
    PST_TYPED(pst_cuda_bf16(&k->request), (forward<S, 0>(k, call, norm_sum<S>())));
}

static bool are_apart(const void *a, uint64_t a_bytes, const void *b, uint64_t b_bytes)
{
    return (uintptr_t)a + a_bytes <= (uintptr_t)b || (uintptr_t)b + b_bytes <= (uintptr_t)a;
}

/* A plan may put results of the norm where the sum's operands were. Each thread reads its part of
   these before it writes the same part of the norm; what lies otherwise keeps two kernels. */
static bool takes_sum(const struct pst_op_request *r, const struct pst_call *sum,
                      const struct pst_call *call)
{
    const struct norm_layout m = layout_of(r);
    const uint64_t bytes = m.rows * m.n * pst_dtype_bytes(r->dtype);
    bool takes = r->op->kind != PST_OP_QKNORM && call->x[0] == sum->y[0];

    for (uint32_t i = 0; i < 2; i++) {
        takes =
            takes && (call->y[0] == sum->x[i] || are_apart(call->y[0], bytes, sum->x[i], bytes));
        for (uint32_t k = 1; k < r->op->n_out; k++) {
            takes = takes && are_apart(call->y[k], m.rows * sizeof(float), sum->x[i], bytes);
        }
    }
    return takes;
}

bool pst_cuda_norm_of_sum(const struct pst_cuda_kernel *k, const struct pst_call *call,
                          const struct pst_call *sum)
{
    if (!takes_sum(&k->request, sum, call)) {
        return false;
    }
    PST_TYPED(
        pst_cuda_bf16(&k->request),
        (forward<S, 1>(k, call, {(S *)sum->y[0], (const S *)sum->x[0], (const S *)sum->x[1]})));
    return true;
}

PST_CUDA_RUN(norm_b)
{
    PST_TYPED(pst_cuda_bf16(&k->request), backward<S>(k, call));
}

const struct pst_cuda_family pst_cuda_layernorm_family = {
    NULL, workspace, NULL, NULL, {norm_f, norm_b, pst_cuda_copy_scratch}};
