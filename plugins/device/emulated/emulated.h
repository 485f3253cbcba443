/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside of device-emulated.so: a device that takes the time of another and computes nothing. Its
 * arena is address space without memory behind it, so what touches the bytes ends the process.
 */
#ifndef PST_DEVICE_EMULATED_EMULATED_H
#define PST_DEVICE_EMULATED_EMULATED_H

#include "exec/device.h"

struct pst_device {
    const struct pst_device_times *times; /* NULL: it can be asked, but not run */
    uint64_t clock_ns;                    /* when what it was asked for so far ends */
    bool in_update;                       /* the last call was an update */
    const char *base;                     /* of the arena */
    void *mapping;
    size_t mapped_bytes;
    uint64_t arena_bytes, reached_bytes;
};

/* arena.c */
pst_status pst_emulated_arena(struct pst_device *device, uint64_t bytes, void **ret_base,
                              struct pst_error *err);
void pst_emulated_arena_finish(struct pst_device *device);
/* Bytes outside of the arena do not count; NULL is nothing. */
void pst_emulated_touch(struct pst_device *device, const void *data, uint64_t bytes);

/* clock.c */
void pst_emulated_spend(struct pst_device *device, uint64_t ns);
void pst_emulated_finish(struct pst_device *device);
uint64_t pst_emulated_now(struct pst_device *device);
void pst_emulated_advance(struct pst_device *device, uint64_t ns);

/* kernel.c */
pst_status pst_emulated_compile(struct pst_device *device, const struct pst_graph *graph,
                                uint32_t op, uint32_t pass, uint32_t samples,
                                struct pst_kernel **ret_kernel, struct pst_error *err);

#endif
