/* SPDX-License-Identifier: Apache-2.0
 *
 * Devices and transports out of the modules of the build tree, without the registry.
 */
#ifndef PENSTOCK_TESTS_MODULE_H
#define PENSTOCK_TESTS_MODULE_H

#include <dlfcn.h>

#include "test.h"

#include "exec/device.h"
#include "exec/transport.h"

/* What a module calls by this name; whoever asks for something that is not there fails. */
static inline void *module_symbol(const char *file, const char *name)
{
    void *module = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    void *symbol = module == NULL ? NULL : dlsym(module, name);

    if (symbol == NULL) {
        fail_msg("%s", dlerror());
    }
    return symbol;
}

static inline const struct pst_device_ops *load_device_module(const char *file)
{
    pst_device_module_fn *function;

    *(void **)&function = module_symbol(file, PST_DEVICE_MODULE_SYMBOL);
    return function();
}

static inline const struct pst_transport_ops *load_transport(const char *file)
{
    pst_transport_module_fn *function;

    *(void **)&function = module_symbol(file, PST_TRANSPORT_MODULE_SYMBOL);
    return function();
}

#endif
