/* SPDX-License-Identifier: Apache-2.0
 *
 * Layer norm and root mean square norm over rows, or the latter over the heads of queries and keys
 * in packed rows; means NULL: root mean square. A row is read once: a warp or a block holds it in
 * registers. B finds the gradients of the parameters on its way. F can begin with the sum that it
 * is the norm of, which is rounded and written as a kernel of its own would.
 */
#include "device/cuda/launch.h"

#define BACK_BLOCKS 256u /* at most; two for each multiprocessor of a large GPU */
#define RESIDENT    (132u * 4 * PST_THREADS) /* threads that a large GPU has at a time, about */

#ifdef __CUDA_ARCH__
#define UNROLLED _Pragma("unroll")
#else
#define UNROLLED
#endif

/* The neighbours that a thread has of a row: W in every T W, up to K such. K 0: as many as there
   are, none of which is held. Held ones are in registers only where this is unrolled. */
#define EACH_PART(k, c, n)                                                                         \
    UNROLLED for (uint64_t k = 0, c = threadIdx.x % T * W; K == 0 ? c < (n) : k < K;               \
                  k++, c += T * W) if (K == 0 || c < (n))
#define HELD (K == 0 ? 1 : K)

/* Where rows lie: one after the other, or (PACKED) as the first `heads` parts of rows that have so
   many columns; the first `queries` parts have a gain of their own, and what is after them is
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

/* The terms whose sum is a row; sum NULL: the row exists already. */
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
    if (K > 0) { /* after all reads, so that none of them waits for another */
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
    float mean = 0, values[W], squares[W] = {};

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
            squares[j] = __fmaf_rn(values[j], values[j], squares[j]);
        }
    }
    *ret_mean = mean;
    *ret_rstd = 1 / sqrtf(pst_team_sum<T>(pst_tree_sum(squares)) / (float)n + eps);
}

/* EXACT: rows have K W T elements. Blocks with long rows ask for those of the blocks that follow
   when they end. */
template <class S, unsigned W, unsigned K, unsigned T, unsigned EXACT, unsigned PACKED,
          unsigned SUMS>
