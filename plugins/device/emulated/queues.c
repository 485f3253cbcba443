/* SPDX-License-Identifier: Apache-2.0
 *
 * Queues of a device with a clock: when what a queue was asked for ends follows from when it was
 * asked for and what it follows, so nobody has to be awake for it. A mark is a time.
 */
#include "emulated.h"

#include <stdlib.h>

#include "base/memory.h"

struct pst_mark {
    struct pst_mark *next;
    uint64_t ns;
};

pst_status pst_emulated_mark_create(struct pst_device *device, bool timed,
                                    struct pst_mark **ret_mark, struct pst_error *err)
{
    struct pst_mark *mark = pst_alloc(1, sizeof *mark);

    (void)timed;
    (void)err;
    mark->next = device->marks;
    device->marks = mark;
    *ret_mark = mark;
    return PST_OK;
}

void pst_emulated_marks_finish(struct pst_device *device)
{
    while (device->marks != NULL) {
        struct pst_mark *mark = device->marks;

        device->marks = mark->next;
        free(mark);
    }
}

void pst_emulated_mark(struct pst_device *device, uint32_t queue, struct pst_mark *mark)
{
    mark->ns = queue == PST_QUEUE_COMPUTE ? device->clock_ns : device->queue_ns[queue];
}

void pst_emulated_follow(struct pst_device *device, uint32_t queue, struct pst_mark *mark)
{
    if (queue == PST_QUEUE_COMPUTE && mark->ns > device->clock_ns) {
        pst_emulated_advance(device, mark->ns);
    } else if (mark->ns > device->queue_ns[queue]) {
        device->queue_ns[queue] = mark->ns;
    }
}

/* All times are known, and who wants them to pass follows. */
bool pst_emulated_wait(struct pst_device *device, struct pst_mark *mark, uint64_t ns)
{
    (void)device;
    (void)mark;
    (void)ns;
    return true;
}

uint64_t pst_emulated_mark_ns(struct pst_device *device, struct pst_mark *mark)
{
    (void)device;
    return mark->ns;
}

void pst_emulated_move(struct pst_device *device, uint32_t queue, void *dst, const void *src,
                       uint64_t bytes)
{
    const struct pst_device_times *times = device->times;

    pst_emulated_touch(device, dst, bytes);
    pst_emulated_touch(device, src, bytes);
    if (queue != PST_QUEUE_COMPUTE) {
        device->queue_ns[queue] += times->host_ns(times->context, device->index, bytes);
    }
}
