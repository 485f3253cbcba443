/* SPDX-License-Identifier: Apache-2.0
 *
 * The experts of a mixture: tokens are gathered by expert, in their order, and go through its
 * products in blocks of rows, in f32. Experts are the items that threads share; each block is
 * multiplied on one thread, and a token sums what its experts made of it in their order, so that
 * the number of threads does not show.
 */
#include <oneapi/dnnl/dnnl.h>
#include <string.h>

#include "cpu.h"

#define BLOCK 128u /* rows of a product */

/* Sizes, and where the workspace has what. A slot is a token's place for one of its experts. */
struct job {
    const struct pst_op_request *request;
    const struct pst_call *call;
    uint64_t tokens, columns, experts, chosen, width; /* tokens: of the micro-batch; width: F */
    float *blocks;                                    /* of threads: thread_floats() each */
    float *rows;     /* [slots][C]: what an expert made of a token; forward, backward */
    uint64_t *first; /* [E + 1] in slots; */
    uint64_t *slots; /* by expert, then token; */
    uint64_t *used;  /* [tokens]: slots that have an expert */
};

static bool serves(const struct pst_op_request *request)
{
    bool same = true;

    for (uint32_t i = 0; i < 2; i++) {
        same = same && request_in(request, i)->dtype == request->dtype &&
               request_parameter(request, i)->dtype == request->dtype;
    }
    return same;
}

static struct job job_of(const struct pst_op_request *request)
{
    const struct pst_tensor *x = request_in(request, 0);
    const uint64_t *dims = request_parameter(request, 0)->dims;

    return (struct job){.request = request,
                        .tokens = request->samples * x->dims[0],
                        .columns = x->dims[1],
                        .experts = dims[0],
                        .chosen = request->op->experts_per_token,
                        .width = dims[2] / 2};
}

static uint64_t padded(uint64_t floats)
{
    return (floats + 15) / 16 * 16;
}

/* Blocks of a thread: two of tokens' rows, two of gate|up, two of what they become; bf16: widened
   weights of an expert. */
static uint64_t thread_floats(const struct job *job)
{
    const uint64_t widened = job->request->dtype == PST_BF16 ? 3 * job->columns * job->width : 0;

    return padded(BLOCK * (2 * job->columns + 6 * job->width)) + padded(widened);
}

static uint64_t row_floats(const struct job *job)
{
    return job->request->pass == PST_KERNEL_W ? 0 : job->tokens * job->chosen * job->columns;
}

static uint64_t workspace(const struct pst_op_request *request)
{
    const struct job job = job_of(request);
    const uint64_t floats = request->device->threads * thread_floats(&job) + row_floats(&job);

    return padded(floats) * sizeof(float) +
           (job.experts + 1 + job.tokens * (job.chosen + 1)) * sizeof(uint64_t);
}

static void carve(struct job *job, const struct pst_call *call)
{
    const uint64_t blocks = job->request->device->threads * thread_floats(job);

    job->call = call;
    job->blocks = call->workspace;
    job->rows = job->blocks + blocks;
    job->first = (uint64_t *)(void *)(job->blocks + padded(blocks + row_floats(job)));
    job->slots = job->first + job->experts + 1;
    job->used = job->slots + job->tokens * job->chosen;
}

/* --- which expert has which tokens ------------------------------------------------------------ */

/* Any bits but those of a zero. */
static bool weighs(const struct job *job, uint64_t at)
{
    return job->request->dtype == PST_F32 ? ((const float *)job->call->x[1])[at] != 0
                                          : (((const uint16_t *)job->call->x[1])[at] & 0x7FFF) != 0;
}

/* Calls on(job, e, slot) for every pair, by token. */
static void each_pair(struct job *job, void (*on)(struct job *job, uint64_t e, uint64_t slot))
{
    for (uint64_t t = 0; t < job->tokens; t++) {
        uint64_t n = 0;

        for (uint64_t e = 0; e < job->experts && n < job->chosen; e++) {
            if (weighs(job, t * job->experts + e)) {
                on(job, e, t * job->chosen + n++);
            }
        }
        job->used[t] = n;
    }
}

static void count_pair(struct job *job, uint64_t e, uint64_t slot)
{
    (void)slot;
    job->first[e + 1]++;
}

static void place_pair(struct job *job, uint64_t e, uint64_t slot)
{
    job->slots[job->first[e]++] = slot;
}

