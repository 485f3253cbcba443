/* SPDX-License-Identifier: Apache-2.0
 *
 * Plain C kernels for every operator and pass: what the optimised kernels are compared with, and
 * what runs where there is no library for an operator. Single-threaded, in a fixed order, so the
 * same operands always give the same bits.
 *
 * Types of the graph: f32; bf16 (stored bf16, computed f32, rounded to nearest even; parameters of
 * one axis, such as biases, are f32); f64, for which everything is double: parameters, dp, state,
 * aux tensors, the loss. The float pointers of struct pst_call point to doubles then.
 *
 * Data are not trusted: a token or class that is out of range makes the result NaN (a negative
 * class is ignored) and touches no memory outside of the operands.
 */
#ifndef PST_DEVICE_CPU_REFERENCE_REFERENCE_H
#define PST_DEVICE_CPU_REFERENCE_REFERENCE_H

#include "exec/device.h"

/*
 * Makes the kernel of one pass (PST_KERNEL_*) of operator `op` for `samples` samples; free it with
 * its destroy(). The graph must outlive it. PST_ERR_UNSUPPORTED where the operator has nothing to
 * do in that pass or its types are not as above. Any thread.
 */
pst_status pst_reference_kernel(const struct pst_graph *graph, uint32_t op, uint32_t pass,
                                uint32_t samples, struct pst_kernel **ret_kernel,
                                struct pst_error *err);

/* The workspace_bytes of that kernel; 0 for what pst_reference_kernel() would refuse. */
uint64_t pst_reference_workspace(const struct pst_graph *graph, uint32_t op, uint32_t pass,
                                 uint32_t samples);

#endif