__global__ void norm_kernel(S *y, const S *x, norm_sum<S> of, const float *first_gain,
                            const float *key_gain, const float *bias, float eps,
                            struct norm_layout m, float *means, float *rstds)
{
    if (EXACT) {
        m.n = K * W * T;
    }
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
        if (K > 0 && T > PST_WARP && !PACKED && row + RESIDENT / T < m.rows &&
            threadIdx.x % T == 0) {
            const uint64_t later = at + RESIDENT / T * n;

            pst_prefetch(SUMS ? of.base + later : x + later, n);
            if (SUMS) {
                pst_prefetch(of.more + later, n);
            }
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
                pst_store(&some.v[j],
                          __fmaf_rn(pst_load(some.v[j]) - mean, rstd * gains.v[j], biases.v[j]));
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

/* The inputs of a row's gradients: all are read before anything is written, so that reads do not
   wait in turn. */
template <class S, unsigned W, unsigned K, unsigned T> struct back_part {
    row_part<S, W, K, T> x, dy, add;
    float mean, rstd;
};

/* Reads a row; the next one is prefetched into the cache. */
template <unsigned PACKED, class S, unsigned W, unsigned K, unsigned T>
__device__ static inline void hold_back(back_part<S, W, K, T> &part, const norm_back<S> &b,
                                        uint64_t row, uint64_t next, uint64_t end)
{
    const uint64_t start = start_of<PACKED>(b.m, row), later = start_of<PACKED>(b.m, next);

    part.mean = b.means == NULL ? 0 : b.means[row];
    part.rstd = b.rstds[row];
    hold(part.x, b.x + start, b.m.n);
    hold(part.dy, b.dy + start, b.m.n);
    if (K > 0 && next < end && threadIdx.x % T == 0) {
        pst_prefetch(b.x + later, b.m.n);
        pst_prefetch(b.dy + later, b.m.n);
        if (b.add != NULL) {
            pst_prefetch(b.add + later, b.m.n);
        }
    }
}

/* rstd (g - mean(g) - xhat mean(g xhat)) with g = dy gain; without the first mean where rms. */
template <class S, unsigned W, unsigned K, unsigned T>
__device__ static inline void put_dx(const norm_back<S> &b, const back_part<S, W, K, T> &part,
                                     uint64_t start, const float *gain, float sum, float projection)
{
    const float by_x = -part.rstd * part.rstd * projection, least = -part.rstd * sum;

    EACH_PART(k, c, b.m.n)
    {
        const pst_some<S, W> at = some_of(part.x, k, c), slope = some_of(part.dy, k, c);
        const pst_some<float, W> gains = pst_read<W>(gain + c);
        pst_some<S, W> some, addend;

        if (b.add != NULL) {
            addend = K > 0 && K <= 4 ? part.add.held[k] : pst_read<W>(b.add + start + c);
        }
        for (unsigned j = 0; j < W; j++) {
            const float g = pst_load(slope.v[j]) * gains.v[j];
            const float less = __fmaf_rn(pst_load(at.v[j]) - part.mean, by_x, least);

            pst_store_gradient(&some.v[j], __fmaf_rn(part.rstd, g, less),
                               b.add == NULL ? (const S *)NULL : &addend.v[j]);
        }
        pst_write<W>(b.dx + start + c, some);
    }
}

/* One row; adds to the sums of columns, which are held as the row is, or else in memory. */
template <unsigned PACKED, class S, unsigned W, unsigned K, unsigned T>
__device__ static inline void row_back(const norm_back<S> &b, back_part<S, W, K, T> &part,
                                       uint64_t row, const float *all_gains,
                                       float (&gains)[HELD][W], float (&others)[HELD][W],
                                       float *dgain, float *dother)
{
    const uint64_t n = b.m.n;
    const bool key = is_key<PACKED>(b.m, row);
    float sum = 0, projection = 0;

    EACH_PART(k, c, n)
    {
        const pst_some<S, W> at = some_of(part.x, k, c), slope = some_of(part.dy, k, c);
        const pst_some<float, W> gain = pst_read<W>(all_gains + c);
        float g[W], projected[W];

        for (unsigned j = 0; j < W; j++) {
            const float xhat = (pst_load(at.v[j]) - part.mean) * part.rstd;
            const float d = pst_load(slope.v[j]);
            float *to_gain = K > 0 ? &gains[k][j] : &dgain[c + j];
            float *to_other = K > 0 ? &others[k][j] : &dother[c + j];

            *to_gain = __fmaf_rn(key ? 0 : d, xhat, *to_gain);
            *to_other += !PACKED ? d : key ? d * xhat : 0;
            g[j] = d * gain.v[j];
            projected[j] = g[j] * xhat;
        }
        sum += pst_tree_sum(g);
        projection += pst_tree_sum(projected);
    }
    if (b.dx != NULL) {
        const uint64_t start = start_of<PACKED>(b.m, row);

        if (K <= 4 && b.add != NULL) {
            hold(part.add, b.add + start, n);
        }
        for (unsigned k = 0; k < HELD; k++) {
            pst_forget(part.x.held[k]);
            pst_forget(part.dy.held[k]);
        }
        pst_team_sums<T>(sum, projection);
        put_dx(b, part, start, all_gains, b.means == NULL ? 0 : sum / (float)n,
               projection / (float)n);
    }
}

/* Sums what the teams of a block hold: the upper half adds to the lower one, until one team has
   all. */
template <unsigned W, unsigned K, unsigned T>
__device__ static inline void put_sums(float *partial, float (&held)[HELD][W], uint64_t n)
{
    constexpr unsigned TEAMS = PST_THREADS / T;
    const unsigned team = threadIdx.x / T, lane = threadIdx.x % T;

    if constexpr (TEAMS > 1) {
        __shared__ float given[TEAMS / 2][HELD * W][T];

        for (unsigned half = TEAMS / 2; half > 0; half /= 2) {
            UNROLLED for (unsigned i = 0; team / half == 1 && i < HELD * W; i++)
            {
                given[team - half][i][lane] = held[i / W][i % W];
            }
            __syncthreads();
            UNROLLED for (unsigned i = 0; team < half && i < HELD * W; i++)
            {
                held[i / W][i % W] += given[team][i][lane];
            }
            __syncthreads();
        }
    }
    if (team == 0) {
        EACH_PART(k, c, n)
        {
            pst_some<float, W> sums;

            for (unsigned j = 0; j < W; j++) {
                sums.v[j] = held[k][j];
            }
            pst_write_whole<W>(partial + c, sums);
        }
    }
}

/* Two blocks share a multiprocessor, so that one computes while the other reads, unless a thread
   has too much to hold. */
template <class S, unsigned W, unsigned K, unsigned T, unsigned EXACT, unsigned PACKED>
__global__ __launch_bounds__(PST_THREADS, K <= 3 ? 2 : 1) void norm_back_kernel(norm_back<S> b)
{
    alignas(32) __shared__ float own_gain[EXACT ? K * W * T : 8]; /* read W at a time */
    const uint64_t first = blockIdx.x * b.each, step = PST_THREADS / T;
    const uint64_t end = first + b.each < b.m.rows ? first + b.each : b.m.rows;
    float *dgain = b.dgain + blockIdx.x * b.m.n, *dother = b.dother + blockIdx.x * b.m.n;
    float gains[HELD][W] = {}, others[HELD][W] = {};

    if (EXACT) {
        b.m.n = K * W * T;
        PST_EACH_THREAD(c, b.m.n)
        {
            own_gain[c] = b.gain[c];
        }
        __syncthreads();
    }
    if (PACKED && b.dx != NULL) {
        copy_rest<W>(b.m, b.dx, b.dy);
    }
    if (K == 0) {
        EACH_PART(k, c, b.m.n)
        {
            dgain[c] = dother[c] = 0;
        }
    }
    for (uint64_t row = first + threadIdx.x / T; row < end; row += step) {
        const float *gain = EXACT ? own_gain : is_key<PACKED>(b.m, row) ? b.key_gain : b.gain;
        back_part<S, W, K, T> part;

        hold_back<PACKED>(part, b, row, row + step, end);
        row_back<PACKED>(b, part, row, gain, gains, others, dgain, dother);
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

/* Launches a template for rows that a warp holds, for those that a block holds, for any others;
   what is common has its own (bf16: 768, 1024 and 4096). Parts of packed rows are short. */
#define LAUNCH_ROWS(m, ...)                                                                        \
    do {                                                                                           \
        constexpr unsigned wide = 16 / sizeof(S);                                                  \
        const bool even = (m).n % 8 == 0 && (m).columns % 8 == 0;                                  \
                                                                                                   \
        if ((m).heads != 0 && even && (m).n <= 2 * wide * PST_WARP) {                              \
            enum : unsigned { W = wide, K = 2, T = PST_WARP, EXACT = 0, PACKED = 1 };              \
            __VA_ARGS__;                                                                           \
        } else if ((m).heads != 0) {                                                               \
            enum : unsigned { W = 1, K = 0, T = PST_THREADS, EXACT = 0, PACKED = 1 };              \
            __VA_ARGS__;                                                                           \
        } else if (!even || (m).n > 4 * wide * PST_THREADS) {                                      \
            enum : unsigned { W = 1, K = 0, T = PST_THREADS, EXACT = 0, PACKED = 0 };              \
            __VA_ARGS__;                                                                           \
        } else if ((m).n == 3 * wide * PST_WARP) {                                                 \
            enum : unsigned { W = wide, K = 3, T = PST_WARP, EXACT = 1, PACKED = 0 };              \
            __VA_ARGS__;                                                                           \
        } else if ((m).n == 4 * wide * PST_WARP) {                                                 \
            enum : unsigned { W = wide, K = 4, T = PST_WARP, EXACT = 1, PACKED = 0 };              \
            __VA_ARGS__;                                                                           \
        } else if ((m).n == 2 * wide * PST_THREADS) {                                              \
            enum : unsigned { W = wide, K = 2, T = PST_THREADS, EXACT = 1, PACKED = 0 };           \
            __VA_ARGS__;                                                                           \
        } else if ((m).n <= 4 * wide * PST_WARP) {                                                 \
            enum : unsigned { W = wide, K = 4, T = PST_WARP, EXACT = 0, PACKED = 0 };              \
            __VA_ARGS__;                                                                           \
        } else if ((m).n <= 8 * wide * PST_WARP) {                                                 \
            enum : unsigned { W = wide, K = 8, T = PST_WARP, EXACT = 0, PACKED = 0 };              \
            __VA_ARGS__;                                                                           \
        } else {                                                                                   \
            enum : unsigned { W = wide, K = 4, T = PST_THREADS, EXACT = 0, PACKED = 0 };           \
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

    LAUNCH_ROWS(m, PST_LAUNCH_MEETING((norm_kernel < S, W, K, T, EXACT, PACKED, !PACKED && SUMS >),
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
    if (b.dx == NULL) { /* gains are not handed on; what they scale is not written */
        b.gain = b.key_gain = (const float *)call->z[0];
    }
    b.means = is_rms(r) ? NULL : (const float *)call->y[1];
    b.rstds = (const float *)call->y[is_rms(r) ? 1 : 2];
    b.m = m;
    b.each = back_rows(m.rows);
    b.dgain = (float *)call->workspace;
    b.dother = b.dgain + blocks * m.n;
    LAUNCH_ROWS(
        m, PST_LAUNCH_MEETING((norm_back_kernel<S, W, K, T, EXACT, PACKED>), blocks, stream, b));
    pst_cuda_column_end(stream, (float *)call->z[0],
                        r->op->kind == PST_OP_RMSNORM ? NULL : (float *)call->z[1], b.dgain, blocks,
                        m.n);
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
