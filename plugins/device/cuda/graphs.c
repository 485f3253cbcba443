/* SPDX-License-Identifier: Apache-2.0
 *
 * Captures are CUDA graphs of the stream of kernels. What changes between launches of a graph is in
 * a few words of device memory, written by kernels of one block before it is launched. Launches
 * outside of graphs read the same words, so both are the same kernels with the same arguments.
 */
#include "cuda.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

struct pst_replay {
    cudaGraphExec_t graph;
    uint32_t reads; /* PST_CUDA_SAMPLE and so on */
};

/* The device that this thread captures on. */
static _Thread_local const struct pst_device *capturing;

bool pst_cuda_captures(const struct pst_device *device)
{
    return capturing == device;
}

static void write_sample(struct pst_device *device, uint64_t value)
{
    if ((device->is_written & PST_CUDA_SAMPLE) != 0 && device->written.first_sample == value) {
        return;
    }
    pst_cuda_set_sample(device->compute, &device->changing->first_sample, value);
    pst_cuda_note_launch(device, "numbering samples");
    device->written.first_sample = value;
    device->is_written |= PST_CUDA_SAMPLE;
}

static uint32_t slot_of(const struct pst_update *update)
{
    return update->kind;
}

static void write_factors(struct pst_device *device, const struct pst_update *update)
{
    const struct pst_update_factors value = pst_update_factors(update);
    const uint32_t slot = slot_of(update);
    struct pst_update_factors *written = &device->written.factors[slot];

    if ((device->is_written & 1u << slot) != 0 && memcmp(written, &value, sizeof value) == 0) {
        return;
    }
    pst_cuda_set_factors(device->compute, &device->changing->factors[slot], &value);
    pst_cuda_note_launch(device, "the optimizer");
    *written = value;
    device->is_written |= 1u << slot;
}

const uint64_t *pst_cuda_first_sample(struct pst_device *device, uint64_t value)
{
    if (pst_cuda_captures(device)) {
        device->captured |= PST_CUDA_SAMPLE;
    } else {
        write_sample(device, value);
    }
    return &device->changing->first_sample;
}

const struct pst_update_factors *pst_cuda_factors(struct pst_device *device,
                                                  const struct pst_update *update)
{
    if (pst_cuda_captures(device)) {
        device->captured |= 1u << slot_of(update);
    } else {
        write_factors(device, update);
    }
    return &device->changing->factors[slot_of(update)];
}

bool pst_cuda_capture_begin(struct pst_device *device)
{
    capturing = device;
    device->captured = 0;
    device->refused = false;
    pst_cuda_note(device, "beginning a capture",
                  cudaStreamBeginCapture(device->compute, cudaStreamCaptureModeThreadLocal));
    return !device->refused;
}

/* The executable form of a graph, on its way to the device. */
static cudaError_t instantiate(const struct pst_device *device, cudaGraph_t graph,
                               cudaGraphExec_t *ret_exec)
{
    cudaGraphExec_t exec = NULL;
    cudaError_t error = cudaGraphInstantiate(&exec, graph, 0);

    if (error == cudaSuccess) {
        error = cudaGraphUpload(exec, device->compute);
    }
    if (error != cudaSuccess && exec != NULL) {
        cudaGraphExecDestroy(exec);
        exec = NULL;
    }
    *ret_exec = exec;
    return error;
}

pst_status pst_cuda_capture_end(struct pst_device *device, struct pst_replay **ret_replay,
                                struct pst_error *err)
{
    struct pst_replay *replay = pst_alloc(1, sizeof *replay);
    cudaGraph_t graph = NULL;

    /* A capture that was refused on the way has to be ended, too, and says less about why. */
    pst_cuda_note(device, "ending a capture", cudaStreamEndCapture(device->compute, &graph));
    if (!device->refused) {
        pst_cuda_note(device, "making a graph", instantiate(device, graph, &replay->graph));
        replay->reads = device->captured;
    }
    if (graph != NULL) {
        cudaGraphDestroy(graph);
    }
    capturing = NULL;
    if (device->refused) {
        cudaGetLastError(); /* it is the capture's, not the device's */
        free(replay);
        return pst_fail(err, PST_ERR_UNSUPPORTED, "run.graph",
                        "GPU %d cannot make a graph of this: %s: %s", device->ordinal,
                        device->refused_doing, device->refused_why);
    }
    *ret_replay = replay;
    return PST_OK;
}

void pst_cuda_replay(struct pst_device *device, struct pst_replay *replay,
                     const struct pst_changes *changes)
{
    if ((replay->reads & PST_CUDA_SAMPLE) != 0) {
        write_sample(device, changes->first_sample);
    }
    for (uint32_t i = 0; i < changes->n_updates; i++) {
        if ((replay->reads & 1u << slot_of(&changes->updates[i])) != 0) {
            write_factors(device, &changes->updates[i]);
        }
    }
    pst_cuda_note(device, "launching a graph", cudaGraphLaunch(replay->graph, device->compute));
}

void pst_cuda_replay_destroy(struct pst_device *device, struct pst_replay *replay)
{
    if (replay == NULL) {
        return;
    }
    cudaStreamSynchronize(device->compute);
    cudaGraphExecDestroy(replay->graph);
    free(replay);
}
