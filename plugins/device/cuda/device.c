/* SPDX-License-Identifier: Apache-2.0
 *
 * The module device-cuda: its table, and the life of a device. A rank has a GPU
 * (place.c), or a part of one (parts.c), with streams of its own.
 */
#include "dnn.h"
#include "kept.h"
#include "parts.h"

#include <nvtx3/nvToolsExt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

/* Names and years change, capability does not: own kernels are built for Hopper and newer. */
#define LEAST_MAJOR 9

static pst_status probe(char *ret_why, size_t why_size)
{
    int n = 0, driver = 0, major = 0;
    cudaError_t error = cudaGetDeviceCount(&n);

    if (error == cudaErrorInsufficientDriver && cudaDriverGetVersion(&driver) == cudaSuccess &&
        driver == 0) {
        snprintf(ret_why, why_size, "no NVIDIA driver on this machine (%s)",
                 cudaGetErrorName(error));
        return PST_ERR_UNSUPPORTED;
    }
    if (error != cudaSuccess) {
        snprintf(ret_why, why_size, "no GPU can be used: %s (%s)", cudaGetErrorString(error),
                 cudaGetErrorName(error));
        return PST_ERR_UNSUPPORTED;
    }
    for (int i = 0; i < n; i++) {
        error = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, i);
        if (error != cudaSuccess || major < LEAST_MAJOR) {
            snprintf(ret_why, why_size, "GPU %d has compute capability %d.x, %d.0 is needed", i,
                     major, LEAST_MAJOR);
            return PST_ERR_UNSUPPORTED;
        }
    }
    if (n == 0) {
        snprintf(ret_why, why_size, "the driver reports no GPU");
        return PST_ERR_UNSUPPORTED;
    }
    return PST_OK;
}

static void describe(char *ret_text, size_t text_size)
{
    struct cudaDeviceProp prop;
    int n = 0, runtime = 0, driver = 0;
    struct pst_cuda_driver driver_calls;
    char dnn[160], parts[128];

    cudaGetDeviceCount(&n);
    cudaRuntimeGetVersion(&runtime);
    cudaDriverGetVersion(&driver);
    if (n == 0 || cudaGetDeviceProperties(&prop, 0) != cudaSuccess) {
        snprintf(ret_text, text_size, "no GPU");
        return;
    }
    pst_dnn_describe(dnn, sizeof dnn);
    if (pst_cuda_driver_find(&driver_calls, parts, sizeof parts)) {
        snprintf(parts, sizeof parts, "run.share by green contexts");
    } else {
        size_t used = strlen(parts);

        snprintf(parts + used, sizeof parts - used, ": run.share by plain streams");
    }
    snprintf(ret_text, text_size,
             "%d GPU%s, %s, %.1f GiB, sm_%d%d; CUDA %d.%d, driver for %d.%d, cuBLASLt %zu, %s; %s",
             n, n == 1 ? "" : "s", prop.name, (double)prop.totalGlobalMem / 0x1p30, prop.major,
             prop.minor, runtime / 1000, runtime % 1000 / 10, driver / 1000, driver % 1000 / 10,
             cublasLtGetVersion(), dnn, parts);
}

static void close_device(struct pst_device *device)
{
    if (device == NULL) {
        return;
    }
    cudaSetDevice(device->ordinal);
    if (device->compute != NULL) { /* which the library still has */
        cudaStreamSynchronize(device->compute);
    }
    pst_cuda_dnn_close(device);
    pst_cuda_muon_free(device);
    pst_cuda_queues_close(device);
    pst_cuda_part_close(device->part);
    pst_cuda_arenas_free(device);
    cudaFree(device->squares);
    cudaFreeHost(device->square);
    cudaFree(device->changing);
    pst_cuda_kept_close(device->kept);
    if (device->blas != NULL) {
        cublasLtDestroy(device->blas);
    }
    free(device);
}

