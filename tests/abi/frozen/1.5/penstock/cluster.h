/* SPDX-License-Identifier: Apache-2.0
 *
 * Devices and links. Link costs are asked for through pst.cost/1, which knows the hierarchy.
 */
#ifndef PENSTOCK_CLUSTER_H
#define PENSTOCK_CLUSTER_H

#include "abi.h"

struct pst_cluster_device {
    uint64_t
        memory_bytes; /* capacity for everything that penstock lays out; UINT64_MAX: no limit */
    uint32_t node;    /* machine that it sits in */
    double speed;     /* compute speed relative to the profiled device, 1.0 = the same */
};

struct pst_cluster_view {
    uint32_t size;
    uint32_t n_devices, device_size;
    const void *devices;
};

static inline const struct pst_cluster_device *pst_cluster_device_at(
    const struct pst_cluster_view *c, uint32_t i)
{
    return (const struct pst_cluster_device *)((const char *)c->devices +
                                               (size_t)i * c->device_size);
}

#endif
