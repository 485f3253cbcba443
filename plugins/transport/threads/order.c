/* SPDX-License-Identifier: Apache-2.0
 *
 * Transfers between devices that work off queues. Whoever has both ends asks for the copy: the
 * receiver's queue for its link follows the marks that both ends set in the order of their kernels,
 * and both ends get a mark behind the copy that their kernels follow. That of the sender is set in
 * a queue of its own device, which does nothing but wait: a mark belongs to one device.
 *
 * A sum is asked for by the member that comes last. Each member's device makes a share of the
 * elements, in the first member's buffer and in the order of members, and copies it to the others.
 */
#include "exec/device.h"
#include "transport/threads/reduce.h"

/* Creates marks on the rank's device. */
static pst_status make_marks(const struct pst_transport *transport, uint32_t rank,
                             struct pst_mark **const *marks, uint32_t n, struct pst_error *err)
{
    pst_status status = PST_OK;

    for (uint32_t i = 0; i < n && status == PST_OK; i++) {
        status = transport->device->mark_create(transport->devices[rank], transport->memory.timed,
                                                marks[i], err);
    }
    return status;
}

pst_status threads_attach(struct pst_transport *transport, uint32_t rank, struct pst_error *err)
{
    struct rank *self = &transport->ranks[rank];
    struct pst_mark **own[] = {&self->come, &self->start, &self->gone, &self->end};
    pst_status status = make_marks(transport, rank, own, 4, err);

    for (uint32_t i = 0; i < transport->max_requests && status == PST_OK; i++) {
        struct request *request = &self->requests[i];
        struct pst_mark **marks[] = {&request->begin, &request->start, &request->end};

        status = make_marks(transport, rank, marks, 3, err);
    }
    for (uint32_t i = 0; i < transport->max_reductions && status == PST_OK; i++) {
        struct post *post = &transport->reduce->ranks[rank].posts[i];
        struct pst_mark **marks[] = {&post->begin, &post->start, &post->part, &post->end};

        status = make_marks(transport, rank, marks, 4, err);
    }
    return status;
}

void threads_swap(struct pst_transport *transport, uint32_t rank, struct pst_mark **start,
                  struct pst_mark **end)
{
    struct pst_mark **given[] = {start, end};

    for (uint32_t i = 0; i < 2; i++) {
        struct pst_mark **own = transport->ranks[rank].moved[i], *mark = *own;

        *own = *given[i];
        *given[i] = mark;
    }
}

void threads_order_mark(const struct pst_transport *transport, uint32_t rank, struct pst_mark *mark)
{
    transport->device->mark(transport->devices[rank], PST_QUEUE_COMPUTE, mark);
}

void threads_order_follow(const struct pst_transport *transport, uint32_t rank,
                          struct pst_mark *mark)
{
    transport->device->follow(transport->devices[rank], PST_QUEUE_COMPUTE, mark);
}

void threads_order_transfer(const struct pst_transport *transport, struct request *send,
                            struct request *recv, uint32_t from, uint32_t to)
{
    const struct pst_device_ops *device = transport->device;
    struct pst_device *const *devices = transport->devices;
    const uint32_t queue = from < to ? PST_QUEUE_LINK : PST_QUEUE_BACK;

    device->follow(devices[to], queue, send->begin);
    device->follow(devices[to], queue, recv->begin);
    if (transport->memory.timed) {
        device->mark(devices[to], queue, recv->start);
        device->follow(devices[from], PST_QUEUE_RELAY, recv->start);
        device->mark(devices[from], PST_QUEUE_RELAY, send->start);
    }
    if (recv->bytes > 0) {
        device->move(devices[to], queue, recv->data, send->data, recv->bytes);
    }
    device->mark(devices[to], queue, recv->end);
    device->follow(devices[from], PST_QUEUE_RELAY, recv->end);
    device->mark(devices[from], PST_QUEUE_RELAY, send->end);
}

#define ALIGN 1024u /* elements; shares begin at a multiple */

/* The share of member `which` of n, made by the device of `rank`. */
static void sum_share(const struct pst_transport *transport, const struct post *first,
                      uint32_t rank, uint32_t which, uint32_t part)
{
    const struct pst_device_ops *device = transport->device;
    struct pst_device *const *devices = transport->devices;
    const uint64_t elems = first->parts[part].elems, n = first->n_members;
    const uint64_t blocks = elems / ALIGN + (elems % ALIGN > 0);
    const uint64_t begin = blocks * which / n * ALIGN, last = blocks * (which + 1) / n * ALIGN;
    const uint64_t end = last < elems ? last : elems;
    float *sum = first->parts[part].data + begin;

    if (begin >= end) {
        return;
    }
    for (const struct post *post = first->after; post != NULL; post = post->after) {
        device->add(devices[rank], PST_QUEUE_SUM, sum, post->parts[part].data + begin, end - begin);
    }
    for (const struct post *post = first->after; post != NULL; post = post->after) {
        device->move(devices[rank], PST_QUEUE_SUM, post->parts[part].data + begin, sum,
                     (end - begin) * sizeof *sum);
    }
}

void threads_order_sum(const struct pst_transport *transport, const struct post *first)
{
    const struct pst_device_ops *device = transport->device;
    struct pst_device *const *devices = transport->devices;
    uint32_t which = 0;

    for (const struct post *post = first; post != NULL; post = post->after, which++) {
        for (const struct post *other = first; other != NULL; other = other->after) {
            device->follow(devices[post->rank], PST_QUEUE_SUM, other->begin);
        }
        if (transport->memory.timed) {
            device->mark(devices[post->rank], PST_QUEUE_SUM, post->start);
        }
        for (uint32_t part = 0; part < first->n_parts; part++) {
            sum_share(transport, first, post->rank, which, part);
        }
        device->mark(devices[post->rank], PST_QUEUE_SUM, post->part);
    }
    for (const struct post *post = first; post != NULL; post = post->after) {
        for (const struct post *other = first; other != NULL; other = other->after) {
            device->follow(devices[post->rank], PST_QUEUE_SUM, other->part);
        }
        device->mark(devices[post->rank], PST_QUEUE_SUM, post->end);
    }
}
