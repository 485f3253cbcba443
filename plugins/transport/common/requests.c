/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/common/requests.h"

void requests_push(struct request_link **stack, void *element)
{
    struct request_link *link = element;

    link->next = *stack;
    *stack = link;
}

void requests_fill(struct request_link **stack, void *elements, size_t count, size_t size)
{
    while (count-- > 0) {
        requests_push(stack, (char *)elements + count * size);
    }
}

void *requests_pop(struct request_link **stack)
{
    struct request_link *link = *stack;

    if (link != NULL) {
        *stack = link->next;
    }
    return link;
}

void requests_append(struct request_queue *queue, void *element)
{
    struct request_link *link = element;

    link->next = NULL;
    *(queue->last != NULL ? &queue->last->next : &queue->first) = link;
    queue->last = link;
}

/* Unlinks `link`, which is after `before`, or the first one if that is NULL. */
static void *unlink_after(struct request_queue *queue, struct request_link *before,
                          struct request_link *link)
{
    if (link != NULL) {
        *(before != NULL ? &before->next : &queue->first) = link->next;
        queue->last = queue->last == link ? before : queue->last;
    }
    return link;
}

void *requests_shift(struct request_queue *queue)
{
    return unlink_after(queue, NULL, queue->first);
}

void *requests_take(struct request_queue *queue, uint64_t tag)
{
    struct request_link *before = NULL, *link = queue->first;

    while (link != NULL && link->tag != tag) {
        before = link;
        link = link->next;
    }
    return unlink_after(queue, before, link);
}

bool requests_remove(struct request_queue *queue, const void *element)
{
    struct request_link *before = NULL, *link = queue->first;

    while (link != NULL && link != element) {
        before = link;
        link = link->next;
    }
    return unlink_after(queue, before, link) != NULL;
}
