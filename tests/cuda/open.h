/* SPDX-License-Identifier: Apache-2.0
 *
 * Opens device-cuda-on-host: its table, and what a test sets of it.
 */
#ifndef PENSTOCK_TESTS_CUDA_OPEN_H
#define PENSTOCK_TESTS_CUDA_OPEN_H

#include <dlfcn.h>

#include "cuda/control.h"
#include "exec/device.h"

static inline bool cuda_on_host_open(const struct pst_device_ops **ret_ops,
                                     struct cuda_on_host **ret_host)
{
    void *module =
        dlopen(PENSTOCK_PLUGIN_DIR "/tests/device-cuda-on-host.so", RTLD_NOW | RTLD_LOCAL);
    pst_device_module_fn *entry;
    cuda_on_host_fn *control;

    if (module == NULL) {
        print_error("%s\n", dlerror());
        return false;
    }
    *(void **)&entry = dlsym(module, PST_DEVICE_MODULE_SYMBOL);
    *(void **)&control = dlsym(module, "cuda_on_host");
    if (entry == NULL || control == NULL) {
        return false;
    }
    *ret_ops = entry();
    *ret_host = control();
    return true;
}

#endif
