/* SPDX-License-Identifier: Apache-2.0
 *
 * Elementwise work around the step: sums of gradients, their norm, the optimizer. Everything goes
 * in blocks of 4096 elements, which are the items that the threads share; a block is done in one
 * go, so that the update and its rounded copy pass memory once.
 */
#include "cpu.h"

#include <string.h>

#define BLOCK 4096u

struct step {
    const struct pst_device *device;
    const struct pst_update *update;
    struct pst_update_factors factors;
    float *dst, *s0, *s1;
    const float *a, *b;
    uint16_t *dst16;
    const uint16_t *a16, *b16;
    void *working;
    uint32_t working_dtype;
    uint64_t elems;
    void (*block)(const struct step *step, uint64_t at, uint64_t n);
};

static uint64_t n_blocks(uint64_t elems)
{
    return elems / BLOCK + (elems % BLOCK != 0);
}

static void work_on_blocks(void *context, uint64_t begin, uint64_t end, uint32_t thread)
{
    const struct step *step = context;

    (void)thread;
    for (uint64_t at = begin * BLOCK; at < step->elems && at < end * BLOCK; at += BLOCK) {
        step->block(step, at, step->elems - at < BLOCK ? step->elems - at : BLOCK);
    }
}

static void each_block(struct step *step,
                       void (*block)(const struct step *step, uint64_t at, uint64_t n))
{
    step->block = block;
    pst_cpu_parallel(step->device, n_blocks(step->elems), work_on_blocks, step);
}

static void add_block(const struct step *step, uint64_t at, uint64_t n)
{
    step->device->simd->add(step->dst + at, step->a + at, step->b + at, n);
}

static void add_bf16_block(const struct step *step, uint64_t at, uint64_t n)
{
    const struct pst_simd *simd = step->device->simd;
    float a[BLOCK], b[BLOCK];

    simd->widen(a, step->a16 + at, n);
    simd->widen(b, step->b16 + at, n);
    simd->add(a, a, b, n);
    simd->narrow(step->dst16 + at, a, n);
}

void pst_cpu_accumulate(struct pst_device *device, float *dst, const float *src, uint64_t elems)
{
    struct step step = {.device = device, .dst = dst, .a = dst, .b = src, .elems = elems};

    each_block(&step, add_block);
}

void pst_cpu_sum(struct pst_device *device, void *dst, const void *a, const void *b, uint64_t elems,
                 uint32_t dtype)
{
    struct step step = {.device = device, .elems = elems};

    if (dtype == PST_BF16) {
        step.dst16 = dst;
        step.a16 = a;
        step.b16 = b;
        each_block(&step, add_bf16_block);
    } else if (dtype == PST_F64) { /* gradient checks */
        for (uint64_t i = 0; i < elems; i++) {
            ((double *)dst)[i] = ((const double *)a)[i] + ((const double *)b)[i];
        }
    } else {
        step.dst = dst;
        step.a = a;
        step.b = b;
        each_block(&step, add_block);
    }
}

/* --- sum of squares --------------------------------------------------------------------------- */

#define SEGMENTS 16u /* subtrees that threads can share */

/* Sum over the blocks begin ... begin + count - 1, count a power of two; past the end they are 0.
 */
static double square_tree(const struct step *step, uint64_t begin, uint64_t count)
{
    if (begin * BLOCK >= step->elems) {
        return 0;
    }
    if (count == 1) {
        const uint64_t left = step->elems - begin * BLOCK;

        return step->device->simd->square_sum(step->a + begin * BLOCK, left < BLOCK ? left : BLOCK);
    }
    return square_tree(step, begin, count / 2) + square_tree(step, begin + count / 2, count / 2);
}

struct square_job {
    struct step step;
    uint64_t count; /* blocks of a segment */
    double segment[SEGMENTS];
};

static void square_segments(void *context, uint64_t begin, uint64_t end, uint32_t thread)
{
    struct square_job *job = context;

    (void)thread;
    for (uint64_t i = begin; i < end; i++) {
        job->segment[i] = square_tree(&job->step, i * job->count, job->count);
    }
}

double pst_cpu_square_sum(struct pst_device *device, const float *values, uint64_t elems)
{
    struct square_job job = {.step = {.device = device, .a = values, .elems = elems}, .count = 1};
    uint32_t width, i;

    while (job.count * SEGMENTS < n_blocks(elems)) {
        job.count *= 2;
    }
    pst_cpu_parallel(device, SEGMENTS, square_segments, &job);
    for (width = 1; width < SEGMENTS; width *= 2) { /* neighbours first: still one binary tree */
        for (i = 0; i < SEGMENTS; i += 2 * width) {
            job.segment[i] += job.segment[i + width];
        }
    }
    return job.segment[0];
}

/* --- optimizer -------------------------------------------------------------------------------- */

static void store_working(const struct step *step, uint64_t at, uint64_t n)
{
    if (step->working == NULL || step->working == step->dst) {
        return;
    }
    if (step->working_dtype == PST_BF16) {
        step->device->simd->narrow((uint16_t *)step->working + at, step->dst + at, n);
    } else {
        memcpy((float *)step->working + at, step->dst + at, n * sizeof *step->dst);
    }
}

static void update_block(const struct step *step, uint64_t at, uint64_t n)
{
    const struct pst_simd *simd = step->device->simd;

    switch (step->update->optimizer) {
    case PST_SGD:
        simd->sgd(&step->factors, step->dst + at, step->a + at, n);
        break;
    case PST_MOMENTUM:
        simd->momentum(&step->factors, step->dst + at, step->a + at, step->s0 + at, n);
        break;
    default:
        simd->adam(&step->factors, step->dst + at, step->a + at, step->s0 + at, step->s1 + at, n);
        break;
    }
    store_working(step, at, n);
}

void pst_cpu_update(struct pst_device *device, const struct pst_update *update, float *weights,
                    const float *grad, float *s0, float *s1, void *working, uint32_t working_dtype,
                    uint64_t elems)
{
    struct step step = {
        .device = device,
        .update = update,
        .factors = pst_update_factors(update),
        .dst = weights,
        .a = grad,
        .s0 = s0,
        .s1 = s1,
        .working = working,
        .working_dtype = working_dtype,
        .elems = elems,
    };

    if (update->optimizer == PST_MUON) {
        pst_cpu_muon(device, update, weights, grad, s0);
        each_block(&step, store_working);
    } else {
        each_block(&step, update_block);
    }
}

void pst_cpu_refresh(struct pst_device *device, void *working, const float *weights,
                     uint32_t working_dtype, uint64_t elems)
{
    struct step step = {
        .device = device,
        .dst = (float *)(uintptr_t)weights, /* read only: see store_working */
        .working = working,
        .working_dtype = working_dtype,
        .elems = elems,
    };

    each_block(&step, store_working);
}
