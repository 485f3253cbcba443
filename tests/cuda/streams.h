/* SPDX-License-Identifier: Apache-2.0
 *
 * Streams of the double of the CUDA runtime: whatever works on one comes through here. It is done
 * at once, kept where the stream captures, or, with ON_HOST_STREAMS=threads, done late by a thread
 * of the stream's own, so that a missing wait shows as wrong data.
 */
#ifndef PST_TESTS_CUDA_STREAMS_H
#define PST_TESTS_CUDA_STREAMS_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* body(context) in the order of the stream; the context is copied unless it is done at once. */
void on_host_enqueue(cudaStream_t stream, void (*body)(void *), void *context, size_t bytes);
/* The GPU that was chosen when a stream was made. */
int on_host_gpu_of(cudaStream_t stream);
/* Becomes the calling thread's last error, and is returned. */
cudaError_t on_host_keep(cudaError_t error);
/* As on_host_enqueue(), of a kernel, whose GPU the calling thread must have chosen. */
void on_host_enqueue_kernel(cudaStream_t stream, void (*body)(void *), void *context, size_t bytes);
/* Whether that would be done at once. */
bool on_host_is_prompt(cudaStream_t stream);
/* For calls that must not be made while the calling thread captures: the capture is lost. */
cudaError_t on_host_forbid(void);
/* For calls that make a context on the GPU that the calling thread has chosen. */
void on_host_make_context(void);
/* For calls that wait for all that a GPU is at. */
void on_host_await_gpu(void);

#ifdef __cplusplus
}
#endif

#endif