static void sort_pairs(struct job *job)
{
    memset(job->first, 0, (job->experts + 1) * sizeof *job->first);
    each_pair(job, count_pair);
    for (uint64_t e = 0; e < job->experts; e++) {
        job->first[e + 1] += job->first[e];
    }
    each_pair(job, place_pair);
    /* Each first[e] has moved on to the end of its slots. */
    memmove(job->first + 1, job->first, job->experts * sizeof *job->first);
    job->first[0] = 0;
}

/* --- rows --------------------------------------------------------------------------------------*/

static const float *row_in(const struct job *job, const void *tensor, uint64_t at, uint64_t n,
                           float *row)
{
    if (job->request->dtype == PST_F32) {
        return memcpy(row, (const float *)tensor + at, n * sizeof *row);
    }
    job->request->device->simd->widen(row, (const uint16_t *)tensor + at, n);
    return row;
}

static void row_out(const struct job *job, void *tensor, uint64_t at, uint64_t n, const float *row)
{
    if (tensor == NULL) {
        return;
    }
    if (job->request->dtype == PST_F32) {
        memcpy((float *)tensor + at, row, n * sizeof *row);
    } else {
        job->request->device->simd->narrow((uint16_t *)tensor + at, row, n);
    }
}

static void multiply(char trans_a, char trans_b, uint64_t m, uint64_t n, uint64_t k, const float *a,
                     const float *b, float beta, float *c)
{
    const dnnl_status_t status =
        dnnl_sgemm(trans_a, trans_b, (dnnl_dim_t)m, (dnnl_dim_t)n, (dnnl_dim_t)k, 1.0f, a,
                   (dnnl_dim_t)(trans_a == 'N' ? k : m), b, (dnnl_dim_t)(trans_b == 'N' ? n : k),
                   beta, c, (dnnl_dim_t)n);

    pst_dnnl_must(status);
}

/* --- one block of one expert ------------------------------------------------------------------ */

/* Rows of some slots of expert e, and where their blocks are. */
struct block {
    uint64_t e, n;
    const uint64_t *slots;
    const float *up, *down; /* of the expert: p0, p1 */
    float *tokens[2], *pairs[2], *gated[2];
};

/* The rows of the block's tokens in a tensor of [tokens][C]. */
static void gather_tokens(const struct job *job, const struct block *b, const void *tensor,
                          float *rows)
{
    for (uint64_t i = 0; i < b->n; i++) {
        row_in(job, tensor, b->slots[i] / job->chosen * job->columns, job->columns,
               rows + i * job->columns);
    }
}

static void gather_slots(const struct job *job, const struct block *b, const void *tensor,
                         uint64_t n, float *rows)
{
    for (uint64_t i = 0; i < b->n; i++) {
        row_in(job, tensor, b->slots[i] * n, n, rows + i * n);
    }
}

/* Stores an expert's results in the slots of its tokens, to be summed. */
static void scatter(const struct job *job, const struct block *b, const float *rows)
{
    for (uint64_t i = 0; i < b->n; i++) {
        memcpy(job->rows + b->slots[i] * job->columns, rows + i * job->columns,
               job->columns * sizeof *rows);
    }
}

static float weight_of(const struct job *job, const struct block *b, uint64_t i)
{
    float weight;

    return *row_in(job, job->call->x[1], b->slots[i] / job->chosen * job->experts + b->e, 1,
                   &weight);
}

static void forward_block(const struct job *job, const struct block *b)
{
    const struct pst_simd *simd = job->request->device->simd;
    const uint64_t f = job->width;

    gather_tokens(job, b, job->call->x[0], b->tokens[0]);
    multiply('N', 'N', b->n, 2 * f, job->columns, b->tokens[0], b->up, 0, b->pairs[0]);
    for (uint64_t i = 0; i < b->n; i++) {
        const float *h = b->pairs[0] + i * 2 * f;
        float *a = b->gated[0] + i * f;

        row_out(job, job->call->y[1], b->slots[i] * 2 * f, 2 * f, h);
        (job->request->op->act == PST_ACT_SILU ? simd->silu_gate : simd->gelu_gate)(a, h, h + f, f);
        simd->scale(a, a, weight_of(job, b, i), f);
    }
    multiply('N', 'N', b->n, job->columns, f, b->gated[0], b->down, 0, b->tokens[1]);
    scatter(job, b, b->tokens[1]);
}