static pst_status open_parts(struct pst_device *device, struct pst_error *err)
{
    cudaError_t error = cudaSetDevice(device->ordinal);
    cublasStatus_t status;

    if (error == cudaSuccess) {
        pst_status opened = pst_cuda_part_of(device, err);

        if (opened == PST_OK) {
            opened = pst_cuda_queues_open(device, err);
        }
        if (opened != PST_OK) {
            return opened;
        }
        error = cudaMallocHost((void **)&device->square, sizeof *device->square);
        if (error != cudaSuccess) {
            return pst_cuda_fail_pinned(device, sizeof *device->square, error, err);
        }
        error = cudaMalloc((void **)&device->changing, sizeof *device->changing);
    }
    if (error != cudaSuccess) {
        return pst_cuda_fail(err, "opening the GPU", error);
    }
    status = cublasLtCreate(&device->blas);
    if (status != CUBLAS_STATUS_SUCCESS) {
        device->blas = NULL;
        pst_fail(err, PST_ERR_UNSUPPORTED, "machine.missing", "device cuda, cuBLASLt: %s",
                 cublasLtGetStatusString(status));
        if (status == CUBLAS_STATUS_ALLOC_FAILED) {
            pst_cuda_hint_memory(err);
        }
        return PST_ERR_UNSUPPORTED;
    }
    return PST_OK;
}

static pst_status open_device(const struct pst_device_config *config,
                              struct pst_device **ret_device, struct pst_error *err)
{
    struct pst_device *device;
    char why[256];
    pst_status status;

    if (probe(why, sizeof why) != PST_OK) {
        return pst_fail(err, PST_ERR_UNSUPPORTED, "machine.missing", "device cuda: %s", why);
    }
    device = pst_alloc(1, sizeof *device);
    device->tf32 = config->tf32;
    device->note = config->note;
    atomic_flag_clear(&device->failing);
    status = pst_cuda_choose(config->kernels, &device->choices, err);
    if (status == PST_OK) {
        status = pst_cuda_place(config, device, err);
    }
    if (status == PST_OK) {
        status = open_parts(device, err);
    }
    if (status == PST_OK) {
        status = pst_cuda_kept_open(device, err);
    }
    if (status == PST_OK) {
        pst_cuda_dnn_open(device);
        status = pst_cuda_reach_others(config, device, err);
    }
    if (status != PST_OK) {
        close_device(device);
        return status;
    }
    *ret_device = device;
    return PST_OK;
}

static pst_status supports(struct pst_device *device, uint32_t dtype, struct pst_error *err)
{
    (void)device;
    if (dtype == PST_F32 || dtype == PST_BF16) {
        return PST_OK;
    }
    return pst_fail(err, PST_ERR_UNSUPPORTED, "machine.missing",
                    "device cuda trains in f32 or bf16 only");
}

static void accumulate(struct pst_device *device, float *dst, const float *src, uint64_t elems)
{
    pst_cuda_accumulate(device->compute, dst, src, elems);
    pst_cuda_note_launch(device, "a sum of gradients");
}

static void sum(struct pst_device *device, void *dst, const void *a, const void *b, uint64_t elems,
                uint32_t dtype)
{
    pst_cuda_sum(device->compute, dtype == PST_BF16, dst, a, b, elems);
    pst_cuda_note_launch(device, "a sum of two gradients");
}

static void squares(struct pst_device *device, const struct pst_squared *list, uint32_t n)
{
    const char *doing = "the norm of a gradient";
    uint64_t doubles = 0;

    for (uint32_t i = 0; i < n; i++) {
        doubles += pst_cuda_square_doubles(list[i].elems);
    }
    if (doubles > device->n_squares) {
        pst_cuda_note(device, doing, cudaErrorInvalidValue); /* of no graph it has seen */
        return;
    }
    pst_cuda_squares(device->compute, list, n, device->squares);
    pst_cuda_note_launch(device, doing);
}

