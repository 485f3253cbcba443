/* SPDX-License-Identifier: Apache-2.0
 *
 * Transfers between devices that work off queues. Whoever has both ends asks for the copy: the
 * receiver's queue for its link follows the marks that both ends set in the order of their kernels,
 * and both ends get a mark behind the copy that their kernels follow. That of the sender is set in
 * a queue of its own device, which does nothing but wait: a mark belongs to one device.
 *
 * A sum is asked for by the member that comes last. Each member's device makes a share of the
 * elements and copies it to the others. Their devices add f32 alone.
 */
#include "exec/device.h"
#include "transport/common/inorder.h"
#include "transport/threads/meet.h"

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
    pst_status status = PST_OK;

    for (uint32_t i = 0; i < transport->max_requests && status == PST_OK; i++) {
        struct request *request = &self->requests[i];
        struct pst_mark **marks[] = {&request->begin, &request->start, &request->end};

        status = make_marks(transport, rank, marks, 3, err);
    }
    for (uint32_t i = 0; i < threads_n_posts(transport) && status == PST_OK; i++) {
        struct post *post = &transport->meet->ranks[rank].posts[i];
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

/* In whose result the device of `rank` adds up: its own, if its sources are apart from that; else
   that of whoever brings the first term, for others would lose what they bring. Of a gather it is
   that of the owner, who has it, and of an exchange it is the owner's source. */
static const struct post *place_of_share(const struct post *first, uint32_t rank, uint32_t part)
{
    const struct post *own = first;

    while (own->rank != rank) {
        own = own->after;
    }
    return own->meeting.parts[part].src != NULL || own->meeting.kind != PST_MEET_SUM
               ? own
               : threads_post_of(first, 0);
}

static void even_share(uint64_t elems, uint32_t which, uint64_t n, uint64_t *ret_begin,
                       uint64_t *ret_end)
{
    const uint64_t blocks = elems / ALIGN + (elems % ALIGN > 0);
    const uint64_t end = blocks * (which + 1) / n * ALIGN;

    *ret_begin = blocks * which / n * ALIGN;
    *ret_end = end < elems ? end : elems;
}

/* The share of member `which` of n, made by the device of `rank`: all of a part that it owns. */
static void sum_share(const struct pst_transport *transport, const struct post *first,
                      uint32_t rank, uint32_t which, uint32_t part)
{
    const struct pst_device_ops *device = transport->device;
    struct pst_device *const *devices = transport->devices;
    const struct pst_meeting *meeting = &first->meeting;
    const uint64_t elems = meeting->parts[part].elems, size = pst_meeting_size(meeting);
    const struct post *base = place_of_share(first, rank, part);
    uint64_t begin = 0, end = elems;
    const char *made;
    uint32_t member = 0;
    char *sum;

    if (meeting->parts[part].owner == PST_NONE) {
        even_share(elems, which, meeting->n_members, &begin, &end);
    } else if (meeting->parts[part].owner != which) {
        return;
    }
    if (begin >= end) {
        return;
    }
    sum = (char *)base->meeting.parts[part].dst + begin * size;
    for (uint32_t t = 0; t < inorder_terms(meeting); t++) {
        const struct pst_meet_part *from = &threads_post_of(first, t)->meeting.parts[part];
        const float *term = inorder_brought(from, inorder_source(meeting, t));

        term += begin;
        if (t > 0) {
            device->add(devices[rank], PST_QUEUE_SUM, (float *)(void *)sum, term, end - begin);
        } else if ((const void *)term != sum) {
            device->move(devices[rank], PST_QUEUE_SUM, sum, term, (end - begin) * size);
        }
    }
    made =
        meeting->kind == PST_MEET_EXCHANGE ? inorder_brought(&base->meeting.parts[part], 0) : sum;
    for (const struct post *post = first; post != NULL; post = post->after, member++) {
        if ((post != base || made != sum) && inorder_gets(meeting, part, member)) {
            device->move(devices[rank], PST_QUEUE_SUM,
                         (char *)post->meeting.parts[part].dst + begin * size, made,
                         (end - begin) * size);
        }
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
        for (uint32_t part = 0; part < first->meeting.n_parts; part++) {
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