/* The dot product of two rows, in 16 partial sums. */
static float dot(const float *a, const float *b, uint64_t n)
{
    float sums[16] = {0};
    uint64_t i = 0;

    for (; i + 16 <= n; i += 16) {
        for (uint32_t lane = 0; lane < 16; lane++) {
            sums[lane] += a[i + lane] * b[i + lane];
        }
    }
    for (uint32_t lane = 0; i + lane < n; lane++) {
        sums[lane] += a[i + lane] * b[i + lane];
    }
    for (uint32_t width = 8; width > 0; width /= 2) {
        for (uint32_t lane = 0; lane < width; lane++) {
            sums[lane] += sums[lane + width];
        }
    }
    return sums[0];
}

/* da: gradient of what the second product saw, before the weight; it gets lost. */
static void back_row(const struct job *job, const struct block *b, uint64_t i, float *da)
{
    const struct pst_simd *simd = job->request->device->simd;
    const bool silu = job->request->op->act == PST_ACT_SILU;
    const uint64_t f = job->width;
    const float *h = b->pairs[0] + i * 2 * f, weight = weight_of(job, b, i);
    float *dh = b->pairs[1] + i * 2 * f, *a = b->gated[1] + i * f, dweight;

    (silu ? simd->silu_gate : simd->gelu_gate)(a, h, h + f, f);
    dweight = dot(a, da, f);
    row_out(job, request_operand(job->call->dx, 1), b->slots[i] / job->chosen * job->experts + b->e,
            1, &dweight);
    simd->scale(a, a, weight, f);
    simd->scale(da, da, weight, f);
    (silu ? simd->silu_gate_back : simd->gelu_gate_back)(dh, dh + f, da, h, h + f, f);
    row_out(job, job->call->z[0], b->slots[i] * 2 * f, 2 * f, dh);
    row_out(job, job->call->z[1], b->slots[i] * f, f, a);
}

static void backward_block(const struct job *job, const struct block *b)
{
    const uint64_t f = job->width;

    gather_tokens(job, b, job->call->dy, b->tokens[0]);
    gather_slots(job, b, job->call->y[1], 2 * f, b->pairs[0]);
    multiply('N', 'T', b->n, f, job->columns, b->tokens[0], b->down, 0, b->gated[0]);
    for (uint64_t i = 0; i < b->n; i++) {
        back_row(job, b, i, b->gated[0] + i * f);
    }
    if (request_operand(job->call->dx, 0) != NULL) {
        multiply('N', 'T', b->n, job->columns, 2 * f, b->pairs[1], b->up, 0, b->tokens[1]);
        scatter(job, b, b->tokens[1]);
    }
}

/* beta 0 overwrites the expert's gradients, 1 adds to them. */
static void weight_block(const struct job *job, const struct block *b, float beta)
{
    const uint64_t f = job->width, size = job->columns * f;
    float *up = request_dp(job->request, job->call, 0),
          *down = request_dp(job->request, job->call, 1);

    if (up != NULL) {
        gather_tokens(job, b, job->call->x[0], b->tokens[0]);
        gather_slots(job, b, job->call->z[0], 2 * f, b->pairs[0]);
        multiply('T', 'N', job->columns, 2 * f, b->n, b->tokens[0], b->pairs[0], beta,
                 up + b->e * 2 * size);
    }
    if (down != NULL) {
        gather_tokens(job, b, job->call->dy, b->tokens[1]);
        gather_slots(job, b, job->call->z[1], f, b->gated[0]);
        multiply('T', 'N', f, job->columns, b->n, b->gated[0], b->tokens[1], beta,
                 down + b->e * size);
    }
}

/* --- all experts ------------------------------------------------------------------------------ */

/* Weights of expert e as f32. */
static const float *weights_of(const struct job *job, uint32_t i, uint64_t e, uint64_t size,
                               float *widened)
{
    if (job->request->dtype == PST_F32) {
        return (const float *)job->call->p[i] + e * size;
    }
    job->request->device->simd->widen(widened, (const uint16_t *)job->call->p[i] + e * size, size);
    return widened;
}

