/* SPDX-License-Identifier: Apache-2.0
 *
 * y = act(x p0 + p1). The product writes f32: into the result where that is f32, else, a block of
 * rows at a time, into the workspace; bias and activation are one pass over it.
 */
#include "dnnl_gemm.h"
#include "tile.h"

#define BF16_ROWS 256u /* of a block that is rounded while it is in the cache */
#define MANY_ROWS 128u /* of a sample: worth turning weights for */

struct linear_shape {
    uint64_t rows, in, out;
    uint64_t block; /* rows of a product: all of them in f32 and in W */
    bool trans;     /* p0 is [out,in] */
    bool turn;      /* f32: weights whose products want them transposed */
};

struct linear {
    struct pst_cpu_kernel base;
    struct linear_shape shape;
    struct pst_gemm product, rest; /* rest: the last, shorter block */
};

/* Without bf16 products in hardware there is no primitive; the reference kernels step in. */
static bool serves(const struct pst_op_request *request)
{
    const struct pst_parameter *params = request->graph->params;

    return (request->dtype == PST_F32 || pst_dnnl_has_bf16()) &&
           params[request->op->param[0]].dtype == request->dtype &&
           (!request_has_param(request, 1) || params[request->op->param[1]].dtype == PST_F32);
}

static struct linear_shape shape_of(const struct pst_op_request *request)
{
    const struct pst_tensor *x = request_in(request, 0);
    struct linear_shape shape = {.rows = request_rows(request, x), .in = request_columns(x)};

    shape.out = request_columns(request_out(request));
    shape.trans = request->op->transposed;
    /* however many samples and slices there are: all plans have the same sums */
    shape.turn = request->dtype == PST_F32 && pst_dnnl_has_avx512() &&
                 x->elems / shape.in * request->graph->slices >= MANY_ROWS;
    shape.block = shape.rows;
    if (request->dtype == PST_BF16 && request->pass != PST_KERNEL_W && shape.rows > BF16_ROWS) {
        shape.block = BF16_ROWS;
    }
    return shape;
}

/* The product of a pass for a block of `rows`. */
static struct pst_gemm_shape gemm_of(const struct pst_op_request *request,
                                     const struct linear_shape *shape, uint64_t rows)
{
    struct pst_gemm_shape gemm = {.dtype = request->dtype};
    const int64_t in = (int64_t)shape->in, out = (int64_t)shape->out;

    switch (request->pass) {
    case PST_KERNEL_F: /* x p0 */
        gemm.m = (int64_t)rows;
        gemm.n = gemm.ldc = out;
        gemm.k = gemm.lda = in;
        gemm.trans_b = shape->trans;
        gemm.ldb = shape->trans ? in : out;
        break;
    case PST_KERNEL_B: /* dh p0^T */
        gemm.m = (int64_t)rows;
        gemm.n = gemm.ldc = in;
        gemm.k = gemm.lda = out;
        gemm.trans_b = !shape->trans;
        gemm.ldb = shape->trans ? in : out;
        break;
    default: /* x^T dh, or dh^T x */
        gemm.trans_a = true;
        gemm.m = gemm.lda = shape->trans ? out : in;
        gemm.n = gemm.ldb = gemm.ldc = shape->trans ? in : out;
        gemm.k = (int64_t)rows;
        break;
    }
    gemm.turn = shape->turn && gemm.trans_b && request->pass == PST_KERNEL_B; /* no wide heads */
    return gemm;
}

/* In f32 the gradient of the weights has a way of its own. */
static struct pst_outer_shape outer_of(const struct linear_shape *shape)
{
    struct pst_outer_shape outer = {shape->rows, shape->in, shape->out};

    if (shape->trans) {
        outer.m = shape->out;
        outer.n = shape->in;
    }
    return outer;
}

/* --- workspace: oneDNN's scratch, then what `floats_of` counts -------------------------------- */

static uint64_t scratch_of(const struct pst_op_request *request, const struct linear_shape *shape)
{
    const struct pst_gemm_shape main = gemm_of(request, shape, shape->block);
    const struct pst_gemm_shape rest = gemm_of(request, shape, shape->rows % shape->block);
    uint64_t bytes, rest_bytes = 0;

    bytes = pst_gemm_scratch(request->device, &main);
    if (shape->rows % shape->block != 0) {
        rest_bytes = pst_gemm_scratch(request->device, &rest);
    }
    return bytes > rest_bytes ? bytes : rest_bytes;
}

/* F: products, activated rows; B: products, tiles of the activation; W: strips of sums, then copied
   rows. */