static double square_sum(struct pst_device *device, const float *values, uint64_t elems)
{
    const struct pst_squared one = {values, elems, device->square};
    cudaError_t error;

    squares(device, &one, 1);
    error = cudaStreamSynchronize(device->compute);
    pst_cuda_note(device, "the norm of a gradient", error);
    return error == cudaSuccess ? *device->square : 0;
}

static void update(struct pst_device *device, const struct pst_update *how, float *weights,
                   const float *grad, float *s0, float *s1, void *working, uint32_t working_dtype,
                   uint64_t elems)
{
    void *other = working == weights ? NULL : working;

    if (how->optimizer == PST_MUON) {
        pst_cuda_muon(device, how, weights, grad, s0, other, working_dtype == PST_BF16);
        return;
    }
    pst_cuda_update(device->compute, pst_cuda_factors(device, how), weights, grad, s0, s1, other,
                    working_dtype == PST_BF16, elems);
    pst_cuda_note_launch(device, "the optimizer");
}

static void refresh(struct pst_device *device, void *working, const float *weights,
                    uint32_t working_dtype, uint64_t elems)
{
    pst_cuda_refresh(device->compute, working, weights, working_dtype == PST_BF16, elems);
    pst_cuda_note_launch(device, "rounding weights");
}

static pst_status sync_device(struct pst_device *device, struct pst_error *err)
{
    char doing[80];

    pst_cuda_note(device, pst_cuda_doing(device, doing, sizeof doing),
                  cudaStreamSynchronize(device->compute));
    pst_cuda_anchor(device);
    return pst_cuda_failure(device, err);
}

static void range(struct pst_device *device, const char *name)
{
    (void)device;
    if (name != NULL) {
        nvtxRangePushA(name);
    } else {
        nvtxRangePop();
    }
}

static void *stream_of(struct pst_device *device, int *ret_ordinal)
{
    *ret_ordinal = device->ordinal;
    return device->compute;
}

static const struct pst_device_ops ops = {
    .size = sizeof ops,
    .id = "cuda",
    .probe = probe,
    .describe = describe,
    .open = open_device,
    .close = close_device,
    .enter = pst_cuda_enter,
    .arena = pst_cuda_arena,
    .supports = supports,
    .workspace = pst_cuda_workspace,
    .compile = pst_cuda_compile,
    .upload = pst_cuda_upload,
    .download = pst_cuda_download,
    .zero = pst_cuda_zero,
    .accumulate = accumulate,
    .sum = sum,
    .square_sum = square_sum,
    .update = update,
    .refresh = refresh,
    .flags = PST_DEVICE_APART | PST_DEVICE_TF32 | PST_DEVICE_MUON | PST_DEVICE_SLICES,
    .sync = sync_device,
    .pinned = pst_cuda_pinned,
    .mark_create = pst_cuda_mark_create,
    .mark = pst_cuda_mark,
    .follow = pst_cuda_follow,
    .wait = pst_cuda_wait,
    .move = pst_cuda_move,
    .call = pst_cuda_call,
    .add = pst_cuda_add,
    .squares = squares,
    .mark_ns = pst_cuda_mark_ns,
    .range = range,
    .stream = stream_of,
    .capture_begin = pst_cuda_capture_begin,
    .capture_end = pst_cuda_capture_end,
    .replay = pst_cuda_replay,
    .replay_destroy = pst_cuda_replay_destroy,
    .fits = pst_cuda_fits,
    .sharing = pst_cuda_sharing,
    .identity = pst_cuda_identity,
    .figures = pst_cuda_figures,
    .begin_pass = pst_cuda_round_biases,
};

PST_EXPORT pst_device_module_fn pst_device_module;

const struct pst_device_ops *pst_device_module(void)
{
    /* Streams that share a connection wait for each other: as many as there may be. Read when the
       first context is made. */
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
    return &ops;
}
