/* SPDX-License-Identifier: Apache-2.0
 *
 * Mean of squared differences, per sample. Sums are double, in the order of the elements.
 */
#include "tile.h"

struct mse {
    const struct pst_op_request *request;
    const struct pst_call *call;
    uint64_t elems; /* of a sample */
};

static bool serves(const struct pst_op_request *request)
{
    return request_in(request, 1)->dtype == request->dtype &&
           request_out(request)->dtype == PST_F32;
}

/* Tiles of results, targets, gradients. */
static uint64_t workspace(const struct pst_op_request *request)
{
    return pst_tile_floats(request, 3, PST_TILE) * sizeof(float);
}

static void run_samples(void *context, uint64_t begin, uint64_t end, uint32_t thread)
{
    const struct mse *mse = context;
    const struct pst_call *call = mse->call;
    const float factor = 2 * call->scale / (float)mse->elems;
    struct pst_tile tiles[3];

    for (uint32_t i = 0; i < 3; i++) {
        tiles[i] = pst_tile_make(mse->request, call->workspace, 3, PST_TILE, thread, i);
    }
    for (uint64_t sample = begin; sample < end; sample++) {
        double sum = 0;

        for (uint64_t first = 0; first < mse->elems; first += PST_TILE) {
            const uint64_t left = mse->elems - first, n = left < PST_TILE ? left : PST_TILE;
            const uint64_t at = sample * mse->elems + first;
            const float *x = pst_tile_read(&tiles[0], call->x[0], at, n);
            const float *t = pst_tile_read(&tiles[1], call->x[1], at, n);
            float *dx = mse->request->pass == PST_KERNEL_B
                            ? pst_tile_write(&tiles[2], call->dx[0], at)
                            : NULL;

            for (uint64_t i = 0; i < n; i++) {
                const float difference = x[i] - t[i];

                if (dx != NULL) {
                    dx[i] = factor * difference;
                }
                sum += (double)difference * (double)difference;
            }
            if (dx != NULL) {
                pst_tile_done(&tiles[2], call->dx[0], at, n);
            }
        }
        if (mse->request->pass == PST_KERNEL_F) {
            ((float *)call->y[0])[sample] = (float)(sum / (double)mse->elems);
        }
    }
}

static void run(const struct pst_kernel *kernel, const struct pst_call *call)
{
    const struct pst_op_request *request = &pst_cpu_kernel_of(kernel)->request;
    struct mse mse = {.request = request, .call = call, .elems = request_in(request, 0)->elems};

    if (request->pass == PST_KERNEL_F || request_operand(call->dx, 0) != NULL) {
        pst_cpu_parallel(request->device, request->samples, run_samples, &mse);
    }
}

const struct pst_cpu_family pst_cpu_mse = {
    .kernel_bytes = sizeof(struct pst_cpu_kernel),
    .serves = serves,
    .workspace = workspace,
    .run = {run, run, NULL},
};
