/* SPDX-License-Identifier: Apache-2.0
 *
 * Timing of what a device is asked for: by the host's clock around it or, on a device that works on
 * its own, between marks in its queue, so that the way there does not count.
 */
#include "measure/measure_impl.h"

#include "base/util.h"

pst_status measure_places_init(struct measure_places *places, const struct pst_device_ops *ops,
                               struct pst_device *device, struct pst_error *err)
{
    pst_status status = PST_OK;

    *places = (struct measure_places){.ops = ops, .device = device};
    for (uint32_t i = 0; (ops->flags & PST_DEVICE_APART) != 0 && i < 2 && status == PST_OK; i++) {
        status = ops->mark_create(device, true, &places->marks[i], err);
    }
    return status;
}

void measure_begin(struct measure_places *places)
{
    if (places->marks[0] != NULL) {
        places->ops->mark(places->device, PST_QUEUE_COMPUTE, places->marks[0]);
    } else {
        places->begin_ns = pst_now_ns();
    }
}

uint64_t measure_lap(struct measure_places *places)
{
    const struct pst_device_ops *ops = places->ops;
    uint64_t begin = places->begin_ns, end;

    if (ops->finish != NULL) {
        ops->finish(places->device);
    }
    if (places->marks[0] == NULL) {
        places->begin_ns = end = pst_now_ns();
        return end - begin;
    }
    ops->mark(places->device, PST_QUEUE_COMPUTE, places->marks[1]);
    ops->wait(places->device, places->marks[1], UINT64_MAX);
    begin = ops->mark_ns(places->device, places->marks[0]);
    end = ops->mark_ns(places->device, places->marks[1]);
    ops->sync(places->device, NULL); /* a failure stays: it is asked for at the end */
    measure_begin(places);
    return end > begin ? end - begin : 0;
}
