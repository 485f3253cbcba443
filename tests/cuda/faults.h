/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside of device-cuda-on-host: calls that can be made to fail, and what they make is counted in
 * cuda_on_host().
 */
#ifndef PST_TESTS_CUDA_FAULTS_H
#define PST_TESTS_CUDA_FAULTS_H

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include "control.h"

cuda_on_host_fn cuda_on_host;

/* Counts a call that can fail; whether this one shall. */
bool faulty(void);

/* A kernel broke: the error shows at the next wait, and at all that come later. */
bool broken(void);

/* What a call about products that fails says: as a test has it, else this. */
cublasStatus_t product_failure(cublasStatus_t usual);

#endif
