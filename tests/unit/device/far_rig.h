/* SPDX-License-Identifier: Apache-2.0
 *
 * Operands of kernels on a device with memory of its own. Include cmocka before.
 */
#ifndef PENSTOCK_TESTS_FAR_RIG_H
#define PENSTOCK_TESTS_FAR_RIG_H

#include "exec/device.h"

struct rig_buffer {
    void *data; /* aligned to 64 bytes */
    uint64_t elems, bytes;
    uint32_t dtype;
};

/*
 * A device with memory of its own: operands are copied to its arena and, behind the kernel, back.
 * Off the device, everything stays as it is.
 */
#ifndef RIG_FAR_BYTES
#define RIG_FAR_BYTES (128u << 20)
#endif

struct rig_far {
    struct {
        void *host, *far;
        uint64_t bytes;
    } parts[32];
    uint32_t n;
    uint64_t used;
    const struct pst_device_ops *ops;
};

static inline char *rig_far_arena(const struct pst_device_ops *ops, struct pst_device *device)
{
    static struct pst_device *owner;
    static void *base;
    struct pst_error err = {0};

    if (owner != device) {
        owner = device;
        assert_ok(ops->arena(device, RIG_FAR_BYTES, &base, &err), &err);
    }
    return base;
}

/* Where an operand is for the kernel; equal ones stay equal. */
static inline void *rig_far_of(struct rig_far *far, struct pst_device *device, void *host,
                               uint64_t bytes)
{
    uint32_t i = 0;

    if (host == NULL || (far->ops->flags & PST_DEVICE_APART) == 0) {
        return host;
    }
    for (; i < far->n; i++) {
        if (far->parts[i].host == host) {
            return far->parts[i].far;
        }
    }
    assert_true(far->n < 32 && far->used + bytes <= RIG_FAR_BYTES);
    far->parts[i].host = host;
    far->parts[i].far = rig_far_arena(far->ops, device) + far->used;
    far->parts[i].bytes = bytes;
    far->n++;
    far->used += (bytes + 255) / 256 * 256;
    far->ops->upload(device, far->parts[i].far, host, bytes);
    return far->parts[i].far;
}

static inline void rig_far_all(struct rig_far *far, struct pst_device *device, void **operands,
                               const struct rig_buffer *buffers, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        operands[i] = rig_far_of(far, device, operands[i], buffers[i].bytes);
    }
}

static inline void rig_far_back(struct rig_far *far, struct pst_device *device)
{
    struct pst_error err = {0};

    if (far->ops->sync != NULL && far->ops->sync(device, &err) != PST_OK) {
        fail_msg("%s", err.message);
    }
    for (uint32_t i = 0; i < far->n; i++) {
        far->ops->download(device, far->parts[i].host, far->parts[i].far, far->parts[i].bytes);
    }
}

#endif