/* No token has it: its gradients are zero. */
static void clear_gradients(const struct job *job, uint64_t e)
{
    const uint64_t size = job->columns * job->width;

    for (uint32_t i = 0; i < 2; i++) {
        float *dp = request_dp(job->request, job->call, i);

        if (dp != NULL) {
            memset(dp + e * (2 - i) * size, 0, (2 - i) * size * sizeof *dp);
        }
    }
}

static void run_experts(void *context, uint64_t begin, uint64_t end, uint32_t thread)
{
    const struct job *job = context;
    const uint64_t c = job->columns, f = job->width;
    const uint32_t pass = job->request->pass;
    float *at = job->blocks + thread * thread_floats(job);
    float *widened = at + padded(BLOCK * (2 * c + 6 * f));
    struct block b = {.tokens = {at, at + BLOCK * c}};

    b.pairs[0] = b.tokens[1] + BLOCK * c;
    b.pairs[1] = b.pairs[0] + BLOCK * 2 * f;
    b.gated[0] = b.pairs[1] + BLOCK * 2 * f;
    b.gated[1] = b.gated[0] + BLOCK * f;
    for (b.e = begin; b.e < end; b.e++) {
        const uint64_t first = job->first[b.e], last = job->first[b.e + 1];

        if (pass == PST_KERNEL_W && first == last) {
            clear_gradients(job, b.e);
        } else if (pass != PST_KERNEL_W && first < last) {
            b.up = weights_of(job, 0, b.e, 2 * c * f, widened);
            b.down = weights_of(job, 1, b.e, c * f, widened + 2 * c * f);
        }
        for (uint64_t i = first; i < last; i += BLOCK) {
            b.slots = job->slots + i;
            b.n = last - i < BLOCK ? last - i : BLOCK;
            if (pass == PST_KERNEL_F) {
                forward_block(job, &b);
            } else if (pass == PST_KERNEL_B) {
                backward_block(job, &b);
            } else {
                weight_block(job, &b, i == first ? 0.0f : 1.0f);
            }
        }
    }
}

/* Slots of token t without an expert, in a tensor of [slots][n]. */
static void clear_slots(const struct job *job, void *tensor, uint64_t t, uint64_t n)
{
    const uint64_t bytes = pst_dtype_bytes(job->request->dtype);
    const uint64_t first = t * job->chosen + job->used[t], end = (t + 1) * job->chosen;

    if (tensor != NULL) {
        memset((char *)tensor + first * n * bytes, 0, (end - first) * n * bytes);
    }
}

/* Results of tokens, from the rows of their slots. */
static void sum_tokens(void *context, uint64_t begin, uint64_t end, uint32_t thread)
{
    const struct job *job = context;
    const bool back = job->request->pass == PST_KERNEL_B;
    void *to = back ? request_operand(job->call->dx, 0) : job->call->y[0];
    const uint64_t c = job->columns;

    (void)thread;
    for (uint64_t t = begin; t < end; t++) {
        float *sum = job->rows + t * job->chosen * c;

        for (uint64_t i = 1; i < job->used[t] && to != NULL; i++) {
            job->request->device->simd->add(sum, sum, sum + i * c, c);
        }
        if (job->used[t] == 0) {
            memset(sum, 0, c * sizeof *sum);
        }
        row_out(job, to, t * c, c, sum);
        clear_slots(job, back ? job->call->z[0] : job->call->y[1], t, 2 * job->width);
        if (back) {
            clear_slots(job, job->call->z[1], t, job->width);
        }
    }
}

static void run(const struct pst_kernel *kernel, const struct pst_call *call)
{
    struct job job = job_of(&pst_cpu_kernel_of(kernel)->request);
    void *dweights = job.request->pass == PST_KERNEL_B ? request_operand(call->dx, 1) : NULL;

    carve(&job, call);
    sort_pairs(&job);
    if (dweights != NULL) {
        memset(dweights, 0, job.tokens * job.experts * pst_dtype_bytes(job.request->dtype));
    }
    pst_cpu_parallel(job.request->device, job.experts, run_experts, &job);
    if (job.request->pass != PST_KERNEL_W) {
        pst_cpu_parallel(job.request->device, job.tokens, sum_tokens, &job);
    }
}

const struct pst_cpu_family pst_cpu_experts = {
    .kernel_bytes = sizeof(struct pst_cpu_kernel),
    .serves = serves,
    .workspace = workspace,
    .run = {run, run, run},
};
