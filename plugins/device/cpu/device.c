/* SPDX-License-Identifier: Apache-2.0
 *
 * The module device-cpu: its table, and the life of a device.
 */
#include "cpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/machine.h"
#include "base/memory.h"

static pst_status probe(char *ret_why, size_t why_size)
{
    (void)ret_why;
    (void)why_size;
    return PST_OK; /* where the program runs, there is one */
}

static void describe(char *ret_text, size_t text_size)
{
    const uint32_t cores = pst_usable_cores();
    char library[128] = "no oneDNN: plain C kernels for products";

#ifdef PENSTOCK_ONEDNN
    pst_dnnl_describe(library, sizeof library);
#endif
    snprintf(ret_text, text_size, "%s; own kernels %s; %u core%s", library, pst_simd_select()->name,
             cores, cores == 1 ? "" : "s");
}

static void close_device(struct pst_device *device)
{
    if (device == NULL) {
        return;
    }
    pst_cpu_leave(device);
    pst_cpu_queues_finish(device);
    pst_cpu_arenas_finish(device);
    pst_cpu_turns_finish(device);
#ifdef PENSTOCK_ONEDNN
    pst_dnnl_close(device);
#endif
    free(device);
}

static pst_status check_config(const struct pst_device_config *config, struct pst_error *err)
{
    const char *kernels = config->kernels == NULL ? "auto" : config->kernels;

    if (config->threads == 0) {
        return pst_fail(err, PST_ERR_CONFIG, "config.value",
                        "device cpu: it needs at least 1 thread");
    }
    if (strcmp(kernels, "auto") != 0 && strcmp(kernels, "onednn") != 0 &&
        strcmp(kernels, "reference") != 0) {
        return pst_fail(err, PST_ERR_CONFIG, "config.value",
                        "device cpu: unknown kernels \"%s\"; known are auto, onednn and reference",
                        kernels);
    }
#ifndef PENSTOCK_ONEDNN
    if (strcmp(kernels, "onednn") == 0) {
        return pst_fail(err, PST_ERR_UNSUPPORTED, "machine.missing",
                        "device cpu: built without oneDNN; install libdnnl-dev and build again, or "
                        "use kernels \"auto\"");
    }
#endif
#ifndef _OPENMP
    if (config->threads > 1) {
        return pst_fail(err, PST_ERR_UNSUPPORTED, "machine.missing",
                        "device cpu: built without OpenMP, so a device has 1 thread, not %u",
                        config->threads);
    }
#endif
    return PST_OK;
}

static pst_status open_device(const struct pst_device_config *config,
                              struct pst_device **ret_device, struct pst_error *err)
{
    struct pst_device *device;
    pst_status status = check_config(config, err);

    if (status != PST_OK) {
        return status;
    }
    device = pst_alloc(1, sizeof *device);
    pst_cpu_queues_init(device);
    device->threads = config->threads;
    device->reference = config->kernels != NULL && strcmp(config->kernels, "reference") == 0;
    device->simd = pst_simd_select();
#ifdef PENSTOCK_ONEDNN
    status = pst_dnnl_open(device, err);
    if (status != PST_OK) {
        close_device(device);
        return status;
    }
#endif
    *ret_device = device;
    return PST_OK;
}

static pst_status supports(struct pst_device *device, uint32_t dtype, struct pst_error *err)
{
    if (dtype == PST_F32) {
        return PST_OK;
    }
    if (dtype != PST_BF16) {
        return pst_fail(err, PST_ERR_UNSUPPORTED, "machine.missing",
                        "device cpu trains in f32 or bf16 only");
    }
    if (device->reference) {
        return PST_OK; /* plain C knows bf16 everywhere */
    }
#ifdef PENSTOCK_ONEDNN
    if (pst_dnnl_has_bf16()) {
        return PST_OK;
    }
#endif
    return pst_fail(err, PST_ERR_UNSUPPORTED, "machine.missing",
                    "device cpu: this processor has no bf16 products (AVX-512 bf16 or AMX); use "
                    "dtype \"f32\", or kernels \"reference\" if speed does not matter");
}

static void copy(struct pst_device *device, void *dst, const void *src, uint64_t bytes)
{
    (void)device;
    memcpy(dst, src, (size_t)bytes);
}

static void zero(struct pst_device *device, void *dst, uint64_t bytes)
{
    (void)device;
    memset(dst, 0, (size_t)bytes);
}

static const struct pst_device_ops ops = {
    .size = sizeof ops,
    .id = "cpu",
    .probe = probe,
    .describe = describe,
    .open = open_device,
    .close = close_device,
    .enter = pst_cpu_enter,
    .arena = pst_cpu_arena_add,
    .supports = supports,
    .workspace = pst_cpu_workspace,
    .compile = pst_cpu_compile,
    .upload = copy,
    .download = copy,
    .zero = zero,
    .accumulate = pst_cpu_accumulate,
    .sum = pst_cpu_sum,
    .square_sum = pst_cpu_square_sum,
    .update = pst_cpu_update,
    .refresh = pst_cpu_refresh,
    .flags = PST_DEVICE_MUON | PST_DEVICE_SLICES | PST_DEVICE_CUSTOM | PST_DEVICE_PARTS,
    .queue_open = pst_cpu_queue_open,
    .pinned = pst_cpu_arena_add,
    .mark_create = pst_cpu_mark_create,
    .mark = pst_cpu_mark,
    .follow = pst_cpu_follow,
    .wait = pst_cpu_wait,
    .mark_ns = pst_cpu_mark_ns,
    .move = pst_cpu_move,
    .call = pst_cpu_call,
};

PST_EXPORT pst_device_module_fn pst_device_module;

const struct pst_device_ops *pst_device_module(void)
{
    return &ops;
}
