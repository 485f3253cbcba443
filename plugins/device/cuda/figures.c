/* SPDX-License-Identifier: Apache-2.0
 *
 * Speed and memory of a GPU, for predictions: from the driver's attributes and from NVIDIA's
 * figures for its architecture.
 */
#include "cuda.h"

/* GPU memory of CUDA, its libraries and their kernels, outside of plans (configs/clusters). */
#define BESIDE_BYTES (UINT64_C(3) << 29)

/* Operations of a multiprocessor per clock, a multiplication with its addition counted as two:
   products of bf16 with sums in f32, without sparsity; f32 outside of tensor cores. "NVIDIA H100
   Tensor Core GPU Architecture" (2022), "NVIDIA Blackwell Architecture Technical Brief" (2024).
   What is newer counts as the newest. */
static const struct {
    int major;
    double bf16, f32;
} architectures[] = {{9, 4096, 256}, {10, 8192, 256}};

static double ask(const struct pst_device *device, enum cudaDeviceAttr what)
{
    int value = 0;

    if (cudaDeviceGetAttribute(&value, what, device->ordinal) != cudaSuccess) {
        cudaGetLastError(); /* a driver that does not know; nothing has failed */
        return 0;
    }
    return value;
}

void pst_cuda_figures(struct pst_device *device, struct pst_cluster *cluster)
{
    const int major = (int)ask(device, cudaDevAttrComputeCapabilityMajor);
    const double sms = device->sms > 0 ? device->sms : ask(device, cudaDevAttrMultiProcessorCount);
    const double clocks = sms * ask(device, cudaDevAttrClockRate) * 1e3;
    const uint32_t share = device->share > 1 ? device->share : 1;
    /* Two transfers a clock. */
    const double bytes = 2 * ask(device, cudaDevAttrMemoryClockRate) * 1e3 *
                         ask(device, cudaDevAttrGlobalMemoryBusWidth) / 8;
    size_t left, total;

    for (size_t i = 0; i < sizeof architectures / sizeof architectures[0] && clocks > 0; i++) {
        if (architectures[i].major <= major) {
            cluster->bf16_flops = architectures[i].bf16 * clocks;
            cluster->flops =
                (device->tf32 ? architectures[i].bf16 / 2 : architectures[i].f32) * clocks;
        }
    }
    if (bytes > 0) {
        cluster->memory_bandwidth = (uint64_t)(bytes / share);
    }
    if (cudaMemGetInfo(&left, &total) == cudaSuccess && total > BESIDE_BYTES) {
        cluster->memory = (total - BESIDE_BYTES) / share;
    }
}
