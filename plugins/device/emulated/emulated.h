/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside of device-emulated.so: a device that takes the time of another and computes nothing. Its
 * arena is address space without memory behind it, so what touches the bytes ends the process.
 */
#ifndef PST_DEVICE_EMULATED_EMULATED_H
#define PST_DEVICE_EMULATED_EMULATED_H

#include "exec/device.h"

struct pst_emulated_space {
    void *mapping;
    size_t bytes;
};

struct pst_device {
    const struct pst_device_times *times; /* NULL: it can be asked, but not run */
    uint32_t index;                       /* which device they are asked about */
    uint64_t clock_ns;                    /* when what it was asked for so far ends */
    uint64_t queue_ns[PST_QUEUES];        /* the same of queues; of the first: clock_ns */
    struct pst_mark *marks;
    bool in_update;   /* the last call was an update */
    const char *base; /* of the arena */
    struct pst_emulated_space arena, host;
    uint64_t arena_bytes, reached_bytes;
};

/* arena.c */
pst_status pst_emulated_arena(struct pst_device *device, uint64_t bytes, void **ret_base,
                              struct pst_error *err);
/* As an arena; it is not watched. */
pst_status pst_emulated_pinned(struct pst_device *device, uint64_t bytes, void **ret_base,
                               struct pst_error *err);
void pst_emulated_arena_finish(struct pst_device *device);
/* Bytes outside of the arena do not count; NULL is nothing. */
void pst_emulated_touch(struct pst_device *device, const void *data, uint64_t bytes);

/* clock.c */
void pst_emulated_spend(struct pst_device *device, uint64_t ns);
void pst_emulated_finish(struct pst_device *device);
uint64_t pst_emulated_now(struct pst_device *device);
void pst_emulated_advance(struct pst_device *device, uint64_t ns);

/* queues.c */
pst_status pst_emulated_mark_create(struct pst_device *device, bool timed,
                                    struct pst_mark **ret_mark, struct pst_error *err);
void pst_emulated_marks_finish(struct pst_device *device);
void pst_emulated_mark(struct pst_device *device, uint32_t queue, struct pst_mark *mark);
void pst_emulated_follow(struct pst_device *device, uint32_t queue, struct pst_mark *mark);
bool pst_emulated_wait(struct pst_device *device, struct pst_mark *mark, uint64_t ns);
uint64_t pst_emulated_mark_ns(struct pst_device *device, struct pst_mark *mark);
void pst_emulated_move(struct pst_device *device, uint32_t queue, void *dst, const void *src,
                       uint64_t bytes);

/* kernel.c */
pst_status pst_emulated_compile(struct pst_device *device, const struct pst_graph *graph,
                                uint32_t op, uint32_t pass, uint32_t samples,
                                struct pst_kernel **ret_kernel, struct pst_error *err);

#endif
