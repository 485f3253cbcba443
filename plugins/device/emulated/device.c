/* SPDX-License-Identifier: Apache-2.0
 *
 * The module device-emulated: its table, and the work around the step.
 */
#include "emulated.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "base/memory.h"

static pst_status probe(char *ret_why, size_t why_size)
{
    (void)ret_why;
    (void)why_size;
    return PST_OK;
}

static void describe(char *ret_text, size_t text_size)
{
    snprintf(ret_text, text_size, "has the times of the devices in [cluster], computes nothing");
}

static pst_status open_device(const struct pst_device_config *config,
                              struct pst_device **ret_device, struct pst_error *err)
{
    struct pst_device *device = pst_alloc(1, sizeof *device);

    (void)err;
    device->times = config->times;
    device->index = config->index;
    *ret_device = device;
    return PST_OK;
}

static void close_device(struct pst_device *device)
{
    if (device != NULL) {
        pst_emulated_marks_finish(device);
        pst_emulated_arena_finish(device);
        free(device);
    }
}

/* The kernel may put a sleeper's end off to have several at once, by 50 us where nobody objects. */
static void enter(struct pst_device *device)
{
    (void)device;
    prctl(PR_SET_TIMERSLACK, 1ul, 0ul, 0ul, 0ul);
}

static pst_status supports(struct pst_device *device, uint32_t dtype, struct pst_error *err)
{
    (void)device;
    if (dtype == PST_F32 || dtype == PST_BF16) {
        return PST_OK;
    }
    return pst_fail(err, PST_ERR_UNSUPPORTED, "machine.missing",
                    "device emulated stands in for devices that train in f32 or bf16");
}

/* [cluster] says nothing of the library of its devices. */
static uint64_t workspace(struct pst_device *device, const struct pst_graph *graph, uint32_t op,
                          uint32_t pass, uint32_t samples)
{
    (void)device;
    (void)graph;
    (void)op;
    (void)pass;
    (void)samples;
    return 0;
}

static void upload(struct pst_device *device, void *dst, const void *src, uint64_t bytes)
{
    (void)src;
    pst_emulated_touch(device, dst, bytes);
}

static void download(struct pst_device *device, void *dst, const void *src, uint64_t bytes)
{
    pst_emulated_touch(device, src, bytes);
    memset(dst, 0, (size_t)bytes);
}

static void zero(struct pst_device *device, void *dst, uint64_t bytes)
{
    pst_emulated_touch(device, dst, bytes);
}

static void accumulate(struct pst_device *device, float *dst, const float *src, uint64_t elems)
{
    pst_emulated_touch(device, dst, elems * sizeof *dst);
    pst_emulated_touch(device, src, elems * sizeof *src);
}

static void sum(struct pst_device *device, void *dst, const void *a, const void *b, uint64_t elems,
                uint32_t dtype)
{
    uint64_t bytes = elems * pst_dtype_bytes(dtype);

    pst_emulated_touch(device, dst, bytes);
    pst_emulated_touch(device, a, bytes);
    pst_emulated_touch(device, b, bytes);
}

static double square_sum(struct pst_device *device, const float *values, uint64_t elems)
{
    pst_emulated_touch(device, values, elems * sizeof *values);
    return 0;
}

static void refresh(struct pst_device *device, void *working, const float *weights,
                    uint32_t working_dtype, uint64_t elems)
{
    pst_emulated_touch(device, working, elems * pst_dtype_bytes(working_dtype));
    pst_emulated_touch(device, weights, elems * sizeof *weights);
}

static void update(struct pst_device *device, const struct pst_update *how, float *weights,
                   const float *grad, float *s0, float *s1, void *working, uint32_t working_dtype,
                   uint64_t elems)
{
    const struct pst_device_times *times = device->times;
    uint32_t n_slots = (s0 != NULL) + (s1 != NULL);

    if (how->optimizer == PST_MUON) {
        pst_emulated_touch(device, how->room,
                           pst_muon_room(how->rows, how->columns).floats * sizeof(float));
    }
    pst_emulated_touch(device, grad, elems * sizeof *grad);
    pst_emulated_touch(device, s0, elems * sizeof *s0);
    pst_emulated_touch(device, s1, elems * sizeof *s1);
    pst_emulated_touch(device, weights, elems * sizeof *weights);
    pst_emulated_touch(device, working, elems * pst_dtype_bytes(working_dtype));
    if (times != NULL) {
        pst_emulated_spend(device, times->update_ns(times->context, device->index, elems, n_slots,
                                                    !device->in_update));
    }
    device->in_update = true;
}

static uint64_t reached(struct pst_device *device)
{
    return device->reached_bytes;
}

static const struct pst_device_ops ops = {
    .size = sizeof ops,
    .id = "emulated",
    .probe = probe,
    .describe = describe,
    .open = open_device,
    .close = close_device,
    .enter = enter,
    .arena = pst_emulated_arena,
    .supports = supports,
    .workspace = workspace,
    .compile = pst_emulated_compile,
    .upload = upload,
    .download = download,
    .zero = zero,
    .accumulate = accumulate,
    .sum = sum,
    .square_sum = square_sum,
    .update = update,
    .refresh = refresh,
    .flags = PST_DEVICE_NO_DATA | PST_DEVICE_PARTS,
    .pinned = pst_emulated_pinned,
    .mark_create = pst_emulated_mark_create,
    .mark = pst_emulated_mark,
    .follow = pst_emulated_follow,
    .wait = pst_emulated_wait,
    .mark_ns = pst_emulated_mark_ns,
    .move = pst_emulated_move,
    .now = pst_emulated_now,
    .advance = pst_emulated_advance,
    .finish = pst_emulated_finish,
    .touch = pst_emulated_touch,
    .reached = reached,
};

PST_EXPORT pst_device_module_fn pst_device_module;

const struct pst_device_ops *pst_device_module(void)
{
    return &ops;
}