static uint64_t floats_of(const struct pst_op_request *request, const struct linear_shape *shape)
{
    const bool bf16 = request->dtype == PST_BF16;
    const uint64_t threads = request->device->threads;
    const struct pst_outer_shape outer = outer_of(shape);

    switch (request->pass) {
    case PST_KERNEL_F:
        return bf16 ? (shape->block + threads) * shape->out : 0;
    case PST_KERNEL_B:
        return bf16 ? shape->block * shape->in + pst_tile_floats(request, 3, PST_TILE) : 0;
    default:
        return pst_cpu_bias_floats(request) + (bf16 ? 0 : pst_outer_floats(&outer));
    }
}

static uint64_t workspace(const struct pst_op_request *request)
{
    const struct linear_shape shape = shape_of(request);

    return scratch_of(request, &shape) + floats_of(request, &shape) * sizeof(float);
}

static pst_status init(struct pst_cpu_kernel *kernel, struct pst_error *err)
{
    struct linear *linear = (struct linear *)(void *)kernel;
    const struct pst_op_request *request = &kernel->request;
    struct pst_gemm_shape gemm;
    pst_status status;

    linear->shape = shape_of(request);
    gemm = gemm_of(request, &linear->shape, linear->shape.block);
    status = pst_gemm_init(&linear->product, request->device, &gemm, err);
    if (status == PST_OK && linear->shape.rows % linear->shape.block != 0) {
        gemm = gemm_of(request, &linear->shape, linear->shape.rows % linear->shape.block);
        status = pst_gemm_init(&linear->rest, request->device, &gemm, err);
    }
    return status;
}

static void finish(struct pst_cpu_kernel *kernel)
{
    struct linear *linear = (struct linear *)(void *)kernel;

    pst_gemm_finish(&linear->product);
    pst_gemm_finish(&linear->rest);
}

/* --- running ---------------------------------------------------------------------------------- */

struct block {
    const struct linear *linear;
    const struct pst_op_request *request;
    const struct pst_call *call;
    uint64_t first, rows; /* of this block */
    float *floats;        /* after oneDNN's scratch */
    const float *bias;
    float *products; /* f32 result of the block */
};

static struct block block_of(const struct pst_kernel *kernel, const struct pst_call *call)
{
    struct block block = {.linear = (const struct linear *)(const void *)kernel, .call = call};
    uint64_t scratch = block.linear->product.scratch_bytes;

    block.request = &block.linear->base.request;
    if (block.linear->rest.scratch_bytes > scratch) {
        scratch = block.linear->rest.scratch_bytes;
    }
    if (call->workspace != NULL) {
        block.floats = (float *)(void *)((char *)call->workspace + scratch);
    }
    return block;
}

static void multiply(const struct block *block, const void *a, const void *b, float *c)
{
    const struct linear *linear = block->linear;

    pst_gemm_run(block->rows == linear->shape.block ? &linear->product : &linear->rest, a, b, c,
                 block->call->workspace);
}

static const void *row_at(const struct block *block, const void *base, uint64_t columns)
{
    const uint64_t bytes = pst_dtype_bytes(block->request->dtype);

    return (const char *)base + block->first * columns * bytes;
}

/* Bias and activation of a row of f32 products, in place; y: the activated row, where that is
   another (gelu). */
static void finish_row(const struct block *block, float *h, float *y)
{
    const struct pst_simd *simd = block->request->device->simd;
    const uint64_t n = block->linear->shape.out;

    switch (block->request->op->act) {
    case PST_ACT_GELU:
        if (block->bias != NULL) {
            simd->bias_gelu(h, block->bias, y, 1, n);
        } else {
            simd->gelu(y, h, n);
        }
        break;
    case PST_ACT_RELU:
        if (block->bias != NULL) {
            simd->bias_relu(h, block->bias, 1, n);
        } else {
            simd->relu(h, h, n);
        }
        break;
    default:
        if (block->bias != NULL) {
            simd->bias(h, block->bias, 1, n);
        }
        break;
    }
}

static void finish_rows(void *context, uint64_t begin, uint64_t end, uint32_t thread)
{
    const struct block *block = context;
    const struct pst_simd *simd = block->request->device->simd;
    const uint64_t n = block->linear->shape.out;
    const bool gelu = block->request->op->act == PST_ACT_GELU;
    float *active = block->floats + (block->linear->shape.block + thread) * n;

    for (uint64_t r = begin; r < end; r++) {
        const uint64_t at = (block->first + r) * n;
        float *h = block->products + r * n;

        if (block->request->dtype == PST_F32) {
            finish_row(block, h, gelu ? (float *)block->call->y[0] + at : h);
            continue;
        }
        finish_row(block, h, active);
        simd->narrow((uint16_t *)block->call->y[0] + at, gelu ? active : h, n);
        if (gelu && block->call->y[1] != NULL) {
            simd->narrow((uint16_t *)block->call->y[1] + at, h, n);
        }
    }
}

