/* SPDX-License-Identifier: Apache-2.0
 *
 * Opens device-cuda-on-host: its table, and what a test sets of it.
 */
#ifndef PENSTOCK_TESTS_CUDA_OPEN_H
#define PENSTOCK_TESTS_CUDA_OPEN_H

#include "cuda/control.h"
#include "module.h"

#define CUDA_ON_HOST PENSTOCK_PLUGIN_DIR "/tests/device-cuda-on-host.so"

static inline void cuda_on_host_open(const struct pst_device_ops **ret_ops,
                                     struct cuda_on_host **ret_host)
{
    cuda_on_host_fn *control;

    *(void **)&control = module_symbol(CUDA_ON_HOST, "cuda_on_host");
    *ret_ops = load_device_module(CUDA_ON_HOST);
    *ret_host = control();
}

#endif