static void forward(const struct pst_kernel *kernel, const struct pst_call *call)
{
    struct block block = block_of(kernel, call);
    const struct pst_op_request *request = block.request;
    const struct linear_shape *shape = &block.linear->shape;
    const bool bf16 = request->dtype == PST_BF16;
    const bool keeps_h = request->op->act == PST_ACT_GELU && call->y[1] != NULL;

    if (request_has_param(request, 1)) {
        block.bias = call->p[1];
    }
    for (; block.first < shape->rows; block.first += block.rows) {
        const uint64_t left = shape->rows - block.first;

        block.rows = left < shape->block ? left : shape->block;
        block.products = bf16 ? block.floats : keeps_h ? call->y[1] : call->y[0];
        multiply(&block, row_at(&block, call->x[0], shape->in), call->p[0], block.products);
        if (bf16 || block.bias != NULL || request->op->act != PST_ACT_NONE) {
            pst_cpu_parallel(request->device, block.rows, finish_rows, &block);
        }
    }
}

/* dh = dy * act', tile by tile. */
static void slope_tiles(void *context, uint64_t begin, uint64_t end, uint32_t thread)
{
    const struct block *block = context;
    const struct pst_call *call = block->call;
    const struct linear_shape *shape = &block->linear->shape;
    const struct pst_simd *simd = block->request->device->simd;
    const bool relu = block->request->op->act == PST_ACT_RELU;
    const uint64_t elems = shape->rows * shape->out;
    float *buffers = block->floats + shape->block * shape->in;
    struct pst_tile tile[3];

    for (uint32_t i = 0; i < 3; i++) {
        tile[i] = pst_tile_make(block->request, buffers, 3, PST_TILE, thread, i);
    }
    for (uint64_t i = begin; i < end; i++) {
        const uint64_t at = i * PST_TILE, left = elems - at;
        const uint64_t n = left < PST_TILE ? left : PST_TILE;
        const float *dy = pst_tile_read(&tile[0], call->dy, at, n);
        const float *told_by = pst_tile_read(&tile[1], call->y[relu ? 0 : 1], at, n);
        float *dh = pst_tile_write(&tile[2], call->z[0], at);

        (relu ? simd->relu_back : simd->gelu_back)(dh, dy, told_by, n);
        pst_tile_done(&tile[2], call->z[0], at, n);
    }
}

static void narrow_rows(void *context, uint64_t begin, uint64_t end, uint32_t thread)
{
    const struct block *block = context;
    const uint64_t n = block->linear->shape.in;
    uint16_t *dx = (uint16_t *)block->call->dx[0] + (block->first + begin) * n;

    (void)thread;
    block->request->device->simd->narrow(dx, block->products + begin * n, (end - begin) * n);
}

static void backward(const struct pst_kernel *kernel, const struct pst_call *call)
{
    struct block block = block_of(kernel, call);
    const struct pst_op_request *request = block.request;
    const struct linear_shape *shape = &block.linear->shape;
    const uint64_t elems = shape->rows * shape->out;
    const void *dh = call->dy;

    if (request->op->act != PST_ACT_NONE) {
        pst_cpu_parallel(request->device, elems / PST_TILE + (elems % PST_TILE != 0), slope_tiles,
                         &block);
        dh = call->z[0];
    }
    if (request_operand(call->dx, 0) == NULL) {
        return;
    }
    for (; block.first < shape->rows; block.first += block.rows) {
        const uint64_t left = shape->rows - block.first;

        block.rows = left < shape->block ? left : shape->block;
        block.products = request->dtype == PST_BF16 ? block.floats : call->dx[0];
        multiply(&block, row_at(&block, dh, shape->out), call->p[0], block.products);
        if (request->dtype == PST_BF16) {
            pst_cpu_parallel(request->device, block.rows, narrow_rows, &block);
        }
    }
}

static void weights(const struct pst_kernel *kernel, const struct pst_call *call)
{
    struct block block = block_of(kernel, call);
    const struct pst_op_request *request = block.request;
    const struct linear_shape *shape = &block.linear->shape;
    const struct pst_outer_shape outer = outer_of(shape);
    const void *dh = request->op->act == PST_ACT_NONE ? call->dy : call->z[0];
    const void *left = shape->trans ? dh : call->x[0], *right = shape->trans ? call->x[0] : dh;

    block.rows = shape->rows;
    if (call->dp[0] != NULL && request->dtype == PST_F32) {
        pst_outer_run(request->device, &outer, left, right, call->dp[0],
                      block.floats + pst_cpu_bias_floats(request));
    } else if (call->dp[0] != NULL) {
        multiply(&block, left, right, call->dp[0]);
    }
    if (request_has_param(request, 1) && call->dp[1] != NULL) {
        pst_cpu_bias_gradient(request, dh, shape->rows, shape->out, call->dp[1], block.floats);
    }
}

const struct pst_cpu_family pst_cpu_linear = {
    .kernel_bytes = sizeof(struct linear),
    .serves = serves,
    .workspace = workspace,
    .init = init,
    .finish = finish,
    .run = {forward, backward, weights},
};
